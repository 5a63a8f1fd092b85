//! The only import point for the atomics of leases, so that loom's can take their place in the
//! models (`lease/loom_tests.rs`): those that the models of `tickline-core` have.

#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
pub(crate) use modelled::{AtomicI64, AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
#[path = "../../tickline-core/src/primitive.rs"]
#[allow(dead_code, unused_imports, reason = "not all that core's models need")]
mod modelled;
