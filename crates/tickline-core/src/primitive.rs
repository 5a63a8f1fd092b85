//! The only import point for atomics in this crate, so that loom and targets without 64-bit atomics can put their
//! own in this place.
//!
//! Targets without 64-bit atomics (microcontrollers such as thumbv7em) get plain cells with the same methods. Those
//! are not `Sync`, so the compiler keeps such a clock in one execution context; nothing else changes.

#[cfg(target_has_atomic = "64")]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

#[cfg(not(target_has_atomic = "64"))]
pub(crate) use single::{AtomicI64, AtomicU64, Ordering};

#[cfg(not(target_has_atomic = "64"))]
mod single {
    use core::cell::Cell;
    pub(crate) use core::sync::atomic::Ordering;

    macro_rules! plain_cell {
        ($name:ident, $int:ty) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name(Cell<$int>);

            impl $name {
                pub(crate) const fn new(value: $int) -> Self {
                    Self(Cell::new(value))
                }
                pub(crate) fn load(&self, _: Ordering) -> $int {
                    self.0.get()
                }
                pub(crate) fn store(&self, value: $int, _: Ordering) {
                    self.0.set(value);
                }
            }
        };
    }
    plain_cell!(AtomicU64, u64);
    plain_cell!(AtomicI64, i64);

    impl AtomicU64 {
        pub(crate) fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
            self.0.replace(self.0.get().wrapping_add(value))
        }
        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            _: Ordering,
            _: Ordering,
        ) -> Result<u64, u64> {
            let found = self.0.get();
            if found == current {
                self.0.set(new);
                Ok(found)
            } else {
                Err(found)
            }
        }
    }
}
