//! `tickline run`: gives a program and its children the clock of the machine's page.
//!
//! The command looks for a reason not to serve the program (here and in `kind`), and puts the
//! library into `LD_PRELOAD`. If no dynamic linker will read that variable, it forks a helper that
//! traces the exec (`tracer`) and maps the library (`inject`). Then the program replaces this
//! process.

#![allow(
    unsafe_code,
    reason = "undoes what the standard library does before `main`; one thread"
)]

mod find;
mod image;
mod inject;
mod kind;
mod tracee;
mod tracer;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use tickline_page::HardwareCounter;
use tickline_page::lease::LeasePhase;
use tickline_page::page_file::{AttachedFile, PageFile};
use tickline_page::program::{
    ALWAYS, LIBRARY, OFF, PAGE_VARIABLE, ResumeFlag, SERVE_VARIABLE, SWITCH_VARIABLE,
    kernels_clock_is_fast,
};

use crate::args;
use crate::exit::Exit;
use crate::machine::{self, library};
use crate::measure::calls::{MONOTONIC, SYSTEM_CALL};
use crate::measure::cheaper::is_cheaper;
use crate::output::line_to_stderr;
use crate::signal::is_ignored;
use crate::words;

use super::serve::{absolute, no_default_page, page_error};

use image::Image;
use inject::{Outcome, Payload};
use kind::ProgramKind;
use tracer::Helper;

/// The libraries that ld.so(8) loads before all others.
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// Why a program of 32 bits, or for another processor, is not served.
const FOREIGN: &str =
    "it is not a 64-bit x86_64 program, and `run` serves no other: build it for x86_64";

/// The folders that `execvp` searches without `PATH`: musl all three, glibc the last two.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Replaces this process by the program. If the exec fails, prints the error and exits.
pub(crate) fn run(args: &args::Run) -> ! {
    restore_inherited_signal_actions();
    let (program, arguments) = args.command.split_first().expect("clap demands one");
    let file = resolve_program(program).filter(|file| is_executable(file));
    let kind = file
        .as_deref()
        .map_or(ProgramKind::Unknown, ProgramKind::detect);
    let reporter = Reporter {
        name: program.to_string_lossy().into_owned(),
        is_quiet: args.quiet,
        kind,
    };
    let mut command = Command::new(program);
    command.args(arguments);
    let mut helper = None;
    // Without an executable file the exec below fails, so no line about the clock is printed.
    if file.is_some() {
        match prepare(args, &reporter) {
            Ok(forked) => helper = forked,
            Err(why) => reporter.say_why(&why.to_string()),
        }
    }
    restore_inherited_files(&mut command);
    let mut error = command.exec();
    if let Some(helper) = helper {
        helper.kill();
        // SELinux and AppArmor can refuse an exec because the process is traced: EPERM or EACCES.
        if error.kind() == io::ErrorKind::PermissionDenied && file.is_some() {
            reporter.say_why(&format!(
                "the kernel refuses to execute it while tickline traces it: {error}"
            ));
            error = command.exec();
        }
    }
    line_to_stderr(&message(&format!("{}: {error}", reporter.name)));
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        _ => Exit::NotExecuted,
    };
    std::process::exit(exit.code().into())
}

/// The inherited state: whether SIGPIPE was ignored, and which standard files were closed. Before
/// `main`, the standard library ignores SIGPIPE, handles SIGSEGV and SIGBUS, and opens these files.
static INHERITED_SIGPIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static INHERITED_CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static RECORD_AT_START: extern "C" fn() = record_inherited_state;

/// Runs before the start-up code of the standard library.
extern "C" fn record_inherited_state() {
    // ORDERING: Relaxed, because this process has one thread: no other thread loads or stores.
    INHERITED_SIGPIPE_IGNORED.store(is_ignored(libc::SIGPIPE), Ordering::Relaxed);
    for (file, is_closed) in (0..).zip(&INHERITED_CLOSED) {
        // SAFETY: the call takes no pointer, and changes nothing. For a closed descriptor it
        // returns an error.
        let flags = unsafe { libc::fcntl(file, libc::F_GETFD) };
        // ORDERING: Relaxed, because this process has one thread.
        is_closed.store(flags == -1, Ordering::Relaxed);
    }
}

