//! The only import point for the atomics of leases. In the models (`lease/loom_tests.rs`) loom's
//! atomics take their place, as in the models of `tickline-core`.

#[cfg(not(all(test, loom)))]
pub(crate) use core::sync::atomic::{AtomicI64, AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
pub(crate) use modelled::{AtomicI64, AtomicU64, Ordering, fence};

#[cfg(all(test, loom))]
#[path = "../../tickline-core/src/primitive.rs"]
#[allow(dead_code, unused_imports, reason = "not all that core's models need")]
mod modelled;
