//! The series of spans that count together, and how a thread finds its own counts of one.
//!
//! A series has a place in a table that all threads share, behind a lock. A thread takes that lock
//! when it meets a series for the first time, and remembers the place and its own [`Counts`]. When
//! the thread has ended, another thread may go on with these counts.
//!
//! An allocator may close a span of its own while this module allocates with the lock held. If that
//! span needs the lock, it is not counted.
//!
//! A forked child has its parent's table, and the lock as it was. If another thread held that, the
//! child waits for ever once it needs it.

use core::cell::{Cell, RefCell};
use core::ptr;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustc_hash::FxHashMap;
use tracing_core::Metadata;
use tracing_core::field::Visit;

use super::counts::Counts;
use super::{NAME, TARGET, is_field};
use crate::kept_fields::Texts;

/// The most series, without that for all others.
pub(super) const MAX_SERIES: usize = 1_000;

/// The place of the series for spans beyond [`MAX_SERIES`], and each of its values.
pub(super) const OTHER: usize = 0;
const OTHER_VALUE: &str = "(other)";

/// Ends a value in a key. UTF-8 has no such byte.
const END: u8 = 0xFF;

/// The values of a series' labels.
type Values = Arc<[String]>;

/// Counts by the longest time of each fine bucket, ns.
pub(super) type Fine = BTreeMap<u64, u64>;

/// A series, and what each thread has counted of it. Threads that have ended are included.
#[derive(Debug, Clone)]
pub(super) struct Series {
    pub(super) values: Values,
    pub(super) counts: Vec<Arc<Counts>>,
}

impl Series {
    pub(super) fn fine(&self) -> Fine {
        let mut all = Fine::new();
        for (end_ns, count) in self.counts.iter().flat_map(|counts| counts.fine()) {
            *all.entry(end_ns).or_default() += count;
        }
        all
    }
}

/// All series of some histograms.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) labels: &'static [&'static str],
    pub(super) bounds_ns: Box<[u64]>,
    known: Mutex<Known>,
    /// What the readers of quantiles are to forget.
    pub(super) forgotten: Mutex<BTreeMap<Values, Fine>>,
}

#[derive(Debug)]
struct Known {
    places: FxHashMap<Values, usize>,
    all: Vec<Series>,
}

/// What a thread knows of a table.
#[derive(Debug, Default)]
pub(super) struct Local {
    table: Weak<Table>,
    /// By the address of the metadata.
    callsites: FxHashMap<usize, Callsite>,
    /// This thread's counts, by place.
    all: Vec<Option<(Values, Arc<Counts>)>>,
    /// Kept, so that a span allocates nothing.
    key: Vec<u8>,
}

/// What a thread knows of a callsite.
#[derive(Debug)]
struct Callsite {
    /// The callsite's fields, by label; `None` if it lacks one. They have addresses of their own, so
    /// no names are compared for each span.
    fields: Option<Vec<Option<&'static str>>>,
    /// Places, by the key of the fields' values.
    places: FxHashMap<Box<[u8]>, usize>,
    /// The last one of them.
    last: (Vec<u8>, usize),
}

