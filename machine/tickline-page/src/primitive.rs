//! The only import point for the atomics of leases. The models (`lease/loom_tests.rs`) use loom's
//! atomics in their place, as the models of `tickline-core` do.
//!
//! The file of core is included by its path: a `cfg(test)` module can't be exported, and a crate of
//! its own would be for these models only.

#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
pub(crate) use modelled::{AtomicI64, AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
#[path = "../../../crates/tickline-core/src/primitive.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the models of leases need fewer items than core's"
)]
mod modelled;
