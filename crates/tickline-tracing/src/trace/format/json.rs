//! The text of a trace, in "Trace Event Format" (Google, 2016).

use core::fmt::{self, Write as _};
use std::collections::HashMap;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use serde_json::Value;
use tickline::{Instant, UnixTime};

use super::callsite_names::{CallsiteNames, Role};
use super::mark::Mark;
use crate::trace::readout::cpu_times::{CPU_TIME, ThreadCpuTime};
use crate::trace::readout::span_tracks::{Attempt, EndedSpan, SpanPlace, SpanTracks};
use crate::trace::rings::encoding::{self, CUT_MARK, Field, FieldName};
use crate::trace::rings::record::{Kind, Record};

/// The size of the buffer, bytes. A `BufWriter` writes its content before it would have to split
/// the next addition, so each write ends with a whole event.
pub(crate) const BUFFER: usize = 1 << 16;

/// Writes a trace.
pub(crate) struct Trace<W: Write> {
    pub(crate) output: BufWriter<W>,
    /// `"pid":1,"tid":`.
    process: String,
    callsites: Callsites,
    /// For the ends of busy intervals, which have no text of their callsites.
    ends: Callsite,
    tracks: SpanTracks,
    text: String,
}

/// The phase of an event: what it is to viewers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// The beginning of a thread's busy interval.
    Begin,
    /// The end of a thread's busy interval.
    End,
    /// The beginning of a request's span.
    AsyncBegin,
    /// The end of a request's span.
    AsyncEnd,
    /// An event in a request.
    AsyncInstant,
    /// Another event.
    Instant,
    /// A value of a counter.
    Counter,
    /// The name of a process or of a thread.
    Metadata,
}

impl Phase {
    /// The phase of a record's event, without those that its fields add.
    const fn of(record: &Record<'_>) -> Self {
        match record.kind {
            Kind::End => Self::End,
            Kind::AsyncBegin => Self::AsyncBegin,
            Kind::AsyncEnd => Self::AsyncEnd,
            // An event inside a request has another phase than one outside.
            Kind::Instant if record.id != 0 => Self::AsyncInstant,
            Kind::Instant => Self::Instant,
            _ => Self::Begin,
        }
    }

    const fn is_of_request(self) -> bool {
        matches!(self, Self::AsyncBegin | Self::AsyncEnd | Self::AsyncInstant)
    }

    const fn is_event_of_tracing(self) -> bool {
        matches!(self, Self::AsyncInstant | Self::Instant)
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Begin => "B",
            Self::End => "E",
            Self::AsyncBegin => "b",
            Self::AsyncEnd => "e",
            Self::AsyncInstant => "n",
            Self::Instant => "i",
            Self::Counter => "C",
            Self::Metadata => "M",
        })
    }
}

/// The callsites so far, by phase and address.
#[derive(Default)]
struct Callsites(HashMap<(Phase, usize), Callsite>);

impl Callsites {
    fn get(
        &mut self,
        phase: Phase,
        address: usize,
        names: &impl Fn(usize) -> Option<Arc<str>>,
    ) -> &Callsite {
        let new = || Callsite::new(phase, &CallsiteNames::of(names(address).as_deref()));
        self.0.entry((phase, address)).or_insert_with(new)
    }
}

/// The text for the events of a callsite in one phase.
#[derive(Default)]
struct Callsite {
    /// The beginning of an event, up to its process.
    begin: String,
    /// The name of a `tracing` event without a message.
    name: String,
    /// The source location as an argument, if the trace has it.
    source: String,
    fields: Vec<FieldText>,
    /// Whether they are events of `tracing`.
    is_event: bool,
}

/// The name of a field of a callsite.
struct FieldText {
    name: String,
    /// The name in quotation marks, with a colon.
    quoted: String,
    role: Role,
}

