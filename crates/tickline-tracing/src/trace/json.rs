//! Records as "Trace Event Format" (Google, 2016).

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::json;

use super::fields::{BEHIND_NAME, push_string};
use super::record::{Kind, Record};
use super::recorder::{Callsite, Recorder};

/// Makes text of a recorder's records.
#[derive(Debug)]
pub(crate) struct Json {
    recorder: Arc<Recorder>,
    /// `"pid":1,"tid":`.
    process: String,
    /// The beginning of events, by phase and address of the callsite.
    begins: HashMap<(u8, usize), String>,
}

impl Json {
    pub(crate) fn new(recorder: &Arc<Recorder>) -> Self {
        let process = format!("\"pid\":{},\"tid\":", recorder.process().0);
        Self { recorder: Arc::clone(recorder), process, begins: HashMap::new() }
    }

    /// The text of a thread's `record`, with a comma before it; nothing for records that viewers do
    /// not need.
    pub(crate) fn write(&mut self, thread: u64, record: &Record<'_>, text: &mut String) {
        match record.kind {
            Kind::Rest | Kind::Block | Kind::Name => return,
            Kind::End => text.push_str(",\n{\"ph\":\"E\","),
            kind => {
                // An event inside a request has another phase than one outside.
                let phase = phase(kind, record.id);
                let new = || begin(phase, self.recorder.callsite(record.callsite).as_deref());
                text.push_str(self.begins.entry((phase as u8, record.callsite)).or_insert_with(new));
            }
        }
        self.push_place(thread, record.ns, text);
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
    pub(crate) fn write_mark(
        &self,
        thread: u64,
        ns: u64,
        missing: u64,
        [what, key]: [&str; 2],
        text: &mut String,
    ) {
        let scope = if thread == 0 { 'p' } else { 't' };
        text.push_str(&format!(",\n{{\"name\":\"{missing} {what}\",\"ph\":\"i\",\"s\":\"{scope}\","));
        self.push_place(thread, ns, text);
        text.push_str(&format!(",\"args\":{{\"{key}\":{missing}}}}}"));
    }

    /// The event that names a thread.
    pub(crate) fn write_name(&self, thread: u64, name: &str, text: &mut String) {
        text.push_str(",\n");
        text.push_str(&naming("thread_name", self.recorder.process().0, thread, name));
    }

    /// Where and when an event happened. The format's unit is microseconds; they have three
    /// decimals.
    fn push_place(&self, thread: u64, ns: u64, text: &mut String) {
        let mut buffer = itoa::Buffer::new();
        text.push_str(&self.process);
        text.push_str(buffer.format(thread));
        text.push_str(",\"ts\":");
        text.push_str(buffer.format(ns / 1_000));
        // `part` is 1,000 to 1,999, so it keeps its leading zeros; the first digit is left out.
        let part = 1_000 + ns % 1_000;
        text.push('.');
        text.push_str(buffer.format(part).get(1..).unwrap_or_default());
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

/// The beginning of an event, up to its thread. The name of a `tracing` event is in its record
/// instead.
fn begin(phase: char, callsite: Option<&Callsite>) -> String {
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
