//! A process that serves slices of a benchmark (`serving.rs`): its start, its replies, its end.

use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command};
use std::sync::Once;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::arguments::{self, hints};
use crate::measurement::time::CounterTime;
use crate::pairs::placement;
use crate::pairs::program_copy::ProgramCopy;
use crate::pairs::serving::{MARK, Request, ServedSlice};

/// How long a program may take from its last turn until its end, which drops what its benchmarks
/// have prepared. Nothing depends on that end, so the program is then killed.
const END_TIME: Duration = Duration::from_secs(10);

/// The interval at which a silent process is asked whether it has ended.
const POLL: Duration = Duration::from_millis(100);

/// How long the last lines of a process that has ended may take, while a busy machine does not run
/// the thread that reads them. All of it passes only if another process has the stream.
const LAST_LINES_TIME: Duration = Duration::from_secs(3);

/// A process that serves.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// `None` once the child must end.
    requests: Option<ChildStdin>,
    output: Receiver<String>,
    /// A command that runs only this benchmark, for an error message.
    command_line: String,
    /// What the process runs; `None` if it runs the program itself. It is removed after the
    /// process's end.
    _copy: Option<ProgramCopy>,
}

impl Process {
    /// Starts a copy of a side's program. If there can be none, starts the program, and says so.
    pub(super) fn start(
        program: &Path,
        benchmark: &str,
        measurement: &CounterTime,
    ) -> Result<Self, String> {
        static NOT_COPIED: Once = Once::new();
        let copy = ProgramCopy::new(program).inspect_err(|error| {
            let folder = program.parent().unwrap_or(program).display();
            let text = format!(
                "{folder} gets no copy of the program: {error}. Each build keeps its pages of \
                 memory, so equal builds may differ by 1 %; give programs in a folder that takes \
                 files"
            );
            measurement
                .settings()
                .messages
                .print_once(&NOT_COPIED, &text);
        });
        let copy = copy.ok();
        // criterion calls a test once, and stores nothing.
        let arguments = ["--bench", "--test", "--exact", "--", benchmark];
        let ns_per_tick = measurement
            .session()
            .map(|_| measurement.scale().rate.ns_per_tick);
        let mut command = Command::new(copy.as_ref().map_or(program, ProgramCopy::path));
        command.args(arguments);
        arguments::prepare_serving(&mut command, ns_per_tick, placement::padding())
            .map_err(|error| error.to_string())?;
        let command_line = format!("{} {}", program.display(), arguments.join(" "));
        let mut process = Self::spawn(&mut command, command_line).map_err(|error| {
            let program_error = hints::not_started(program, &error);
            format!("{}: {program_error}", program.display())
        })?;
        process._copy = copy;
        Ok(process)
    }

    fn spawn(command: &mut Command, command_line: String) -> io::Result<Self> {
        let mut tries = 0;
        let mut child = loop {
            match command.spawn() {
                // A process that another thread forked during the copy has the copy open for
                // writing, until its exec.
                Err(busy) if busy.kind() == io::ErrorKind::ExecutableFileBusy && tries < 100 => {
                    tries += 1;
                    thread::sleep(Duration::from_millis(10));
                }
                result => break result?,
            }
        };
        let requests = child.stdin.take();
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            requests,
            output: lines(output),
            child,
            command_line,
            _copy: None,
        })
    }

    /// Requests a slice.
    pub(super) fn slice(&mut self, request: Request) -> Result<ServedSlice, String> {
        let request = serde_json::to_string(&request).map_err(|error| error.to_string())?;
        // If the process has ended, the write fails, and so does the read of the reply.
        self.requests
            .as_mut()
            .map(|requests| writeln!(requests, "{request}"));
        let mut lines = std::iter::from_fn(|| next_line(&self.output, &mut self.child));
        let reply = lines.find_map(|line| line.strip_prefix(MARK).map(str::to_owned));
        let reply = reply.ok_or_else(|| {
            format!(
                "a process took no turn, because it failed: try `{}`",
                self.command_line
            )
        })?;
        serde_json::from_str(&reply).map_err(|error| {
            format!(
                "a process replied {MARK}{reply}, which is no slice ({error}); no benchmark may print \
                 lines that begin with {MARK}"
            )
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The benchmark returns, and the program ends by itself.
        self.requests = None;
        let end = Instant::now() + END_TIME;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
        // Neither does anything to a process that has ended.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The lines of a process's output. A thread reads them, also those that nobody wants, so that the
/// process never waits for room in the pipe. Bytes that are not UTF-8 are replaced.
///
/// The thread ends at the end of the output. That may come long after the end of the process: the
/// processes that a benchmark has started have the same output.
pub(super) fn lines(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            _ = sender.send(String::from_utf8_lossy(&line).into_owned());
        }
    });
    lines
}

