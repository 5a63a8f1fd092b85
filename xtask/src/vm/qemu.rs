//! Runs one guest: boots it, collects its report, carries out its requests to the host, and ends
//! it.

use std::fmt::Display;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::agreed::{Message, Request};
use super::guest::Guest;
use super::image::{Image, QEMU};
use super::phase::{self, Phase};

/// The longest time between two phases of a guest, or without an answer from QEMU's monitor. The
/// phase of clock-bound takes 480 s if each of its waits lasts as long as it may (`PATIENCE` and
/// others in `tests/vm/guest/src/utc.rs`). The longest phase on a quiet host takes a minute, in
/// which Postgres fills its table.
const SILENCE: Duration = Duration::from_secs(600);

/// The longest run of a guest. Debian with all programs takes 12 minutes on a quiet host, and
/// several times as long on a busy one.
const RUN_LIMIT: Duration = Duration::from_secs(5_400);

/// The time for which a guest is stopped on its own request.
const PAUSE: Duration = Duration::from_secs(10);

/// The longest time until a guest's first phase. Debian needs 11 s to boot, any other guest 2 s,
/// and both need four times as long on a machine that is four times overcommitted.
const BOOT_LIMIT: Duration = Duration::from_secs(60);

/// The most attempts to boot a guest after a fault of the emulator.
const BOOTS: u32 = 3;

/// The pause between two polls of QEMU.
const POLL: Duration = Duration::from_millis(50);

/// A guest's report.
#[derive(Debug, Default)]
pub(super) struct Run {
    /// The lines of the report as the guest sent them.
    pub(super) lines: String,
    pub(super) phases: Vec<Phase>,
    /// Why the run ended before the guest reported its end.
    pub(super) broken: Option<String>,
}

impl Run {
    /// The run of a guest for which this machine lacks a requirement.
    pub(super) fn unavailable(reason: &str) -> Self {
        Self {
            phases: vec![Phase::unavailable(reason, None)],
            ..Self::default()
        }
    }
}

/// Boots the guest, and waits until it ends, fails, or takes too long.
pub(super) fn run(guest: &Guest, image: &Image) -> Run {
    let mut boot = 1;
    loop {
        let mut run = Run::default();
        let end = Machine::boot(guest, image).and_then(|mut machine| machine.collect(&mut run));
        match end {
            Ok(Some(EmulatorFault(reason))) if boot < BOOTS => {
                println!("    booting again: {reason}");
            }
            Ok(fault) => {
                run.broken = fault.map(|EmulatorFault(reason)| with_logs(guest, &reason));
                return run;
            }
            Err(error) => {
                run.broken = Some(with_logs(guest, &error));
                return run;
            }
        }
        boot += 1;
    }
}

/// What broke a run, and the files to read: the console of the guest, and what QEMU wrote on
/// standard error.
fn with_logs(guest: &Guest, reason: &impl Display) -> String {
    let log = super::folder().join(&guest.name);
    let log = log.display();
    format!("{reason}; see {log}.console and {log}.errors")
}

/// A fault of the emulator on a busy machine, not of the guest:
///
/// - The kernel did not boot: once in 80 boots; with "Kernel panic - not syncing: IO-APIC + timer
///   doesn't work!", twice in 10 boots on a busier machine.
/// - The kernel has calibrated its clocks wrong, so its times are worthless: once in 40 boots on a
///   machine that was four times overcommitted ("PIT calibration deviates from HPET: 248266
///   2594266").
struct EmulatorFault(String);

/// The most by which one duration of a phase may exceed the other, as a ratio. A kernel that has
/// calibrated its clocks wrong is off by a factor of ten (`EmulatorFault`).
const MAX_RATIO: u64 = 2;

/// The time, ms, that a report may take on a busy machine. It is an estimate.
const REPORT_MS: u64 = 500;

/// Whether the guest's and the host's durations of a phase, ms, differ by more than a report takes
/// on a busy machine.
fn is_wrong_pace(guest_ms: u64, our_ms: u64) -> bool {
    let is_far_above = |one: u64, other: u64| one > MAX_RATIO * other + REPORT_MS;
    is_far_above(guest_ms, our_ms) || is_far_above(our_ms, guest_ms)
}

/// A QEMU that is killed when dropped.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// What a guest says.
enum Word {
    Line(String),
    NotYet,
    /// Why it says nothing any more.
    Never(String),
}

