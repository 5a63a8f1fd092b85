//! Whether a clock has one line for all CPUs or one for each, and whether readers may use the
//! latter.
//!
//! The driver makes the table of the CPUs' lines once. A pointer to it is here, and a reader
//! loads nothing else:
//!
//! | `open` | readers | what comes next |
//! |---|---|---|
//! | null | take the common line, or the OS | the clock's thread opens the table, once the gates are judged |
//! | the table | take the line of their CPU | the thread closes it; or a gate |
//! | gated | take the OS | a judge, who opens the gate |
//!
//! Two flags would not do: a gate may close between two loads, or between two stores.
//!
//! Whoever switches from one mode to the other asks for a judgement
//! (`Keeper::judge_again`), for two reasons. The gate that compares the counters depends on the
//! mode. And no common line may be left. While the mode is in force nobody begins to publish one.
//! But a reader may be in the middle of an iteration; closing the gate ends the line that it
//! publishes.

use core::marker::PhantomData;
use core::ptr::{self, NonNull};

use crate::primitive::{AtomicPtr, AtomicU64, Ordering};

/// See the [module](self). `T` is the table.
#[derive(Debug)]
pub struct Mode<T> {
    /// Whether no common line may be published: 1 or 0.
    in_force: AtomicU64,
    /// Null until it is made; then the same for as long as this lives, because readers may be in
    /// it.
    table: AtomicPtr<T>,
    /// The same for readers; null while there is nothing to read; [`Self::GATED`] while a gate is
    /// closed.
    open: AtomicPtr<T>,
    /// Makes this shareable between threads as a reference to the table is.
    _table: PhantomData<NonNull<T>>,
}

// SAFETY: it only hands out shared references to the table, so `T: Sync` is enough for threads to
// share it. `T: Send` lets another thread end it than the one that made it. Not given where
// atomics are plain cells.
#[cfg(target_has_atomic = "64")]
unsafe impl<T: Send + Sync> Sync for Mode<T> {}
// SAFETY: as above; the pointer is bound to no thread.
unsafe impl<T: Send + Sync> Send for Mode<T> {}

impl<T> Default for Mode<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Mode<T> {
    /// Stands for a table that must not be opened.
    const GATED: *mut T = {
        assert!(align_of::<T>() > 1, "no table lies at address 1");
        ptr::without_provenance_mut(1)
    };

