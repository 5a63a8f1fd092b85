//! `tickline run`: gives a program and its children the clock of the machine's page.
//!
//! arguments -> the reasons why not (here, and `kind`) -> `LD_PRELOAD` -> if no dynamic linker looks
//! at that, a helper that traces the program's first step (`tracer`), and maps the library into it
//! (`inject`) -> the program in place of this process

#![allow(unsafe_code, reason = "what the standard library does before `main` is undone; one thread")]

mod image;
mod inject;
mod kind;
mod tracee;
mod tracer;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use tickline::page::LeasePhase;
use tickline_page::host::PageFile;
use tickline_page::program::{
    ALWAYS, FinishFlag, LIBRARY, OFF, PAGE_VARIABLE, SERVE_VARIABLE, SWITCH_VARIABLE, kernels_clock_is_fast,
};
use tickline_page::{Counter as _, HardwareCounter};

use crate::args;
use crate::exit::Exit;
use crate::machine;
use crate::measure::calls::{self, MONOTONIC, SYSTEM_CALL};
use crate::measure::narrowest;
use crate::serve;
use crate::signal::is_ignored;
use crate::words;

use image::Image;
use inject::{Payload, Start};
use kind::Kind;
use tracer::Helper;

/// The exit codes of a shell and of env(1) for a program that cannot be executed, and for a program
/// that is missing.
const NOT_EXECUTED: i32 = 126;
const NOT_FOUND: i32 = 127;

/// For ld.so(8).
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// Where `execvp` looks without `PATH`: glibc in the last two, musl in all.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Replaces this process by the program. Returns only what keeps it from trying.
pub(crate) fn run(args: &args::Run) -> io::Result<Exit> {
    take_signals_as_found();
    let (program, arguments) = args.command.split_first().expect("clap demands one");
    let file = path_of(program).filter(|file| is_executable(file));
    let kind = file.as_deref().map_or(Kind::Unknown, Kind::of);
    let reporter = Reporter { name: program.to_string_lossy().into_owned(), is_quiet: args.quiet, kind };
    let mut command = Command::new(program);
    command.args(arguments);
    let mut helper = None;
    // Without a file it will not be executed, which the error below says: it has no clock.
    if file.is_some() {
        match prepare(args, &reporter) {
            Ok(traced_by) => helper = traced_by,
            Err(why) => reporter.say_not(&why.to_string()),
        }
    }
    leave_files_as_found(&mut command);
    let mut error = command.exec();
    if let Some(helper) = helper {
        helper.dismiss();
        // SELinux and AppArmor can refuse an exec because the process is traced: EPERM or EACCES.
        if error.kind() == io::ErrorKind::PermissionDenied && file.is_some() {
            reporter.say_not(&format!("the kernel refuses to execute it while tickline traces it: {error}"));
            error = command.exec();
        }
    }
    writeln!(io::stderr(), "{}", message(&format!("{}: {error}", reporter.name))).ok();
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    std::process::exit(if is_missing { NOT_FOUND } else { NOT_EXECUTED })
}

/// What this process found when it began. Before `main`, the standard library ignores SIGPIPE,
/// handles SIGSEGV and SIGBUS, and opens standard files that are closed, for its own sake.
static IGNORED_SIGPIPE: AtomicBool = AtomicBool::new(false);
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static BEGUN: extern "C" fn() = begun;

/// Runs before the standard library's own beginning.
extern "C" fn begun() {
    // ORDERING: Relaxed: one thread.
    IGNORED_SIGPIPE.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    for (file, is_closed) in (0..).zip(&CLOSED) {
        // SAFETY: the call takes no pointer, and changes nothing; a number that is no open file is
        // an error code.
        let flags = unsafe { libc::fcntl(file, libc::F_GETFD) };
        // ORDERING: Relaxed, as above.
        is_closed.store(flags == -1, Ordering::Relaxed);
    }
}

