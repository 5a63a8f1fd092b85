//! The series of spans that count together, and how a thread finds its own counts of one.
//!
//! All threads share a table of the series. It never moves or removes one. It therefore needs no
//! lock, and a series is known by its index there.
//!
//! A callsite's spans often have the same values, one after the other. A thread therefore compares
//! a span's values with those of the callsite's last span, and looks for the series only if one of
//! them differs. It makes text of a number only if that differs.

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
use crate::sink::StaticMetadata;

/// The most series, without that for all others.
const MAX_SERIES: usize = 1_000;

/// Each value of the series for all others.
const OTHER: &str = "(other)";

/// Slots for series: twice as many, so that a search ends soon.
pub(super) const SLOTS: usize = 2_048;

/// All series of some histograms.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) labels: &'static [&'static str],
    /// Ascending.
    pub(super) bounds_ns: Arc<[u64]>,
    /// A hash table: a series is in the first slot that was free, from that of its values' hash
    /// on.
    slots: Box<[OnceLock<Box<Series>>]>,
    /// How many series there are, or are being added.
    series: AtomicUsize,
    /// The index of the series for spans beyond [`MAX_SERIES`].
    pub(super) other: usize,
}

/// What a thread knows of a table.
#[derive(Default)]
pub(super) struct ThreadCounts {
    /// The table's address. No other has it as long as this refers to the table.
    address: usize,
    table: Weak<Table>,
    callsites: Vec<Callsite>,
    /// Their indices, by the address of the metadata; `None` if the callsite lacks a field.
    by_address: FxHashMap<usize, Option<usize>>,
    /// Address and index of the last one, which is often the next.
    last: (usize, usize),
    /// By the series' index.
    counts: Box<[Option<Arc<Counts>>]>,
    next: Option<Box<ThreadCounts>>,
}

/// What a thread knows of a callsite, and of the last span that it made there. Takes a span's
/// values.
pub(super) struct Callsite {
    labels: Vec<Label>,
    /// Which labels the last span gave a value, a bit for each.
    given: u64,
    /// Those of the span whose values are being taken.
    taken: u64,
    /// The series of these values, if it is known.
    index: Option<usize>,
}

/// A label's value.
struct Label {
    /// The field's index; `None` for the span's name and target.
    field: Option<usize>,
    text: String,
    /// If it was recorded as a number.
    number: Option<i128>,
}

thread_local! {
    /// A list, the last table first. It is empty while it is used. A value's `Debug`, or the
    /// allocator, may close spans meanwhile. These begin anew, and have counts of their own. (A
    /// vector in its place cost 45 instructions a span, by callgrind.)
    static LOCALS: Cell<Option<Box<ThreadCounts>>> = const { Cell::new(None) };
}

impl Table {
    pub(super) fn new(labels: &'static [&'static str], bounds_ns: Arc<[u64]>) -> Arc<Self> {
        let slots = (0..SLOTS).map(|_| OnceLock::new()).collect();
        let mut table = Self { labels, bounds_ns, slots, series: AtomicUsize::new(0), other: 0 };
        table.other = table.index(labels.iter().map(|_| OTHER));
        Arc::new(table)
    }

    /// What `run` makes of what this thread knows. A thread that is ending has lost its
    /// thread-local memory, and counts nothing.
    #[inline]
    pub(super) fn with<R>(self: &Arc<Self>, run: impl FnOnce(&mut ThreadCounts) -> Option<R>) -> Option<R> {
        LOCALS
            .try_with(|locals| {
                let mut local = match locals.take() {
                    Some(local) if local.address == Arc::as_ptr(self).addr() => local,
                    others => self.put_first(others),
                };
                let result = run(&mut local);
                locals.set(Some(local));
                result
            })
            .ok()?
    }

    /// Puts what the thread knows of this table first.
    #[inline(never)]
    fn put_first(self: &Arc<Self>, locals: Option<Box<ThreadCounts>>) -> Box<ThreadCounts> {
        let address = Arc::as_ptr(self).addr();
        let (mut rest, mut others, mut found) = (locals, None, None);
        while let Some(mut local) = rest {
            rest = local.next.take();
            if local.address == address {
                found = Some(local);
            } else if local.table.strong_count() > 0 {
                local.next = others;
                others = Some(local);
            }
        }
        let new = || {
            let counts = (0..SLOTS).map(|_| None).collect();
            Box::new(ThreadCounts { address, table: Arc::downgrade(self), counts, ..ThreadCounts::default() })
        };
        let mut local = found.unwrap_or_else(new);
        local.next = others;
        local
    }

    /// The series that were met so far, by their values in alphabetical order.
    pub(super) fn all(&self) -> Vec<&Series> {
        let mut all: Vec<_> = self.slots.iter().filter_map(OnceLock::get).map(Box::as_ref).collect();
        all.sort_by_key(|series| &series.values);
        all
    }

    /// Finds the series with these values, or adds it if there are not too many.
    fn index<'a>(&self, values: impl Iterator<Item = &'a str> + Clone) -> usize {
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
        self.other
    }

    /// Puts a new series into a slot that was free, and returns it. If another thread was faster,
    /// returns the series of that thread. `None` if there are too many.
    #[cold]
    fn add<'a>(&self, slot: &'a OnceLock<Box<Series>>, values: Vec<String>) -> Option<&'a Series> {
        let more = |series| (series <= MAX_SERIES).then_some(series + 1);
        // ORDERING: Relaxed for both, only the number counts.
        let has_room = self.series.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if has_room && slot.set(Box::new(Series::new(values))).is_err() {
            // ORDERING: as above.
            self.series.fetch_sub(1, Ordering::Relaxed);
        }
        slot.get().map(Box::as_ref)
    }
}

