//! Programs that `tickline run` serves: by a page whose line is 5 ms above the OS clock, on any host
//! whose counter may be read.
//!
//! Some of them are this test, executed again.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "what was skipped, and what a child has found")]

mod common;
#[path = "../../tickline-preload/tests/page/mod.rs"]
mod page;
mod served;

use std::env;
use std::fs::{self, Permissions};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{ptr, thread};

use common::text;
use served::{Served, blocked, ignored, output};

/// What a child that is this test does.
const ROLE: &str = "TICKLINE_TEST_ROLE";

#[test]
fn child() {
    if env::var_os(ROLE).is_some() {
        execute_again();
    }
}

/// Its variables are in their order.
#[test]
fn the_environment_stays_as_it_was() {
    let Some(served) = Served::new() else { return };
    let program = ["sh", "-c", "tr '\\0' '\\n' </proc/self/environ"];
    let with = |command: &Command| {
        let mut outer = Command::new("env");
        outer.args(["-i", "PATH=/usr/bin:/bin", "Z=1", "A=2", "M=3"]);
        outer.arg(command.get_program()).args(command.get_args());
        output(&mut outer)
    };
    let mut plain = Command::new(program[0]);
    plain.args(&program[1..]);
    let (plain, run) = (with(&plain), with(&served.run(&program)));
    let found = text(&run.stdout);
    let own = |line: &&str| !line.starts_with("LD_PRELOAD=") && !line.starts_with("TICKLINE_");
    let kept: Vec<_> = found.lines().filter(own).collect();
    assert!(found.contains("LD_PRELOAD="), "{found} {}", text(&run.stderr));
    assert_eq!(kept, text(&plain.stdout).lines().collect::<Vec<_>>());
}

/// Where process numbers are ambiguous, nothing is traced.
#[test]
fn another_namespace_of_processes_is_left_alone() {
    let Some(served) = Served::new() else { return };
    let program = [served::TRACED, "/bin/sh", "-c", "(exit 3); echo $?"];
    // Children get another namespace than their parent, or `/proc` shows the one above.
    for options in
        [&["--user", "--map-root-user", "--pid"][..], &["--user", "--map-root-user", "--pid", "--fork"]]
    {
        let with = |command: &Command| {
            let mut outer = Command::new("unshare");
            outer.args(options).arg(command.get_program()).args(command.get_args());
            output(&mut outer)
        };
        let mut plain = Command::new(program[0]);
        plain.args(&program[1..]);
        let (plain, run) = (with(&plain), with(&served.run(&program)));
        if !plain.status.success() {
            println!("SKIPPED: no namespace of processes: {}", text(&plain.stderr));
            continue;
        }
        assert_eq!(text(&run.stdout), text(&plain.stdout), "{options:?}: {}", text(&run.stderr));
        assert!(text(&run.stderr).contains("cannot be traced"), "{options:?}: {}", text(&run.stderr));
    }
}

/// The status of a process says which signals it blocks and ignores, and which are pending.
#[test]
fn signals_are_as_the_caller_has_set_them() {
    let Some(served) = Served::new() else { return };
    let program = [served::TRACED, "/bin/grep", "^Sig[PBIC]\\|^Shd", "/proc/self/status"];
    // SIGCHLD because of the helper, SIGTRAP because of tracing.
    let signals = [libc::SIGCHLD, libc::SIGTRAP, libc::SIGUSR1, libc::SIGRTMIN()];
    let with = |mut command: Command, set: fn(libc::c_int) -> io::Result<()>| {
        // SAFETY: system calls alone.
        unsafe { command.pre_exec(move || signals.into_iter().try_for_each(set)) };
        output(&mut command)
    };
    let sets: [fn(libc::c_int) -> io::Result<()>; 3] = [|_| Ok(()), blocked, ignored];
    for (index, set) in sets.into_iter().enumerate() {
        for (program, says) in [(&program[..], "has the clock of"), (&program[1..], "gives")] {
            let mut plain = Command::new(program[0]);
            plain.args(&program[1..]);
            let (plain, run) = (with(plain, set), with(served.run(program), set));
            assert_eq!(text(&run.stdout), text(&plain.stdout), "set {index}");
            assert!(text(&run.stderr).contains(says), "{}", text(&run.stderr));
        }
    }
}