/// Signals do to this process from now on what they would do to the program.
fn take_signals_as_found() {
    // ORDERING: Relaxed, as above.
    let pipe = (!IGNORED_SIGPIPE.load(Ordering::Relaxed)).then_some(libc::SIGPIPE);
    // Those that are ignored have no handler.
    let handled = [libc::SIGSEGV, libc::SIGBUS].into_iter().filter(|signal| !is_ignored(*signal));
    for signal in handled.chain(pipe) {
        // SAFETY: the default action runs no code of this process, so nothing has to be safe in a
        // handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Lets the program find the standard files as this process has found them.
fn leave_files_as_found(command: &mut Command) {
    let leave = || {
        // ORDERING: Relaxed, as above.
        if IGNORED_SIGPIPE.load(Ordering::Relaxed) {
            // SAFETY: an ignored signal runs no code of this process.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for (file, is_closed) in (0..).zip(&CLOSED) {
            // ORDERING: Relaxed, as above.
            if is_closed.load(Ordering::Relaxed) {
                // SAFETY: the file was closed at the start. So the standard library has opened
                // `/dev/null` there, and no value of this process owns it.
                unsafe { libc::close(file) };
            }
        }
        Ok(())
    };
    // SAFETY: `exec` does not fork, so `leave` runs in a whole process, where it may do anything.
    unsafe { command.pre_exec(leave) };
}

/// Prepares the program: by `LD_PRELOAD`, or by the helper that is returned. The error says why the
/// program is executed plainly.
fn prepare(args: &args::Run, reporter: &Reporter) -> io::Result<Option<Helper>> {
    let plainly = |why: String| Err(io::Error::other(why));
    if env::var_os(SWITCH_VARIABLE).is_some_and(|value| value == OFF) {
        return plainly(format!("{SWITCH_VARIABLE}={OFF}"));
    }
    let clocksource = machine::clocksource().unwrap_or_default();
    let is_always = args.always
        || env::var_os(SERVE_VARIABLE).is_some_and(|value| value == ALWAYS)
        || is_kvm_clock_slow(&clocksource);
    if !is_always && kernels_clock_is_fast() {
        return plainly(format!("it needs no system call here (clocksource {clocksource})"));
    }
    if let Kind::Plain(why) = &reporter.kind {
        return plainly(why.clone());
    }
    let image = Image::read(&library(args)?)?;
    let named = args.page.clone().or_else(|| env::var_os(PAGE_VARIABLE).map(PathBuf::from));
    let page = match named {
        Some(page) => std::path::absolute(page)?,
        None => {
            let found = serve::pages().into_iter().find(|page| page.exists());
            found.ok_or_else(|| io::Error::other("no page is served: see `tickline serve`"))?
        }
    };
    // The program would find the same, but could not say as much.
    let (file, _) = PageFile::attach(&page).map_err(io::Error::other)?;
    if machine::counter_readable() == Some(false) {
        return Err(io::Error::other("this process may not read the counter (PR_SET_TSC)"));
    }
    // The last one, as ld.so does.
    let present = env::vars_os().filter(|(name, _)| name == PRELOAD_VARIABLE).last().map(|(_, value)| value);
    let libraries = preload(&image.path, present.as_deref())?;
    // By `Command`, the others would be sorted, and some lost.
    set(PRELOAD_VARIABLE, &libraries);
    set(PAGE_VARIABLE, page.as_os_str());
    if is_always {
        set(SERVE_VARIABLE, OsStr::new(ALWAYS));
    }
    let missing = missing(&file);
    match reporter.kind {
        Kind::Dynamic => {
            reporter.say_served(&page, missing);
            return Ok(None);
        }
        Kind::Foreign => return Err(io::Error::other("it is not a 64-bit x86_64 program")),
        _ => {}
    }
    let payload = Payload { image: &image, page: &page, finish: finish_flags() };
    let helper = tracer::fork_helper(payload, &|start| reporter.say_start(start, &page, missing))
        .map_err(|error| io::Error::new(error.kind(), format!("it cannot be traced: {error}")))?;
    Ok(Some(helper))
}

/// Whether this is kvm-clock, and the vDSO does not read it: the host guarantees no stable TSC
/// (`PVCLOCK_TSC_STABLE_BIT`), or the kernel's command line has `no-kvmclock-vsyscall`.
fn is_kvm_clock_slow(clocksource: &str) -> bool {
    clocksource == "kvm-clock"
        && machine::counter_readable() != Some(false)
        && !is_cheaper(MONOTONIC, SYSTEM_CALL)
}

/// Whether a call takes at most three quarters of the other one's time. The vDSO takes a third of a
/// system call, or less. Where the vDSO has to make the system call, it takes longer than that.
fn is_cheaper(call: &str, other: &str) -> bool {
    const BRACKETS: u32 = 64;
    let Some(counter) = HardwareCounter::if_present() else { return true };
    let calls = calls::all(true);
    let ticks = |name| {
        let call = calls.iter().find(|call| call.name == name)?.run.as_ref()?;
        let (start, (), end) = narrowest(BRACKETS, || counter.now_ordered(), || call(1));
        Some(end.wrapping_sub(start))
    };
    let ticks = ticks(call).zip(ticks(other));
    ticks.is_none_or(|(ticks, other)| ticks.saturating_mul(4) < other.saturating_mul(3))
}

/// What the helper's breakpoints and its end would change in the program.
fn finish_flags() -> i32 {
    let ignore_trap = if is_ignored(libc::SIGTRAP) { FinishFlag::IgnoreTrap as i32 } else { 0 };
    // The kernel sends it after an exec, whatever signal was agreed upon (Linux,
    // `do_notify_parent`). One that is pending already stays the only one.
    let is_blocked = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Signal::SIGCHLD));
    let is_pending = pending().contains(Signal::SIGCHLD);
    // That of another child would be lost with it.
    let ends = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
    let has_children = waitid(Id::All, ends) != Err(Errno::ECHILD);
    let takes_child = is_blocked && !is_pending && !has_children;
    ignore_trap | if takes_child { FinishFlag::TakeChild as i32 } else { 0 }
}

