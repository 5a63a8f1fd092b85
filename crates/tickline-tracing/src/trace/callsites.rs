//! Finds a callsite's metadata by its address, which is what records store.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tracing_core::Metadata;

type Callsites = FxHashMap<usize, &'static Metadata<'static>>;

static CALLSITES: Mutex<Option<Callsites>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Callsites>> {
    CALLSITES.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn find(address: usize) -> Option<&'static Metadata<'static>> {
    lock().as_ref()?.get(&address).copied()
}

/// The callsites that a thread has recorded lately, so that it rarely takes the lock.
#[derive(Debug)]
pub(crate) struct Known([usize; 64]);

impl Known {
    pub(crate) const fn new() -> Self {
        Self([0; 64])
    }

    /// Returns the address that a record stores, and makes sure that [`find`] knows it.
    #[inline]
    pub(crate) fn address(&mut self, metadata: &'static Metadata<'static>) -> usize {
        let address = core::ptr::from_ref(metadata).addr();
        // The program has its callsites' metadata in one section, some 100 bytes each.
        let known = &mut self.0[address / 32 % 64];
        if *known != address {
            *known = address;
            lock().get_or_insert_default().insert(address, metadata);
        }
        address
    }
}
