//! The names in a trace. A sequence has each name once, and packets refer to it by number.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::proto::{Bytes, interned};
use crate::trace::keyed_hash::KeyedState;
use crate::trace::record::index;

/// The names of a callsite. Its number is that of its name, of its target and of its location.
#[derive(Debug)]
pub(super) struct Callsite {
    number: u64,
    pub(super) name: Box<str>,
    target: Box<str>,
    /// File and line, if the trace has them.
    location: Option<(Box<str>, u64)>,
    pub(super) fields: Vec<FieldNames>,
}

/// The name of a field of a callsite.
#[derive(Debug)]
pub(super) struct FieldNames {
    pub(super) name: Box<str>,
    pub(super) number: u64,
}

impl Callsite {
    /// `names` has the names of the callsite and of its fields, separated by NULs.
    pub(super) fn new(number: u64, names: &str, fields: &mut FieldNumbers) -> Self {
        let mut names = names.split('\0');
        let [name, target, location] = [(); 3].map(|()| names.next().unwrap_or_default());
        let location = location.rsplit_once(':');
        Self {
            number,
            name: name.into(),
            target: target.into(),
            location: location.map(|(file, line)| (file.into(), line.parse().unwrap_or(0))),
            fields: names
                .map(|name| FieldNames {
                    name: name.into(),
                    number: fields.number(name),
                })
                .collect(),
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    pub(super) fn has_location(&self) -> bool {
        self.location.is_some()
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

/// The callsites so far, by address.
#[derive(Debug, Default)]
pub(super) struct Callsites(HashMap<usize, Callsite, KeyedState>);

impl Callsites {
    /// The callsite at this address; `None` for the address 0. `names` finds the names of a new one.
    pub(super) fn get(
        &mut self,
        address: usize,
        names: impl FnOnce(usize) -> Option<Arc<str>>,
        fields: &mut FieldNumbers,
    ) -> Option<&Callsite> {
        if address == 0 {
            return None;
        }
        let number = self.0.len() as u64 + 1;
        Some(match self.0.entry(address) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let names = names(address);
                let names = names.as_deref().unwrap_or("?\0?");
                entry.insert(Callsite::new(number, names, fields))
            }
        })
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
    /// Returns whether the number is new.
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
