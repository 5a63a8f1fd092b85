//! The rings of all threads of a recorder, and the numbers of records that no ring of the list has.

use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use super::black_box::RingFile;
use crate::layer::process_mutex::ProcessMutex;
use crate::trace::rings::ring::{ControlWord, Ring};
use crate::trace::settings::WhenFull;

/// The number of rings of ended threads that stay in memory if a recorder overwrites: the rings of
/// the threads that ended last.
const ENDED_RINGS_KEPT: usize = 8;

/// The rings. Those of ended threads are in the order of the threads' ends.
#[derive(Debug, Default)]
pub(crate) struct RingList {
    rings: ProcessMutex<Vec<Arc<Ring>>>,
    /// The number of records in rings that were removed to keep fewer of them.
    removed_records: AtomicU64,
    /// The number of dropped records that no ring counts: those of rings that were removed after
    /// the reader had taken their records, and those for whose ring the system had no memory.
    other_dropped_records: AtomicU64,
}

impl RingList {
    /// Adds a ring. `None` if the lock is lost ([`ProcessMutex::lock`]).
    pub(super) fn add(&self, ring: Ring) -> Option<Arc<Ring>> {
        let ring = Arc::new(ring);
        self.rings.lock()?.push(Arc::clone(&ring));
        Some(ring)
    }

    /// Counts a dropped record of a thread that has no ring.
    pub(super) fn count_record_without_ring(&self) {
        // ORDERING: Relaxed: the count orders no other memory.
        self.other_dropped_records.fetch_add(1, Ordering::Relaxed);
    }

    /// Claims a ring in the file. If no ring is free, reuses the ring of the thread that ended
    /// first.
    pub(super) fn claim_in_file(&self, file: &RingFile, number: u64, name: &str) -> Option<Ring> {
        let ring = file.claim(number, name);
        if ring.is_some() {
            return ring;
        }
        let mut rings = self.rings.lock()?;
        // A ring that only the list has is free as soon as it is removed. Another thread may claim
        // it first, because a claim needs no lock.
        let is_free = |ring: &Arc<Ring>| ring.is_mapped() && Arc::strong_count(ring) == 1;
        let mut ring = None;
        while ring.is_none()
            && let Some(records) = self.remove_first_ended(&mut rings, is_free)
        {
            file.count_removed(records);
            ring = file.claim(number, name);
        }
        if ring.is_none() {
            file.count_this_thread_without_ring();
        }
        ring
    }

    /// Marks the end of the thread of `ring`. If the recorder overwrites, so that no reader takes
    /// the records, at most [`ENDED_RINGS_KEPT`] rings of ended threads stay in memory.
    pub(super) fn thread_ended(&self, ring: &Arc<Ring>, when_full: WhenFull) {
        let Some(mut rings) = self.rings.lock() else {
            return;
        };
        // This happens under the lock, so that rings are in the order in which their threads end.
        ring.end_thread();
        let Some(index) = rings.iter().position(|known| Arc::ptr_eq(known, ring)) else {
            return;
        };
        rings[index..].rotate_left(1);
        // Rings in the file stay until another thread needs one.
        let takes_memory = |ring: &Arc<Ring>| !ring.is_mapped();
        let ended = rings
            .iter()
            .filter(|ring| ring.has_ended() && takes_memory(ring))
            .count();
        if when_full == WhenFull::Overwrite && ended > ENDED_RINGS_KEPT {
            self.remove_first_ended(&mut rings, takes_memory);
        }
    }

    /// Removes, among the rings that `may_remove` accepts, the ring of the thread that ended first.
    /// Returns the number of its records; `None` if there is no such ring.
    fn remove_first_ended(
        &self,
        rings: &mut Vec<Arc<Ring>>,
        may_remove: impl Fn(&Arc<Ring>) -> bool,
    ) -> Option<u64> {
        let is_first = |ring: &Arc<Ring>| ring.has_ended() && may_remove(ring);
        let first = rings.iter().position(is_first)?;
        let first = rings.remove(first);
        first.release();
        let records = first.get(ControlWord::Records);
        // ORDERING: Relaxed: the count orders no other memory.
        self.removed_records.fetch_add(records, Ordering::Relaxed);
        Some(records)
    }

    /// All rings; `None` if the lock is lost in a forked child ([`ProcessMutex::lock`]).
    pub(crate) fn all(&self) -> Option<Vec<Arc<Ring>>> {
        self.rings.lock().map(|rings| rings.clone())
    }

    /// All rings, and the number of records in rings that were removed to keep fewer of them;
    /// `None` if the lock is lost ([`ProcessMutex::lock`]).
    pub(super) fn all_with_removed_records(&self) -> Option<(Vec<Arc<Ring>>, u64)> {
        let rings = self.rings.lock()?;
        // ORDERING: Relaxed: under the lock, so no ring counts twice.
        let removed_records = self.removed_records.load(Ordering::Relaxed);
        Some((rings.clone(), removed_records))
    }

    /// Removes a ring whose thread has ended, and whose records were taken.
    pub(crate) fn remove(&self, ring: &Arc<Ring>) {
        if let Some(mut rings) = self.rings.lock() {
            rings.retain(|known| !Arc::ptr_eq(known, ring));
            // ORDERING: Relaxed: under the lock, so the ring counts once.
            self.other_dropped_records
                .fetch_add(ring.get(ControlWord::Dropped), Ordering::Relaxed);
        }
    }

    /// The number of records that no ring has taken.
    pub(crate) fn dropped_records(&self) -> u64 {
        let rings = self.rings.lock();
        let dropped = rings
            .iter()
            .flat_map(|rings| rings.iter())
            .map(|ring| ring.get(ControlWord::Dropped));
        // ORDERING: Relaxed: under the lock, so no ring counts twice.
        let others = self.other_dropped_records.load(Ordering::Relaxed);
        dropped.fold(others, u64::saturating_add)
    }

    /// Makes the list as a forked child finds it if a thread of its parent held the lock.
    #[cfg(test)]
    pub(super) fn hold_for_ever_in_parent(&mut self) {
        self.rings.hold_for_ever_in_parent();
    }
}
