//! The OS clocks, for readers and the writer of a page.

use tickline_core::sample::Reference;

use crate::sys::reference::{self, OsClock};

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
        Self { is_alone, has_coarse: reference::has_vdso() }
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
        if self.has_coarse { reference::coarse_realtime_ns() } else { None }
    }

    fn pause(&self) {
        if self.is_alone {
            std::thread::yield_now();
        } else {
            core::hint::spin_loop();
        }
    }
}