/// A running QEMU.
struct Machine<'a> {
    guest: &'a Guest,
    image: &'a Image,
    child: Killed,
    monitor: Monitor,
    /// The lines from this QEMU, and from earlier ones whose state it has loaded.
    lines: Receiver<String>,
    sender: Sender<String>,
}

impl<'a> Machine<'a> {
    fn boot(guest: &'a Guest, image: &'a Image) -> io::Result<Self> {
        let (sender, lines) = mpsc::channel();
        let (child, monitor) = spawn(guest, image, &sender, None)?;
        Ok(Self {
            guest,
            image,
            child,
            monitor,
            lines,
            sender,
        })
    }

    /// Waits for the guest's next line, for at most a second. The wait is over for good if the
    /// last phase, or the boot, at `last_phase`, is more than `limit` ago, or if QEMU has ended.
    fn next_word(&mut self, last_phase: Instant, limit: Duration) -> io::Result<Word> {
        match self.lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => return Ok(Word::Line(line)),
            Err(RecvTimeoutError::Timeout) if last_phase.elapsed() > limit => {
                return Ok(Word::Never(format!("no phase for {} s", limit.as_secs())));
            }
            Err(_) => {}
        }
        // `sender` keeps the channel open, so only `try_wait` notices that QEMU has ended.
        Ok(match self.child.0.try_wait()? {
            None => Word::NotYet,
            Some(status) => Word::Never(format!("{QEMU} ended, {status}")),
        })
    }

    /// Collects the report until the guest's end, or until a fault of the emulator.
    fn collect(&mut self, run: &mut Run) -> io::Result<Option<EmulatorFault>> {
        let start = Instant::now();
        let mut last_phase = start;
        loop {
            if start.elapsed() > RUN_LIMIT {
                return Err(io::Error::other(format!(
                    "no end after {} s",
                    RUN_LIMIT.as_secs()
                )));
            }
            let is_booting = run.phases.is_empty();
            let limit = if is_booting { BOOT_LIMIT } else { SILENCE };
            let line = match self.next_word(last_phase, limit)? {
                Word::Line(line) => line,
                Word::NotYet => continue,
                Word::Never(why) if is_booting => {
                    let reason = format!("{why}, before the guest's first phase");
                    return Ok(Some(EmulatorFault(reason)));
                }
                Word::Never(why) => return Err(io::Error::other(why)),
            };
            let message: Message = serde_json::from_str(&line)
                .map_err(|error| io::Error::other(format!("the guest sent '{line}': {error}")))?;
            // A guest with Debian takes many minutes, so show its progress.
            if !self.image.disks.is_empty() {
                println!("    {line}");
            }
            let phase = match message {
                Message::Phase(phase) => *phase,
                Message::Request(request) => {
                    self.act(request)?;
                    continue;
                }
            };
            let since_last = last_phase.elapsed();
            last_phase = Instant::now();
            run.lines += &format!("{line}\n");
            let name = phase.name.clone();
            let guest_ms = phase.ms.unwrap_or(0);
            run.phases.push(phase);
            match name.as_str() {
                phase::END => return Ok(None),
                phase::ERROR => return Err(io::Error::other("the guest gave up")),
                phase::START if !self.guest.has_own_pace => {
                    let our_ms = u64::try_from(since_last.as_millis()).unwrap_or(u64::MAX);
                    if is_wrong_pace(guest_ms, our_ms) {
                        let reason = format!("its first {guest_ms} ms took {our_ms} ms here");
                        return Ok(Some(EmulatorFault(reason)));
                    }
                }
                _ => {}
            }
        }
    }

    /// Carries out the guest's request, and tells the guest when it is done.
    fn act(&mut self, request: Request) -> io::Result<()> {
        match request {
            Request::Pause => {
                self.monitor.execute("stop", &Value::Null)?;
                thread::sleep(PAUSE);
                self.monitor.execute("cont", &Value::Null)?;
            }
            Request::Save => self.save_and_load(None, 0)?,
            Request::Migrate { cpu, ticks } => self.save_and_load(cpu, ticks)?,
        }
        let input = self
            .child
            .0
            .stdin
            .as_mut()
            .ok_or_else(|| io::Error::other("no standard input"))?;
        input.write_all(b"\n")?;
        input.flush()
    }

    /// Saves the machine's state in a file, ends the machine, and loads the state into a new
    /// machine. Adds the ticks to the new machine's counter, or to the counter of one CPU.
    fn save_and_load(&mut self, cpu: Option<u32>, ticks: i64) -> io::Result<()> {
        let file = format!("{}.state", self.guest.name);
        send_state(&mut self.monitor, &format!("exec:cat > {file}"))?;
        self.child.0.kill()?;
        let path = super::folder().join(&file);
        super::migrate::add_ticks(&path, cpu, ticks)?;
        (self.child, self.monitor) = spawn(self.guest, self.image, &self.sender, Some(&file))?;
        wait_for("the machine is not loaded", || {
            let status = self.monitor.execute("query-status", &Value::Null)?;
            Ok((status["status"] == "paused").then_some(()))
        })?;
        // The machine was stopped before its state was saved.
        self.monitor.execute("cont", &Value::Null)?;
        fs::remove_file(path)
    }
}