fn restore_inherited_signal_actions() {
    // ORDERING: Relaxed, because this process has one thread.
    let pipe = (!INHERITED_SIGPIPE_IGNORED.load(Ordering::Relaxed)).then_some(libc::SIGPIPE);
    // The standard library leaves an ignored SIGSEGV or SIGBUS alone.
    let handled = [libc::SIGSEGV, libc::SIGBUS]
        .into_iter()
        .filter(|signal| !is_ignored(*signal));
    for signal in handled.chain(pipe) {
        // SAFETY: the default action runs no code of this process.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Restores the inherited closed files and ignored SIGPIPE, just before the exec.
fn restore_inherited_files(command: &mut Command) {
    let restore = || {
        // ORDERING: Relaxed, because this process has one thread.
        if INHERITED_SIGPIPE_IGNORED.load(Ordering::Relaxed) {
            // SAFETY: an ignored signal runs no code of this process.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for (file, is_closed) in (0..).zip(&INHERITED_CLOSED) {
            // ORDERING: Relaxed, because this process has one thread.
            if is_closed.load(Ordering::Relaxed) {
                // SAFETY: the file was closed at the start. The standard library has opened
                // `/dev/null` there, and no value of this process owns that descriptor.
                unsafe { libc::close(file) };
            }
        }
        Ok(())
    };
    // SAFETY: `exec` does not fork, so the rules for a forked child do not apply to `restore`.
    unsafe { command.pre_exec(restore) };
}

/// Which clock a program is to get.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wish {
    /// The kernel's, for this reason.
    Kernels(String),
    /// The page's, if the library finds the kernel's clock slow, too.
    IfSlow,
    /// The page's, whatever the library finds.
    Always,
}

impl Wish {
    fn of(args: &args::Run) -> Self {
        if env::var_os(SWITCH_VARIABLE).is_some_and(|value| value == OFF) {
            return Self::Kernels(format!("{SWITCH_VARIABLE}={OFF}"));
        }
        if args.always || env::var_os(SERVE_VARIABLE).is_some_and(|value| value == ALWAYS) {
            return Self::Always;
        }
        if !kernels_clock_is_fast() {
            return Self::IfSlow;
        }
        let clocksource = machine::clocksource().unwrap_or_default();
        if is_kvm_clock_slow(&clocksource) {
            // The library judges by the name alone.
            return Self::Always;
        }
        Self::Kernels(format!(
            "it needs no system call here (clocksource {clocksource}); to use the page all the \
             same: tickline run --always"
        ))
    }
}

/// Sets `LD_PRELOAD`, and forks a helper if the program has no dynamic linker. Returns the helper.
/// If the library would not serve the program either, says so, and returns no helper. The error
/// says why this command does not serve the program.
fn prepare(args: &args::Run, reporter: &Reporter) -> io::Result<Option<Helper>> {
    let wish = Wish::of(args);
    if let Wish::Kernels(why) = &wish {
        reporter.say_unserved(why);
        return Ok(None);
    }
    // If it is not served after all, `serve status` finds it by this variable.
    set_variable(
        machine::page::RUN_VARIABLE,
        OsStr::new(&std::process::id().to_string()),
    );
    if let ProgramKind::Untraceable(why) = &reporter.kind {
        return Err(io::Error::other(why.clone()));
    }
    let image = match &args.library {
        Some(path) => Image::read(&absolute(path)?)?,
        None => find::image()?,
    };
    let page = chosen_page(args)?;
    // The library would find the same faults in the page, but could not report them.
    let attached = AttachedFile::open(&page).map_err(page_error)?;
    if machine::may_read_counter() == Some(false) {
        return Err(io::Error::other(
            "this process may not read the counter (PR_SET_TSC)",
        ));
    }
    set_variables_of_library(&image.path, &page, &wish)?;
    let reason = reason_not_serving(attached.file());
    match reporter.kind {
        ProgramKind::Dynamic => {
            reporter.say_served(&page, &image, reason);
            return Ok(None);
        }
        ProgramKind::Foreign => return Err(io::Error::other(FOREIGN)),
        _ => {}
    }
    let payload = Payload {
        image: &image,
        page: &page,
        resume_flags: resume_flags(),
    };
    let helper = tracer::fork_helper(payload, &|start| reporter.say_start(start, payload, reason))
        .map_err(|error| io::Error::new(error.kind(), format!("it can't be traced: {error}")))?;
    Ok(Some(helper))
}

/// The page that the user names, or the one that this program finds.
fn chosen_page(args: &args::Run) -> io::Result<PathBuf> {
    let named = args
        .page
        .clone()
        .or_else(|| env::var_os(PAGE_VARIABLE).map(PathBuf::from));
    match named {
        Some(page) => absolute(&page),
        None => machine::page::find().ok_or_else(no_default_page),
    }
}

/// Sets the variables by which a dynamic linker loads the library, and the library finds the page.
/// `Command::env` would sort the environment, and would drop variables that occur twice.
fn set_variables_of_library(library: &Path, page: &Path, wish: &Wish) -> io::Result<()> {
    // If the environment has the variable more than once, ld.so reads the last one.
    let old = env::vars_os()
        .filter(|(name, _)| name == PRELOAD_VARIABLE)
        .last()
        .map(|(_, value)| value);
    let libraries = preload_value(library, old.as_deref())?;
    set_variable(PRELOAD_VARIABLE, &libraries);
    set_variable(PAGE_VARIABLE, page.as_os_str());
    if *wish == Wish::Always {
        set_variable(SERVE_VARIABLE, OsStr::new(ALWAYS));
    }
    Ok(())
}

/// Whether this is kvm-clock, and the vDSO does not read it: the host guarantees no stable TSC
/// (`PVCLOCK_TSC_STABLE_BIT`), or the kernel's command line has `no-kvmclock-vsyscall`.
fn is_kvm_clock_slow(clocksource: &str) -> bool {
    clocksource == "kvm-clock"
        && machine::may_read_counter() != Some(false)
        && !is_cheaper(MONOTONIC, SYSTEM_CALL)
}

/// Flags for the library's `resume`, which undoes the helper's effects on the program's signals.
fn resume_flags() -> i32 {
    let mut flags = 0;
    if is_ignored(libc::SIGTRAP) {
        flags |= ResumeFlag::IgnoreTrap as i32;
    }
    if leaves_sigchld() {
        flags |= ResumeFlag::TakeChild as i32;
    }
    flags
}

/// Whether the helper's end leaves a SIGCHLD that is the helper's alone: this process blocks the
/// signal, and has no other child, whose SIGCHLD would be lost with the helper's. After an exec of
/// its parent, the kernel signals a child's end by SIGCHLD, whatever clone(2) has set (Linux,
/// `do_notify_parent`). A SIGCHLD that is pending is not queued twice.
fn leaves_sigchld() -> bool {
    let is_blocked = SigSet::thread_get_mask().is_ok_and(|mask| mask.contains(Signal::SIGCHLD));
    let is_pending = pending().contains(Signal::SIGCHLD);
    let ends =
        WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT | WaitPidFlag::__WALL;
    let has_children = waitid(Id::All, ends) != Err(Errno::ECHILD);
    is_blocked && !is_pending && !has_children
}

/// The signals that are pending for this thread.
fn pending() -> SigSet {
    let mut set = *SigSet::empty().as_ref();
    // SAFETY: the call writes a `sigset_t` to `set`, which has this type.
    unsafe { libc::sigpending(&raw mut set) };
    // SAFETY: `set` was an empty set, so it is valid even if the call has failed.
    unsafe { SigSet::from_sigset_t_unchecked(set) }
}

/// Sets a variable of this process's environment, which the program inherits. If the environment
/// has the variable more than once, ld.so and the program may read different values. So this
/// removes all of them first.
fn set_variable(variable: &str, value: &OsStr) {
    // SAFETY: this process has one thread, so no other thread accesses the environment.
    unsafe { env::remove_var(variable) };
    // SAFETY: this process has one thread, so no other thread accesses the environment.
    unsafe { env::set_var(variable, value) };
}

/// The value of `LD_PRELOAD` with the library behind the libraries that the variable already names.
/// So a library such as libfaketime still replaces libc's functions.
fn preload_value(library: &Path, old: Option<&OsStr>) -> io::Result<OsString> {
    // ld.so(8): spaces and colons separate paths, and `$` begins a token.
    if library
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .any(|byte| b" :$".contains(byte))
    {
        let text = format!(
            "{}: LD_PRELOAD takes no path with a space, `:` or `$`",
            library.display()
        );
        return Err(io::Error::other(text));
    }
    let mut value = old.map_or_else(OsString::new, OsStr::to_owned);
    // A `tickline run` that runs this one has added the library.
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

/// The file that `execvp` would execute for `program`.
fn resolve_program(program: &OsStr) -> Option<PathBuf> {
    if program.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let path = env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    env::split_paths(&path)
        .map(|folder| folder.join(program))
        .find(|file| is_executable(file))
}

/// Whether `file` is a regular file that this process may execute.
fn is_executable(file: &Path) -> bool {
    file.is_file() && rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Prints one line on standard error: which clock the program has, and why.
struct Reporter {
    name: String,
    is_quiet: bool,
    kind: ProgramKind,
}

impl Reporter {
    /// Prints why the program is not served, not even by a library that is in `LD_PRELOAD` already.
    fn say_unserved(&self, why: &str) {
        self.say(&format!("{} has the kernel's clock: {why}", self.name));
    }

    /// Prints why this command does not serve the program.
    fn say_why(&self, why: &str) {
        let name = &self.name;
        let libraries = env::var_os(PRELOAD_VARIABLE).unwrap_or_default();
        let libraries = libraries.to_string_lossy();
        let has_library = libraries.split([' ', ':']).any(library::is_named_so);
        if !has_library {
            return self.say_unserved(why);
        }
        match self.kind {
            ProgramKind::Static | ProgramKind::Foreign => {
                self.say_unserved(&format!("{why}; {LIBRARY} is in LD_PRELOAD"));
            }
            _ => self.say(&format!(
                "{name} may be served by {LIBRARY} in LD_PRELOAD alone: {why}"
            )),
        }
    }

    /// Prints what is known before the exec. A dynamic linker has not loaded the library yet.
    fn say_served(&self, page: &Path, image: &Image, reason: Option<&str>) {
        let name = &self.name;
        let page = page.display();
        if let Some(why) = reason {
            return self.say(&format!(
                "{name} asks the kernel until {page} is served: {why}"
            ));
        }
        let library = image.path.display();
        let has = match self.kind {
            ProgramKind::Dynamic => {
                format!("LD_PRELOAD gives {name} the clock of {page} by {library}")
            }
            _ => format!("{name} has the clock of {page} by {library}"),
        };
        self.say(&format!(
            "{has}; dynamic programs that it starts with LD_PRELOAD have it, too"
        ));
    }

    /// Prints the result of the helper's work.
    fn say_start(&self, start: io::Result<Outcome>, payload: Payload<'_>, reason: Option<&str>) {
        match start {
            Ok(Outcome::Served) => self.say_served(payload.page, payload.image, reason),
            Ok(Outcome::NotServed(why)) => self.say_why(&why),
            Ok(Outcome::Unrestored(why)) => {
                Self::say_always(&format!("{} is killed: {why}", self.name))
            }
            Err(error) => self.say_why(&error.to_string()),
        }
    }

    fn say(&self, text: &str) {
        if !self.is_quiet {
            Self::say_always(text);
        }
    }

    fn say_always(text: &str) {
        // This line must neither block the program nor end it. A pipe that is full or has no reader
        // gets no line. A pipe with room takes the line at once.
        let stderr = io::stderr();
        let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        poll(&mut room, PollTimeout::ZERO).ok();
        if room[0].revents() != Some(PollFlags::POLLOUT) {
            return;
        }
        let mut text = message(text).into_bytes();
        text.truncate(libc::PIPE_BUF - 1);
        text.push(b'\n');
        // A write can raise SIGPIPE (no reader), SIGXFSZ (file size limit) or SIGTTOU (background
        // job). Block these signals, and take those that the write has raised.
        let raised: SigSet = [Signal::SIGPIPE, Signal::SIGXFSZ, Signal::SIGTTOU]
            .into_iter()
            .collect();
        let before = pending();
        let mask = raised.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        nix::unistd::write(&stderr, &text).ok();
        let is_new = |signal: &Signal| pending().contains(*signal) && !before.contains(*signal);
        for signal in raised.iter().filter(is_new) {
            SigSet::from(signal).wait().ok();
        }
        if let Ok(mask) = mask {
            mask.thread_set_mask().ok();
        }
    }
}

/// A message as a line, safe for terminals: others may have chosen the file names in it.
fn message(text: &str) -> String {
    format!("tickline: {}", words::plain(text))
}

/// Why the page has no line to serve now; `None` if it is served.
fn reason_not_serving(file: &PageFile) -> Option<&'static str> {
    let counter = HardwareCounter::if_present()?;
    let found = file.snapshot(&counter);
    (!found.is_served).then_some(match found.phase {
        LeasePhase::Off if found.is_switched_off => "it is switched off",
        LeasePhase::Off => "no server publishes a line",
        LeasePhase::NoLine | LeasePhase::FirstPublication => "it has no line",
        _ => "its server is gone or stopped",
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_library_is_preloaded_once_and_behind_others() {
        let library = Path::new("/lib/ours.so");
        for (old, expected) in [
            (None, "/lib/ours.so"),
            (Some(""), "/lib/ours.so"),
            (Some("/lib/other.so"), "/lib/other.so:/lib/ours.so"),
            // A program under `run` may start another program by `run`.
            (Some("/lib/ours.so"), "/lib/ours.so"),
            (
                Some("/lib/ours.so /lib/other.so"),
                "/lib/ours.so /lib/other.so",
            ),
            (Some("/lib/ours.so.1"), "/lib/ours.so.1:/lib/ours.so"),
        ] {
            assert_eq!(
                preload_value(library, old.map(OsStr::new)).unwrap(),
                expected,
                "{old:?}"
            );
        }
        assert!(preload_value(Path::new("/my lib/ours.so"), None).is_err());
    }

    #[test]
    fn only_a_file_that_may_be_executed_is_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        assert!(is_executable(&env::current_exe().unwrap()));
        assert!(!is_executable(&plain));
        assert!(!is_executable(folder.path()), "a folder has the same right");
        assert!(!is_executable(&folder.path().join("missing")));
    }
}