impl Callsite {
    fn new(table: &Table, metadata: StaticMetadata) -> Option<Self> {
        let label = |name: &&str| {
            let (field, text) = match *name {
                NAME => (None, metadata.name()),
                TARGET => (None, metadata.target()),
                name => (Some(metadata.fields().field(name)?.index()), ""),
            };
            Some(Label { field, text: text.to_owned(), number: None })
        };
        let labels = table.labels.iter().map(label).collect::<Option<_>>()?;
        Some(Self { labels, given: 0, taken: 0, index: None })
    }

    /// The label of this field, if it is one.
    #[inline]
    fn label(&mut self, field: &Field) -> Option<&mut Label> {
        let number = self.labels.iter().position(|label| label.field == Some(field.index()))?;
        self.taken |= 1 << number;
        Some(&mut self.labels[number])
    }

    #[inline]
    fn record_number(&mut self, field: &Field, number: i128) {
        let Some(label) = self.label(field).filter(|label| label.number != Some(number)) else { return };
        label.set(itoa::Buffer::new().format(number), Some(number));
        self.index = None;
    }

    /// The series of the values that were taken. The others are empty.
    #[inline(never)]
    fn look_up(&mut self, table: &Table) -> usize {
        self.given = self.taken;
        for (number, label) in self.labels.iter_mut().enumerate() {
            if label.field.is_some() && self.given & 1 << number == 0 {
                label.set("", None);
            }
        }
        let index = table.index(self.labels.iter().map(|label| &*label.text));
        self.index = Some(index);
        index
    }
}

impl Label {
    #[inline(never)]
    fn set(&mut self, text: &str, number: Option<i128>) {
        text.clone_into(&mut self.text);
        self.number = number;
    }
}

impl Visit for Callsite {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.label(field).is_some() {
            self.record_str(field, &format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, text: &str) {
        let Some(label) = self.label(field).filter(|label| label.text != text) else { return };
        label.set(text, None);
        self.index = None;
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_number(field, value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_number(field, value.into());
    }
}

impl ThreadCounts {
    /// What is known of a callsite; `None` if it lacks a field.
    #[inline]
    pub(super) fn callsite(&mut self, table: &Table, metadata: StaticMetadata) -> Option<&mut Callsite> {
        let address = ptr::from_ref(metadata).addr();
        if self.last.0 != address {
            self.last = (address, self.find(address, table, metadata)?);
        }
        self.callsites.get_mut(self.last.1)
    }

    #[inline(never)]
    fn find(&mut self, address: usize, table: &Table, metadata: StaticMetadata) -> Option<usize> {
        *self.by_address.entry(address).or_insert_with(|| {
            self.callsites.push(Callsite::new(table, metadata)?);
            Some(self.callsites.len() - 1)
        })
    }

    /// The index of a span's series, if the span counts. The span has the values of series
    /// `before`, or no values. The values that `record` passes on come after these.
    #[inline]
    pub(super) fn index(
        &mut self,
        table: &Table,
        metadata: StaticMetadata,
        before: Option<usize>,
        record: impl FnOnce(&mut dyn Visit),
    ) -> Option<usize> {
        let callsite = self.callsite(table, metadata)?;
        callsite.taken = 0;
        if let Some(before) = before.and_then(|before| table.slots[before].get()) {
            (callsite.taken, callsite.index) = (u64::MAX, None);
            for (label, text) in callsite.labels.iter_mut().zip(&before.values) {
                label.set(text, None);
            }
        }
        record(callsite);
        let known = callsite.index.filter(|_| callsite.taken == callsite.given);
        Some(known.unwrap_or_else(|| callsite.look_up(table)))
    }

    /// Counts a span.
    #[inline]
    pub(super) fn count(&mut self, table: &Table, index: usize, ns: u64) -> Option<()> {
        let counts = &mut self.counts[index];
        if counts.is_none() {
            *counts = table.slots[index].get().map(|series| series.own(&table.bounds_ns));
        }
        counts.as_ref()?.record(ns);
        Some(())
    }
}
