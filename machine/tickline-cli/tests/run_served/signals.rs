//! Tests of signals that arrive before, at and after the exec.

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{mem, ptr, thread};

use rustix::process::{Resource, Rlimit, setrlimit};

use crate::ROLE;
use crate::common::{send, skip, text};
use crate::served::{self, ServedPage, output};

/// A program inherits blocked, ignored and pending signals. It reads them from its status.
#[test]
fn signals_are_as_the_caller_has_set_them() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let program = [
        served::TRACED,
        "/bin/grep",
        "^Sig[PBIC]\\|^Shd",
        "/proc/self/status",
    ];
    // SIGCHLD is affected by the helper, SIGTRAP by tracing, and SIGPIPE by the standard library
    // and by systemd, which ignores it in services.
    let signals = [
        libc::SIGCHLD,
        libc::SIGTRAP,
        libc::SIGPIPE,
        libc::SIGUSR1,
        libc::SIGRTMIN(),
    ];
    let with = |mut command: Command, set: fn(libc::c_int) -> io::Result<()>| {
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(move || signals.into_iter().try_for_each(set)) };
        output(&mut command)
    };
    let sets: [fn(libc::c_int) -> io::Result<()>; 3] = [|_| Ok(()), blocked, ignored];
    for (index, set) in sets.into_iter().enumerate() {
        for (program, says) in [(&program[..], "has the clock of"), (&program[1..], "gives")] {
            let plain = with(served::program(program), set);
            let run = with(served.run(program), set);
            assert_eq!(text(&run.stdout), text(&plain.stdout), "set {index}");
            assert!(text(&run.stderr).contains(says), "{}", text(&run.stderr));
        }
    }
}

/// The most rounds. The helper is quick, so only some of the signals arrive while it traces.
const MAX_ROUNDS: u64 = 200;

/// A fatal signal at any time before and after the exec ends the program. Symptom: the standard
/// library's handlers took SIGSEGV and SIGBUS and returned, and SIGPIPE was ignored.
#[test]
fn a_program_ends_by_the_signal_that_it_gets() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let signals = [
        libc::SIGRTMIN(),
        libc::SIGRTMAX(),
        libc::SIGTRAP,
        libc::SIGTERM,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGPIPE,
    ];
    wait_until_in_time(42, |round| {
        let signal = signals[usize::try_from(round).unwrap() % signals.len()];
        let mut command = served.run_traced(&["/bin/sleep", "100"]);
        // SAFETY: the closure makes one system call.
        unsafe { command.pre_exec(no_core_file) };
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let in_time = is_traced(&child);
        thread::sleep(Duration::from_micros(10 * (round % 60)));
        send(&child, signal);
        let status = child.wait().unwrap();
        let mut message = String::new();
        io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut message).unwrap();
        assert_eq!(
            status.signal(),
            Some(signal),
            "round {round}: {status} {message}"
        );
        assert!(
            !message.contains("could not be started"),
            "round {round}, signal {signal}: {message}"
        );
        in_time
    });
}

/// Repeats `round` until `enough` rounds return true: their signal came while the program was
/// traced.
fn wait_until_in_time(enough: usize, round: impl FnMut(u64) -> bool) {
    let in_time = (0..MAX_ROUNDS)
        .map(round)
        .filter(|in_time| *in_time)
        .take(enough)
        .count();
    if in_time < enough {
        skip(format_args!(
            "{in_time} signals, not {enough}, came to a program that was traced"
        ));
    }
}

/// A program that is stopped before or at its exec stays stopped until SIGCONT, and then goes on.
#[test]
fn a_stopped_program_stays_stopped() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    wait_until_in_time(5, |round| {
        let mut command = served.run_traced(&["/bin/sh", "-c", "read line; exit 7"]);
        let mut child = command
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let in_time = is_traced(&child);
        thread::sleep(Duration::from_micros(100 * (round % 20)));
        send(&child, libc::SIGSTOP);
        assert!(comes_to_rest(&child), "round {round}: {:?}", state(&child));
        send(&child, libc::SIGCONT);
        writeln!(child.stdin.as_mut().unwrap(), "go on").unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(7), "round {round}");
        in_time
    });
}

/// A program gets signals while it is started, prepared and executed. Blocked signals are pending
/// in the end, each once and in order.
#[test]
fn each_signal_arrives_once_and_in_order() {
    const PROGRAMS: u32 = 25;
    let Some(served) = ServedPage::new() else {
        return;
    };
    let exe = env::current_exe().unwrap();
    let mut sent_to_all = 0;
    for _ in 0..PROGRAMS {
        let mut command = served.run_traced(&[
            exe.to_str().unwrap(),
            "--exact",
            "role_named_by_the_variable",
            "--nocapture",
        ]);
        command
            .env(ROLE, "counts")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        // SAFETY: the closure only makes system calls.
        unsafe { command.pre_exec(|| blocked(libc::SIGRTMIN())) };
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let is_last = AtomicBool::new(false);
        let sent = thread::scope(|scope| {
            let sender = scope.spawn(|| bombard(&child, &is_last));
            let found = lines
                .by_ref()
                .any(|line| line.unwrap().contains("waits for the count"));
            is_last.store(true, Ordering::SeqCst);
            assert!(found);
            sender.join().unwrap()
        });
        sent_to_all += sent;
        writeln!(child.stdin.as_mut().unwrap(), "{sent}").unwrap();
        assert!(lines.any(|line| line.unwrap().contains(&format!("took {sent} signals"))));
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(
            text(&output.stderr).contains("has the clock of"),
            "{output:?}"
        );
    }
    assert!(sent_to_all > PROGRAMS, "{sent_to_all} signals");
}

