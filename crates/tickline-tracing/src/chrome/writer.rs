//! The thread that turns events into text, and text into pages.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;
use std::io::{self, Write};
use std::process;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Instant;

use tracing_core::Metadata;

use super::{Builder, Message, Slice, Summary};

/// The kernel writes so many bytes without a check for `SIGKILL` in between: the smallest page of
/// any Linux.
const PAGE: usize = 4_096;

/// Writes events so that the output always ends with a whole one.
pub(super) struct Writer<W> {
    pages: Pages<W>,
    dropped: Arc<AtomicU64>,
    /// How much of `dropped` is in the output.
    dropped_written: u64,
    written: u64,
    settings: Builder,
    process: u32,
    /// The text that all events of one callsite have in common, by the address of its metadata.
    prefixes: HashMap<usize, String>,
    text: String,
    last_ns: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(output: W, dropped: Arc<AtomicU64>, settings: Builder) -> Self {
        Self {
            pages: Pages::new(output),
            dropped,
            dropped_written: 0,
            written: 0,
            settings,
            process: process::id(),
            prefixes: HashMap::new(),
            text: String::new(),
            last_ns: 0,
        }
    }

    /// Runs until a message says to finish, or all senders are gone. After an error it receives
    /// nothing more, so that senders find the queue closed.
    pub(super) fn run(mut self, messages: &Receiver<Message>) -> io::Result<Summary> {
        self.begin()?;
        let flush_every = self.settings.flush_every;
        let mut flushed = Instant::now();
        while let Some(message) = self.next(messages) {
            match message {
                Next::Message(Message::Finish) => break,
                Next::Message(message) => self.message(&message)?,
                Next::Pause => {}
            }
            if flushed.elapsed() >= flush_every {
                flushed = Instant::now();
                self.write_dropped()?;
                self.pages.flush()?;
            }
        }
        // Messages that other threads send meanwhile, up to the queue's capacity, because they
        // may go on for ever.
        for message in messages.try_iter().take(self.settings.capacity) {
            self.message(&message)?;
        }
        self.write_dropped()?;
        self.pages.end()?;
        Ok(Summary { written: self.written, dropped: self.dropped_written })
    }

    /// The next message, or nothing for as long as a flush can wait; `None` at the end. Sleeps
    /// while there is nothing to flush.
    fn next(&self, messages: &Receiver<Message>) -> Option<Next> {
        match messages.try_recv() {
            Ok(message) => return Some(Next::Message(message)),
            Err(TryRecvError::Disconnected) => return None,
            Err(TryRecvError::Empty) => {}
        }
        if self.pages.is_flushed() && self.missing() == 0 {
            return messages.recv().ok().map(Next::Message);
        }
        match messages.recv_timeout(self.settings.flush_every) {
            Ok(message) => Some(Next::Message(message)),
            Err(RecvTimeoutError::Timeout) => Some(Next::Pause),
            Err(RecvTimeoutError::Disconnected) => None,
        }
    }

    fn message(&mut self, message: &Message) -> io::Result<()> {
        match message {
            Message::Slice(slice) => self.slice(slice),
            Message::Thread { number, name } => self.thread_name(*number, name),
            Message::Finish => Ok(()),
        }
    }

    /// The array's first event, which alone has no comma before it.
    fn begin(&mut self) -> io::Result<()> {
        let name = std::env::args_os().next().unwrap_or_default();
        let name = std::path::Path::new(&name).file_name().unwrap_or_default().to_string_lossy().into_owned();
        let process = self.process;
        let args = serde_json::json!({ "name": name });
        self.pages.push(&format!(
            "[{{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":{process},\"tid\":0,\"args\":{args}}}"
        ))?;
        self.pages.flush()
    }

    fn thread_name(&mut self, thread: u64, name: &str) -> io::Result<()> {
        let process = self.process;
        let args = serde_json::json!({ "name": name });
        self.pages.push(&format!(
            ",\n{{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":{process},\"tid\":{thread},\"args\":{args}}}"
        ))
    }

    fn slice(&mut self, slice: &Slice) -> io::Result<()> {
        let process = self.process;
        let callsite = core::ptr::from_ref(slice.metadata).addr();
        let prefix = self.prefixes.entry(callsite).or_insert_with(|| prefix(slice.metadata, process));
        self.text.clear();
        self.text.push_str(prefix);
        push_number(&mut self.text, slice.thread);
        self.text.push_str(",\"ts\":");
        push_microseconds(&mut self.text, slice.entered_ns);
        self.text.push_str(",\"dur\":");
        push_microseconds(&mut self.text, slice.exited_ns.saturating_sub(slice.entered_ns));
        if let Some(fields) = &slice.fields {
            self.text.push_str(",\"args\":");
            self.text.push_str(fields);
        }
        self.text.push('}');
        self.written += 1;
        self.last_ns = self.last_ns.max(slice.exited_ns);
        self.pages.push(&self.text)
    }

    /// Dropped events that the output does not have yet.
    fn missing(&self) -> u64 {
        // ORDERING: Relaxed, a count of its own.
        self.dropped.load(Ordering::Relaxed) - self.dropped_written
    }

