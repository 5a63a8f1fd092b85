//! The reference: the slower clock that tickline follows.
//!
//! A reference returns the monotonic time and Unix time. Where it can, it also states the kernel's
//! steering and the time suspended. The control loop compares it with the counter by brackets: a
//! bracket is a read of the reference between two reads of the counter. [`Resolutions`] say how far
//! a bracket is uncertain.
//!
//! Three functions turn the fields of Linux' `timex` into a rate: [`frequency_from_timex_ppb`],
//! [`steering_from_timex_ppb`] and [`kernel_rate_ppb`]. They are arithmetic, and make no system
//! call. They are here because all crates that ask the kernel share them: `tickline`,
//! `tickline-utc`, `tickline-page` and the program.

/// The clock that tickline follows.
///
/// Both times are in ns. A call may be slow, but must not fail.
///
/// ```
/// use core::cell::Cell;
/// use tickline_core::reference::Reference;
///
/// /// A timer that counts microseconds since power-on, and the date of that moment.
/// struct Board { timer_us: Cell<u32>, powered_on_s: i64 }
/// impl Reference for Board {
///     fn monotonic_ns(&self) -> i64 {
///         i64::from(self.timer_us.get()) * 1_000
///     }
///     fn unix_ns(&self) -> i64 {
///         self.powered_on_s * 1_000_000_000 + self.monotonic_ns()
///     }
/// }
///
/// let board = Board { timer_us: Cell::new(250), powered_on_s: 1_800_000_000 };
/// assert_eq!(board.monotonic_ns(), 250_000);
/// assert_eq!(board.unix_ns(), 1_800_000_000_000_250_000);
/// assert_eq!(board.suspended_ns(), None, "not known");
/// ```
pub trait Reference {
    /// The monotonic time, ns. Never decreases, also from a call on one thread to a later call on
    /// another. May begin anywhere, also below 0.
    fn monotonic_ns(&self) -> i64;

    /// Unix time, ns. May step. Without a date, return [`monotonic_ns`](Self::monotonic_ns).
    fn unix_ns(&self) -> i64;

    /// The correction by which the kernel steers the monotonic clock off its nominal rate, ppb;
    /// `None` if it is unknown.
    fn steering_ppb(&self) -> Option<i64> {
        None
    }

    /// The total time for which the machine has been suspended while the monotonic clock stood
    /// still, ns; `None` if it is unknown. The answer is right for some moment during the call, to
    /// within [`SUSPENDED_BOUND_NS`]. Only differences count.
    fn suspended_ns(&self) -> Option<i64> {
        None
    }

    /// A number that changes when a hypervisor has moved the machine to another host, or restored
    /// it from a snapshot, before the machine runs on; `None` where no hypervisor offers one.
    fn disruption_marker(&self) -> Option<u64> {
        None
    }
}

/// One of the two times that a clock shows, for code that serves both. Such code must handle every
/// timescale, so another one is a breaking change.
///
/// ```
/// use tickline_core::reference::{Reference, Timescale};
///
/// # struct Board;
/// # impl Reference for Board {
/// #     fn monotonic_ns(&self) -> i64 { 250_000 }
/// #     fn unix_ns(&self) -> i64 { 1_800_000_000_000_250_000 }
/// # }
/// # let board = Board;
/// let texts = [Timescale::Monotonic, Timescale::Unix].map(|timescale| {
///     format!("{timescale:?}: {} ms", timescale.now_ns(&board) / 1_000_000)
/// });
/// assert_eq!(texts, ["Monotonic: 0 ms", "Unix: 1800000000000 ms"]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timescale {
    /// The monotonic time.
    Monotonic,
    /// Unix time.
    Unix,
}

impl Timescale {
    /// The time that `reference` shows now, ns.
    #[must_use]
    #[inline(always)]
    pub fn now_ns(self, reference: &impl Reference) -> i64 {
        match self {
            Self::Monotonic => reference.monotonic_ns(),
            Self::Unix => reference.unix_ns(),
        }
    }
}

/// The largest error of [`Reference::suspended_ns`], ns. Two answers that differ by no more than
/// twice this do not prove a suspend. A real suspend takes at least milliseconds, because every
/// thread is stopped and started.
pub const SUSPENDED_BOUND_NS: u64 = 100_000;

/// The fastest slew of a kernel's clock, up or down, ppb of the nominal rate. On Linux it is the
/// sum of four:
///
/// | by | most | where |
/// |---|---|---|
/// | `ADJ_TICK` | 10 % | `timekeeping_validate_timex`: 900,000 to 1,100,000 / `USER_HZ` |
/// | `ADJ_FREQUENCY` | 500 ppm | `MAXFREQ` |
/// | `ADJ_OFFSET_SINGLESHOT` (`adjtime`) | 500 ppm | `MAX_TICKADJ` |
/// | `ADJ_OFFSET` | 12.5 % | `MAXPHASE` of 0.5 s `>> SHIFT_PLL` in a second, with a time constant of 0 (`ntp_offset_chunk`) |
///
/// The last one occurs in practice: systemd-timesyncd slews offsets of up to 0.4 s with a time
/// constant of 1, which begins with 5 %. The sum leaves out `STA_PPSTIME`, by which a kernel built
/// with `CONFIG_NTP_PPS` (which excludes tickless kernels) removes 0.5 s in one second.
pub(crate) const MAX_KERNEL_SLEW_PPB: i64 = 100_000_000 + 500_000 + 500_000 + 125_000_000;