/// Polls `ask` until it returns an answer. Fails with `complaint` if the answer takes longer than
/// `SILENCE`.
fn wait_for<T>(complaint: &str, mut ask: impl FnMut() -> io::Result<Option<T>>) -> io::Result<T> {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask()? {
            return Ok(answer);
        }
        if start.elapsed() > SILENCE {
            return Err(io::Error::other(format!(
                "{complaint} after {} s",
                SILENCE.as_secs()
            )));
        }
        thread::sleep(POLL);
    }
}

/// Stops the machine, makes QEMU send its state to `uri`, and waits for the end of the transfer.
fn send_state(monitor: &mut Monitor, uri: &str) -> io::Result<()> {
    // While CPUs run, QEMU first sends all memory, and then again the parts that have changed. If
    // QEMU missed a change, memory and registers would be from different moments.
    monitor.execute("stop", &Value::Null)?;
    // The default limit is 128 MiB a second.
    monitor.execute(
        "migrate-set-parameters",
        &json!({ "max-bandwidth": 1_u64 << 33 }),
    )?;
    monitor.execute("migrate", &json!({ "uri": uri }))?;
    wait_for("the state is not sent", || {
        let status = monitor.execute("query-migrate", &Value::Null)?;
        match status["status"].as_str() {
            Some("completed") => Ok(Some(())),
            Some("failed" | "cancelled") => Err(io::Error::other(format!("not sent: {status}"))),
            _ => Ok(None),
        }
    })
}

/// Sends each line that the guest writes to `sender`.
fn forward_lines(child: &mut Child, sender: Sender<String>) {
    if let Some(output) = child.stdout.take() {
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
    }
}

/// Starts a QEMU that exits when the machine ends, and that never writes to a disk of the image.
/// The machine boots, or goes on from the state in the file `state`.
fn spawn(
    guest: &Guest,
    image: &Image,
    sender: &Sender<String>,
    state: Option<&str>,
) -> io::Result<(Killed, Monitor)> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let monitor = format!("tcp:127.0.0.1:{}", listener.local_addr()?.port());
    let mut qemu = qemu(guest, image, &monitor);
    let console = match state {
        None => format!("{}.console", guest.name),
        Some(state) => {
            qemu.args(["-incoming", &format!("exec:cat {state}")]);
            format!("{}.loaded.console", guest.name)
        }
    };
    // The first port is the kernel's console, the second one the guest's report.
    qemu.args(["-serial", &format!("file:{console}"), "-serial", "stdio"]);
    let errors = fs::File::create(super::folder().join(format!("{}.errors", guest.name)))?;
    let mut child = qemu
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()?;
    forward_lines(&mut child, sender.clone());
    let mut child = Killed(child);
    let mut monitor = Monitor::accept(&listener, &mut child.0)?;
    if !guest.is_single_threaded {
        pin_cpus(&mut monitor);
    }
    Ok((child, monitor))
}

/// The command for this machine, whose monitor calls `monitor`.
fn qemu(guest: &Guest, image: &Image, monitor: &str) -> Command {
    let drive =
        |disk: &PathBuf| format!("file={},if=virtio,format=raw,snapshot=on", disk.display());
    let mut qemu = Command::new(QEMU);
    qemu.current_dir(super::folder())
        .args(["-accel", accelerator(guest)])
        .args(["-display", "none", "-no-reboot", "-nodefaults"])
        .args([
            "-cpu",
            &guest.processor,
            "-smp",
            &guest.cpus.to_string(),
            "-m",
            image.memory_mb,
        ])
        .args(["-qmp", monitor])
        .args(
            image
                .disks
                .iter()
                .flat_map(|disk| ["-drive".to_owned(), drive(disk)]),
        )
        .arg("-kernel")
        .arg(&image.kernel)
        .arg("-initrd")
        .arg(&image.initramfs)
        .args(["-append", &guest.kernel]);
    qemu
}