/// As `ulimit -s 40` is for a release: what is compiled for tests takes more of it. Bytes.
const SMALL_STACK: u64 = 96 * 1024;

/// A helper is quick: of so many signals some come in time.
const MOST_ROUNDS: u64 = 200;

/// A signal that ends a program, once, at any time before and after its exec. Symptom: SIGSEGV and SIGBUS
/// came to the standard library's handlers, which return, and SIGPIPE was ignored.
#[test]
fn a_program_ends_by_the_signal_that_it_gets() {
    let Some(served) = Served::new() else { return };
    let signals = [
        libc::SIGRTMIN(),
        libc::SIGRTMAX(),
        libc::SIGTRAP,
        libc::SIGTERM,
        libc::SIGSEGV,
        libc::SIGBUS,
        libc::SIGPIPE,
    ];
    let mut in_time = 0;
    for round in 0..MOST_ROUNDS {
        if in_time == 42 {
            return;
        }
        let signal = signals[usize::try_from(round).unwrap() % signals.len()];
        let mut command = served.run_traced(&["/bin/sleep", "100"]);
        // SAFETY: a system call.
        unsafe { command.pre_exec(no_core_file) };
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        if let Some(status) = traced(&child) {
            in_time += 1;
            let bits = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(line.trim(), 16).unwrap()
            };
            let taken = bits("SigIgn:") | bits("SigCgt:");
            let is_before = status.starts_with("Name:\ttickline\n");
            for signal in [libc::SIGSEGV, libc::SIGBUS, libc::SIGPIPE] {
                assert!(!is_before || taken >> (signal - 1) & 1 == 0, "signal {signal}: {status}");
            }
        }
        thread::sleep(Duration::from_micros(10 * (round % 60)));
        send(&child, signal);
        let status = child.wait().unwrap();
        let mut said = String::new();
        io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut said).unwrap();
        assert_eq!(status.signal(), Some(signal), "round {round}: {status} {said}");
        assert!(!said.contains("could not be started"), "round {round}, signal {signal}: {said}");
    }
    println!("SKIPPED: {in_time} signals, not 42, came to a program that was traced");
}

/// A program that is stopped before or at its exec stays so until SIGCONT, and then goes on.
#[test]
fn a_stopped_program_stays_stopped() {
    let Some(served) = Served::new() else { return };
    let mut in_time = 0;
    for round in 0..MOST_ROUNDS {
        if in_time == 5 {
            return;
        }
        let mut command = served.run_traced(&["/bin/sh", "-c", "read line; exit 7"]);
        let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        in_time += u32::from(traced(&child).is_some());
        thread::sleep(Duration::from_micros(100 * (round % 20)));
        send(&child, libc::SIGSTOP);
        assert!(comes_to_rest(&child), "round {round}: {:?}", state(&child));
        send(&child, libc::SIGCONT);
        tell(child.stdin.as_mut().unwrap(), 0);
        assert_eq!(child.wait().unwrap().code(), Some(7), "round {round}");
    }
    println!("SKIPPED: {in_time} signals, not 5, came to a program that was traced");
}

const EXECS: u32 = 25;
const EXECS_LEFT: &str = "TICKLINE_TEST_EXECS";
/// This test's file: a dynamic linker executes it.
const OWN: &str = "TICKLINE_TEST_OWN";

/// A process that executes itself under `tickline run`, again and again, while it gets signals: those
/// that it blocks are there in the end, each once and in order.
#[test]
fn each_signal_arrives_once_and_in_order() {
    let Some(served) = Served::new() else { return };
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]);
    command.env(ROLE, "again").env(EXECS_LEFT, EXECS.to_string()).envs(served.paths());
    command.env(OWN, env::current_exe().unwrap());
    // SAFETY: system calls alone.
    unsafe { command.pre_exec(|| blocked(libc::SIGRTMIN())) };
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_last = AtomicBool::new(false);
    let sent = thread::scope(|scope| {
        let sender = scope.spawn(|| bombard(&child, &is_last));
        let found = lines.by_ref().any(|line| line.unwrap().contains("executed for the last time"));
        is_last.store(true, Ordering::SeqCst);
        assert!(found);
        sender.join().unwrap()
    });
    assert!(sent > EXECS, "{sent} signals");
    tell(&mut input, sent);
    let found: Vec<_> = lines.map_while(Result::ok).filter(|line| line.contains("served execs")).collect();
    assert!(child.wait().unwrap().success());
    assert_eq!(found, [format!("{EXECS} served execs, {sent} signals")]);
}

