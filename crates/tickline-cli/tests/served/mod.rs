//! A page, a library and programs for tests of `tickline run`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::{ptr, thread};

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use tempfile::TempDir;

use crate::common::text;
use crate::page::{counter_is_readable, served_page};

/// Where a program that executes itself again finds page and library, and how often it was served.
pub(crate) const PAGE: &str = "TICKLINE_TEST_PAGE";
const LIBRARY: &str = "TICKLINE_TEST_LIBRARY";
pub(crate) const COUNT: &str = "TICKLINE_TEST_COUNT";

/// A dynamic linker. As a program, it is one that no dynamic linker loads: `tickline run` traces it.
pub(crate) const TRACED: &str = "/lib64/ld-linux-x86-64.so.2";

/// A page that serves, and the library.
pub(crate) struct Served {
    folder: TempDir,
    page: PathBuf,
    library: &'static Path,
}

impl Served {
    /// `None`, with the reason on standard output, where no page can be served.
    pub(crate) fn new() -> Option<Self> {
        if !counter_is_readable() {
            println!("SKIPPED: the counter may not be read");
            return None;
        }
        if !Path::new(TRACED).exists() {
            println!("SKIPPED: there is no {TRACED}");
            return None;
        }
        let library = library()?;
        let (folder, page) = served_page();
        Some(Self { folder, page, library })
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn page(&self) -> &Path {
        &self.page
    }

    pub(crate) const fn library(&self) -> &Path {
        self.library
    }

    /// `tickline run`, which serves the program.
    pub(crate) fn run(&self, program: &[&str]) -> Command {
        run(&self.page, self.library, program)
    }

    /// As [`run`](Self::run), with another page.
    pub(crate) fn run_with(&self, page: &Path, program: &[&str]) -> Command {
        run(page, self.library, program)
    }

    /// The same for a program that is traced; `program` has its path.
    pub(crate) fn run_traced(&self, program: &[&str]) -> Command {
        self.run(&[&[TRACED], program].concat())
    }

    pub(crate) fn paths(&self) -> [(&'static str, &OsStr); 2] {
        [(PAGE, self.page.as_os_str()), (LIBRARY, self.library.as_os_str())]
    }
}

/// As [`Served::run`], by what [`Served::paths`] has put into the environment.
pub(crate) fn run_by_environment(program: &[&str]) -> Command {
    let path = |name| PathBuf::from(env::var_os(name).unwrap());
    run(&path(PAGE), &path(LIBRARY), program)
}

fn run(page: &Path, library: &Path, program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
    command
        .args(["run", "--always", "--page"])
        .arg(page)
        .arg("--library")
        .arg(library)
        .arg("--")
        .args(program);
    command.env_remove("TICKLINE").env_remove("LD_PRELOAD");
    command
}

/// The library as programs get it: the one that cargo builds for tests needs libc.
fn library() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let Some(cargo) = env::var_os("CARGO") else {
            println!("SKIPPED: no cargo builds the library: this test was not started by it");
            return None;
        };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--offline", "--profile", "preload", "-p", "tickline-preload"])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
        Some(target.join("preload/libtickline_preload.so"))
    };
    BUILT.get_or_init(build).as_deref()
}

/// A program of `c/`, dynamic and, where a static libc is installed, static.
pub(crate) fn compile(source: &str) -> Option<(String, Option<String>)> {
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let one = |name: &str, flags: &[&str]| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/c/{source}.c"));
        let mut command = Command::new(&compiler);
        command.args(["-O1", "-Wall", "-Wextra", "-Werror", "-Wno-nonnull", "-pthread"]).args(flags);
        let output = command.arg("-o").args([&program, &source]).output()?;
        if output.status.success() {
            Ok(program.to_str().unwrap().to_owned())
        } else {
            Err(io::Error::other(text(&output.stderr)))
        }
    };
    let dynamic = match one(source, &[]) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            println!("SKIPPED: {compiler} does not run: {error}");
            return None;
        }
        dynamic => dynamic.unwrap(),
    };
    let fixed = one(&format!("{source}-static"), &["-static"]);
    if let Err(error) = &fixed {
        println!("SKIPPED: static programs: {error}");
    }
    Some((dynamic, fixed.ok()))
}

