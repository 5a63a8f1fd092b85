//! What a program says on standard error of a trace that it can't write.

use std::io::{self, BufRead as _, BufReader};
use std::process::Stdio;

use libtest_mimic::Trial;

use crate::trials::{self, Test};
#[cfg(target_os = "linux")]
use crate::victim::TRACE;
use crate::victim::{End, MISSING, PANIC, victim};

pub(crate) fn trials() -> Vec<Trial> {
    let tests = &named![Test:
        a_trace_of_a_panic_that_cannot_be_written_is_reported,
        a_trace_of_a_panic_without_a_span_is_reported,
        #[cfg(target_os = "linux")]
        a_trace_file_that_a_panic_cannot_flush_is_reported,
        #[cfg(target_os = "linux")]
        a_trace_file_that_a_panic_cannot_flush_in_time_is_reported,
        a_trace_that_cannot_be_written_in_the_background_is_reported,
    ];
    trials::of_functions("messages", tests)
}

/// Symptom: there was no file, and nothing said why.
fn a_trace_of_a_panic_that_cannot_be_written_is_reported() {
    let (mut victim, folder) = victim(End::PanicWithoutFolder);
    let output = victim.output().unwrap();
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    let path = folder.path().join(MISSING).join(PANIC);
    let line = format!(
        "tickline: no trace of the panic: {path:?}: No such file or directory (os error 2)"
    );
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(shown.lines().last(), Some(&*line), "{shown}");
}

/// Symptom: the trace had only the panic, and nothing said why.
fn a_trace_of_a_panic_without_a_span_is_reported() {
    let (mut victim, folder) = victim(End::PanicWithoutLayer);
    let output = victim.output().unwrap();
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    let line = format!(
        "tickline: the trace of the panic has no span: {:?}: if the program has entered one, make \
         the recorder a sink of the layer (`with_sink`), install the layer, or let a filter show \
         its spans",
        folder.path().join(PANIC)
    );
    let shown = String::from_utf8_lossy(&output.stderr);
    assert_eq!(shown.lines().last(), Some(&*line), "{shown}");
}

/// Symptom: the error was lost.
#[cfg(target_os = "linux")]
fn a_trace_file_that_a_panic_cannot_flush_is_reported() {
    let (mut victim, folder) = victim(End::PanicWithFullDisk);
    let output = victim.output().unwrap();
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stderr);
    let lines = shown.lines().filter(|line| line.starts_with("tickline: "));
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "tickline: the trace is incomplete and has ended: \"/dev/full\": No space left on device \
             (os error 28); remove the cause, and begin another trace".to_owned(),
            format!("tickline: the trace of the panic is at {:?}", folder.path().join(PANIC)),
        ]
    );
}

/// Symptom: nothing said that the last records might be missing.
#[cfg(target_os = "linux")]
fn a_trace_file_that_a_panic_cannot_flush_in_time_is_reported() {
    let (mut victim, folder) = victim(End::PanicWithFullPipe);
    let output = victim.output().unwrap();
    assert_eq!(output.status.code(), Some(101), "{output:?}");
    let shown = String::from_utf8_lossy(&output.stderr);
    let lines = shown.lines().filter(|line| line.starts_with("tickline: "));
    let line = format!(
        "tickline: the trace may be incomplete: {:?}: the panic waited 2 s for the writer, in vain",
        folder.path().join(TRACE)
    );
    assert!(lines.collect::<Vec<_>>().contains(&&*line), "{shown}");
}

/// Symptom: the error was lost.
fn a_trace_that_cannot_be_written_in_the_background_is_reported() {
    let (mut victim, folder) = victim(End::BackgroundWithoutFolder);
    let mut victim = victim.stderr(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(victim.stderr.take().unwrap()).lines();
    let shown = lines
        .map(io::Result::unwrap)
        .find(|line| line.starts_with("tickline: "));
    victim.kill().unwrap();
    victim.wait().unwrap();
    let path = folder.path().join(MISSING).join(PANIC);
    let line = format!("tickline: no trace: {path:?}: No such file or directory (os error 2)");
    assert_eq!(shown, Some(line));
}