/// Signals with numbers in order, and in between others that stop the process, wake it, or are ignored.
fn bombard(child: &Child, is_last: &AtomicBool) -> u32 {
    let pid = i32::try_from(child.id()).unwrap();
    let mut sent: u32 = 0;
    for round in 0.. {
        let value = libc::sigval { sival_ptr: ptr::without_provenance_mut(sent as usize) };
        // SAFETY: a signal to a child, with a number. It is refused if too many are pending.
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
        // Most of the time it must get on.
        thread::sleep(Duration::from_millis(2));
    }
    sent
}

fn tell(input: &mut ChildStdin, number: u32) {
    writeln!(input, "{number}").unwrap();
}

/// The child of that test.
fn execute_again() {
    let left: u32 = env::var(EXECS_LEFT).unwrap().parse().unwrap();
    let served: u32 = env::var(served::COUNT).map_or(0, |count| count.parse().unwrap());
    // The first one is executed plainly.
    let served = served + u32::from(left < EXECS && page_is_mapped());
    if left > 0 {
        let own = env::var(OWN).unwrap();
        let mut next = served::run_by_environment(&[served::TRACED, &own, "--exact", "child", "--nocapture"]);
        next.arg("-q").env(EXECS_LEFT, (left - 1).to_string()).env(served::COUNT, served.to_string());
        panic!("{}", next.exec());
    }
    println!("executed for the last time");
    let mut line = String::new();
    io::stdin().read_line(&mut line).unwrap();
    let count: u32 = line.trim().parse().unwrap();
    for expected in 0..count {
        assert_eq!(served::pending(libc::SIGRTMIN()), Some(expected as usize));
    }
    assert_eq!(served::pending(libc::SIGRTMIN()), None);
    println!("{served} served execs, {count} signals");
}

fn page_is_mapped() -> bool {
    let page = env::var(served::PAGE).unwrap();
    fs::read_to_string("/proc/self/maps").unwrap().lines().any(|line| line.ends_with(&page))
}

fn no_core_file() -> io::Result<()> {
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel reads the limits, no more.
    unsafe { libc::setrlimit(libc::RLIMIT_CORE, &raw const none) };
    Ok(())
}

