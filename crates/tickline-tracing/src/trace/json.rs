//! Records as "Trace Event Format" (Google, 2016).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::fields::{BEHIND_NAME, push_string};
use super::record::{Kind, Record};
use super::recorder::{Callsite, Recorder};

/// What the text of one thread's events has in common.
#[derive(Debug)]
pub(crate) struct ThreadText {
    /// The thread's number.
    thread: u64,
    /// `"pid":1,"tid":2`.
    ids: String,
    /// The beginning of its `E` events.
    end: String,
    /// The beginning of the other events, up to the time, by phase and address of the callsite.
    begins: HashMap<(u8, usize), String>,
    recorder: Arc<Recorder>,
}

impl ThreadText {
    pub(crate) fn new(recorder: &Arc<Recorder>, thread: u64) -> Self {
        let ids = format!("\"pid\":{},\"tid\":{thread}", recorder.process().0);
        let end = format!(",\n{{\"ph\":\"E\",{ids},\"ts\":");
        Self { thread, end, ids, begins: HashMap::new(), recorder: Arc::clone(recorder) }
    }

    /// The text of `record`, with a comma before it; nothing for records that viewers do not need.
    pub(crate) fn write(&mut self, record: &Record<'_>, text: &mut String) {
        match record.kind {
            Kind::Rest | Kind::Block | Kind::Name => return,
            Kind::End => text.push_str(&self.end),
            kind => {
                // An event inside a request has another phase than one outside.
                let phase = phase(kind, record.id);
                let new = || begin(phase, self.recorder.callsite(record.callsite).as_deref(), &self.ids);
                text.push_str(self.begins.entry((phase as u8, record.callsite)).or_insert_with(new));
            }
        }
        push_microseconds(text, record.ns);
        if record.id != 0 {
            text.push_str(",\"id\":");
            text.push_str(itoa::Buffer::new().format(record.id));
        }
        let (name, members) = match record.kind {
            Kind::Instant => record.text.split_once(BEHIND_NAME).unwrap_or((record.text, "")),
            _ => ("", record.text),
        };
        if !name.is_empty() {
            text.push_str(",\"name\":");
            text.push_str(name);
        }
        let callsite = match record.kind {
            Kind::Begin | Kind::Instant | Kind::Open if self.recorder.settings.has_locations => {
                self.recorder.callsite(record.callsite)
            }
            _ => None,
        };
        let location = callsite.as_ref().and_then(|callsite| callsite.place.as_deref());
        if location.is_some() || !members.is_empty() {
            text.push_str(",\"args\":{");
            if let Some(location) = location {
                text.push_str("\"source\":");
                push_string(text, location);
                text.push_str(if members.is_empty() { "" } else { "," });
            }
            text.push_str(members);
            text.push('}');
        }
        text.push('}');
    }

    /// A mark that says that `missing` of `what` are missing. With the thread number 0, it is the
    /// process's mark.
    pub(crate) fn write_mark(&self, ns: u64, missing: u64, [what, key]: [&str; 2], text: &mut String) {
        let (ids, scope) = (&self.ids, if self.thread == 0 { 'p' } else { 't' });
        text.push_str(&format!(",\n{{\"name\":\"{missing} {what}\",\"ph\":\"i\","));
        text.push_str(&format!("\"s\":\"{scope}\",{ids},\"ts\":"));
        push_microseconds(text, ns);
        text.push_str(&format!(",\"args\":{{\"{key}\":{missing}}}}}"));
    }

    /// The event that names the thread.
    pub(crate) fn write_name(&self, name: &str, text: &mut String) {
        text.push_str(",\n");
        text.push_str(&naming("thread_name", self.recorder.process().0, self.thread, name));
    }
}

const fn phase(kind: Kind, id: u64) -> char {
    match kind {
        Kind::Open => 'b',
        Kind::Close => 'e',
        Kind::Instant if id != 0 => 'n',
        Kind::Instant => 'i',
        _ => 'B',
    }
}

/// The beginning of an event, up to its time. The name of a `tracing` event is in its record
/// instead.
fn begin(phase: char, callsite: Option<&Callsite>, ids: &str) -> String {
    let mut text = ",\n{".to_owned();
    if !matches!(phase, 'i' | 'n') {
        text.push_str("\"name\":");
        push_string(&mut text, callsite.map_or("?", |callsite| &callsite.name));
        text.push(',');
    }
    // Viewers group the events of a request by number and category, so all of them have the same
    // category.
    text.push_str("\"cat\":");
    let target = callsite.map_or("?", |callsite| &callsite.target);
    push_string(&mut text, if matches!(phase, 'b' | 'e' | 'n') { "request" } else { target });
    text.push_str(",\"ph\":\"");
    text.push(phase);
    text.push_str(if phase == 'i' { "\",\"s\":\"t\"," } else { "\"," });
    text.push_str(ids);
    text.push_str(",\"ts\":");
    text
}

/// The array's first event, the only one without a comma before it.
pub(crate) fn head(recorder: &Recorder) -> String {
    let (process, name) = recorder.process();
    format!("[{}", naming("process_name", process, 0, &name))
}

/// The event that says the name of the process, or of a thread.
fn naming(what: &str, process: u32, thread: u64, name: &str) -> String {
    json!({ "name": what, "ph": "M", "pid": process, "tid": thread, "args": { "name": name } }).to_string()
}

/// Appends `ns` as microseconds with three decimals, which is the format's unit.
pub(crate) fn push_microseconds(text: &mut String, ns: u64) {
    text.push_str(itoa::Buffer::new().format(ns / 1_000));
    // `part` is 1,000 to 1,999, so it keeps its leading zeros; the first digit is left out.
    let part = 1_000 + ns % 1_000;
    text.push('.');
    text.push_str(itoa::Buffer::new().format(part).get(1..).unwrap_or_default());
}