    /// Writes a mark that says how many events are missing before it.
    fn write_dropped(&mut self) -> io::Result<()> {
        let (process, missing) = (self.process, self.missing());
        if missing == 0 {
            return Ok(());
        }
        self.dropped_written += missing;
        let mut text = format!(
            ",\n{{\"name\":\"{missing} events dropped\",\"ph\":\"i\",\"s\":\"p\",\"pid\":{process},\"tid\":0,\"ts\":"
        );
        push_microseconds(&mut text, self.last_ns);
        text.push_str(&format!(",\"args\":{{\"dropped\":{missing}}}}}"));
        self.pages.push(&text)
    }
}

/// What the writer is to do next.
enum Next {
    Message(Message),
    /// Flush: nothing has come for a while.
    Pause,
}

fn prefix(metadata: &Metadata<'_>, process: u32) -> String {
    let (name, category) = (serde_json::json!(metadata.name()), serde_json::json!(metadata.target()));
    format!(",\n{{\"name\":{name},\"cat\":{category},\"ph\":\"X\",\"pid\":{process},\"tid\":")
}

/// Microseconds with three decimals, as the format has it.
fn push_microseconds(text: &mut String, ns: u64) {
    push_number(text, ns / 1_000);
    let part = ns % 1_000;
    text.push('.');
    for digit in [part / 100, part / 10 % 10, part % 10] {
        text.push(char::from_digit(u32::try_from(digit).unwrap_or(0), 10).unwrap_or('0'));
    }
}

fn push_number(text: &mut String, number: u64) {
    use core::fmt::Write as _;
    // Writing to a string does not fail.
    let _ = write!(text, "{number}");
}

/// Collects events up to the end of a page of the output.
struct Pages<W> {
    output: W,
    /// What is not written yet: at most what is left of the page.
    buffer: Vec<u8>,
    /// How much of the present page is written.
    offset: usize,
}

impl<W: Write> Pages<W> {
    fn new(output: W) -> Self {
        Self { output, buffer: Vec::with_capacity(PAGE), offset: 0 }
    }

    /// Adds text that must not be split between pages.
    fn push(&mut self, text: &str) -> io::Result<()> {
        if text.len() > PAGE - self.offset - self.buffer.len() {
            // The array goes on after white space.
            let blank = PAGE - self.offset - self.buffer.len();
            self.buffer.resize(self.buffer.len() + blank, b' ');
            self.flush()?;
        }
        if text.len() > PAGE {
            // Longer than a page: written at once.
            self.output.write_all(text.as_bytes())?;
            self.offset = text.len() % PAGE;
        } else {
            self.buffer.extend_from_slice(text.as_bytes());
        }
        Ok(())
    }

    fn is_flushed(&self) -> bool {
        self.buffer.is_empty()
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            self.output.write_all(&self.buffer)?;
            self.offset = (self.offset + self.buffer.len()) % PAGE;
            self.buffer.clear();
        }
        self.output.flush()
    }

    fn end(&mut self) -> io::Result<()> {
        self.push("\n]\n")?;
        self.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Keeps each write on its own.
    #[derive(Clone, Default)]
    struct Writes(Arc<Mutex<Vec<Vec<u8>>>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().push(bytes.to_vec());
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_write_crosses_a_page_and_each_ends_a_whole_event() {
        let writes = Writes::default();
        let mut pages = Pages::new(writes.clone());
        pages.push("[{\"n\":0}").unwrap();
        for n in 1..2_000_usize {
            let text = "x".repeat(n * 37 % 700);
            pages.push(&format!(",\n{{\"n\":{n},\"text\":\"{text}\"}}")).unwrap();
            if n % 17 == 0 {
                pages.flush().unwrap();
            }
        }
        pages.flush().unwrap();
        let (mut whole, mut events) = (Vec::new(), 0);
        for write in writes.0.lock().unwrap().iter() {
            let (first, last) = (whole.len(), whole.len() + write.len() - 1);
            assert_eq!(first / PAGE, last / PAGE, "{} bytes at {first}", write.len());
            whole.extend_from_slice(write);
            let closed = [&whole[..], b"]"].concat();
            let parsed: serde_json::Value = serde_json::from_slice(&closed).unwrap();
            events = parsed.as_array().unwrap().len();
        }
        assert_eq!(events, 2_000);
    }

    #[test]
    fn an_event_longer_than_a_page_is_written_at_once() {
        let writes = Writes::default();
        let mut pages = Pages::new(writes.clone());
        pages.push("[1").unwrap();
        pages.push(&format!(",\"{}\"", "x".repeat(3 * PAGE))).unwrap();
        pages.push(",2").unwrap();
        pages.end().unwrap();
        let writes = writes.0.lock().unwrap();
        assert_eq!(writes[1].len(), 3 * PAGE + 3);
        let parsed: serde_json::Value = serde_json::from_slice(&writes.concat()).unwrap();
        assert_eq!(parsed.as_array().unwrap().len(), 3);
    }

    #[test]
    fn microseconds_have_three_decimals() {
        let mut text = String::new();
        for ns in [0, 7, 1_050, 123_456_789] {
            push_microseconds(&mut text, ns);
            text.push(' ');
        }
        assert_eq!(text, "0.000 0.007 1.050 123456.789 ");
    }
}
