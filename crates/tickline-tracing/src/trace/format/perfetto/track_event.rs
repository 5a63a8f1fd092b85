//! An event before it is encoded.

use std::borrow::Cow;

use super::names::{Callsite, Seen};
use super::proto::{EventHead, event};
use crate::trace::format::callsite_names::Role;
use crate::trace::rings::encoding::{Field, FieldName, Fields};

// The heads of events without a callsite.
const BEGIN: EventHead = EventHead::of_type(event::SLICE_BEGIN);
const END: EventHead = EventHead::of_type(event::SLICE_END);
pub(super) const INSTANT: EventHead = EventHead::of_type(event::INSTANT);
pub(super) const COUNTER: EventHead = EventHead::of_type(event::COUNTER);

/// What a field of an event is by its name.
pub(super) struct NamedField<'a> {
    pub(super) name: Cow<'a, str>,
    /// The number of the name, if the field is one of the callsite's.
    pub(super) number: Option<u64>,
    /// The role in an event of `tracing`.
    pub(super) role: Role,
}

/// An event of a sequence.
pub(super) struct TrackEvent<'a> {
    pub(super) kind: u64,
    pub(super) ns: u64,
    /// `None` for the default track of the sequence.
    pub(super) track: Option<u64>,
    pub(super) callsite: Option<&'a Callsite>,
    pub(super) fields: Fields<'a>,
}

impl<'a> TrackEvent<'a> {
    /// An end has the name of its beginning.
    #[inline]
    pub(super) fn head(&self) -> &'a EventHead {
        match (self.kind, self.callsite) {
            (event::SLICE_END, _) => &END,
            (event::SLICE_BEGIN, None) => &BEGIN,
            (event::SLICE_BEGIN, Some(callsite)) => &callsite.begin,
            (_, None) => &INSTANT,
            (_, Some(callsite)) => &callsite.instant,
        }
    }

    /// Whether the callsite's names are among these.
    #[inline]
    pub(super) fn has_names(&self, seen: &Seen) -> bool {
        let has = |callsite: &Callsite| seen.has(callsite.number());
        self.kind == event::SLICE_END || self.callsite.is_none_or(has)
    }

    /// What a field is by its name. A file may lack the name; the field then has one as in JSON.
    #[inline]
    pub(super) fn named(&self, field: &Field<'a>) -> NamedField<'a> {
        match field.name {
            FieldName::Text(name) => NamedField {
                name: Cow::Borrowed(name),
                number: None,
                role: Role::of(name),
            },
            FieldName::Index(index) => {
                let fields = self.callsite.map(|callsite| &callsite.fields);
                match fields.and_then(|fields| fields.get(usize::from(index))) {
                    Some(field) => NamedField {
                        name: Cow::Borrowed(&field.name),
                        number: Some(field.number),
                        role: field.role,
                    },
                    None => NamedField {
                        name: Cow::Owned(format!("field {index}")),
                        number: None,
                        role: Role::Argument,
                    },
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::rings::encoding::Value;

    /// Symptom: all such fields of an event had one name, and viewers showed one of them.
    #[test]
    fn each_field_whose_name_is_missing_has_a_name_of_its_own() {
        let event = TrackEvent {
            kind: event::INSTANT,
            ns: 1,
            track: None,
            callsite: None,
            fields: Fields { bytes: &[] },
        };
        let names = [7, 8].map(|index| {
            let field = Field {
                name: FieldName::Index(index),
                value: Value::U64(1),
            };
            event.named(&field).name.into_owned()
        });
        assert_eq!(names, ["field 7", "field 8"]);
    }
}
