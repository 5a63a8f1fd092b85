//! A page, a library and programs for tests of `tickline run`.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{OnceLock, mpsc};
use std::thread;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};
use tempfile::TempDir;

use crate::common::text;
use crate::page::{counter_is_readable, served_page};

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
        self.run_with(&self.page, program)
    }

    /// As [`run`](Self::run), with another page.
    pub(crate) fn run_with(&self, page: &Path, program: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
        command.args(["run", "--always", "--page"]).arg(page).arg("--library").arg(self.library);
        command.arg("--").args(program).env_remove("TICKLINE").env_remove("LD_PRELOAD");
        command
    }

    /// The same for a program that is traced; `program` has its path.
    pub(crate) fn run_traced(&self, program: &[&str]) -> Command {
        self.run(&[&[TRACED], program].concat())
    }
}

/// A program with its arguments.
pub(crate) fn program<S: AsRef<OsStr>>(words: &[S]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// `command` with these words before its own.
pub(crate) fn behind<S: AsRef<OsStr>>(prefix: &[S], command: &Command) -> Command {
    let prefix = prefix.iter().map(AsRef::as_ref);
    let words: Vec<_> = prefix.chain([command.get_program()]).chain(command.get_args()).collect();
    let mut prefixed = program(&words);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => prefixed.env(name, value),
            None => prefixed.env_remove(name),
        };
    }
    prefixed
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
    let output = output(&mut behind(prefix, command));
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

/// Runs a program, and refuses each exec of a process that is traced. Returns how many were refused, too;
/// `None`, with the reason on standard output, where the kernel does not ask a supervisor (Linux 5.6).
pub(crate) fn supervised(mut command: Command, error: libc::c_int) -> Option<(Output, u32)> {
    let (tell, told) = mpsc::channel();
    // The filter is this thread's, and that of what it starts.
    let thread = thread::spawn(move || {
        let listener = ask_supervisor();
        let is_asking = listener.is_ok();
        tell.send(listener).unwrap();
        is_asking.then(|| output(&mut command))
    });
    let refused = told.recv().unwrap().map(|listener| supervise(&listener, error));
    match (thread.join().unwrap(), refused) {
        (Some(output), Ok(refused)) => Some((output, refused)),
        (_, refused) => {
            println!("SKIPPED: a supervisor of execs: {refused:?}");
            None
        }
    }
}

/// Lets the kernel ask about each exec of this thread and of its children.
fn ask_supervisor() -> io::Result<OwnedFd> {
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
    match i32::try_from(listener) {
        // SAFETY: a new file of this process.
        Ok(file @ 0..) => Ok(unsafe { OwnedFd::from_raw_fd(file) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Answers until nobody is left who asks. Returns how many execs were refused.
fn supervise(listener: &OwnedFd, error: libc::c_int) -> u32 {
    let mut refused = 0;
    loop {
        let mut ready = libc::pollfd { fd: listener.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: there is room for the answer.
        unsafe { libc::poll(&raw mut ready, 1, -1) };
        if ready.revents & libc::POLLIN == 0 {
            return refused;
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
