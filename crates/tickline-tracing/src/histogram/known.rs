//! What a thread counts: by callsite, or by the value of a field.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tracing_core::Metadata;

use super::counts::Counts;

/// The most values of a field that have counts of their own on a thread.
pub(super) const MAX_VALUES: usize = 1_000;

/// The name under which spans with further values are counted.
const OTHER: &str = "(other)";

/// Spans that a thread counts together.
#[derive(Debug, Clone, Copy)]
pub(super) enum Subject<'a> {
    Callsite(&'static Metadata<'static>),
    Value(&'a str),
}

/// A subject that lives on its own.
#[derive(Debug, Clone)]
pub(super) enum Owned {
    Callsite(&'static Metadata<'static>),
    Value(Arc<str>),
}

impl Owned {
    pub(super) fn subject(&self) -> Subject<'_> {
        match self {
            Self::Callsite(metadata) => Subject::Callsite(metadata),
            Self::Value(value) => Subject::Value(value),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Known {
    /// By the address of the metadata. It is different for each callsite, and no names are
    /// compared.
    by_callsite: FxHashMap<usize, (&'static Metadata<'static>, Arc<Counts>)>,
    by_value: FxHashMap<Arc<str>, Arc<Counts>>,
}

impl Known {
    #[inline]
    pub(super) fn get(&self, subject: Subject<'_>) -> Option<&Arc<Counts>> {
        match subject {
            Subject::Callsite(metadata) => {
                Some(&self.by_callsite.get(&core::ptr::from_ref(metadata).addr())?.1)
            }
            Subject::Value(value) => self.by_value.get(value),
        }
    }

    /// Remembers `counts` for `subject`, unless there are too many values.
    pub(super) fn insert(&mut self, subject: Subject<'_>, counts: Arc<Counts>) {
        match subject {
            Subject::Callsite(metadata) => {
                self.by_callsite.insert(core::ptr::from_ref(metadata).addr(), (metadata, counts));
            }
            Subject::Value(value) if self.by_value.len() < MAX_VALUES || value == OTHER => {
                self.by_value.insert(value.into(), counts);
            }
            Subject::Value(_) => {}
        }
    }

    /// The counts of `subject`: new ones if there are none yet, or `(other)`'s if there are too many
    /// values.
    pub(super) fn get_or_insert(&mut self, subject: Subject<'_>) -> Arc<Counts> {
        if let Some(counts) = self.get(subject) {
            return Arc::clone(counts);
        }
        let is_full = self.by_value.len() >= MAX_VALUES;
        match subject {
            Subject::Value(value) if is_full && value != OTHER => self.get_or_insert(Subject::Value(OTHER)),
            _ => {
                let counts = Arc::new(Counts::new());
                self.insert(subject, Arc::clone(&counts));
                counts
            }
        }
    }

    /// All subjects with their counts.
    pub(super) fn all(&self) -> impl Iterator<Item = (Owned, Arc<Counts>)> {
        let callsites = self
            .by_callsite
            .values()
            .map(|(metadata, counts)| (Owned::Callsite(metadata), Arc::clone(counts)));
        let values =
            self.by_value.iter().map(|(value, counts)| (Owned::Value(Arc::clone(value)), Arc::clone(counts)));
        callsites.chain(values)
    }
}
