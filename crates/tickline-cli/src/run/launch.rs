//! What `tickline run` does, step by step.

#![allow(unsafe_code, reason = "what the standard library does before `main` is undone; one thread")]

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tickline::page::Phase;
use tickline_page::program::{
    ALWAYS, ALWAYS_FLAG, CLOCKSOURCE, LIBRARY, OFF, PAGE_VARIABLE, SERVE_VARIABLE, SWITCH_VARIABLE, is_fast,
};
use tickline_page::{HardwareCounter, PageFile};

use super::image::Image;
use super::outcome::Start;
use super::privileges;
use super::tracer::{self, Helper, Report};
use crate::args;
use crate::exit::Exit;
use crate::machine;
use crate::serve;
use crate::terminal;

/// The exit codes of a shell and of env(1) for a program that cannot be executed, and for one that
/// is not there.
const NOT_EXECUTED: i32 = 126;
const NOT_FOUND: i32 = 127;

/// For ld.so(8).
const PRELOAD_VARIABLE: &str = "LD_PRELOAD";

/// Where `execvp` looks without `PATH`: glibc in the last two, musl in all.
const DEFAULT_PATH: &str = "/usr/local/bin:/bin:/usr/bin";

/// Replaces this process by the program. Returns only what keeps it from trying.
pub(crate) fn run(args: &args::Run) -> io::Result<Exit> {
    let speaker = Speaker { name: args.program.to_string_lossy().into_owned(), is_quiet: args.quiet };
    let mut command = Command::new(&args.program);
    command.args(&args.arguments);
    let mut helper = None;
    match obstacle(args) {
        Some(why) => speaker.say_not(&why),
        None => match serve(args, &speaker) {
            Ok(traced_by) => helper = Some(traced_by),
            Err(error) => speaker.say_not(&error.to_string()),
        },
    }
    leave_as_found(&mut command);
    let mut error = command.exec();
    let helper = helper.filter(|_| error.kind() == io::ErrorKind::PermissionDenied);
    // SELinux and AppArmor can refuse an exec because the process is traced: EPERM or EACCES.
    if helper.is_some_and(Helper::dismiss) {
        if path_of(&args.program).is_some_and(|file| is_executable(&file)) {
            let text = format!("it is not executed while it is traced: {error}; {LIBRARY} is in LD_PRELOAD");
            speaker.say_not(&text);
        }
        error = command.exec();
    }
    writeln!(io::stderr(), "{}", line(&format!("{}: {error}", speaker.name))).ok();
    let is_missing = error.kind() == io::ErrorKind::NotFound;
    std::process::exit(if is_missing { NOT_FOUND } else { NOT_EXECUTED })
}

/// What this process found when it began. Before `main`, the standard library ignores SIGPIPE and
/// opens standard files that are closed, for its own sake.
static IGNORED_SIGPIPE: AtomicBool = AtomicBool::new(false);
static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];

#[used]
#[unsafe(link_section = ".init_array")]
static BEGUN: extern "C" fn() = begun;

/// Runs before the standard library's own beginning.
extern "C" fn begun() {
    // SAFETY: all zeros are a valid value.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: asks only; there is room for the answer.
    let result = unsafe { libc::sigaction(libc::SIGPIPE, std::ptr::null(), &raw mut action) };
    // ORDERING: Relaxed: one thread.
    IGNORED_SIGPIPE.store(result == 0 && action.sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
    for (file, is_closed) in (0..).zip(&CLOSED) {
        // SAFETY: asks only.
        let flags = unsafe { libc::fcntl(file, libc::F_GETFD) };
        // ORDERING: Relaxed, as above.
        is_closed.store(flags == -1, Ordering::Relaxed);
    }
}

/// Lets the program find SIGPIPE and the standard files as this process has found them.
fn leave_as_found(command: &mut Command) {
    let leave = || {
        // ORDERING: Relaxed, as above.
        if IGNORED_SIGPIPE.load(Ordering::Relaxed) {
            // SAFETY: this process is about to be replaced.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
        }
        for (file, is_closed) in (0..).zip(&CLOSED) {
            // ORDERING: Relaxed, as above.
            if is_closed.load(Ordering::Relaxed) {
                // SAFETY: what the standard library has opened there is for this process alone.
                unsafe { libc::close(file) };
            }
        }
        Ok(())
    };
    // SAFETY: system calls, in this process itself: `exec` does not fork.
    unsafe { command.pre_exec(leave) };
}

/// Why the program is executed plainly.
fn obstacle(args: &args::Run) -> Option<String> {
    if env::var_os(SWITCH_VARIABLE).is_some_and(|value| value == OFF) {
        return Some(format!("{SWITCH_VARIABLE}={OFF}"));
    }
    let clocksource = fs::read_to_string(CLOCKSOURCE).unwrap_or_default();
    if !args.always && is_fast(clocksource.as_bytes()) {
        return Some(format!("it needs no system call here (clocksource {})", clocksource.trim()));
    }
    privileges::obstacle(&path_of(&args.program)?)
}

fn serve(args: &args::Run, speaker: &Speaker) -> io::Result<Helper> {
    let image = Image::read(&library(args)?)?;
    let page = match &args.page {
        Some(page) => std::path::absolute(page)?,
        None => serve::pages().into_iter().find(|page| page.exists()).ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "no page is served: see `tickline serve`")
        })?,
    };
    // The program would find the same, but could not say as much.
    let file = PageFile::open(&page).map_err(io::Error::other)?;
    file.attach_here().map_err(io::Error::other)?;
    let libraries = preload(&image.path, env::var_os(PRELOAD_VARIABLE).as_deref())?;
    // By `Command`, the others would be sorted, and some lost.
    set(PRELOAD_VARIABLE, &libraries);
    set(PAGE_VARIABLE, page.as_os_str());
    if args.always {
        set(SERVE_VARIABLE, OsStr::new(ALWAYS));
    }
    let flags = if args.always { ALWAYS_FLAG } else { 0 };
    let report = Said { speaker, page: &page, lack: lack(&file) };
    tracer::prepare(&image, &page, flags, &report).map_err(|error| {
        io::Error::new(error.kind(), format!("it cannot be traced: {error}; {LIBRARY} is in LD_PRELOAD"))
    })
}