thread_local! {
    /// Borrowed while it is used. A value's `Debug`, or the allocator, may close spans meanwhile.
    /// These begin anew, and have counts of their own.
    static LOCALS: RefCell<Vec<Local>> = const { RefCell::new(Vec::new()) };
    /// Whether the thread may hold the lock of a table. Without a destructor, so that it serves a
    /// thread that is ending.
    static IS_LOCKED: Cell<bool> = const { Cell::new(false) };
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn push(key: &mut Vec<u8>, label: usize, text: &str) {
    // There are at most 254 labels.
    key.push(u8::try_from(label).unwrap_or(END));
    key.extend_from_slice(text.as_bytes());
    key.push(END);
}

impl Table {
    pub(super) fn new(labels: &'static [&'static str], bounds_ns: Box<[u64]>) -> Arc<Self> {
        let values = vec![OTHER_VALUE.to_owned(); labels.len()].into();
        let known = Known { places: FxHashMap::default(), all: vec![Series { values, counts: Vec::new() }] };
        Arc::new(Self { labels, bounds_ns, known: Mutex::new(known), forgotten: Mutex::default() })
    }

    /// What `run` makes of what this thread knows. A thread that is ending has lost its thread-local
    /// memory, and counts nothing.
    #[inline]
    pub(super) fn with<R>(self: &Arc<Self>, run: impl FnOnce(&mut Local) -> Option<R>) -> Option<R> {
        let run = |locals: &RefCell<Vec<Local>>| {
            let (mut borrowed, mut anew) = (locals.try_borrow_mut(), Vec::new());
            let locals = borrowed.as_deref_mut().unwrap_or(&mut anew);
            let known = locals.iter().position(|local| local.table.as_ptr() == Arc::as_ptr(self));
            let place = known.unwrap_or_else(|| self.join(locals));
            run(&mut locals[place])
        };
        LOCALS.try_with(run).ok()?
    }

    #[cold]
    fn join(self: &Arc<Self>, locals: &mut Vec<Local>) -> usize {
        locals.retain(|local| local.table.strong_count() > 0);
        locals.push(Local { table: Arc::downgrade(self), ..Local::default() });
        locals.len() - 1
    }

    /// `None` if the thread holds a lock already.
    #[cold]
    fn locked<R>(&self, run: impl FnOnce(&mut Known) -> R) -> Option<R> {
        (!IS_LOCKED.replace(true)).then(|| {
            let result = run(&mut lock(&self.known));
            IS_LOCKED.set(false);
            result
        })
    }

    /// The series that were met so far, by their values in alphabetical order.
    pub(super) fn all(&self) -> Vec<Series> {
        let mut all = self.locked(|known| known.all.clone()).unwrap_or_default();
        all.sort_by(|a, b| a.values.cmp(&b.values));
        all
    }

    /// Finds or adds the series of a span with this key.
    fn place(&self, metadata: &Metadata<'static>, key: &[u8]) -> Option<usize> {
        let own = |label: &&str| match *label {
            NAME => metadata.name(),
            TARGET => metadata.target(),
            _ => "",
        };
        let mut values: Vec<_> = self.labels.iter().map(|label| own(label).to_owned()).collect();
        for value in key.split(|byte| *byte == END) {
            if let [label, text @ ..] = value {
                values[usize::from(*label)] = String::from_utf8_lossy(text).into_owned();
            }
        }
        self.locked(|Known { places, all }| {
            if let Some(place) = places.get(&*values) {
                return *place;
            }
            if places.len() == MAX_SERIES {
                return OTHER;
            }
            let values = Values::from(values);
            places.insert(Arc::clone(&values), all.len());
            all.push(Series { values, counts: Vec::new() });
            all.len() - 1
        })
    }

    /// The values of a series, and counts of it that no other thread has.
    fn counts(&self, place: usize) -> Option<(Values, Arc<Counts>)> {
        self.locked(|known| {
            let Series { values, counts } = &mut known.all[place];
            // Nobody else has a clone: the thread has ended.
            let free = counts.iter_mut().position(|counts| Arc::get_mut(counts).is_some());
            let free = free.unwrap_or_else(|| {
                counts.push(Arc::new(Counts::new(self.bounds_ns.len())));
                counts.len() - 1
            });
            (Arc::clone(values), Arc::clone(&counts[free]))
        })
    }
}

/// What is known of a callsite.
#[inline]
fn callsite<'a>(
    callsites: &'a mut FxHashMap<usize, Callsite>,
    table: &Table,
    metadata: &'static Metadata<'static>,
) -> &'a mut Callsite {
    callsites.entry(ptr::from_ref(metadata).addr()).or_insert_with(|| {
        let field = |label: &&str| match is_field(label) {
            true => Some(Some(metadata.fields().field(*label)?.name())),
            false => Some(None),
        };
        let fields = table.labels.iter().map(field).collect();
        Callsite { fields, places: FxHashMap::default(), last: (vec![END], OTHER) }
    })
}

