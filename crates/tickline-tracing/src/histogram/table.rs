//! The series of spans that count together, and how a thread finds its own counts of one.
//!
//! All threads share a table of the series. It never moves or removes one. It therefore needs no
//! lock, and a series is known by its index there.
//!
//! A callsite's spans often have the same values, one after the other. A thread therefore compares
//! a span's values with those of the callsite's last span, and looks for the series only if one of
//! them differs. It compares numbers without making text of them.

use core::cell::RefCell;
use core::fmt;
use core::hash::BuildHasher;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use rustc_hash::{FxBuildHasher, FxHashMap};
use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};

use super::series::{OwnCounts, Series};
use super::{NAME, TARGET, is_field};

/// The most series, without that for all others.
const MAX_SERIES: usize = 1_000;

/// Each value of the series for all others.
const OTHER: &str = "(other)";

/// Places for series: twice as many, so that a search ends soon.
pub(super) const PLACES: usize = 2_048;

/// All series of some histograms.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) labels: &'static [&'static str],
    /// Ascending.
    pub(super) bounds_ns: Arc<[u64]>,
    /// A hash table: a series is in the first place that was free, from that of its values' hash
    /// on.
    places: Box<[OnceLock<Box<Series>>]>,
    /// How many series there are, or are being added.
    series: AtomicUsize,
    /// The index of the series for spans beyond [`MAX_SERIES`].
    pub(super) other: usize,
}

/// What a thread knows of a table.
#[derive(Debug, Default)]
pub(super) struct Local {
    table: Weak<Table>,
    callsites: Vec<Callsite>,
    /// Their places, by the address of the metadata; `None` if the callsite lacks a field.
    by_address: FxHashMap<usize, Option<usize>>,
    /// Address and place of the last one, which is often the next.
    last: (usize, usize),
    /// By the series' index.
    counts: Box<[Option<OwnCounts>]>,
}

/// What a thread knows of a callsite, and of the last span that it made there.
#[derive(Debug)]
struct Callsite {
    /// The label of each of its fields.
    labels: Vec<Option<usize>>,
    /// By label.
    values: Vec<String>,
    /// The values that were recorded as numbers.
    numbers: Vec<Option<i128>>,
    /// Which labels got a value, a bit for each.
    given: u64,
    /// The series of these values, once it is known.
    index: Option<usize>,
}

thread_local! {
    /// Borrowed while it is used. A value's `Debug`, or the allocator, may close spans meanwhile.
    /// These begin anew, and have counts of their own.
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
}

#[cold]
#[inline(never)]
fn anew<R>(run: impl FnOnce(&mut Vec<Local>) -> R) -> R {
    run(&mut Vec::new())
}

impl Table {
    pub(super) fn new(labels: &'static [&'static str], bounds_ns: Arc<[u64]>) -> Arc<Self> {
        let places = (0..PLACES).map(|_| OnceLock::new()).collect();
        let mut table = Self { labels, bounds_ns, places, series: AtomicUsize::new(0), other: 0 };
        table.other = table.index(&vec![OTHER.to_owned(); labels.len()]);
        Arc::new(table)
    }

    /// What `run` makes of what this thread knows. A thread that is ending has lost its
    /// thread-local memory, and counts nothing.
    #[inline]
    pub(super) fn with<R>(self: &Arc<Self>, run: impl FnOnce(&mut Local) -> Option<R>) -> Option<R> {
        let run = |locals: &mut Vec<Local>| {
            let known = locals.iter().position(|local| ptr::eq(local.table.as_ptr(), Arc::as_ptr(self)));
            let place = known.unwrap_or_else(|| self.join(locals));
            run(&mut locals[place])
        };
        let borrow = |locals: &RefCell<Vec<Local>>| match locals.try_borrow_mut() {
            Ok(mut locals) => run(&mut locals),
            Err(_) => anew(run),
        };
        LOCALS.try_with(borrow).ok()?
    }

    #[cold]
    fn join(self: &Arc<Self>, locals: &mut Vec<Local>) -> usize {
        locals.retain(|local| local.table.strong_count() > 0);
        locals.push(Local::new(self));
        locals.len() - 1
    }

    /// The series that were met so far, by their values in alphabetical order.
    pub(super) fn all(&self) -> Vec<&Series> {
        let mut all: Vec<_> = self.places.iter().filter_map(OnceLock::get).map(Box::as_ref).collect();
        all.sort_by_key(|series| &series.values);
        all
    }

    /// Whether spans of a callsite have all fields.
    pub(super) fn has_fields(&self, metadata: &Metadata<'_>) -> bool {
        self.labels.iter().all(|label| !is_field(label) || metadata.fields().field(*label).is_some())
    }

    /// Finds the series with these values, or adds it if there are not too many.
    fn index(&self, values: &[String]) -> usize {
        let first = usize::try_from(FxBuildHasher.hash_one(values) % PLACES as u64).unwrap_or(0);
        for index in (first..first + PLACES).map(|place| place % PLACES) {
            let place = &self.places[index];
            match place.get().map(Box::as_ref).or_else(|| self.add(place, values)) {
                None => break,
                Some(series) if series.values == values => return index,
                Some(_) => {}
            }
        }
        self.other
    }

    /// What is in a place that was free: a new series, or that of another thread, which was faster.
    /// `None` if there are too many.
    #[cold]
    fn add<'a>(&self, place: &'a OnceLock<Box<Series>>, values: &[String]) -> Option<&'a Series> {
        let more = |series| (series <= MAX_SERIES).then_some(series + 1);
        // ORDERING: Relaxed for both, the number alone counts.
        let has_place = self.series.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok();
        if has_place && place.set(Box::new(Series::new(values.to_vec()))).is_err() {
            // ORDERING: as above.
            self.series.fetch_sub(1, Ordering::Relaxed);
        }
        place.get().map(Box::as_ref)
    }
}

