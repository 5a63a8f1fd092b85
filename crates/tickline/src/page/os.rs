//! The OS clocks, for readers and the writer of a page.

use tickline_core::sample::Reference;

use crate::sys::may_read_counter;
use crate::sys::reference::OsClock;
use crate::sys::reference::system::{steering_ppb, try_read_ns, with_timex};

/// The OS clocks of this process.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageOs {
    /// Whether there is one CPU, so that waiting needs others to run.
    is_alone: bool,
    /// Whether the vDSO answers coarse clocks, which it does with every clocksource.
    has_coarse: bool,
}

impl PageOs {
    pub(super) fn find() -> Self {
        let is_alone = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1);
        // The kernel has mapped its vDSO, and the process may use it.
        // SAFETY: takes a number, and touches no memory that changes.
        let has_coarse = may_read_counter() && unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } != 0;
        Self { is_alone, has_coarse }
    }
}

impl tickline_page::OsClock for PageOs {
    #[inline]
    fn monotonic_ns(&self) -> i64 {
        OsClock.monotonic_ns()
    }

    #[inline]
    fn realtime_ns(&self) -> i64 {
        OsClock.realtime_ns()
    }

    #[inline]
    fn coarse_realtime_ns(&self) -> Option<i64> {
        if self.has_coarse { try_read_ns(libc::CLOCK_REALTIME_COARSE) } else { None }
    }

    fn pause(&self) {
        if self.is_alone {
            std::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
}

/// The change of rate that the kernel applies to its clocks now, ppb: the crystal's correction and
/// any slew (adjtimex(2)), but none by adjtime(3), of 500 ppm. `None` where it does not say. While
/// this is beyond 1,000 ppm, a [`Publisher`](super::Publisher) publishes no line.
#[must_use]
pub fn kernel_rate_ppb() -> Option<i64> {
    with_timex(|timex, _| rate_ppb(timex))
}

/// [`steering_ppb`], and the share of the offset that the kernel removes in this second: of what is
/// left, one part in 2^(2 + constant) - 1 (`ntp_offset_chunk` in `kernel/time/ntp.c`).
#[allow(clippy::useless_conversion, reason = "long has 32 bits on some targets")]
fn rate_ppb(timex: &libc::timex) -> i64 {
    let to_ns = if timex.status & libc::STA_NANO == 0 { 1_000 } else { 1 };
    let offset_ns = i64::from(timex.offset).saturating_mul(to_ns);
    let parts = (1_i64 << (2 + timex.constant.clamp(0, 10))) - 1;
    steering_ppb(timex).saturating_add(offset_ns.checked_div(parts).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// chronyd slews by tick and frequency, systemd-timesyncd by an offset.
    #[test]
    fn a_rate_is_of_tick_frequency_and_offset() {
        // SAFETY: plain data, of which all zeros is a valid value.
        let zero: libc::timex = unsafe { core::mem::MaybeUninit::zeroed().assume_init() };
        let timex = libc::timex { tick: 10_833, freq: -(30 << 16), ..zero };
        assert_eq!(rate_ppb(&timex), 83_270_000);
        let timex = libc::timex { offset: 300_000, constant: 0, ..timex };
        assert_eq!(rate_ppb(&timex), 83_270_000 + 100_000_000, "us: a third of 0.3 s is left in this second");
        let timex = libc::timex { offset: -1_023_000, constant: 8, status: libc::STA_NANO, ..zero };
        assert_eq!(rate_ppb(&libc::timex { tick: 10_000, ..timex }), -1_000);
    }
}
