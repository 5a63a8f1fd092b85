//! The names in a trace. A sequence has each name once, and packets refer to it by number.

use std::collections::HashMap;
use std::sync::Arc;

use super::proto::{Bytes, EventHead, event, interned, track};
use crate::trace::format::callsite_names::{CallsiteNames, Role};
use crate::trace::keyed_hash::KeyedState;
use crate::trace::rings::record::index;

/// The name of the events of the module `utc`.
const UTC_SNAPSHOT: &str = "clock snapshot";

/// The names of a callsite. Its number stands for its name, its target and its location.
#[derive(Debug)]
pub(super) struct Callsite {
    number: u64,
    pub(super) name: Box<str>,
    target: Box<str>,
    /// File and line, if the trace has them.
    location: Option<(Box<str>, u64)>,
    pub(super) fields: Vec<FieldNames>,
    /// The field with the name of a track that begins with one of its spans.
    pub(super) track_name: Vec<u8>,
    /// The heads of its spans' beginnings and of its events.
    pub(super) begin: EventHead,
    pub(super) instant: EventHead,
    /// Whether its events come from the module `utc`.
    pub(super) is_utc_snapshot: bool,
}

/// The name of a field of a callsite.
#[derive(Debug)]
pub(super) struct FieldNames {
    pub(super) name: Box<str>,
    pub(super) number: u64,
    pub(super) role: Role,
}

impl Callsite {
    pub(super) fn new(
        number: u64,
        names: &CallsiteNames<'_>,
        field_numbers: &mut FieldNumbers,
    ) -> Self {
        let location = names.location.rsplit_once(':');
        let mut head = vec![(event::CATEGORY_IIDS, number)];
        if location.is_some() {
            head.push((event::SOURCE_LOCATION_IID, number));
        }
        let mut track_name = Bytes::default();
        track_name.text(track::NAME, &[names.name]);
        let with = |fields: &[(u32, u64)]| EventHead::new(&[&head, fields].concat());
        Self {
            number,
            track_name: track_name.0,
            begin: with(&[(event::TYPE, event::SLICE_BEGIN), (event::NAME_IID, number)]),
            // An event has the name of its message, if it has one.
            instant: with(&[(event::TYPE, event::INSTANT)]),
            is_utc_snapshot: names.name == UTC_SNAPSHOT,
            name: names.name.into(),
            target: names.target.into(),
            location: location.map(|(file, line)| (file.into(), line.parse().unwrap_or(0))),
            fields: names
                .fields
                .iter()
                .map(|name| FieldNames {
                    name: (*name).into(),
                    number: field_numbers.number(name),
                    role: Role::of(name),
                })
                .collect(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Adds the names to a message of interned data.
    pub(super) fn push(&self, bytes: &mut Bytes) {
        push_name(bytes, interned::EVENT_NAMES, self.number, &self.name);
        push_name(bytes, interned::CATEGORIES, self.number, &self.target);
        if let Some((file, line)) = &self.location {
            let entry = bytes.begin(interned::SOURCE_LOCATIONS);
            bytes.number(interned::IID, self.number);
            bytes.text(interned::NAME, &[file]);
            bytes.number(interned::LINE, *line);
            bytes.end(entry);
        }
    }
}

/// The callsites so far.
#[derive(Debug, Default)]
pub(super) struct Callsites {
    callsites: Vec<Callsite>,
    /// The index of each callsite, by address.
    indices: HashMap<usize, usize, KeyedState>,
    /// The address and the index that were asked for last, by [`line_of`].
    cache: Cache,
}

/// A cache of a map from addresses to indices.
#[derive(Debug)]
struct Cache(Box<[(usize, usize); 64]>);

impl Default for Cache {
    fn default() -> Self {
        Self(Box::new([(0, 0); 64]))
    }
}

/// The metadata of the callsites are in one section of the program, about 100 bytes each, so
/// different callsites rarely share a line.
const fn line_of(address: usize) -> usize {
    address / 32 % 64
}

impl Callsites {
    /// The callsite at this address; `None` for the address 0. `names` finds the names of a new
    /// one.
    #[inline]
    pub(super) fn get(
        &mut self,
        address: usize,
        names: impl FnOnce(usize) -> Option<Arc<str>>,
        fields: &mut FieldNumbers,
    ) -> Option<&Callsite> {
        if address == 0 {
            return None;
        }
        let line = line_of(address);
        let (known, mut index) = self.cache.0[line];
        if known != address {
            index = match self.indices.get(&address) {
                Some(index) => *index,
                None => self.add(address, names(address).as_deref(), fields),
            };
            self.cache.0[line] = (address, index);
        }
        self.callsites.get(index)
    }

    #[cold]
    fn add(&mut self, address: usize, names: Option<&str>, fields: &mut FieldNumbers) -> usize {
        let index = self.callsites.len();
        let callsite = Callsite::new(index as u64 + 1, &CallsiteNames::of(names), fields);
        self.callsites.push(callsite);
        self.indices.insert(address, index);
        index
    }
}

/// Adds a name to a message of interned data.
pub(super) fn push_name(bytes: &mut Bytes, field: u32, number: u64, name: &str) {
    let entry = bytes.begin(field);
    bytes.number(interned::IID, number);
    bytes.text(interned::NAME, &[name]);
    bytes.end(entry);
}

/// The numbers of the names of fields.
#[derive(Debug, Default)]
pub(super) struct FieldNumbers(HashMap<Box<str>, u64>);

impl FieldNumbers {
    pub(super) fn number(&mut self, name: &str) -> u64 {
        if let Some(number) = self.0.get(name) {
            return *number;
        }
        let number = self.0.len() as u64 + 1;
        self.0.insert(name.into(), number);
        number
    }
}

/// A set of small numbers.
#[derive(Debug, Default)]
pub(super) struct Seen(Vec<u64>);

impl Seen {
    #[inline]
    pub(super) fn has(&self, number: u64) -> bool {
        let word = self.0.get(index(number / 64));
        word.is_some_and(|word| word & 1 << (number % 64) != 0)
    }

    /// Returns whether the number is new.
    #[inline]
    pub(super) fn add(&mut self, number: u64) -> bool {
        let (word, bit) = (index(number / 64), 1 << (number % 64));
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        let is_new = self.0[word] & bit == 0;
        self.0[word] |= bit;
        is_new
    }
}