pub(crate) struct Calls {
    /// What must be the same however the program is started.
    pub(crate) answers: Vec<String>,
    /// Which clocks are the page's.
    pub(crate) is_served: Vec<String>,
}

/// Runs `c/calls.c` as `command` has it, behind `prefix`.
pub(crate) fn calls(prefix: &[&str], command: &Command) -> Calls {
    let words: Vec<&OsStr> =
        prefix.iter().map(OsStr::new).chain([command.get_program()]).chain(command.get_args()).collect();
    let mut prefixed = Command::new(words[0]);
    prefixed.args(&words[1..]);
    prefixed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = output(&mut prefixed);
    assert_eq!(output.status.code(), Some(0), "{prefix:?} {command:?}: {output:?}");
    let (is_served, mut answers): (Vec<_>, Vec<_>) =
        text(&output.stdout).lines().map(str::to_owned).partition(|line| line.starts_with("served "));
    assert!(answers.len() > 300, "{} lines", answers.len());
    // There each of these is a system call, with another error, and signal.
    let clocksource = fs::read(tickline_page::program::CLOCKSOURCE).unwrap_or_default();
    if !tickline_page::program::is_fast(&clocksource) {
        println!(
            "SKIPPED: wrong addresses, seccomp and PR_SET_TSC: the kernel's clock is a system call here"
        );
        answers.retain(|line| {
            !line.starts_with("seccomp") && !line.starts_with("PR_SET_TSC") && !line.contains(" into ")
        });
    }
    let is_served = is_served.iter().map(|line| line["served ".len()..].to_owned()).collect();
    Calls { answers, is_served }
}