fn accelerator(guest: &Guest) -> &'static str {
    if guest.is_single_threaded {
        "tcg,thread=single"
    } else {
        "tcg,thread=multi"
    }
}

/// Pins each CPU of the guest to a CPU of the host, if the host has as many. Otherwise the
/// scheduler of a busy machine leaves the emulator's threads on one CPU for a long time, so the
/// guest's CPUs never run at the same time. A failure is ignored.
fn pin_cpus(monitor: &mut Monitor) {
    let answer = monitor
        .execute("query-cpus-fast", &Value::Null)
        .unwrap_or_default();
    let threads: Vec<&Value> = answer
        .as_array()
        .into_iter()
        .flatten()
        .map(|cpu| &cpu["thread-id"])
        .collect();
    let cpus = thread::available_parallelism().map_or(1, usize::from);
    if threads.len() < 2 || threads.len() > cpus {
        return;
    }
    for (cpu, thread) in threads.iter().enumerate() {
        Command::new("taskset")
            .args(["-cp", &cpu.to_string(), &thread.to_string()])
            .output()
            .ok();
    }
}

/// A connection by QEMU's machine protocol (QEMU's documentation, "QEMU Machine Protocol
/// Specification"): requests and answers, and events in between, each a line of JSON.
struct Monitor {
    input: BufReader<TcpStream>,
    output: TcpStream,
}

impl Monitor {
    /// Waits until QEMU connects. Fails if QEMU has ended.
    fn accept(listener: &TcpListener, child: &mut Child) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let stream = wait_for("its monitor does not call", || match listener.accept() {
            Ok((stream, _)) => Ok(Some(stream)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => match child.try_wait()? {
                Some(status) => Err(io::Error::other(format!("it ended, {status}"))),
                None => Ok(None),
            },
            Err(error) => Err(error),
        })?;
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(SILENCE))?;
        let mut monitor = Self {
            input: BufReader::new(stream.try_clone()?),
            output: stream,
        };
        monitor.answer("QMP")?;
        monitor.execute("qmp_capabilities", &Value::Null)?;
        Ok(monitor)
    }

    fn execute(&mut self, command: &str, arguments: &Value) -> io::Result<Value> {
        let mut request = json!({ "execute": command });
        if !arguments.is_null() {
            request["arguments"] = arguments.clone();
        }
        self.output.write_all(format!("{request}\n").as_bytes())?;
        self.answer("return")
    }

    /// The value of this key in the next message that has it.
    fn answer(&mut self, key: &str) -> io::Result<Value> {
        loop {
            let mut line = String::new();
            if self.input.read_line(&mut line)? == 0 {
                return Err(io::Error::other("the monitor has hung up"));
            }
            let mut message: Value = serde_json::from_str(&line).map_err(io::Error::other)?;
            if let Some(error) = message.get("error") {
                return Err(io::Error::other(format!("the monitor says {error}")));
            }
            if let Some(value) = message.get_mut(key) {
                return Ok(value.take());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_wrong_if_it_is_far_off() {
        assert!(!is_wrong_pace(1_500, 1_480));
        assert!(!is_wrong_pace(1_500, 3_000));
        assert!(is_wrong_pace(7_259, 700));
        assert!(is_wrong_pace(1_000, 10_000));
    }

    #[test]
    fn a_line_that_is_no_phase_and_no_request_is_refused() {
        let is_message = |line: &str| serde_json::from_str::<Message>(line).is_ok();
        assert!(is_message(r#"{ "phase": { "name": "end" } }"#));
        assert!(is_message(r#"{ "request": "pause" }"#));
        assert!(!is_message(r#"{ "phase": { "name": "end", "done": 1 } }"#));
        assert!(!is_message(r#"{ "request": "puase" }"#));
        assert!(!is_message("[    0.000000] Linux version 6.1"));
    }

    #[test]
    fn a_migration_needs_ticks_but_no_cpu() {
        let request = |line: &str| match serde_json::from_str(line) {
            Ok(Message::Request(request)) => Some(request),
            _ => None,
        };
        assert_eq!(
            request(r#"{ "request": { "migrate": { "ticks": 5 } } }"#),
            Some(Request::Migrate {
                cpu: None,
                ticks: 5
            })
        );
        assert_eq!(request(r#"{ "request": { "migrate": {} } }"#), None);
    }
}