/// `freq` of adjtimex(2), which is in ppm with 16 binary places, in ppb, rounded down.
///
/// ```
/// use tickline_core::reference::frequency_from_timex_ppb;
///
/// assert_eq!(frequency_from_timex_ppb(-30 << 16), -30_000);
/// ```
#[must_use]
pub const fn frequency_from_timex_ppb(freq: i64) -> i64 {
    freq.saturating_mul(1_000) >> 16
}

/// The correction of a Linux kernel's rate without a slew of the offset, ppb: what
/// [`Reference::steering_ppb`] returns on Linux. The arguments are `freq` of adjtimex(2) in ppb
/// ([`frequency_from_timex_ppb`]), and its `tick`: the length of a hundredth of a second, us. One
/// microsecond more is 100 ppm.
///
/// ```
/// use tickline_core::reference::steering_from_timex_ppb;
///
/// assert_eq!(steering_from_timex_ppb(-30_000, 10_000), -30_000);
/// assert_eq!(steering_from_timex_ppb(-30_000, 10_001), 70_000);
/// ```
#[must_use]
pub const fn steering_from_timex_ppb(frequency_ppb: i64, tick_us: i64) -> i64 {
    frequency_ppb.saturating_add(tick_us.saturating_sub(10_000).saturating_mul(100_000))
}

/// The largest offset that a Linux kernel takes, us (`MAXPHASE` in `include/linux/timex.h`).
const MAX_OFFSET_US: i64 = 500_000;

/// `offset` of adjtimex(2), which is in ns if `status` has `STA_NANO`, and in us otherwise, in ns.
/// The kernel has rounded an offset in us, by less than 1 us: in a rate, this is a third of 1 ppm
/// at most ([`kernel_rate_ppb`]).
///
/// From Linux 5.1 on (commit ead25417f82e, "timex: use `__kernel_timex` internally"), the kernel
/// takes the lower 32 bits of a negative offset in ns for a positive number, and states a
/// thousandth of that: 4,294,867 us for -100 us. Commit f5807b0606da ("ntp: Remove invalid cast in
/// time offset math") mends this, and stable releases since December 2024 have it. The kernel takes
/// no offset beyond 0.5 s, so a larger one stands for a negative one.
///
/// ```
/// use tickline_core::reference::offset_from_timex_ns;
///
/// assert_eq!(offset_from_timex_ns(-100, false), -100_000);
/// assert_eq!(offset_from_timex_ns(4_294_867, false), -100_296);
/// assert_eq!(offset_from_timex_ns(-100_000, true), -100_000);
/// ```
#[must_use]
pub const fn offset_from_timex_ns(offset: i64, is_in_ns: bool) -> i64 {
    if is_in_ns {
        return offset;
    }
    let offset_ns = offset.saturating_mul(1_000);
    if offset > MAX_OFFSET_US {
        offset_ns.saturating_sub(1 << u32::BITS)
    } else {
        offset_ns
    }
}

/// The whole correction of a Linux kernel's rate, ppb: the sum of [`steering_from_timex_ppb`] and
/// the slew of an offset of `ADJ_OFFSET`. `offset_ns` and `time_constant` are those that
/// adjtimex(2) returns; without a constant the slew counts as 0. A slew by adjtime(3), of 500 ppm,
/// is not included, because adjtimex(2) does not show it.
///
/// ```
/// use tickline_core::reference::kernel_rate_ppb;
///
/// // With a constant of 0, the kernel removes a third of the rest in this second.
/// assert_eq!(kernel_rate_ppb(-30_000, 3_000, Some(0)), -29_000);
/// assert_eq!(kernel_rate_ppb(-30_000, 3_000, None), -30_000);
/// ```
#[must_use]
pub fn kernel_rate_ppb(steering_ppb: i64, offset_ns: i64, time_constant: Option<i64>) -> i64 {
    // At the start of each second the kernel subtracts one part in 2^(2 + constant) from the
    // offset, and removes that part in this second (`ntp_offset_chunk`, `second_overflow` in
    // `kernel/time/ntp.c`). So it is one part in 2^(2 + constant) - 1 of the rest.
    let parts = |constant: i64| {
        4_i64
            .saturating_mul(1 << constant.clamp(0, 10))
            .saturating_sub(1)
    };
    let slew_ppb = time_constant.and_then(|constant| offset_ns.checked_div(parts(constant)));
    steering_ppb.saturating_add(slew_ppb.unwrap_or(0))
}