impl<W: Write> Trace<W> {
    /// Begins the trace of a process. The array's first event has the name of the process, and is
    /// the only event without a comma before it. The array has no place for the data of a trace, so
    /// this event also has the Unix time of a moment, if it is known, in arguments that viewers
    /// ignore.
    pub(crate) fn begin(
        output: W,
        process: u32,
        name: &str,
        unix: Option<(Instant, UnixTime)>,
    ) -> io::Result<Self> {
        let mut trace = Self {
            output: BufWriter::with_capacity(BUFFER, output),
            process: format!("\"pid\":{process},\"tid\":"),
            callsites: Callsites::default(),
            ends: Callsite {
                begin: format!(",\n{{\"ph\":\"{}\",", Phase::End),
                ..Callsite::default()
            },
            tracks: SpanTracks::default(),
            text: String::new(),
        };
        let unix = unix.map(|(at, unix)| {
            let ns = at.as_nanos();
            let (us, part) = (ns / 1_000, ns % 1_000);
            format!(",\"unix_time\":\"{unix}\",\"unix_time_at_us\":{us}.{part:03}")
        });
        trace.write_naming("[", "process_name", 0, name, &unix.unwrap_or_default())?;
        Ok(trace)
    }

    /// Writes the name of a thread.
    pub(crate) fn write_name(&mut self, thread: u64, name: &str) -> io::Result<()> {
        self.write_naming(",\n", "thread_name", thread, name, "")
    }

    fn write_naming(
        &mut self,
        before: &str,
        kind: &str,
        thread: u64,
        name: &str,
        others: &str,
    ) -> io::Result<()> {
        let (process, name, phase) = (&self.process, Value::from(name), Phase::Metadata);
        let text = format!(
            "{before}{{\"name\":\"{kind}\",\"ph\":\"{phase}\",{process}{thread},\"args\":{{\"name\":{name}{others}}}}}"
        );
        self.output.write_all(text.as_bytes())
    }

    /// Writes a `record`, unless viewers do not need its kind. `names` finds a callsite's names.
    /// Returns how many values of its fields are cut; `None` for the end of a span that must wait
    /// for another record.
    pub(crate) fn write(
        &mut self,
        thread: u64,
        record: &Record<'_>,
        names: impl Fn(usize) -> Option<Arc<str>>,
        attempt: Attempt,
    ) -> io::Result<Option<u64>> {
        self.text.clear();
        let place = match record.kind {
            Kind::Rest | Kind::Block | Kind::Name | Kind::Follows => return Ok(Some(0)),
            Kind::AsyncBegin => Some(self.tracks.begin(record).place),
            Kind::AsyncEnd => {
                let ended = self.tracks.end(record.id, record.ns, attempt);
                let Some(EndedSpan { place, lost }) = ended else {
                    return Ok(None);
                };
                self.push_lost_ends(thread, record.ns, place, &lost, &names);
                Some(place)
            }
            Kind::Instant if record.id != 0 => {
                let unknown = SpanPlace {
                    track: record.id,
                    request: record.id,
                };
                Some(self.tracks.get(record.id).unwrap_or(unknown))
            }
            _ => None,
        };
        let Self {
            process,
            callsites,
            ends,
            text,
            ..
        } = self;
        let callsite = match record.kind {
            Kind::End => ends,
            _ => callsites.get(Phase::of(record), record.callsite, &names),
        };
        let has_only_counters =
            record.kind == Kind::Instant && push_counters(text, process, thread, record, callsite);
        let mut cut_values = 0;
        if !has_only_counters {
            push_head(text, process, thread, record, callsite, place);
            cut_values = push_arguments(text, record, callsite);
        }
        self.output.write_all(self.text.as_bytes())?;
        Ok(Some(cut_values))
    }