/// Sends numbered signals, and in between signals that stop the process, continue it, or are
/// ignored. Returns how many were sent.
fn bombard(child: &Child, is_last: &AtomicBool) -> u32 {
    let pid = i32::try_from(child.id()).unwrap();
    let mut sent: u32 = 0;
    for round in 0.. {
        let value = libc::sigval {
            sival_ptr: ptr::without_provenance_mut(sent as usize),
        };
        // SAFETY: `sival_ptr` holds a number, which no code dereferences. The call fails if too
        // many signals are pending.
        sent += u32::from(unsafe { libc::sigqueue(pid, libc::SIGRTMIN(), value) } == 0);
        match round % 8 {
            0 => send(child, libc::SIGSTOP),
            1 => send(child, libc::SIGWINCH),
            2 => send(child, libc::SIGURG),
            3 => send(child, libc::SIGCHLD),
            _ => {}
        }
        thread::sleep(Duration::from_micros(200));
        send(child, libc::SIGCONT);
        if is_last.load(Ordering::SeqCst) {
            break;
        }
        // Leave the program running most of the time.
        thread::sleep(Duration::from_millis(2));
    }
    sent
}

/// The child process of `each_signal_arrives_once_and_in_order`.
pub(crate) fn count_signals() {
    println!("waits for the count");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    let count: usize = line.trim().parse().unwrap();
    for expected in (0..count).map(Some).chain([None]) {
        assert_eq!(pending(libc::SIGRTMIN()), expected);
    }
    println!("took {count} signals");
}

/// Blocks a signal in this process.
fn blocked(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: `sigset_t` and `siginfo_t` are plain data, for which all zeros are valid.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: `set` is a signal set, to which the call adds a signal.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: the kernel only reads `set`.
    let result = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Ignores a signal in this process.
fn ignored(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: `SIG_IGN` installs no handler.
    let former = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if former == libc::SIG_ERR {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// Takes a pending, blocked signal. Returns the number that was sent with it.
fn pending(signal: libc::c_int) -> Option<usize> {
    // SAFETY: `sigset_t` and `siginfo_t` are plain data, for which all zeros are valid.
    let (mut set, mut info): (libc::sigset_t, libc::siginfo_t) = unsafe { mem::zeroed() };
    // SAFETY: `set` is a signal set, to which the call adds a signal.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    let at_once = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes a `siginfo_t` to `info`, which has this type.
    let taken = unsafe { libc::sigtimedwait(&raw const set, &raw mut info, &raw const at_once) };
    // SAFETY: the signal was sent by `sigqueue`.
    (taken == signal).then(|| unsafe { info.si_value() }.sival_ptr.addr())
}

fn no_core_file() -> io::Result<()> {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    Ok(setrlimit(Resource::Core, none)?)
}

/// Makes another user the real user of this process.
pub(crate) fn with_two_users() -> io::Result<()> {
    // SAFETY: the call takes no pointer.
    let result = unsafe { libc::setresuid(65_534, 0, 0) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

fn state(child: &Child) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    status
        .lines()
        .find_map(|line| line.strip_prefix("State:\t"))?
        .chars()
        .next()
}

/// Whether the process is stopped in 15 checks in a row. A tracer stops it only for moments.
fn comes_to_rest(child: &Child) -> bool {
    let mut checks = 0;
    // All checks together take at least 10 s.
    (0..5_000).any(|_| {
        thread::sleep(Duration::from_millis(2));
        checks = if matches!(state(child), Some('T' | 't')) {
            checks + 1
        } else {
            0
        };
        checks == 15
    })
}

/// Waits for the helper. Returns whether the helper traces the process, or has ended already.
fn is_traced(child: &Child) -> bool {
    loop {
        let Ok(status) = fs::read_to_string(format!("/proc/{}/status", child.id())) else {
            return false;
        };
        if !status.contains("TracerPid:\t0\n") {
            return true;
        }
        if !status.starts_with("Name:\ttickline\n") || status.contains("State:\tZ") {
            return false;
        }
    }
}

/// A rare race, so the test has many rounds. Symptom: the program waited for ever for its child,
/// because the library took the child's SIGCHLD for the helper's.
#[test]
fn a_child_that_ends_beside_the_helper_is_reported_to_its_parent() {
    const ROUNDS: u32 = 20;
    let Some(served) = ServedPage::new() else {
        return;
    };
    let Some((_, Some(fixed))) = served::compile("child") else {
        return;
    };
    for _ in 0..ROUNDS {
        let run = output(&mut served::behind(&[&fixed], &served.run(&[&fixed])));
        assert_eq!(run.status.code(), Some(0), "{run:?}");
    }
}