/// The signals that wait for this thread.
fn pending() -> SigSet {
    let mut set = *SigSet::empty().as_ref();
    // SAFETY: the call writes a set of signals to `set`, which is one.
    unsafe { libc::sigpending(&raw mut set) };
    // SAFETY: it was an empty set before, so it is a set whether or not the call has filled it.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

/// Sets a variable of this process's environment, which the program gets. If the variable stands
/// there more than once, ld.so and the program may read different ones, so this removes all of them
/// first.
fn set(variable: &str, value: &OsStr) {
    // SAFETY: this process has one thread, so nobody reads the environment meanwhile.
    unsafe { env::remove_var(variable) };
    // SAFETY: as above.
    unsafe { env::set_var(variable, value) };
}

/// The library: as the user says, or beside this program, or where packages have it.
fn library(args: &args::Run) -> io::Result<PathBuf> {
    if let Some(path) = &args.library {
        return std::path::absolute(path);
    }
    let program = env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = [folder.join(LIBRARY), folder.join("../lib").join(LIBRARY)];
    let found = places.iter().find(|path| path.is_file()).ok_or_else(|| {
        let folder = folder.display();
        io::Error::other(format!("no {LIBRARY} in {folder} or {folder}/../lib: name it with --library"))
    });
    fs::canonicalize(found?)
}

/// `LD_PRELOAD` with the library behind the libraries that are there already. A library that must
/// stand before libc's functions for other reasons, such as libfaketime, still does.
fn preload(library: &Path, present: Option<&OsStr>) -> io::Result<OsString> {
    // ld.so(8): both separate, and the third begins a token.
    if library.as_os_str().as_encoded_bytes().iter().any(|byte| b" :$".contains(byte)) {
        let text = format!("{}: LD_PRELOAD takes no path with a space, `:` or `$`", library.display());
        return Err(io::Error::other(text));
    }
    let mut value = present.map_or_else(OsString::new, OsStr::to_owned);
    // From a `run` around this one.
    if value
        .as_encoded_bytes()
        .split(|byte| b" :".contains(byte))
        .any(|path| path == library.as_os_str().as_encoded_bytes())
    {
        return Ok(value);
    }
    if !value.is_empty() {
        value.push(":");
    }
    value.push(library);
    Ok(value)
}

/// The file that `execvp` takes for `program`.
fn path_of(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    env::split_paths(&path).map(|folder| folder.join(program)).find(|file| is_executable(file))
}

/// Whether this process may execute `file`, as far as the file tells.
fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Says once, on standard error, what was done, or why not.
struct Reporter {
    name: String,
    is_quiet: bool,
    kind: Kind,
}

impl Reporter {
    fn say_not(&self, why: &str) {
        let name = &self.name;
        let libraries = env::var_os(PRELOAD_VARIABLE).unwrap_or_default();
        let is_preloaded = libraries.to_string_lossy().contains(LIBRARY);
        self.say(&match self.kind {
            _ if !is_preloaded => format!("{name} has the kernel's clock: {why}"),
            Kind::Static | Kind::Foreign => {
                format!("{name} has the kernel's clock: {why}; {LIBRARY} is in LD_PRELOAD")
            }
            _ => format!("{name} is served by {LIBRARY} in LD_PRELOAD alone: {why}"),
        });
    }

    /// Says what is known now. Whether a dynamic linker loads the library shows only later.
    fn say_served(&self, page: &Path, missing: Option<&str>) {
        let (name, page) = (&self.name, page.display());
        if let Some(why) = missing {
            return self.say(&format!("{name} asks the kernel until {page} is served: {why}"));
        }
        let has = match self.kind {
            Kind::Dynamic => format!("LD_PRELOAD gives {name} the clock of {page}"),
            _ => format!("{name} has the clock of {page}"),
        };
        self.say(&format!("{has}; dynamic programs that it starts with LD_PRELOAD have it, too"));
    }

    /// What came of the helper's work.
    fn say_start(&self, start: io::Result<Start>, page: &Path, missing: Option<&str>) {
        match start {
            Ok(Start::Served) => self.say_served(page, missing),
            Ok(Start::Not(why)) => self.say_not(&why),
            Ok(Start::Unrestored(why)) => Self::say_always(&format!("{} is killed: {why}", self.name)),
            Err(error) => self.say_not(&error.to_string()),
        }
    }

    fn say(&self, text: &str) {
        if !self.is_quiet {
            Self::say_always(text);
        }
    }

    fn say_always(text: &str) {
        // The program does not wait for a reader of standard error, and does not end for want of a
        // reader. A full pipe gets no line, nor does a pipe that nobody reads. A pipe with room
        // takes the line at once.
        let stderr = io::stderr();
        let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        poll(&mut room, PollTimeout::ZERO).ok();
        if room[0].revents() != Some(PollFlags::POLLOUT) {
            return;
        }
        let mut text = message(text).into_bytes();
        text.truncate(libc::PIPE_BUF - 1);
        text.push(b'\n');
        // What a write may send: no reader, a limit of files, a terminal that stops who is in the
        // background.
        let noise: SigSet = [Signal::SIGPIPE, Signal::SIGXFSZ, Signal::SIGTTOU].into_iter().collect();
        let (before, mask) = (pending(), noise.thread_swap_mask(SigmaskHow::SIG_BLOCK));
        nix::unistd::write(&stderr, &text).ok();
        for signal in noise.iter().filter(|signal| pending().contains(*signal) && !before.contains(*signal)) {
            SigSet::from(signal).wait().ok();
        }
        if let Ok(mask) = mask {
            mask.thread_set_mask().ok();
        }
    }
}

/// A message, as a line. It contains names of files, which others may have chosen.
fn message(text: &str) -> String {
    format!("tickline: {}", words::plain(text))
}

/// What the page lacks for now; `None` if it is served.
fn missing(file: &PageFile) -> Option<&'static str> {
    let counter = HardwareCounter::if_present()?;
    let found = file.snapshot(&counter);
    (!found.is_served).then_some(match found.phase {
        LeasePhase::Off => "it is switched off",
        LeasePhase::NoLine | LeasePhase::FirstPublication => "it has no line",
        _ => "its server is gone or stopped",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `run` said of each guest with kvm-clock that its clock needs no system call.
    #[test]
    fn a_call_without_the_vdso_is_not_cheaper_than_a_system_call() {
        assert!(!is_cheaper(SYSTEM_CALL, SYSTEM_CALL));
        // With any clocksource the vDSO answers this one.
        let is_mapped = fs::read_to_string("/proc/self/maps").is_ok_and(|maps| maps.contains("[vdso]"));
        assert!(!is_mapped || is_cheaper("clock_gettime MONOTONIC_COARSE", SYSTEM_CALL));
    }

    #[test]
    fn the_library_is_preloaded_once_and_behind_others() {
        let library = Path::new("/lib/ours.so");
        for (present, expected) in [
            (None, "/lib/ours.so"),
            (Some(""), "/lib/ours.so"),
            (Some("/lib/other.so"), "/lib/other.so:/lib/ours.so"),
            // Programs that start others under `run`, again and again.
            (Some("/lib/ours.so"), "/lib/ours.so"),
            (Some("/lib/ours.so /lib/other.so"), "/lib/ours.so /lib/other.so"),
            (Some("/lib/ours.so.1"), "/lib/ours.so.1:/lib/ours.so"),
        ] {
            assert_eq!(preload(library, present.map(OsStr::new)).unwrap(), expected, "{present:?}");
        }
        assert!(preload(Path::new("/my lib/ours.so"), None).is_err());
    }
}
