//! The only import point for the atomics of leases, so that loom's can take their place: with `--cfg
//! loom` (the models in `lease/loom_tests.rs`) every atomic is one of loom's.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicU64, Ordering, fence};

#[cfg(loom)]
pub(crate) use modelled::{AtomicU64, Ordering, fence};

/// Loom's atomic, behind a `const` constructor.
///
/// Loom makes an atomic at run time, as a store by the thread that makes it. If the first thread
/// to use it made it, that store would order threads that nothing else orders, and hide errors.
/// So [`new`](AtomicU64::new) only keeps the value, and formatting with `Debug` makes the atomic:
/// the models' `made` formats a whole page before their threads start. An atomic that was not made
/// panics.
#[cfg(loom)]
mod modelled {
    use core::fmt;
    pub(crate) use loom::sync::atomic::{Ordering, fence};
    use std::sync::OnceLock;

    pub(crate) struct AtomicU64 {
        initial: u64,
        atomic: OnceLock<loom::sync::atomic::AtomicU64>,
    }

    impl AtomicU64 {
        pub(crate) const fn new(initial: u64) -> Self {
            Self { initial, atomic: OnceLock::new() }
        }
    }

    impl core::ops::Deref for AtomicU64 {
        type Target = loom::sync::atomic::AtomicU64;

        fn deref(&self) -> &Self::Target {
            self.atomic.get().expect("made before the threads start")
        }
    }

    impl fmt::Debug for AtomicU64 {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            self.atomic.get_or_init(|| loom::sync::atomic::AtomicU64::new(self.initial));
            f.debug_struct("AtomicU64").field("initial", &self.initial).finish_non_exhaustive()
        }
    }
}