/// The next line of a process; `None` if the process has ended, and no line is left.
pub(super) fn next_line(lines: &Receiver<String>, child: &mut Child) -> Option<String> {
    let mut has_ended = false;
    loop {
        let time = if has_ended { LAST_LINES_TIME } else { POLL };
        match lines.recv_timeout(time) {
            Ok(line) => return Some(line),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if has_ended => return None,
            // Its last lines may still be in the pipe.
            Err(RecvTimeoutError::Timeout) => has_ended = !matches!(child.try_wait(), Ok(None)),
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A process that runs a shell's script.
    fn script(text: &str) -> Process {
        let mut command = Command::new("sh");
        command.args(["-c", text]);
        arguments::prepare_serving(&mut command, None, String::new()).expect("JSON");
        Process::spawn(&mut command, text.to_owned()).expect("a shell")
    }

    const REPLY: &str = r#"echo 'tickline-criterion: {"clock":"counter","iterations_per_pair":1,"disturbances":[0,0,0,0,0,0,0],"ticks":[7]}'"#;

    const REQUEST: Request = Request {
        iterations: 1,
        iterations_per_pair: Some(1),
    };

    /// Symptom: after a line that is not UTF-8 nobody read, the process waited for room in its
    /// pipe, and this one for the process.
    #[test]
    fn a_process_whose_output_is_no_text_ends() {
        let mut process = script(&format!(
            r"printf '\377\n'; {REPLY}; read request; printf '\377\n'; yes | head -c 1000000"
        ));
        let slice = process.slice(REQUEST).expect("a reply");
        assert_eq!(slice.ticks, [7]);
        drop(process);
    }

    /// Symptom: a process that the benchmark had started kept the pipe open, and its end was
    /// awaited.
    #[test]
    fn a_process_that_leaves_another_behind_ends() {
        let begin = Instant::now();
        let mut process = script(&format!("sleep 60 & {REPLY}; read request"));
        process.slice(REQUEST).expect("a reply");
        drop(process);
        assert!(begin.elapsed() < Duration::from_secs(50));
    }

    /// Symptom: a process that the benchmark had started kept the pipe open, and the reply of the
    /// benchmark's process, which had ended, was awaited.
    #[test]
    fn a_process_that_has_ended_without_a_reply_is_an_error() {
        let begin = Instant::now();
        let mut process = script("sleep 60 & true");
        process.slice(REQUEST).expect_err("no reply");
        assert!(begin.elapsed() < Duration::from_secs(50));
    }

    /// Symptom: the text was `nothing: expected ident at line 1 column 2`.
    #[test]
    fn the_error_of_a_line_that_looks_like_a_reply_says_what_to_avoid() {
        let mut process = script("echo 'tickline-criterion: nothing'; read request");
        let error = process.slice(REQUEST).expect_err("no reply");
        assert!(
            error.starts_with("a process replied tickline-criterion: nothing, which is no slice ("),
            "{error}"
        );
        assert!(
            error.ends_with("; no benchmark may print lines that begin with tickline-criterion: "),
            "{error}"
        );
    }

    /// Symptom: on a busy machine a list ended before its first line, and was empty.
    #[test]
    fn a_line_that_is_read_late_is_not_lost() {
        let mut child = Command::new("true").spawn().expect("a process");
        child.wait().expect("its end");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            thread::sleep(POLL * 5);
            sender.send("late".to_owned())
        });
        assert_eq!(next_line(&lines, &mut child).as_deref(), Some("late"));
    }
}