impl Local {
    /// Whether the callsite's spans have all fields.
    pub(super) fn has_fields(&mut self, table: &Table, metadata: &'static Metadata<'static>) -> bool {
        callsite(&mut self.callsites, table, metadata).fields.is_some()
    }

    /// The place of a span's series, if it counts: one that has the values of series `before`, or
    /// none, and then those that `record` passes on.
    #[inline]
    pub(super) fn place(
        &mut self,
        table: &Table,
        metadata: &'static Metadata<'static>,
        before: Option<usize>,
        record: impl FnOnce(&mut dyn Visit),
    ) -> Option<usize> {
        if let Some(before) = before {
            self.series(table, before)?;
        }
        let Self { callsites, all, key, .. } = self;
        key.clear();
        if let Some((values, _)) = before.and_then(|before| all[before].as_ref()) {
            values.iter().enumerate().for_each(|(label, value)| push(key, label, value));
        }
        let Callsite { fields, places, last } = callsite(callsites, table, metadata);
        let fields = fields.as_ref()?;
        record(&mut Texts {
            place: |name: &'static str| {
                fields.iter().position(|field| field.is_some_and(|field| ptr::eq(field, name)))
            },
            take: |label, text: &str| push(key, label, text),
        });
        if *last.0 != **key {
            let key = key.as_slice();
            let place = match places.get(key) {
                Some(place) => *place,
                None => {
                    let place = table.place(metadata, key)?;
                    if places.len() == MAX_SERIES {
                        places.clear();
                    }
                    places.insert(key.into(), place);
                    place
                }
            };
            last.0.clear();
            last.0.extend_from_slice(key);
            last.1 = place;
        }
        Some(last.1)
    }

    /// The values of a series, and this thread's counts of it.
    #[inline]
    pub(super) fn series(&mut self, table: &Table, place: usize) -> Option<&(Values, Arc<Counts>)> {
        if self.all.get(place).is_none_or(Option::is_none) {
            self.all.resize(self.all.len().max(place + 1), None);
            self.all[place] = table.counts(place);
        }
        self.all[place].as_ref()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn record(table: &Arc<Table>, value: &str, times: u64) {
        let metadata = tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            tracing::info_span!("span", value = "").metadata().expect("a registry enables all")
        });
        let field = metadata.fields().field("value").expect("it has one");
        for ns in 0..times {
            table.with(|local| {
                let place = local.place(table, metadata, None, |visit| visit.record_str(&field, value))?;
                local.series(table, place).map(|(_, counts)| counts.record(&table.bounds_ns, ns))
            });
        }
    }

    /// How many spans are counted, by value.
    fn counted(table: &Table) -> Vec<(String, u64)> {
        let count = |series: &Series| series.fine().values().sum();
        table.all().iter().map(|series| (series.values[0].clone(), count(series))).collect()
    }

    #[test]
    fn the_next_thread_goes_on_with_the_counts_of_one_that_has_ended() {
        let table = Table::new(&["value"], Box::default());
        for _ in 0..20 {
            let table = Arc::clone(&table);
            thread::spawn(move || record(&table, "a", 100)).join().unwrap();
        }
        assert_eq!((&counted(&table)[1], table.all()[1].counts.len()), (&("a".to_owned(), 2_000), 1));
    }

    /// All threads together have so many series, and no span is lost beyond.
    #[test]
    fn values_beyond_the_limit_count_together() {
        let table = Table::new(&["value"], Box::default());
        thread::scope(|scope| {
            for thread in 0..2 {
                let table = &table;
                scope
                    .spawn(move || (0..700).for_each(|value| record(table, &format!("{thread} {value}"), 2)));
            }
        });
        let all = counted(&table);
        assert_eq!((all.len(), &all[0]), (MAX_SERIES + 1, &("(other)".to_owned(), 800)));
        assert!(all[1..].iter().all(|(_, count)| *count == 2));
    }
}