    /// One line for all, and no table.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            in_force: AtomicU64::new(0),
            table: AtomicPtr::new(ptr::null_mut()),
            open: AtomicPtr::new(ptr::null_mut()),
            _table: PhantomData,
        }
    }

    /// The table, if it was made.
    pub fn table(&self) -> Option<&T> {
        // ORDERING: Acquire, pairs with the exchange in `lend`: whoever sees the table sees its
        // content.
        let table = self.table.load(Ordering::Acquire);
        // SAFETY: null, or lent for as long as this lives.
        unsafe { table.as_ref() }
    }

    /// Makes `table` the table of this clock. If the clock has one already, that stays, and this
    /// one is given back.
    ///
    /// # Errors
    ///
    /// `table`, if another thread was first.
    ///
    /// # Safety
    ///
    /// Unless it is given back, `table` is valid, and only ever shared, until
    /// [`take_back`](Self::take_back) or until this is gone.
    pub unsafe fn lend(&self, table: NonNull<T>) -> Result<(), NonNull<T>> {
        // ORDERING: Release, pairs with the Acquire loads of `table`.
        let lent = self.table.compare_exchange(
            ptr::null_mut(),
            table.as_ptr(),
            Ordering::Release,
            Ordering::Relaxed,
        );
        lent.map(|_| ()).map_err(|_| table)
    }

    /// The table, which nobody uses any more.
    pub fn take_back(&mut self) -> Option<NonNull<T>> {
        // ORDERING: Relaxed, nobody else is here.
        let table = NonNull::new(self.table.load(Ordering::Relaxed));
        *self = Self::new();
        table
    }

    /// Whether no common line may be published. For the holder of the clock's lock, after it was
    /// admitted.
    pub fn is_in_force(&self) -> bool {
        // ORDERING: Relaxed, ordered by the keeper's word: a judgement that was
        // asked for after `set_in_force` sees what that stored, and an older one does not count.
        self.in_force.load(Ordering::Relaxed) != 0
    }

    /// Enters the mode, in which no common line is published, or leaves it, and then the table
    /// stays closed. Returns whether the mode was another one: the caller ends what is in use by
    /// asking for a judgement. For the clock's thread, or while there is none.
    #[must_use = "the gates are to be judged again"]
    pub fn set_in_force(&self, in_force: bool) -> bool {
        let is_other = self.is_in_force() != in_force;
        if is_other {
            // ORDERING: Relaxed, as in `is_in_force`.
            self.in_force.store(in_force.into(), Ordering::Relaxed);
        }
        is_other
    }

    /// Lets readers use the table. For the clock's thread, after it was admitted. Returns whether
    /// they may: they may not if a gate has been closed since.
    pub fn open(&self) -> bool {
        // ORDERING: Acquire, pairs with the exchange in `lend`.
        let table = self.table.load(Ordering::Acquire);
        // ORDERING: Release, pairs with the Acquire load in `open_table`. A failure is an open
        // table, or a gate.
        let opened = self.open.compare_exchange(ptr::null_mut(), table, Ordering::Release, Ordering::Relaxed);
        opened.is_ok_and(|_| !table.is_null()) || opened == Err(table)
    }

    /// No reading that begins after this uses the table, until it is opened again.
    pub fn close(&self) {
        // ORDERING: Relaxed, only decides what the exchange expects.
        let table = self.table.load(Ordering::Relaxed);
        // ORDERING: Relaxed, a reader that still finds the table may use it. A failure is a table
        // that is closed, or a gate.
        self.open.compare_exchange(table, ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    /// No reading that begins after this uses the table, until [`ungate`](Self::ungate). For
    /// whoever closes the gate.
    pub fn gate(&self) {
        // ORDERING: Relaxed: an earlier `open` comes before this in the pointer's modification
        // order, and the keeper's word orders this with a judge's `ungate`. A swap, because loom
        // would let a store come before an exchange that it has undone.
        self.open.swap(Self::GATED, Ordering::Relaxed);
    }

    /// Lets the table be opened again. For a judge.
    pub fn ungate(&self) {
        // ORDERING: Relaxed, as in `gate`. A failure is no gate.
        self.open.compare_exchange(Self::GATED, ptr::null_mut(), Ordering::Relaxed, Ordering::Relaxed).ok();
    }

    /// The table, if readers may use it.
    #[inline(always)]
    pub fn open_table(&self) -> Option<&T> {
        // ORDERING: Acquire, pairs with the Release exchange in `open`.
        let table = self.open.load(Ordering::Acquire);
        if table.addr() <= Self::GATED.addr() {
            return None;
        }
        // SAFETY: neither null nor `GATED`, so the table, lent for as long as this lives.
        unsafe { table.as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_opened_behind_an_open_gate_and_closed_with_it() {
        let (mut table, mut second) = (7_u64, 8_u64);
        let mut mode = Mode::new();
        {
            let mode = &mode;
            assert!(mode.set_in_force(true) && !mode.set_in_force(true) && mode.is_in_force());
            assert!(!mode.open() && mode.open_table().is_none(), "there is none");
            // SAFETY: `table` outlives `mode`, and is not touched meanwhile.
            unsafe { mode.lend(NonNull::from(&mut table)) }.unwrap();
            // SAFETY: as above.
            let late = unsafe { mode.lend(NonNull::from(&mut second)) };
            assert!(late.is_err() && mode.table() == Some(&7), "the first one stays");
            assert!(mode.open() && mode.open() && mode.open_table() == Some(&7));
            mode.close();
            assert_eq!(mode.open_table(), None);
            assert!(mode.open());
            mode.gate();
            assert_eq!(mode.open_table(), None);
            mode.close();
            assert!(!mode.open(), "behind the gate");
            mode.ungate();
            assert!(mode.open_table().is_none() && mode.open());
            assert!(mode.set_in_force(false) && !mode.set_in_force(false) && !mode.is_in_force());
        }
        assert_eq!(mode.take_back(), Some(NonNull::from(&mut table)));
        assert_eq!((mode.take_back(), mode.table()), (None, None));
    }
}