impl Callsite {
    #[cold]
    fn new(table: &Table, metadata: &'static Metadata<'static>) -> Option<Self> {
        let label =
            |field: Field| table.labels.iter().position(|label| *label == field.name() && is_field(label));
        let value = |label: &&str| match *label {
            NAME => metadata.name(),
            TARGET => metadata.target(),
            _ => "",
        };
        table.has_fields(metadata).then(|| Self {
            labels: metadata.fields().iter().map(label).collect(),
            values: table.labels.iter().map(|label| value(label).to_owned()).collect(),
            numbers: vec![None; table.labels.len()],
            given: 0,
            index: None,
        })
    }

    #[inline(never)]
    fn set(&mut self, label: usize, text: &str, number: Option<i128>) {
        // Not later: the next value's `Debug` may panic.
        self.index = None;
        text.clone_into(&mut self.values[label]);
        self.numbers[label] = number;
    }
}

/// Takes a span's values into its callsite.
struct Values<'a> {
    callsite: &'a mut Callsite,
    /// As [`Callsite::given`].
    given: u64,
}

impl Values<'_> {
    fn label(&self, field: &Field) -> Option<usize> {
        *self.callsite.labels.get(field.index())?
    }

    fn record_number<N: Copy + Into<i128> + itoa::Integer>(&mut self, field: &Field, value: N) {
        let Some(label) = self.label(field) else { return };
        self.given |= 1 << label;
        if self.callsite.numbers[label] != Some(value.into()) {
            self.callsite.set(label, itoa::Buffer::new().format(value), Some(value.into()));
        }
    }
}

impl Visit for Values<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.label(field).is_some() {
            self.record_str(field, &format!("{value:?}"));
        }
    }

    fn record_str(&mut self, field: &Field, text: &str) {
        let Some(label) = self.label(field) else { return };
        self.given |= 1 << label;
        if self.callsite.values[label] != text {
            self.callsite.set(label, text, None);
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record_number(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record_number(field, value);
    }
}

impl Local {
    fn new(table: &Arc<Table>) -> Self {
        let counts = (0..PLACES).map(|_| None).collect();
        Self { table: Arc::downgrade(table), counts, ..Self::default() }
    }

    #[inline]
    fn callsite(&mut self, table: &Table, metadata: &'static Metadata<'static>) -> Option<&mut Callsite> {
        let address = ptr::from_ref(metadata).addr();
        if self.last.0 != address {
            let place = *self.by_address.entry(address).or_insert_with(|| {
                self.callsites.push(Callsite::new(table, metadata)?);
                Some(self.callsites.len() - 1)
            });
            self.last = (address, place?);
        }
        self.callsites.get_mut(self.last.1)
    }

    /// The index of a span's series, if it counts: one that has the values of series `before`, or
    /// none, and then those that `record` passes on.
    #[inline]
    pub(super) fn index(
        &mut self,
        table: &Table,
        metadata: &'static Metadata<'static>,
        before: Option<usize>,
        record: impl FnOnce(&mut dyn Visit),
    ) -> Option<usize> {
        let callsite = self.callsite(table, metadata)?;
        let mut values = Values { callsite, given: 0 };
        if let Some(before) = before.and_then(|before| table.places[before].get()) {
            values.given = u64::MAX;
            values.callsite.index = None;
            values.callsite.values.clone_from(&before.values);
            values.callsite.numbers.fill(None);
        }
        record(&mut values);
        let Values { callsite, given } = values;
        if callsite.index.is_none() || callsite.given != given {
            callsite.given = given;
            for (label, name) in table.labels.iter().enumerate() {
                if is_field(name) && given & (1 << label) == 0 {
                    callsite.set(label, "", None);
                }
            }
            callsite.index = Some(table.index(&callsite.values));
        }
        callsite.index
    }

    /// Counts a span.
    #[inline]
    pub(super) fn count(&mut self, table: &Table, index: usize, ns: u64) -> Option<()> {
        let counts = &mut self.counts[index];
        if counts.is_none() {
            *counts = table.places[index].get().map(|series| series.own(&table.bounds_ns));
        }
        counts.as_ref()?.record(ns);
        Some(())
    }
}