    /// Adds the ends of spans at `place` whose own ends were lost, from their callsites. Viewers
    /// find the beginning of an end by the name, or take the innermost span.
    fn push_lost_ends(
        &mut self,
        thread: u64,
        ns: u64,
        place: SpanPlace,
        callsites: &[usize],
        names: &impl Fn(usize) -> Option<Arc<str>>,
    ) {
        for address in callsites {
            let callsite = self.callsites.get(Phase::AsyncEnd, *address, names);
            self.text.push_str(&callsite.begin);
            push_place(&mut self.text, &self.process, thread, ns);
            push_track(&mut self.text, place);
            self.text.push('}');
        }
    }

    /// Writes a mark.
    pub(crate) fn write_mark(&mut self, mark: Mark) -> io::Result<()> {
        let Mark {
            thread,
            ns,
            count,
            label,
            argument,
        } = mark;
        let scope = if thread == 0 { 'p' } else { 't' };
        let phase = Phase::Instant;
        let mut text =
            format!(",\n{{\"name\":\"{count} {label}\",\"ph\":\"{phase}\",\"s\":\"{scope}\",");
        push_place(&mut text, &self.process, thread, ns);
        text.push_str(&format!(",\"args\":{{\"{argument}\":{count}}}}}"));
        self.output.write_all(text.as_bytes())
    }

    /// Writes a value of a thread's CPU time. Viewers tell the counters of the threads apart by
    /// `id`.
    pub(crate) fn write_cpu_time(&mut self, thread: u64, time: ThreadCpuTime) -> io::Result<()> {
        let phase = Phase::Counter;
        let mut text =
            format!(",\n{{\"name\":\"{CPU_TIME}\",\"ph\":\"{phase}\",\"id\":\"{thread}\",");
        push_place(&mut text, &self.process, thread, time.ns);
        text.push_str(&format!(",\"args\":{{\"ns\":{}}}}}", time.cpu_ns));
        self.output.write_all(text.as_bytes())
    }

    /// Ends the array.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.output.write_all(b"\n]\n")?;
        self.output.flush()
    }
}

/// Adds process, thread and time of an event, in microseconds with three decimals.
fn push_place(text: &mut String, process: &str, thread: u64, ns: u64) {
    let mut buffer = itoa::Buffer::new();
    text.push_str(process);
    text.push_str(buffer.format(thread));
    text.push_str(",\"ts\":");
    text.push_str(buffer.format(ns / 1_000));
    // `part` is 1,000 to 1,999, so it keeps its leading zeros; the first digit is left out.
    let part = 1_000 + ns % 1_000;
    text.push('.');
    text.push_str(buffer.format(part).get(1..).unwrap_or_default());
}

/// Adds the track of a span. A track below the request's track also has the number of the request,
/// under a key that viewers do not know.
fn push_track(text: &mut String, place: SpanPlace) {
    // A write to a string does not fail.
    _ = write!(text, ",\"id2\":{{\"local\":\"{:#x}\"}}", place.track);
    if place.request != place.track {
        _ = write!(text, ",\"request\":\"{:#x}\"", place.request);
    }
}

impl Callsite {
    /// The text for the events of a callsite in this phase. `tracing` events have their names in
    /// their records.
    fn new(phase: Phase, names: &CallsiteNames<'_>) -> Self {
        let name = Value::from(names.name).to_string();
        let is_event = phase.is_event_of_tracing();
        let begin_name = if is_event {
            String::new()
        } else {
            format!("\"name\":{name},")
        };
        // Viewers group the events of a track by number and category, so all of them have the same
        // category.
        let is_of_request = phase.is_of_request();
        let category = Value::from(if is_of_request {
            "request"
        } else {
            names.target
        });
        let scope = match phase {
            Phase::Instant => "\"s\":\"t\",",
            _ => "",
        };
        let source = if phase == Phase::AsyncEnd || names.location.is_empty() {
            String::new()
        } else {
            let key = if names.fields.contains(&"source") {
                "source location"
            } else {
                "source"
            };
            format!("\"{key}\":{}", Value::from(names.location))
        };
        let field = |name: &&str| FieldText {
            name: (*name).to_owned(),
            quoted: format!("{}:", Value::from(*name)),
            role: Role::of(name),
        };
        Self {
            begin: format!(",\n{{{begin_name}\"cat\":{category},\"ph\":\"{phase}\",{scope}"),
            name,
            source,
            fields: names.fields.iter().map(field).collect(),
            is_event,
        }
    }

