//! The way from a span to the counts of its series.
//!
//! ```text
//! Table, of all threads:          slots, a hash table  -> Series
//! ThreadCounts, of each thread:   callsites            -> Callsite: the last span's values, series
//!                                 counts, by series    -> Counts, to which only this thread adds
//! ```
//!
//! A span takes three steps. [`Table::with_thread_counts`] finds the [`ThreadCounts`] of this
//! thread. [`ThreadCounts::series_index`] collects the span's values and finds the index of their
//! series. [`ThreadCounts::count`] adds the span's time to the thread's counts of that series.
//!
//! The table never moves or removes a series. It therefore needs no lock, and the index of a series
//! in its slots identifies that series.
//!
//! Consecutive spans of a callsite often have the same values. A thread therefore compares a span's
//! values with those of the callsite's last span, and searches the table only if a value differs.
//! It formats a number only if the number differs from the last one.

use core::cell::Cell;
use core::fmt;
use core::hash::{Hash, Hasher};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rustc_hash::{FxHashMap, FxHasher};
use tracing_core::field::{Field, Visit};

use super::series::{Counts, Series};
use super::{NAME, TARGET};
use crate::layer::process_mutex::ProcessMutex;
use crate::layer::timing::StaticMetadata;
use crate::layer::user_value;

/// The limit of series; the series [`OTHER`] comes on top of it.
const MAX_SERIES: usize = 1_000;

/// Each value of the series that counts the spans beyond [`MAX_SERIES`].
const OTHER: &str = "(other)";

/// Slots for series: twice the limit, so that a search soon finds a free slot.
pub(super) const SLOTS: usize = 2_048;

/// All series of one [`Histograms`](super::Histograms).
#[derive(Debug)]
pub(super) struct Table {
    pub(super) labels: Box<[String]>,
    /// The upper bounds of the buckets, ascending.
    pub(super) bounds_ns: Arc<[u64]>,
    /// A hash table with linear probing. The hash of a series' values gives the first slot to try.
    slots: Box<[OnceLock<Box<Series>>]>,
    /// The number of series, including those that a thread is just adding.
    series_count: AtomicUsize,
    /// The lock of a thread that fills a slot.
    adding: ProcessMutex<()>,
    /// The index of the series [`OTHER`].
    pub(super) other_index: usize,
    /// A series for each label: the spans that lack the label's field, and have the fields of all
    /// labels before it. Only the number of these spans is of use. The index of the first series
    /// follows that of the last slot.
    lacking: Box<[Series]>,
}

thread_local! {
    /// This thread's counts for each table: a linked list, which begins with the table used last.
    /// The list is empty while a span is counted. A value's `Debug`, or the allocator, may close
    /// spans meanwhile: these start a new list, with counts of their own. (A vector in place of the
    /// list cost 45 instructions a span, by callgrind.)
    static THREAD_COUNTS: Cell<Option<Box<ThreadCounts>>> = const { Cell::new(None) };
}

impl Table {
    pub(super) fn new(labels: Box<[String]>, bounds_ns: Arc<[u64]>) -> Arc<Self> {
        let slots = (0..SLOTS).map(|_| OnceLock::new()).collect();
        let lacking = labels.iter().map(|_| Series::default()).collect();
        let mut table = Self {
            labels,
            bounds_ns,
            slots,
            series_count: AtomicUsize::new(0),
            adding: ProcessMutex::default(),
            other_index: 0,
            lacking,
        };
        table.other_index = table.find_or_add(table.labels.iter().map(|_| OTHER));
        Arc::new(table)
    }

    /// Calls `run` with this thread's counts for this table, and returns the result. A thread that
    /// is ending has lost its thread-local memory, and counts nothing.
    #[inline]
    pub(super) fn with_thread_counts<R>(
        self: &Arc<Self>,
        run: impl FnOnce(&mut ThreadCounts) -> Option<R>,
    ) -> Option<R> {
        THREAD_COUNTS
            .try_with(|list| {
                let mut first = match list.take() {
                    Some(first) if first.table.as_ptr() == Arc::as_ptr(self) => first,
                    others => self.move_to_front(others),
                };
                let result = run(&mut first);
                list.set(Some(first));
                result
            })
            .ok()?
    }

    /// Moves this table's entry to the front of the list, or creates it there. Drops the entries of
    /// tables that are gone.
    #[inline(never)]
    fn move_to_front(self: &Arc<Self>, list: Option<Box<ThreadCounts>>) -> Box<ThreadCounts> {
        let (mut rest, mut others, mut found) = (list, None, None);
        while let Some(mut entry) = rest {
            rest = entry.next.take();
            if entry.table.as_ptr() == Arc::as_ptr(self) {
                found = Some(entry);
            } else if entry.table.strong_count() > 0 {
                entry.next = others;
                others = Some(entry);
            }
        }
        let new = || {
            let indices = SLOTS + self.lacking.len();
            let (table, counts) = (Arc::downgrade(self), (0..indices).map(|_| None).collect());
            Box::new(ThreadCounts {
                table,
                counts,
                ..ThreadCounts::default()
            })
        };
        let mut first = found.unwrap_or_else(new);
        first.next = others;
        first
    }