pub(crate) fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Blocks a signal in this process.
pub(crate) fn blocked(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: all zeros are a valid value.
    let mut set: libc::sigset_t = unsafe { mem::zeroed() };
    // SAFETY: there is room for the set.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: the kernel reads the set, no more.
    let result = unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const set, ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Ignores a signal in this process.
pub(crate) fn ignored(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: no handler.
    let former = unsafe { libc::signal(signal, libc::SIG_IGN) };
    if former == libc::SIG_ERR { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Takes a pending signal that is blocked. Returns the number that was sent with it.
pub(crate) fn pending(signal: libc::c_int) -> Option<usize> {
    // SAFETY: all zeros are a valid value.
    let (mut set, mut info): (libc::sigset_t, libc::siginfo_t) = unsafe { mem::zeroed() };
    // SAFETY: there is room for the set.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the answer.
    let taken = unsafe { libc::sigtimedwait(&raw const set, &raw mut info, &raw const at_once) };
    // SAFETY: the signal was sent by `sigqueue`.
    (taken == signal).then(|| unsafe { info.si_value() }.sival_ptr.addr())
}

/// Lets a system call fail with EACCES in the process and all that it executes, if an argument is this.
pub(crate) fn refuse(command: &mut Command, call: libc::c_long, argument: u8, value: u64) {
    let condition =
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value).unwrap();
    let rule = SeccompRule::new(vec![condition]).unwrap();
    let error = SeccompAction::Errno(u32::try_from(libc::EACCES).unwrap());
    let architecture = env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(
        [(call, vec![rule])].into_iter().collect(),
        SeccompAction::Allow,
        error,
        architecture,
    );
    let filter: BpfProgram = filter.unwrap().try_into().unwrap();
    // SAFETY: system calls alone.
    unsafe { command.pre_exec(move || seccompiler::apply_filter(&filter).map_err(io::Error::other)) };
}

pub(crate) struct Supervised {
    pub(crate) output: Output,
    /// How many execs were refused.
    pub(crate) refused: u32,
}

/// Runs a program, and refuses each exec of a process that is traced. `None`, with the reason on
/// standard output, where the kernel does not ask a supervisor (Linux 5.6).
pub(crate) fn supervised(mut command: Command, error: libc::c_int) -> Option<Supervised> {
    let (number, written) = UnixStream::pair().unwrap();
    let tell = written.as_raw_fd();
    // SAFETY: system calls alone.
    unsafe { command.pre_exec(move || ask_supervisor(tell)) };
    let supervisor = thread::spawn(move || supervise(number, error));
    let output = command.stdin(Stdio::null()).output();
    drop(written);
    let refused = supervisor.join().unwrap();
    match (output, refused) {
        (Ok(output), Ok(refused)) => Some(Supervised { output, refused }),
        (Err(error), _) | (_, Err(error)) => {
            println!("SKIPPED: a supervisor of execs: {error}");
            None
        }
    }
}

/// Lets the kernel ask about each exec. Tells the supervisor this process's number, and that of the file.
fn ask_supervisor(tell: libc::c_int) -> io::Result<()> {
    const EXECVE: u32 = 59;
    let statement =
        |code: u32, jt, jf, k| libc::sock_filter { code: u16::try_from(code).unwrap(), jt, jf, k };
    let mut filter = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, 1, EXECVE),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_USER_NOTIF),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: no pointer goes in.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let (mode, flags) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_NEW_LISTENER);
    // SAFETY: the kernel reads the filter, no more.
    let listener = unsafe { libc::syscall(libc::SYS_seccomp, mode, flags, &raw const program) };
    if listener < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: no pointer goes in.
    let pid = unsafe { libc::getpid() };
    let mut message = [0; 8];
    message[..4].copy_from_slice(&pid.to_ne_bytes());
    message[4..].copy_from_slice(&i32::try_from(listener).unwrap().to_ne_bytes());
    // SAFETY: the kernel reads the message, no more.
    let written = unsafe { libc::write(tell, message.as_ptr().cast(), message.len()) };
    // The kernel tells the supervisor when the last process with the filter has ended, whoever has
    // the file open. Standard input and output alone reach the program.
    if written == 8 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Answers until nobody is left who asks. Returns how many execs were refused.
fn supervise(mut number: UnixStream, error: libc::c_int) -> io::Result<u32> {
    let mut message = [0; 8];
    io::Read::read_exact(&mut number, &mut message)?;
    let [pid, listener] =
        [&message[..4], &message[4..]].map(|word| i32::from_ne_bytes(word.try_into().unwrap()));
    let file = |result: libc::c_long| match i32::try_from(result) {
        // SAFETY: a new file of this process.
        Ok(file) if file >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
        _ => Err(io::Error::last_os_error()),
    };
    // SAFETY: no pointer goes in.
    let process = file(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) })?;
    // SAFETY: as above.
    let listener = file(unsafe { libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), listener, 0) })?;
    let mut refused = 0;
    loop {
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is room for the answer.
        unsafe { libc::poll(&raw mut ready, 1, -1) };
        if ready.revents & libc::POLLIN == 0 {
            return Ok(refused);
        }
        // SAFETY: all zeros are a valid value.
        let mut question: libc::seccomp_notif = unsafe { mem::zeroed() };
        // SAFETY: there is room for the question.
        let received =
            unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut question) };
        if received != 0 {
            continue;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", question.pid)).unwrap_or_default();
        let is_traced = !status.contains("TracerPid:\t0\n");
        refused += u32::from(is_traced);
        let go_on = u32::try_from(libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE).unwrap();
        let answer = libc::seccomp_notif_resp {
            id: question.id,
            val: 0,
            error: if is_traced { -error } else { 0 },
            flags: if is_traced { 0 } else { go_on },
        };
        // SAFETY: the kernel reads the answer, no more.
        unsafe { libc::ioctl(listener.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw const answer) };
    }
}
