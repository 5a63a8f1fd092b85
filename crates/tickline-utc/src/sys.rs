//! The system calls that this crate makes itself. The clocks, the thread and its sleep come
//! from `tickline`.
//!
//! Miri executes no system calls. Under Miri this is a system without a source.

#[cfg(all(target_os = "linux", not(miri)))]
#[path = "sys/linux.rs"]
mod system;
#[cfg(any(not(target_os = "linux"), miri))]
#[path = "sys/other.rs"]
mod system;

use tickline_core::reference::{kernel_rate_ppb, steering_from_timex_ppb};

pub(crate) use system::{
    ClockDevice, ManagementSocket, adjtime_left_us, ask_by_socket, owner, read_beginning, user,
};

/// Whose a file is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FileOwner {
    pub(crate) user: u32,
    /// The mode of the file (inode(7)).
    pub(crate) mode: u32,
}

/// Both errors before any daemon has set them, and after the clock was set, us. The maximum error
/// grows to that at most (`NTP_PHASE_LIMIT` in `include/linux/timex.h`).
pub const UNSET_ERROR_US: i64 = 16_000_000;

/// The growth of the kernel's maximum error in a second, us (`second_overflow` in
/// `kernel/time/ntp.c`). The growth of the current second is not yet in it.
pub(crate) const GROWTH_US: i64 = 500;

// Bits of the status, and two states (`include/uapi/linux/timex.h`).
pub(crate) const STA_INS: i32 = 0x10;
const STA_DEL: i32 = 0x20;
pub(crate) const STA_UNSYNC: i32 = 0x40;
const TIME_WAIT: i32 = 4;
const TIME_ERROR: i32 = 5;

/// What the kernel says of its clock (adjtimex(2)), in 64 bits and one unit each. A caller may make
/// one, for a test: the call is a part of Linux' stable interface, so no field will be added.
///
/// ```
/// use tickline_utc::sources::kernel::KernelClock;
///
/// match KernelClock::read() {
///     Some(clock) => println!("synchronised: {}", clock.is_synchronised()),
///     None => println!("the kernel may not be asked, or is not Linux"),
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct KernelClock {
    /// The correction of the clock's rate, ppb, without the correction by the tick.
    pub frequency_ppb: i64,
    /// The length of a hundredth of a second, us.
    pub tick_us: i64,
    /// The offset that is left to slew away, ns.
    pub offset_ns: i64,
    /// The time constant of that slew, the exponent of adjtimex(2): no unit.
    pub time_constant: i64,
    /// The maximum and the estimated error.
    pub errors: KernelErrors,
    /// The bits of the status (`STA_PLL` and others, of the crate `libc`).
    pub status: i32,
    /// The state that the call has returned (`TIME_OK` and others, of the crate `libc`).
    pub state: i32,
    /// TAI minus UTC, s; 0 if the kernel does not know.
    pub tai_offset_s: i64,
}

impl KernelClock {
    /// What the kernel says at present; `None` if it may not be asked, or is not Linux.
    #[must_use]
    pub fn read() -> Option<Self> {
        system::kernel_clock()
    }

    /// The correction of the clock's rate, ppb, without a slew of the offset.
    pub(crate) fn steering_ppb(&self) -> i64 {
        steering_from_timex_ppb(self.frequency_ppb, self.tick_us)
    }

    /// The whole correction of the clock's rate, ppb, with the slew of the offset.
    pub(crate) fn rate_ppb(&self) -> i64 {
        kernel_rate_ppb(
            self.steering_ppb(),
            self.offset_ns,
            Some(self.time_constant),
        )
    }

    /// Whether the kernel says that its clock is synchronised.
    #[must_use]
    pub fn is_synchronised(&self) -> bool {
        self.state != TIME_ERROR && self.status & STA_UNSYNC == 0
    }

    /// Whether the UTC day ends with a leap second.
    #[must_use]
    pub fn leap_second_today(&self) -> bool {
        self.state != TIME_WAIT && self.status & (STA_INS | STA_DEL) != 0
    }
}

/// The errors that the kernel states of its clock: what a daemon has set, and what the maximum
/// error has grown by since.
///
/// ```
/// use tickline_utc::sources::kernel::KernelErrors;
///
/// // A daemon has set its offset of 7 us as both errors, four seconds ago.
/// let errors = KernelErrors { maximum_us: 2_007, estimated_us: 7 };
/// assert_eq!(errors.offset_as_both_errors_us(), Some(7));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelErrors {
    /// The maximum error, us; [`UNSET_ERROR_US`] until a daemon sets it.
    pub maximum_us: i64,
    /// The estimated error, us; [`UNSET_ERROR_US`] until a daemon sets it.
    pub estimated_us: i64,
}