    /// All series, by their values in alphabetical order.
    pub(super) fn all_series(&self) -> Vec<&Series> {
        let mut all: Vec<_> = self
            .slots
            .iter()
            .filter_map(OnceLock::get)
            .map(Box::as_ref)
            .collect();
        all.sort_by_key(|series| &series.values);
        all
    }

    /// The number of spans that do not count, by the first label whose field they lack.
    pub(super) fn uncounted_spans(&self) -> Vec<(&str, u64)> {
        let count = |lacking: &Series| lacking.times().values().sum();
        let counts = self.lacking.iter().map(count);
        let all = self.labels.iter().map(String::as_str).zip(counts);
        all.filter(|(_, count)| *count > 0).collect()
    }

    /// The series with this index, also one of those that lack a field.
    fn series(&self, index: usize) -> Option<&Series> {
        match self.slots.get(index) {
            Some(slot) => slot.get().map(Box::as_ref),
            None => self.lacking.get(index - SLOTS),
        }
    }

    /// The index of the series with these values. Adds that series if it is new and the limit
    /// permits; otherwise returns the index of [`OTHER`].
    fn find_or_add<'a>(&self, values: impl Iterator<Item = &'a str> + Clone) -> usize {
        let mut hasher = FxHasher::default();
        values.clone().for_each(|value| value.hash(&mut hasher));
        let first = usize::try_from(hasher.finish() % SLOTS as u64).unwrap_or(0);
        for index in (first..first + SLOTS).map(|slot| slot % SLOTS) {
            let slot = &self.slots[index];
            let known = slot.get().map(Box::as_ref);
            match known.or_else(|| self.add(slot, values.clone().map(str::to_owned).collect())) {
                None => break,
                Some(series) if series.values.iter().eq(values.clone()) => return index,
                Some(_) => {}
            }
        }
        self.other_index
    }

    /// Puts a new series into a slot that was free, and returns the slot's series. If another
    /// thread was faster, that is the other thread's series. `None` beyond the limit.
    #[cold]
    fn add<'a>(&self, slot: &'a OnceLock<Box<Series>>, values: Vec<String>) -> Option<&'a Series> {
        let one_more = |count| (count <= MAX_SERIES).then_some(count + 1);
        // ORDERING: Relaxed for both: the count orders no other memory.
        let has_room = self
            .series_count
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more)
            .is_ok();
        let add = || self.adding.fill(slot, Box::new(Series::new(values)));
        if has_room && add() != Some(true) {
            // ORDERING: Relaxed: the count orders no other memory.
            self.series_count.fetch_sub(1, Ordering::Relaxed);
        }
        slot.get().map(Box::as_ref)
    }
}

/// One thread's callsites and counts for one table.
#[derive(Default)]
pub(super) struct ThreadCounts {
    /// No other table has this address while this refers to it.
    table: Weak<Table>,
    callsites: Vec<Callsite>,
    /// The index of each callsite, by the address of its metadata; an error if it lacks a field.
    index_by_address: FxHashMap<usize, Result<usize, LacksField>>,
    /// The last span's callsite, which is often the next span's, too.
    last_callsite: LastCallsite,
    /// This thread's counts of each series, by the index of the series.
    counts: Box<[Option<Arc<Counts>>]>,
    /// The next entry of the list [`THREAD_COUNTS`].
    next: Option<Box<ThreadCounts>>,
}

#[derive(Default)]
struct LastCallsite {
    /// The address of its metadata.
    address: usize,
    /// The index among the thread's callsites.
    index: usize,
}

/// A callsite lacks the field of a label: the index among the series for its spans' number.
#[derive(Debug, Clone, Copy)]
pub(super) struct LacksField {
    pub(super) index: usize,
}

impl ThreadCounts {
    /// The index of a span's series; `None` if the span lacks a field. `before` is the index of the
    /// series that the span has had so far, if it has one: the span then keeps that series' values,
    /// except those that `record` replaces.
    #[inline]
    pub(super) fn series_index(
        &mut self,
        table: &Table,
        metadata: StaticMetadata,
        before: Option<usize>,
        record: impl FnOnce(&mut dyn Visit),
    ) -> Option<usize> {
        let callsite = self.callsite(table, metadata).ok()?;
        callsite.given = 0;
        if let Some(before) = before.and_then(|before| table.slots[before].get()) {
            callsite.given = u64::MAX;
            callsite.last_series = None;
            for (label, text) in callsite.labels.iter_mut().zip(&before.values) {
                label.set(text, None);
            }
        }
        record(callsite);
        match callsite.last_series {
            Some(last) if callsite.given == callsite.last_given => Some(last),
            _ => Some(callsite.find_series(table)),
        }
    }

    /// Adds a span's time to this thread's counts of a series.
    #[inline]
    pub(super) fn count(&mut self, table: &Table, series: usize, ns: u64) -> Option<()> {
        let counts = &mut self.counts[series];
        if counts.is_none() {
            *counts = table
                .series(series)
                .and_then(|series| series.claim_counts(&table.bounds_ns));
        }
        counts.as_ref()?.record(ns);
        Some(())
    }

