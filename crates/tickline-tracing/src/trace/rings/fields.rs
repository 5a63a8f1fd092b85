//! The fields of spans and events, as bytes for records ([`encoding`]).

use core::cell::Cell;
use core::fmt;
use std::sync::Arc;

use tracing_core::Metadata;
use tracing_core::field::{Field, Visit};

use super::encoding::{self, FieldName, Fields, MAX_NAME, TextWriter, Value};
use super::record::MAX_PAYLOAD;
use crate::layer::user_value;

thread_local! {
    /// A buffer that is used again, so that fields rarely cost an allocation.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A larger buffer is not kept.
const KEPT_BUFFER: usize = 1 << 16;

/// Calls `run` with the fields that `record` passes to its visitor, at most [`MAX_PAYLOAD`] bytes.
/// A value replaces an earlier value of the same name. Call this before you lock a span's
/// extensions, because a value's `Debug` may use them, and may create spans and events itself.
pub(crate) fn collect<R>(
    metadata: &Metadata<'_>,
    record: impl FnOnce(&mut dyn Visit),
    run: impl FnOnce(&[u8]) -> R,
) -> R {
    // While a thread ends, there is no buffer. A value's `Debug` finds an empty one.
    let mut collector = Collector {
        metadata,
        bytes: BUFFER.try_with(Cell::take).unwrap_or_default(),
        next: 0,
    };
    record(&mut collector);
    let mut bytes = collector.bytes;
    if bytes.len() > MAX_PAYLOAD {
        bytes = within_limit(&bytes);
    }
    let result = run(&bytes);
    if bytes.capacity() <= KEPT_BUFFER {
        bytes.clear();
        _ = BUFFER.try_with(|buffer| buffer.set(bytes));
    }
    result
}

#[cold]
fn within_limit(bytes: &[u8]) -> Vec<u8> {
    let mut shorter = Vec::new();
    encoding::push_within(&mut shorter, bytes, MAX_PAYLOAD);
    shorter
}

struct Collector<'a> {
    metadata: &'a Metadata<'a>,
    bytes: Vec<u8>,
    /// The fields so far have smaller indices.
    next: usize,
}

impl Collector<'_> {
    /// The name of a field that is about to be added. An earlier field of this name is removed.
    fn name(&mut self, field: &Field) -> FieldName<'static> {
        let (name, index) = (field.name(), field.index());
        // The field may be of another set, such as a close event's set, which has the callsite of
        // its span.
        let mut known = self.metadata.fields().iter().map(|field| field.name());
        let is_repeated = known.by_ref().take(index).any(|known| is_same(known, name));
        let is_own = known.next().is_some_and(|known| is_same(known, name));
        let number = if is_own {
            u8::try_from(index).ok()
        } else {
            None
        };
        if number.is_none() || is_repeated || index < self.next {
            remove(&mut self.bytes, self.metadata, name);
        }
        self.next = self.next.max(index + 1);
        number.map_or(FieldName::Text(name), FieldName::Index)
    }

    fn put(&mut self, field: &Field, value: Value<'_>) {
        let name = self.name(field);
        encoding::push(&mut self.bytes, encoding::Field { name, value });
    }
}

/// Whether two names are the same. Most of those that are have the same address, too.
#[inline]
fn is_same(name: &'static str, other: &'static str) -> bool {
    name.len() == other.len() && (core::ptr::eq(name, other) || name == other)
}

/// The text of a name.
fn name_text<'a>(metadata: &Metadata<'_>, name: FieldName<'a>) -> &'a str {
    match name {
        FieldName::Index(index) => metadata
            .fields()
            .iter()
            .nth(index.into())
            .map_or("", |field| field.name()),
        FieldName::Text(name) => name,
    }
}

/// Removes the fields with this name. A name that is a text may have been cut.
#[cold]
fn remove(bytes: &mut Vec<u8>, metadata: &Metadata<'_>, name: &str) {
    let mut kept = Vec::new();
    for field in (Fields { bytes }) {
        let is_same = match field.name {
            FieldName::Index(_) => name_text(metadata, field.name) == name,
            FieldName::Text(known) => known == encoding::cut(name, MAX_NAME),
        };
        if !is_same {
            encoding::push(&mut kept, field);
        }
    }
    *bytes = kept;
}