    /// The name and the role of a field. Only a field of an event may be a counter or the message.
    fn name_and_role<'a>(&'a self, field: &Field<'a>) -> (&'a str, Role) {
        let (name, role) = match field.name {
            FieldName::Text(name) => (name, Role::of(name)),
            FieldName::Index(index) => match self.fields.get(usize::from(index)) {
                Some(known) => (&*known.name, known.role),
                None => ("", Role::Argument),
            },
        };
        (name, if self.is_event { role } else { Role::Argument })
    }

    /// The name of the counter that a field of an event is.
    fn counter<'a>(&'a self, field: &Field<'a>) -> Option<&'a str> {
        match self.name_and_role(field) {
            (name, Role::Counter) => encoding::counter(name, field.value),
            _ => None,
        }
    }

    /// Whether the value of this field is the event's name.
    fn is_message(&self, field: &Field<'_>) -> bool {
        self.name_and_role(field).1 == Role::Message
    }

    fn push_field_name(&self, text: &mut String, name: FieldName<'_>) {
        match name {
            FieldName::Text(name) => {
                push_string(text, &[name]);
                text.push(':');
            }
            FieldName::Index(index) => match self.fields.get(usize::from(index)) {
                Some(known) => text.push_str(&known.quoted),
                // The file has no room for the names, or the record is of another callsite.
                None => text.push_str(&format!("\"field {index}\":")),
            },
        }
    }
}

/// Adds the values of an event's counters. Returns whether the event has only counters, and is not
/// shown itself.
fn push_counters(
    text: &mut String,
    process: &str,
    thread: u64,
    record: &Record<'_>,
    callsite: &Callsite,
) -> bool {
    let (mut has_counters, mut has_others) = (false, false);
    for field in record.fields() {
        let Some(name) = callsite.counter(&field) else {
            has_others = true;
            continue;
        };
        has_counters = true;
        // A write to a string does not fail.
        _ = write!(text, ",\n{{\"ph\":\"{}\",\"name\":", Phase::Counter);
        push_string(text, &[name]);
        text.push(',');
        push_place(text, process, thread, record.ns);
        text.push_str(",\"args\":{\"value\":");
        push_value(text, field.value);
        text.push_str("}}");
    }
    has_counters && !has_others
}

/// Adds the beginning of a record's event, up to its arguments. `place` is where a span of a
/// request lies, or the span in which an event happened.
#[inline]
fn push_head(
    text: &mut String,
    process: &str,
    thread: u64,
    record: &Record<'_>,
    callsite: &Callsite,
    place: Option<SpanPlace>,
) {
    text.push_str(&callsite.begin);
    push_place(text, process, thread, record.ns);
    if let Some(place) = place {
        push_track(text, place);
    }
    if record.kind == Kind::Instant {
        text.push_str(",\"name\":");
        push_event_name(text, record, callsite);
    }
}

/// Adds the source location and the fields of a record, and ends its event. Returns how many values
/// are cut.
#[inline]
fn push_arguments(text: &mut String, record: &Record<'_>, callsite: &Callsite) -> u64 {
    let (mut before, mut cut_values) = (",\"args\":{", 0);
    if !callsite.source.is_empty() {
        text.push_str(before);
        text.push_str(&callsite.source);
        before = ",";
    }
    for field in record.fields() {
        cut_values += u64::from(matches!(field.value, encoding::Value::CutText(_)));
        if callsite.is_message(&field) || callsite.counter(&field).is_some() {
            continue;
        }
        text.push_str(before);
        callsite.push_field_name(text, field.name);
        push_value(text, field.value);
        before = ",";
    }
    text.push_str(if before == "," { "}}" } else { "}" });
    cut_values
}