/// The clock from which the reference is computed.
///
/// ```
/// use tickline_core::clocksource::Clocksource;
/// use tickline_core::reference::ReferenceKind;
///
/// // Linux keeps time with the HPET, and the counter moves by 26 ticks at once.
/// let resolutions = Clocksource::Hpet.resolutions(Clocksource::Tsc, 26);
/// assert_eq!(resolutions.reference_kind, ReferenceKind::Independent);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReferenceKind {
    /// A clock that does not read the counter. It may be ahead of a read of the counter by the
    /// counter's resolution.
    Independent,
    /// The same counter. The reference's read of it lies between the two reads of a bracket, so the
    /// counter's resolution does not widen the bracket.
    SameCounter,
    /// The same counter, by an ordered read that takes as long as
    /// [`now_ordered`](crate::counter::Counter::now_ordered). The time of a read narrows the
    /// brackets. Needs a known resolution, `counter_ticks`.
    SameRead,
}

/// The resolutions of counter and reference, which say how far a bracket must be widened.
///
/// ```
/// use tickline_core::counter::{Extended, resolution_ticks};
/// use tickline_core::reference::{ReferenceKind, Resolutions};
///
/// # let register = core::cell::Cell::new(0);
/// # let read_register = || { register.set(register.get() + 25); register.get() };
/// let counter = Extended::<32, _>::new(read_register);
/// let reference_ns = 30_518; // a timer at 32,768 Hz, rounded up
/// let kind = ReferenceKind::Independent;
/// let resolutions = Resolutions::new(resolution_ticks(&counter), reference_ns, kind);
/// assert_eq!(resolutions.counter_ticks, 25);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolutions {
    /// The counter's resolution, ticks.
    pub counter_ticks: u64,
    /// The reference's resolution, ns.
    pub reference_ns: i64,
    /// The clock from which the reference is computed.
    pub reference_kind: ReferenceKind,
}

impl Resolutions {
    /// The resolution of the counter, ticks, that of the reference, ns, and the clock from which
    /// the reference is computed.
    #[must_use]
    pub const fn new(counter_ticks: u64, reference_ns: i64, reference_kind: ReferenceKind) -> Self {
        Self {
            counter_ticks,
            reference_ns,
            reference_kind,
        }
    }

    /// How far the reference may have run on since the tick that a read of the counter returns,
    /// ticks.
    pub(crate) const fn unseen_ticks(&self) -> u64 {
        if matches!(self.reference_kind, ReferenceKind::Independent) {
            self.counter_ticks
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steering_of_a_clock_that_does_not_state_it_is_unknown() {
        assert_eq!(crate::testing::FnClock(|| 7).steering_ppb(), None);
    }

    /// What Linux 5.1 states without `STA_NANO`, us.
    fn stated_by_linux_5_1(offset_ns: i64) -> i64 {
        (offset_ns & i64::from(u32::MAX)) / 1_000
    }

    #[test]
    fn an_offset_that_the_kernel_takes_for_a_positive_number_is_negative() {
        assert_eq!(stated_by_linux_5_1(-100_000), 4_294_867);
        for offset_ns in [-1, -999, -1_000, -100_000, -500_000_000] {
            let read_ns = offset_from_timex_ns(stated_by_linux_5_1(offset_ns), false);
            let rounded_ns = offset_ns - read_ns;
            assert!((0..1_000).contains(&rounded_ns), "{offset_ns}: {read_ns}");
        }
    }

    #[test]
    fn the_largest_offset_is_no_negative_one() {
        assert_eq!(offset_from_timex_ns(500_000, false), 500_000_000);
    }

    #[test]
    fn an_offset_in_ns_has_no_limit() {
        assert_eq!(offset_from_timex_ns(4_294_867, true), 4_294_867);
    }

    #[test]
    fn a_kernels_steering_is_of_its_frequency_and_its_tick() {
        assert_eq!(steering_from_timex_ppb(-30_000, 10_833), 83_270_000);
    }

    #[test]
    fn an_offset_that_the_kernel_does_not_remove_leaves_the_rate_as_it_is() {
        assert_eq!(kernel_rate_ppb(70_000, 300_000_000, None), 70_000);
    }

    #[test]
    fn an_offset_that_the_kernel_removes_adds_its_part_of_a_second_to_the_rate() {
        let rate_ppb = |offset_ns, constant| kernel_rate_ppb(70_000, offset_ns, Some(constant));
        // The kernel has removed a quarter of 0.4 s, and one part in 1,024 of 1.024 ms.
        assert_eq!(rate_ppb(300_000_000, 0), 100_070_000);
        assert_eq!(rate_ppb(-1_023_000, 8), 70_000 - 1_000);
    }

    #[test]
    fn a_time_constant_is_at_most_10() {
        let by_constant = [10, i64::MAX].map(|it| kernel_rate_ppb(0, -4_095_000, Some(it)));
        assert_eq!(by_constant, [-1_000; 2]);
    }
}