/// Sets a variable of this process's environment, which the program gets.
fn set(variable: &str, value: &OsStr) {
    // SAFETY: there is one thread.
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
    let found = places.iter().find(|path| path.is_file());
    found.map_or_else(
        || {
            let [beside, _] = &places;
            let text = format!("{LIBRARY} is neither {} nor in ../lib: see --library", beside.display());
            Err(io::Error::new(io::ErrorKind::NotFound, text))
        },
        fs::canonicalize,
    )
}

/// `LD_PRELOAD` with the library behind what is there already: a library that has other reasons to
/// stand before libc's functions, such as libfaketime, still does.
fn preload(library: &Path, present: Option<&OsStr>) -> io::Result<OsString> {
    // ld.so(8): both separate, and the third begins a token.
    if library.as_os_str().as_encoded_bytes().iter().any(|byte| b" :$".contains(byte)) {
        let text = format!("{}: LD_PRELOAD takes no path with a space, `:` or `$`", library.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
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
struct Speaker {
    name: String,
    is_quiet: bool,
}

impl Speaker {
    fn say_not(&self, why: &str) {
        self.say(&format!("{} has the kernel's clock: {why}", self.name));
    }

    fn say(&self, text: &str) {
        if !self.is_quiet {
            Self::say_always(text);
        }
    }

    fn say_always(text: &str) {
        // The program does not wait for a reader of standard error: a full pipe gets no line.
        let stderr = io::stderr();
        let mut room = [PollFd::new(stderr.as_fd(), PollFlags::POLLOUT)];
        let has_room = poll(&mut room, PollTimeout::ZERO).is_ok_and(|ready| ready > 0);
        if has_room {
            writeln!(io::stderr(), "{}", line(text)).ok();
        }
    }
}

/// What is said, as a line. It has names of files in it, which others may have chosen.
fn line(text: &str) -> String {
    format!("tickline: {}", terminal::plain(text))
}

/// What the page is without for now; `None` if it is served.
fn lack(file: &PageFile) -> Option<&'static str> {
    let counter = HardwareCounter::if_present().filter(|_| machine::counter_readable() != Some(false))?;
    let found = file.snapshot(&counter);
    (!found.is_served).then(|| match found.phase.into() {
        Phase::Off => "it is switched off",
        Phase::Cold | Phase::Opening => "it has no line",
        _ => "its server is gone or stopped",
    })
}

struct Said<'a> {
    speaker: &'a Speaker,
    page: &'a Path,
    lack: Option<&'static str>,
}

impl Report for Said<'_> {
    fn done(&self, start: io::Result<Start>) {
        let name = &self.speaker.name;
        let is_unrestored = matches!(start, Ok(Start::Unrestored(_)));
        match start.map(Start::why_not) {
            Ok(None) => {
                let page = self.page.display();
                self.speaker.say(&match self.lack {
                    None => format!("{name} has the clock of {page}"),
                    Some(why) => format!("{name} asks the kernel until {page} is served: {why}"),
                });
            }
            Ok(Some(why)) if is_unrestored => Speaker::say_always(&format!("{name} is killed: {why}")),
            Ok(Some(why)) => self.speaker.say_not(&why),
            Err(error) => self.speaker.say_not(&error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