/// Adds the name of a `tracing` event: its message as a string, or else the callsite's name.
fn push_event_name(text: &mut String, record: &Record<'_>, callsite: &Callsite) {
    let message = record.fields().find(|field| callsite.is_message(field));
    let Some(message) = message else {
        return text.push_str(&callsite.name);
    };
    match message.value {
        encoding::Value::Text(_) | encoding::Value::CutText(_) => push_value(text, message.value),
        encoding::Value::F64(value) if !value.is_finite() => push_value(text, message.value),
        number => {
            text.push('"');
            push_value(text, number);
            text.push('"');
        }
    }
}

/// Adds a value. JSON has no infinities and no NaN, so these are texts: "inf", "-inf", "NaN".
fn push_value(text: &mut String, value: encoding::Value<'_>) {
    let mut number = itoa::Buffer::new();
    match value {
        encoding::Value::Bool(value) => text.push_str(if value { "true" } else { "false" }),
        encoding::Value::I64(value) => text.push_str(number.format(value)),
        encoding::Value::U64(value) => text.push_str(number.format(value)),
        encoding::Value::F64(value) if !value.is_finite() => {
            push_string(text, &[&value.to_string()]);
        }
        encoding::Value::F64(value) => text.push_str(&Value::from(value).to_string()),
        encoding::Value::Text(value) => push_string(text, &[value]),
        encoding::Value::CutText(value) => push_string(text, &[value, CUT_MARK]),
    }
}

/// Adds a string, in parts.
fn push_string(text: &mut String, parts: &[&str]) {
    text.push('"');
    for part in parts {
        let is_plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
        if part.bytes().all(is_plain) {
            text.push_str(part);
        } else {
            let quoted = Value::from(*part).to_string();
            text.push_str(&quoted[1..quoted.len() - 1]);
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: a span whose end was lost in a damaged file stayed open, although the span around
    /// it had ended.
    #[test]
    fn a_spans_end_also_ends_the_spans_inside_whose_ends_were_lost() {
        let mut trace = Trace::begin(Vec::new(), 1, "", None).unwrap();
        let names = |address: usize| Some(format!("span {address}\0target\0").into());
        let begin = |id: u64| Record {
            id,
            parent: id - 1,
            callsite: usize::try_from(id).unwrap(),
            ..Record::new(Kind::AsyncBegin, 1)
        };
        for record in [begin(1), begin(2), begin(3)] {
            trace.write(1, &record, names, Attempt::Last).unwrap();
        }
        let end = Record {
            kind: Kind::AsyncEnd,
            ..begin(1)
        };
        trace.write(1, &end, names, Attempt::Last).unwrap();
        trace.output.write_all(b"]").unwrap();
        let bytes = trace.output.into_inner().unwrap();
        let events: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        let ends = events.iter().filter(|event| event["ph"] == "e");
        let ends: Vec<_> = ends.map(|event| (&event["name"], &event["id2"])).collect();
        let track = &serde_json::json!({ "local": "0x1" });
        let expected = ["span 3", "span 2", "span 1"].map(Value::from);
        assert_eq!(ends, expected.each_ref().map(|name| (name, track)));
    }

    #[test]
    fn an_event_outside_of_requests_is_on_no_track() {
        let mut trace = Trace::begin(Vec::new(), 1, "", None).unwrap();
        let event = Record::new(Kind::Instant, 1);
        trace.write(1, &event, |_| None, Attempt::Last).unwrap();
        trace.output.write_all(b"]").unwrap();
        let bytes = trace.output.into_inner().unwrap();
        let events: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
        let [_process, event] = events.try_into().unwrap();
        assert_eq!((&event["ph"], event.get("id2")), (&"i".into(), None));
    }
}