impl Visit for Collector<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let name = self.name(field);
        let mut writer = TextWriter::begin(&mut self.bytes, name, MAX_PAYLOAD);
        if let Some(reason) = user_value::write(value, &mut writer) {
            writer.push_at_end(reason);
        }
        writer.end();
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::I64(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::U64(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bool(value));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, Value::F64(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn core::error::Error + 'static)) {
        self.record_debug(field, &user_value::ErrorValue::new(field, value));
    }
}

/// The number of bytes that take no allocation: about five numbers, or a path.
const FEW: usize = 56;

/// The fields of an open span. A clone takes no allocation.
#[derive(Debug, Clone)]
pub(crate) enum SpanFields {
    /// The fields of its creation, in the first `len` bytes.
    Few {
        bytes: [u8; FEW],
        len: u8,
    },
    Many(Arc<ManyFields>),
}

/// Fields that take more bytes, or some that were recorded after the span's creation. They do not
/// change: further values make new fields.
#[derive(Debug)]
pub(crate) struct ManyFields {
    all: Box<[u8]>,
    /// The fields that were recorded after the span's creation. Viewers merge the members of an end
    /// with the members of its beginning. The names are texts, because the end of an interval has
    /// no callsite.
    later: Vec<u8>,
}

impl SpanFields {
    pub(crate) fn new(fields: &[u8]) -> Self {
        let mut bytes = [0; FEW];
        match (bytes.get_mut(..fields.len()), u8::try_from(fields.len())) {
            (Some(few), Ok(len)) => {
                few.copy_from_slice(fields);
                Self::Few { bytes, len }
            }
            _ => Self::Many(Arc::new(ManyFields {
                all: fields.into(),
                later: Vec::new(),
            })),
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Few { bytes, len } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Self::Many(many) => &many.all,
        }
    }

    /// The fields that were recorded after the span's creation.
    pub(crate) fn later(&self) -> &[u8] {
        match self {
            Self::Few { .. } => &[],
            Self::Many(many) => &many.later,
        }
    }

    /// Whether no value was recorded between these fields of a span and those. The few fields of a
    /// span's creation never change to other few fields.
    pub(crate) fn are_the_same(&self, those: &Self) -> bool {
        match (self, those) {
            (Self::Few { .. }, Self::Few { .. }) => true,
            (Self::Many(these), Self::Many(those)) => Arc::ptr_eq(these, those),
            _ => false,
        }
    }

    /// The fields with values that were recorded after the span was created.
    pub(crate) fn with(&self, metadata: &Metadata<'_>, values: &[u8]) -> Self {
        let (mut all, mut later) = (self.bytes().to_vec(), self.later().to_vec());
        for mut field in (Fields { bytes: values }) {
            let name = name_text(metadata, field.name);
            remove(&mut all, metadata, name);
            remove(&mut later, metadata, name);
            encoding::push(&mut all, field);
            field.name = FieldName::Text(name);
            encoding::push(&mut later, field);
        }
        Self::Many(Arc::new(ManyFields {
            all: within_limit(&all).into(),
            later: within_limit(&later),
        }))
    }
}

#[cfg(test)]
mod tests {
    use tracing::field::Empty;

    use super::*;

    /// Longer than [`encoding`]'s limit.
    const LONG_NAME: &str = match core::str::from_utf8(&[b'x'; 300]) {
        Ok(name) => name,
        Err(_) => "",
    };

    /// Symptom: a trace had both values.
    #[test]
    fn a_later_value_of_a_field_with_a_long_name_replaces_the_one_before() {
        tracing::subscriber::with_default(tracing_subscriber::registry(), || {
            let span = tracing::info_span!("span", { LONG_NAME } = Empty);
            let metadata = span.metadata().expect("a registry enables all");
            let mut fields = SpanFields::new(&[]);
            for value in [1, 2].map(Value::U64) {
                let (mut values, name) = (Vec::new(), FieldName::Index(0));
                encoding::push(&mut values, encoding::Field { name, value });
                fields = fields.with(metadata, &values);
            }
            let bytes = fields.later();
            let values: Vec<_> = Fields { bytes }.map(|field| field.value).collect();
            assert_eq!(values, [Value::U64(2)]);
        });
    }
}