    /// The callsite with this metadata.
    #[inline]
    pub(super) fn callsite(
        &mut self,
        table: &Table,
        metadata: StaticMetadata,
    ) -> Result<&mut Callsite, LacksField> {
        let address = ptr::from_ref(metadata).addr();
        if self.last_callsite.address != address {
            let index = self.find_callsite(address, table, metadata)?;
            self.last_callsite = LastCallsite { address, index };
        }
        Ok(&mut self.callsites[self.last_callsite.index])
    }

    #[inline(never)]
    fn find_callsite(
        &mut self,
        address: usize,
        table: &Table,
        metadata: StaticMetadata,
    ) -> Result<usize, LacksField> {
        *self.index_by_address.entry(address).or_insert_with(|| {
            self.callsites.push(Callsite::new(table, metadata)?);
            Ok(self.callsites.len() - 1)
        })
    }
}

/// A callsite, with the values of its last span on this thread. As a visitor, it replaces these by
/// the values of the present span. A set of labels has a bit for each label.
pub(super) struct Callsite {
    labels: Vec<Label>,
    /// For each field, the index of its label. Two fields may have one name, and then one label.
    label_of_field: Vec<Option<usize>>,
    /// The labels to which the present span has given a value.
    given: u64,
    /// The labels to which the last span gave a value.
    last_given: u64,
    /// The index of the last span's series; `None` once a value of the present span differs.
    last_series: Option<usize>,
}

impl Callsite {
    fn new(table: &Table, metadata: StaticMetadata) -> Result<Self, LacksField> {
        let label = |(number, name): (usize, &String)| {
            let index = SLOTS + number;
            let (is_field, text) = match name.as_str() {
                NAME => (false, metadata.name()),
                TARGET => (false, metadata.target()),
                name => {
                    metadata.fields().field(name).ok_or(LacksField { index })?;
                    (true, "")
                }
            };
            Ok(Label {
                is_field,
                text: text.to_owned(),
                number: None,
            })
        };
        let labels = table.labels.iter().enumerate().map(label);
        let labels: Vec<Label> = labels.collect::<Result<_, LacksField>>()?;
        let label_of = |field: Field| {
            let mut known = labels.iter().zip(table.labels.iter());
            known.position(|(label, name)| label.is_field && name == field.name())
        };
        let label_of_field = metadata.fields().iter().map(label_of).collect();
        Ok(Self {
            labels,
            label_of_field,
            given: 0,
            last_given: 0,
            last_series: None,
        })
    }

    /// The label of this field, if it is one. Marks the label as given.
    #[inline]
    fn label(&mut self, field: &Field) -> Option<&mut Label> {
        let number = self.label_of_field.get(field.index()).copied().flatten()?;
        self.given |= 1 << number;
        Some(&mut self.labels[number])
    }

    #[inline]
    fn record_number(&mut self, field: &Field, number: i128) {
        let Some(label) = self
            .label(field)
            .filter(|label| label.number != Some(number))
        else {
            return;
        };
        label.set(itoa::Buffer::new().format(number), Some(number));
        self.last_series = None;
    }

    #[inline]
    fn record_text(&mut self, field: &Field, text: &str) {
        let Some(label) = self.label(field).filter(|label| label.text != text) else {
            return;
        };
        label.set(text, None);
        self.last_series = None;
    }

    /// Searches the table for the series of the present span. Labels without a value become empty.
    #[inline(never)]
    fn find_series(&mut self, table: &Table) -> usize {
        self.last_given = self.given;
        for (number, label) in self.labels.iter_mut().enumerate() {
            if label.is_field && self.last_given & 1 << number == 0 {
                label.set("", None);
            }
        }
        let series = table.find_or_add(self.labels.iter().map(|label| &*label.text));
        self.last_series = Some(series);
        series
    }
}

impl Visit for Callsite {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.label(field).is_some() {
            self.record_text(field, &user_value::text(value));
        }
    }

    fn record_str(&mut self, field: &Field, text: &str) {
        if text.len() > user_value::MAX_TEXT && self.label(field).is_some() {
            return self.record_text(field, &user_value::within_limit(text));
        }
        self.record_text(field, text);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_number(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_number(field, value.into());
    }

    fn record_error(&mut self, field: &Field, value: &(dyn core::error::Error + 'static)) {
        self.record_debug(field, &user_value::ErrorValue::new(field, value));
    }
}

/// A label and its value.
struct Label {
    /// False for the span's name and target.
    is_field: bool,
    text: String,
    /// The value as a number, if it was recorded as one.
    number: Option<i128>,
}

impl Label {
    #[inline(never)]
    fn set(&mut self, text: &str, number: Option<i128>) {
        text.clone_into(&mut self.text);
        self.number = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_whose_parent_added_a_series_counts_new_values_as_others() {
        let mut table = Table::new(Box::new([NAME.to_owned()]), Arc::default());
        let adding = &mut Arc::get_mut(&mut table).unwrap().adding;
        adding.hold_for_ever_in_parent();
        assert_eq!(table.find_or_add(["new"].into_iter()), table.other_index);
    }
}