/// Lets another user be this process's real one.
fn with_two_users() -> io::Result<()> {
    // SAFETY: no pointer goes in.
    let result = unsafe { libc::setresuid(65_534, 0, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn send(child: &Child, signal: libc::c_int) {
    let pid = i32::try_from(child.id()).unwrap();
    // SAFETY: a signal to a child that nobody has waited for.
    unsafe { libc::kill(pid, signal) };
}

fn state(child: &Child) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
    status.lines().find_map(|line| line.strip_prefix("State:\t"))?.chars().next()
}

/// Whether the process stops, and stays so: a tracer stops it for moments.
fn comes_to_rest(child: &Child) -> bool {
    let mut looks = 0;
    // 10 s at least.
    (0..5_000).any(|_| {
        thread::sleep(Duration::from_millis(2));
        looks = if matches!(state(child), Some('T' | 't')) { looks + 1 } else { 0 };
        looks == 15
    })
}

/// Waits for the helper. The status of the process that it traces; `None` if it has come and gone.
fn traced(child: &Child) -> Option<String> {
    loop {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).ok()?;
        if !status.contains("TracerPid:\t0\n") {
            return Some(status);
        }
        if !status.starts_with("Name:\ttickline\n") || status.contains("State:\tZ") {
            return None;
        }
    }
}

/// SELinux and AppArmor refuse some execs of a process that is traced. So does a supervisor here, who
/// is asked about each exec (seccomp_unotify(2)).
#[test]
fn a_program_that_may_not_be_traced_is_executed_plainly() {
    let Some(served) = Served::new() else { return };
    for error in [libc::EACCES, libc::EPERM] {
        let Some(run) = served::supervised(served.run_traced(&["/bin/sh", "-c", "exit 5"]), error) else {
            return;
        };
        let said = text(&run.output.stderr);
        assert_eq!(run.output.status.code(), Some(5), "{said}");
        assert_eq!(run.refused, 1, "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains(" has the kernel's clock: it is not executed while it is traced: "), "{said}");
        // One that cannot be executed anyway: nothing is said of tracing.
        let file = served.folder().join("data");
        fs::write(&file, "text").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        let Some(run) = served::supervised(served.run(&[file.to_str().unwrap()]), error) else { return };
        let said = text(&run.output.stderr);
        assert_eq!(run.output.status.code(), Some(126), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

/// The program runs, and the line says why it is not traced.
#[test]
fn a_program_whose_helper_cannot_be_started_runs() {
    let Some(served) = Served::new() else { return };
    let mut command = served.run_traced(&["/bin/sh", "-c", "exit 5"]);
    // A fork without a signal, by which the helper is started.
    served::refuse(&mut command, libc::SYS_clone, 0, 0);
    let run = output(&mut command);
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(5), "{said}");
    assert!(said.contains("it cannot be traced: its helper was not started"), "{said}");
}

/// Symptom: the helper ended by SIGSYS, and the audit log said so.
#[test]
fn a_unit_with_a_filter_is_not_traced() {
    let Some(served) = Served::new() else { return };
    let with = |variable: &str| {
        let mut command = served.run_traced(&["/bin/sh", "-c", "exit 5"]);
        // Nobody calls it so.
        served::refuse(&mut command, libc::SYS_ptrace, 0, u64::MAX >> 1);
        let run = output(command.env_remove("INVOCATION_ID").env(variable, "7"));
        assert_eq!(run.status.code(), Some(5), "{run:?}");
        text(&run.stderr)
    };
    let said = with("INVOCATION_ID");
    assert!(said.contains("it cannot be traced: its unit has a filter of system calls"), "{said}");
    let said = with("OTHER");
    assert!(said.contains(" has the clock of "), "{said}");
}

/// `ProcSubset=pid` hides the boot's id. Symptom: "No such file or directory".
#[test]
fn a_page_in_memory_serves_where_proc_hides_the_boot() {
    let Some(served) = Served::new() else { return };
    let folder = served.folder().join("run");
    fs::create_dir(&folder).unwrap();
    for (kind, expected) in
        [("tmpfs", " has the clock of "), ("none", "boot_id or /proc/self/ns/time cannot be read")]
    {
        let script =
            "set -e; [ $0 = none ] || mount -t $0 -o mode=755 $0 $1; cp $2 $1/page; chmod 644 $1/page
            mount -t proc -o subset=pid proc /proc; shift 2; exec \"$@\"";
        let page = folder.join("page");
        if kind == "none" && tickline_page::is_in_memory(fs::File::open(&folder).unwrap()) {
            println!("SKIPPED: all files of tests are in memory here");
            continue;
        }
        let run = served.run_with(&page, &[served::TRACED, "/bin/sh", "-c", "exit 5"]);
        let mut outer = Command::new("unshare");
        outer.args(["--mount", "sh", "-c", script, kind]).arg(&folder).arg(served.page());
        outer.arg(run.get_program()).args(run.get_args());
        let run = output(&mut outer);
        let said = text(&run.stderr);
        if said.contains("mount") {
            println!("SKIPPED: {said}");
            return;
        }
        assert_eq!((run.status.code(), said.contains(expected)), (Some(5), true), "{kind}: {said}");
    }
}

/// Symptom: SIGXFSZ ended `run`, which wrote a line to a file of a shell without room for files.
#[test]
fn what_is_said_ends_no_program() {
    let Some(served) = Served::new() else { return };
    let said = served.folder().join("said");
    for program in [served.run(&["sh", "-c", "exit 5"]), served.run_traced(&["/bin/sh", "-c", "exit 5"])] {
        let mut limited = Command::new("sh");
        limited.args(["-c", "ulimit -f 0; said=$1; shift; exec \"$@\" 2>\"$said\"", "sh"]).arg(&said);
        limited.arg(program.get_program()).args(program.get_args());
        limited.env_remove("TICKLINE").env_remove("LD_PRELOAD");
        assert_eq!(output(&mut limited).status.code(), Some(5), "{program:?}");
    }
}

/// A script has the privileges of its interpreter.
#[test]
fn privileged_interpreters_run_plainly() {
    let Some(served) = Served::new() else { return };
    if !rustix::process::geteuid().is_root() {
        println!("SKIPPED: only root can make a file that is another user's");
        return;
    }
    let folder = served.folder();
    let (interpreter, script, second) =
        (folder.join("interpreter"), folder.join("script"), folder.join("second"));
    fs::copy("/bin/cat", &interpreter).unwrap();
    for (path, first) in [(&script, &interpreter), (&second, &script)] {
        fs::write(path, format!("#! {} /proc/self/status\n", first.display())).unwrap();
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let ids = |output: &std::process::Output| {
        let text = text(&output.stdout);
        text.lines().filter(|line| line.starts_with("Uid:") || line.starts_with("Gid:")).collect::<String>()
    };
    let check = |path: &Path, what: Option<&str>| {
        let (plain, run) =
            (output(&mut Command::new(path)), output(&mut served.run(&[path.to_str().unwrap()])));
        assert_eq!(ids(&run), ids(&plain), "{}", path.display());
        let said = text(&run.stderr);
        match what {
            Some(what) => assert!(said.contains(&format!("{} {what}", interpreter.display())), "{said}"),
            None => assert!(said.contains("LD_PRELOAD gives "), "{said}"),
        }
    };
    let other = Some(65_534);
    let (set, capable) = ("is set-user-id or set-group-id", "has capabilities of its own");
    for path in [&script, &second] {
        fs::set_permissions(&interpreter, Permissions::from_mode(0o755)).unwrap();
        check(path, None);
        for mode in [0o4755, 0o2755] {
            std::os::unix::fs::chown(&interpreter, other, other).unwrap();
            fs::set_permissions(&interpreter, Permissions::from_mode(mode)).unwrap();
            check(path, Some(set));
        }
        fs::set_permissions(&interpreter, Permissions::from_mode(0o755)).unwrap();
    }
    // CAP_NET_RAW (Linux, `linux/capability.h`, `vfs_cap_data`, revision 2).
    let mut capabilities = [0; 20];
    capabilities[..8].copy_from_slice(&[1, 0, 0, 2, 0, 0x20, 0, 0]);
    let flags = rustix::fs::XattrFlags::empty();
    if let Err(error) = rustix::fs::setxattr(&interpreter, c"security.capability", &capabilities, flags) {
        println!("SKIPPED: a file with capabilities: {error}");
        return;
    }
    check(&script, Some(capable));
    check(&second, Some(capable));
}

/// Where a filter refuses what the library needs, the program runs, with what it had.
#[test]
fn a_program_that_may_not_have_new_code_runs() {
    let Some(served) = Served::new() else { return };
    let mut command = served.run_traced(&["/bin/sh", "-c", "exit 5"]);
    let refused = libc::PROT_READ | libc::PROT_EXEC;
    served::refuse(&mut command, libc::SYS_mprotect, 2, u64::try_from(refused).unwrap());
    let said = output(&mut command);
    assert_eq!(said.status.code(), Some(5));
    let line = text(&said.stderr);
    assert!(line.contains(" has the kernel's clock: Permission denied"), "{line}");
}

/// What is said before the exec is what is known then. Symptoms: "X has the clock of PAGE" spoke of
/// programs that X starts as well; "X has the kernel's clock", of programs that `LD_PRELOAD` served.
#[test]
fn no_more_is_said_than_is_known() {
    let Some(served) = Served::new() else { return };
    let page = served.page().display();
    let others = "dynamic programs that it starts with LD_PRELOAD have it, too";
    let said = |command: &mut Command| {
        let output = output(command);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        text(&output.stderr)
    };
    let gives = format!("tickline: LD_PRELOAD gives true the clock of {page}; {others}\n");
    assert_eq!(said(&mut served.run(&["true"])), gives);
    let traced = format!("tickline: {} has the clock of {page}; {others}\n", served::TRACED);
    assert_eq!(said(&mut served.run_traced(&["/bin/true"])), traced);
    // Nobody needs to trace a dynamic program.
    let without = |mut command: Command| {
        served::refuse(&mut command, libc::SYS_clone, 0, 0);
        said(&mut command)
    };
    assert_eq!(without(served.run(&["true"])), gives);
    let text = without(served.run_traced(&["/bin/true"]));
    let in_preload = "libtickline_preload.so is in LD_PRELOAD\n";
    assert!(text.contains(" has the kernel's clock: it cannot be traced: "), "{text}");
    assert!(text.ends_with(in_preload), "{text}");
    if rustix::process::geteuid().is_root() {
        // A dynamic linker ignores the variable.
        let mut command = served.run(&["true"]);
        // SAFETY: a system call.
        unsafe { command.pre_exec(with_two_users) };
        assert_eq!(said(&mut command), traced.replace(served::TRACED, "true"));
    } else {
        println!("SKIPPED: a process with the rights of another user: this user is not root");
    }
    // What a `run` around this one has set counts.
    let run = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
        command.arg("run").args(words).env_remove("TICKLINE");
        command.env("LD_PRELOAD", served.library()).env("TICKLINE_PAGE", served.page());
        said(command.env("TICKLINE_SERVE", "always"))
    };
    let library = served.library().to_str().unwrap();
    assert_eq!(run(&["--library", library, "true"]), gives);
    let text = run(&["--library", "/nonexistent", "true"]);
    assert!(
        text.starts_with("tickline: true has what libtickline_preload.so in LD_PRELOAD gives it, no more: "),
        "{text}"
    );
}

/// Symptom: the program had SIGSEGV. Its vDSO's symbols led to where the library would be if that had
/// moved as well.
#[test]
fn a_program_may_move_its_vdso() {
    let Some(served) = Served::new() else { return };
    let Some((dynamic, fixed)) = served::compile("moved") else { return };
    for program in [Some(dynamic), fixed].into_iter().flatten() {
        let plain = output(&mut Command::new(&program));
        if plain.status.code() != Some(0) {
            println!("SKIPPED: the vDSO does not move: {plain:?}");
            return;
        }
        let run = output(&mut served.run(&[&program]));
        assert_eq!(run.status.code(), Some(0), "{program}: {run:?}");
        assert_eq!(text(&run.stdout), text(&plain.stdout), "{program}");
        assert!(text(&run.stderr).contains(" the clock of "), "{}", text(&run.stderr));
    }
}

/// The helper is no child that a program which adopts orphans could find, and needs no other process that
/// waits for it. Symptom: as process 1, and as a subreaper, such a program was not served.
#[test]
fn a_program_that_adopts_orphans_is_served() {
    let Some(served) = Served::new() else { return };
    let children = "read children </proc/self/task/$$/children; echo \"<$children>\"";
    let mut command = served.run_traced(&["/bin/sh", "-c", children]);
    let adopt = || {
        // SAFETY: no pointer goes in.
        unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) };
        Ok(())
    };
    // SAFETY: a system call.
    unsafe { command.pre_exec(adopt) };
    let run = output(&mut command);
    assert!(text(&run.stderr).contains("has the clock of"), "{}", text(&run.stderr));
    assert_eq!(text(&run.stdout), "<>\n", "{run:?}");
}

/// Symptom: `run` ended by an overflow of its stack (`ulimit -s 40`).
#[test]
fn a_program_with_a_small_stack_runs() {
    let Some(served) = Served::new() else { return };
    let with_small_stack = |mut command: Command| {
        let small = || {
            let limit = libc::rlimit { rlim_cur: SMALL_STACK, rlim_max: SMALL_STACK };
            // SAFETY: the kernel reads the limits, no more.
            unsafe { libc::setrlimit(libc::RLIMIT_STACK, &raw const limit) };
            Ok(())
        };
        // SAFETY: a system call.
        unsafe { command.env_clear().pre_exec(small) };
        output(&mut command)
    };
    for command in [served.run(&["/bin/true"]), served.run_traced(&["/bin/true"])] {
        let run = with_small_stack(command);
        assert_eq!(run.status.code(), Some(0), "{run:?}");
        assert!(text(&run.stderr).contains(" the clock of "), "{run:?}");
    }
}

/// Symptom: "true has the clock of PAGE".
#[test]
fn a_page_that_is_off_is_told() {
    let Some(served) = Served::new() else { return };
    let mut off = Command::new(env!("CARGO_BIN_EXE_tickline"));
    let off = output(off.args(["serve", "off", "--page"]).arg(served.page()));
    assert_eq!(off.status.code(), Some(0), "{}", text(&off.stderr));
    let said = output(&mut served.run(&["true"]));
    let expected = format!(
        "tickline: true asks the kernel until {} is served: it is switched off\n",
        served.page().display()
    );
    assert_eq!((said.status.code(), text(&said.stderr)), (Some(0), expected));
}

/// The kernel may refuse writes to read-only memory by `/proc/PID/mem` (Linux 6.12,
/// `proc_mem.force_override=never`): here each one of 24 bytes, as many as the code has. Symptom: the
/// program got SIGKILL.
#[test]
fn a_program_whose_code_is_not_writable_runs() {
    let Some(served) = Served::new() else { return };
    let run = |requests: &[libc::c_uint]| {
        let mut command = served.run_traced(&["/bin/sh", "-c", "exit 5"]);
        served::refuse(&mut command, libc::SYS_pwrite64, 2, 24);
        for request in requests {
            served::refuse(&mut command, libc::SYS_ptrace, 0, u64::from(*request));
        }
        let said = output(&mut command);
        assert_eq!(said.status.code(), Some(5), "{said:?}");
        text(&said.stderr)
    };
    let said = run(&[]);
    assert!(said.contains(" has the clock of"), "{said}");
    let said = run(&[libc::PTRACE_POKETEXT, libc::PTRACE_POKEDATA]);
    assert!(said.contains(" has the kernel's clock: its code cannot be written: "), "{said}");
    assert!(said.contains("Permission denied") && said.lines().count() == 1, "{said}");
}

/// Whatever is asked of the clocks, and in whatever way the page comes into the program.
#[test]
fn every_call_answers_as_without_a_page() {
    let Some(served) = Served::new() else { return };
    let Some((dynamic, fixed)) = served::compile("calls") else { return };
    let offset = ["unshare", "-T", "-f", "--monotonic", "100000", "--boottime", "200000", "--"];
    let has_namespaces = Command::new(offset[0]).args(&offset[1..]).arg("true").output();
    let mut prefixes = vec![&[][..]];
    if has_namespaces.is_ok_and(|output| output.status.success()) {
        prefixes.push(&offset);
    } else {
        println!("SKIPPED: programs in a time namespace: unshare -T makes none here");
    }
    for prefix in prefixes {
        let calls = |command: &Command| served::calls(prefix, command);
        let plain = calls(&Command::new(&dynamic));
        assert_eq!(plain.is_served, ["at first: 000", "in a fork: 000", "executed: 000"]);
        let all = ["at first: 111", "in a fork: 111", "executed: 111"];
        let mut preloaded = Command::new(&dynamic);
        preloaded.env("LD_PRELOAD", served.library()).env("TICKLINE_SERVE", "always");
        preloaded.env("TICKLINE_PAGE", served.page());
        let run = |program: &str| served.run(&[program]);
        let mut ways = vec![("LD_PRELOAD", preloaded, all), ("run, dynamic", run(&dynamic), all)];
        if let Some(fixed) = &fixed {
            // A static program that a static one executes is not reached.
            ways.push(("run, static", run(fixed), ["at first: 111", "in a fork: 111", "executed: 000"]));
        }
        for (way, command, is_served) in ways {
            // A child that finds the kernel's tick late asks the kernel meanwhile: so once more.
            let mut tries = (0..5).map(|_| calls(&command)).inspect(|found| {
                assert_eq!(found.answers, plain.answers, "{way} {prefix:?}");
            });
            assert!(tries.any(|found| found.is_served == is_served), "{way} {prefix:?} was not served");
        }
    }
}
