//! The only import point for atomics in this crate, so that loom's atomics, or plain cells on
//! targets without 64-bit atomics, can take their place.
//!
//! Targets without 64-bit atomics (microcontrollers such as thumbv7em) get plain cells with the
//! same methods. The plain cells are not `Sync`, so the compiler keeps such a clock in one
//! execution context.
//!
//! With `--cfg loom`, core's own tests (`loom_tests`) get loom's atomics, and a spin loop that
//! yields. The loom models of other crates depend on core with its usual atomics.

#[cfg(not(all(test, loom)))]
pub(crate) use core::hint::spin_loop;

// Targets whose atomics are plain cells use the same fence: it orders nothing there, and costs
// little.
#[cfg(not(all(test, loom)))]
#[allow(
    unused_imports,
    reason = "where the machine has its own 128-bit atomic, nothing needs a fence"
)]
pub(crate) use core::sync::atomic::fence;

#[cfg(all(target_has_atomic = "64", not(all(test, loom))))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU64, Ordering};

#[cfg(all(test, loom))]
pub(crate) use modelled::{AtomicI64, AtomicU64, Ordering, fence, spin_loop};

#[cfg(all(not(target_has_atomic = "64"), not(all(test, loom))))]
pub(crate) use single::{AtomicI64, AtomicU64, Ordering};

/// Loom's atomics, behind a `const` constructor.
///
/// Loom creates an atomic at run time, as a store by the creating thread. If the first user created
/// the atomic, that store would order threads that nothing else orders, and hide errors. So
/// [`new`](AtomicU64::new) only keeps the value, and formatting with `Debug` creates the atomic:
/// `loom_tests::new_shared` formats a whole clock before a model's threads start. An access to an
/// atomic that was not created panics.
#[cfg(all(test, loom))]
mod modelled {
    use core::fmt;
    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::atomic::{Ordering, fence};
    use std::sync::OnceLock;

    macro_rules! modelled {
        ($name:ident, $int:ty) => {
            #[derive(Default)]
            pub(crate) struct $name {
                initial: $int,
                atomic: OnceLock<loom::sync::atomic::$name>,
            }

            #[allow(dead_code, reason = "not every type has a user of every method")]
            impl $name {
                pub(crate) const fn new(initial: $int) -> Self {
                    Self {
                        initial,
                        atomic: OnceLock::new(),
                    }
                }
                fn atomic(&self) -> &loom::sync::atomic::$name {
                    self.atomic.get().expect("created before the threads start")
                }
                pub(crate) fn load(&self, order: Ordering) -> $int {
                    self.atomic().load(order)
                }
                pub(crate) fn store(&self, value: $int, order: Ordering) {
                    self.atomic().store(value, order);
                }
                pub(crate) fn swap(&self, value: $int, order: Ordering) -> $int {
                    self.atomic().swap(value, order)
                }
                pub(crate) fn fetch_add(&self, value: $int, order: Ordering) -> $int {
                    self.atomic().fetch_add(value, order)
                }
                pub(crate) fn fetch_max(&self, value: $int, order: Ordering) -> $int {
                    self.atomic().fetch_max(value, order)
                }
                pub(crate) fn compare_exchange(
                    &self,
                    current: $int,
                    new: $int,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$int, $int> {
                    self.atomic()
                        .compare_exchange(current, new, success, failure)
                }
            }

            impl fmt::Debug for $name {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.atomic
                        .get_or_init(|| loom::sync::atomic::$name::new(self.initial));
                    f.debug_struct(stringify!($name))
                        .field("initial", &self.initial)
                        .finish_non_exhaustive()
                }
            }
        };
    }
    modelled!(AtomicU64, u64);
    modelled!(AtomicI64, i64);
}

#[cfg(all(not(target_has_atomic = "64"), not(all(test, loom))))]
mod single {
    use core::cell::Cell;
    pub(crate) use core::sync::atomic::Ordering;

    pub(crate) type AtomicU64 = Plain<u64>;
    pub(crate) type AtomicI64 = Plain<i64>;

    #[derive(Default)]
    pub(crate) struct Plain<T>(Cell<T>);

    impl<T: Copy + core::fmt::Debug> core::fmt::Debug for Plain<T> {
        fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
            self.0.fmt(f)
        }
    }

    impl<T: Copy + PartialOrd> Plain<T> {
        pub(crate) const fn new(value: T) -> Self {
            Self(Cell::new(value))
        }
        pub(crate) fn load(&self, _: Ordering) -> T {
            self.0.get()
        }
        pub(crate) fn store(&self, value: T, _: Ordering) {
            self.0.set(value);
        }
        pub(crate) fn swap(&self, value: T, _: Ordering) -> T {
            self.0.replace(value)
        }
        pub(crate) fn fetch_max(&self, value: T, _: Ordering) -> T {
            let found = self.0.get();
            self.0.replace(if value > found { value } else { found })
        }
        pub(crate) fn compare_exchange(
            &self,
            current: T,
            new: T,
            _: Ordering,
            _: Ordering,
        ) -> Result<T, T> {
            let found = self.0.get();
            if found == current {
                self.0.set(new);
                Ok(found)
            } else {
                Err(found)
            }
        }
    }

    impl Plain<u64> {
        pub(crate) fn fetch_add(&self, value: u64, _: Ordering) -> u64 {
            self.0.replace(self.0.get().wrapping_add(value))
        }
    }
}
