//! The ends of requests' spans that found no room in a ring. Each waits here for the reader.

use core::mem;

use crate::layer::process_mutex::ProcessMutex;
use crate::trace::rings::record::Record;

/// The end of a request's span for which the ring of its thread had no room.
#[derive(Debug)]
pub(crate) struct KeptEnd {
    /// The number of the thread.
    pub(crate) thread: u64,
    pub(crate) end: Record<'static>,
}

/// There is at most one end for each span that was open at the reader's last pass, or has begun
/// since. If the reader is slow, the rings become full, and get no more beginnings.
#[derive(Debug, Default)]
pub(crate) struct KeptEnds(ProcessMutex<Vec<KeptEnd>>);

impl KeptEnds {
    /// Keeps an end without its fields. Returns false if the lock is lost
    /// ([`ProcessMutex::lock`]).
    pub(super) fn keep(&self, thread: u64, end: &Record<'_>) -> bool {
        let Some(mut ends) = self.0.lock() else {
            return false;
        };
        let end = Record {
            payload: &[],
            ..*end
        };
        ends.push(KeptEnd { thread, end });
        true
    }

    /// The ends that [`keep`](Self::keep) has kept since the last call.
    pub(crate) fn take(&self) -> Vec<KeptEnd> {
        let ends = self.0.lock();
        ends.map(|mut ends| mem::take(&mut *ends))
            .unwrap_or_default()
    }
}