impl KernelErrors {
    /// The estimated error, us; `None` if no daemon has set it. phc2sys and OpenNTPD set the
    /// maximum error only (`sysclk_set_sync` in linuxptp's `clockadj.c`).
    #[must_use]
    pub fn known_estimated_us(self) -> Option<i64> {
        if self.estimated_us == UNSET_ERROR_US {
            return None;
        }
        Some(self.estimated_us)
    }

    /// The offset that a daemon has set as both errors, us; `None` if the two differ by more than
    /// the growth of the maximum error. ptpd does so at each update, whatever the offset's sign
    /// (`informClockSource` in `src/dep/sys.c`).
    ///
    /// That maximum error leaves out the network and the master's own error, so it bounds nothing.
    /// Other daemons add half of the root delay and the dispersion; their errors differ like ptpd's
    /// by chance, one time in 500.
    #[must_use]
    pub fn offset_as_both_errors_us(self) -> Option<i64> {
        let offset_us = self.known_estimated_us()?;
        let grown_us = self.maximum_us.saturating_sub(offset_us);
        if offset_us == 0 || grown_us < 0 || grown_us % GROWTH_US != 0 {
            return None;
        }
        Some(offset_us)
    }

    /// Whether the maximum error is only its growth since a daemon has set it to 0, as
    /// systemd-timesyncd and OpenNTPD do at each update. Such an error bounds nothing. Another
    /// daemon's error looks so by chance, one time in 500. [`UNSET_ERROR_US`] looks so, too, and
    /// bounds nothing either.
    #[must_use]
    pub fn is_growth_only(self) -> bool {
        self.maximum_us % GROWTH_US == 0
    }
}

/// The constant by which the kernel's command line raises the clock's rate, ppb: adjtimex(2) does
/// not show it (`ntp_tick_adj`, ns in a second, `kernel/time/ntp.c`).
pub(crate) fn tick_adjustment_ppb() -> i64 {
    std::fs::read_to_string("/proc/cmdline").map_or(0, |line| tick_adjustment_of(&line))
}

/// The last value of the parameter counts.
fn tick_adjustment_of(command_line: &str) -> i64 {
    let value = |word: &str| {
        let value = word.strip_prefix("ntp_tick_adj=")?;
        let (is_negative, digits) = match value.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, value.strip_prefix('+').unwrap_or(value)),
        };
        let number = match digits.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16).ok()?,
            None => digits.parse().ok()?,
        };
        Some(if is_negative { -number } else { number })
    };
    command_line
        .split_whitespace()
        .rev()
        .find_map(value)
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tick_adjustment_is_on_its_command_line() {
        for (line, ppb) in [
            ("ro quiet", 0),
            ("ro ntp_tick_adj=100000 quiet", 100_000),
            ("ntp_tick_adj=-0x10", -16),
            ("ntp_tick_adj=5 ntp_tick_adj=7", 7),
            ("ntp_tick_adj=much", 0),
            ("ntp_tick_adj=", 0),
        ] {
            assert_eq!(tick_adjustment_of(line), ppb, "{line}");
        }
    }

    /// The kernel of a machine that runs tests is rarely adjusted so.
    #[test]
    fn the_tick_adjustment_is_that_of_this_kernel() {
        let line = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
        assert_eq!(tick_adjustment_ppb(), tick_adjustment_of(&line));
    }

    #[test]
    fn an_error_is_growth_only_if_it_is_a_whole_number_of_seconds_growth() {
        for (maximum_us, is_growth) in [
            (0, true),
            (500, true),
            (501, false),
            (1_234, false),
            (UNSET_ERROR_US, true),
        ] {
            let errors = KernelErrors {
                maximum_us,
                estimated_us: 7,
            };
            assert_eq!(errors.is_growth_only(), is_growth, "{maximum_us}");
        }
    }

    #[test]
    fn an_offset_as_both_errors_is_known_until_the_next_update() {
        for (maximum_us, estimated_us, offset_us) in [
            (7, 7, Some(7)),
            (2_007, 7, Some(7)),
            (700_007, 7, Some(7)),
            (8, 7, None),
            (7, 507, None),
            (0, 0, None),
            (UNSET_ERROR_US, UNSET_ERROR_US, None),
        ] {
            let errors = KernelErrors {
                maximum_us,
                estimated_us,
            };
            assert_eq!(errors.offset_as_both_errors_us(), offset_us, "{errors:?}");
        }
    }
}
