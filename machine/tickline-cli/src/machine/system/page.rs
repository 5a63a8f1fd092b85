//! The default pages, and the processes that have a page mapped, by `/proc/PID/maps`.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::iter;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use tickline_page::HardwareCounter;
use tickline_page::page_file::{AttachedFile, LockHolder, lock_holder};
use tickline_page::program::PAGE;

use super::library::{InstalledLibrary, MappedFile};
use crate::words::with_path;

/// The variable in which `tickline run` leaves the number of the process that was to get a page. A
/// child inherits the variable, and has another number.
pub(crate) const RUN_VARIABLE: &str = "TICKLINE_RUN";

/// A process that has the page mapped.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Reader {
    /// The process's number.
    pub(crate) pid: u32,
    /// The process's name (`/proc/PID/comm`).
    pub(crate) name: String,
    /// Whether the library of `tickline run` reads the page: its file is mapped, or the environment
    /// names this process as one that `run` has started. Otherwise the program itself reads it, or is
    /// a forked child of a static program.
    pub(crate) by_library: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Process {
    /// Its number.
    pub(crate) pid: u32,
    /// Its name (`/proc/PID/comm`).
    pub(crate) name: String,
}

impl Process {
    fn of(pid: u32) -> Self {
        let name = super::process_name(pid).unwrap_or_default();
        Self { pid, name }
    }
}

/// The processes that have a page mapped, or were to have one.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    pub(crate) readers: Vec<Reader>,
    /// The processes that have the library of `tickline run`, and not the page: another library in
    /// them replaces the calls, or they cannot use the page.
    pub(crate) library_only: Vec<Process>,
    /// The processes that `tickline run` has started, and that have neither the page nor the
    /// library: they started before the page, or can't be served.
    pub(crate) run_only: Vec<Process>,
    /// The processes that this user may not examine.
    pub(crate) unreadable: Vec<Process>,
    /// Whether `/proc` hides processes from this user (proc(5), `hidepid`).
    pub(crate) are_some_hidden: bool,
}

/// The paths of the default pages, where programs look for a page: the machine's, then the user's
/// if it is another.
pub(crate) fn default_pages() -> Vec<PathBuf> {
    let of_user = of_this_user().ok();
    iter::once(of_machine().to_owned())
        .chain(of_user.filter(|page| page != of_machine()))
        .collect()
}

/// The page that this program finds: the first of the default pages that serves a line now, or else
/// the first that has a server, or else the first that exists. A page without a server may be there
/// from a service that has ended. `None` if none exists.
pub(crate) fn find() -> Option<PathBuf> {
    let mut pages = default_pages();
    pages.retain(|page| page.exists());
    let first = |is_wanted: fn(&Path) -> bool| pages.iter().find(|page| is_wanted(page));
    let found = first(serves).or_else(|| first(has_server));
    found.or(pages.first()).cloned()
}

/// The default page that is missing, if none exists: one whose file was deleted, or else the
/// machine's.
pub(crate) fn missing() -> PathBuf {
    let mut pages = default_pages().into_iter();
    let of_deleted = pages.find(|page| deleted(page).is_some());
    of_deleted.unwrap_or_else(|| of_machine().to_owned())
}

/// What to do about a server whose page's file was deleted; `None` if no process is known to hold
/// the lock of this page, which has no file.
pub(crate) fn deleted(page: &Path) -> Option<String> {
    served_without_file(page, lock_holder(page).ok()?)
}

fn served_without_file(page: &Path, holder: LockHolder) -> Option<String> {
    let server = match holder {
        LockHolder::None => return None,
        LockHolder::Process(pid) => format!("process {pid}"),
        LockHolder::Invisible => {
            "a process that is not visible here, as in a container,".to_owned()
        }
    };
    let page = page.display();
    Some(format!(
        "there is no page {page}, but {server} serves a deleted file: restart it, and then the \
         programs that read the page"
    ))
}

fn serves(page: &Path) -> bool {
    super::may_read_counter() != Some(false)
        && HardwareCounter::if_present()
            .zip(AttachedFile::open(page).ok())
            .is_some_and(|(counter, attached)| attached.file().snapshot(&counter).is_served)
}

fn has_server(page: &Path) -> bool {
    lock_holder(page).is_ok_and(|holder| holder != LockHolder::None)
}

/// The path of the machine's page.
pub(crate) fn of_machine() -> &'static Path {
    Path::new(OsStr::from_bytes(PAGE.to_bytes()))
}

/// The path of the page of the user who runs this process, by `XDG_RUNTIME_DIR`.
pub(crate) fn of_this_user() -> io::Result<PathBuf> {
    of_user(env::var_os("XDG_RUNTIME_DIR"))
}

/// The path of a user's page. `runtime_folder` is the value of `XDG_RUNTIME_DIR`.
pub(crate) fn of_user(runtime_folder: Option<OsString>) -> io::Result<PathBuf> {
    let name = of_machine()
        .strip_prefix("/run")
        .map_err(io::Error::other)?;
    let folder = runtime_folder
        .map(PathBuf::from)
        .filter(|folder| folder.is_absolute());
    let unset =
        "XDG_RUNTIME_DIR names no folder for the page of this user; name one with --page FILE";
    let folder = folder.ok_or_else(|| io::Error::other(unset))?;
    Ok(folder.join(name))
}

/// Whether the page that this program finds serves a line now; `None` if there is no page, or if
/// this process may not read the counter, and so cannot tell.
pub(super) fn is_served() -> Option<bool> {
    if super::may_read_counter() == Some(false) {
        return None;
    }
    find().map(|page| serves(&page))
}

/// Whether an administrator has switched that page off; `None` as in [`is_served`].
pub(super) fn is_switched_off() -> Option<bool> {
    if super::may_read_counter() == Some(false) {
        return None;
    }
    let counter = HardwareCounter::if_present()?;
    let attached = AttachedFile::open(&find()?).ok()?;
    Some(attached.file().snapshot(&counter).is_switched_off)
}

/// The number of processes that have one of the default pages mapped; `None` if there is no such
/// page, or if none was found and this user may not examine every process.
pub(super) fn count_readers() -> Option<usize> {
    let counts = default_pages().into_iter().filter_map(|page| {
        let found = mappings(&page, lock_holder(&page).ok().and_then(LockHolder::pid)).ok()?;
        let are_all_known = found.unreadable.is_empty() && !found.are_some_hidden;
        (are_all_known || !found.readers.is_empty()).then_some(found.readers.len())
    });
    counts.reduce(|all, count| all + count)
}

/// Examines all processes except `server` and this one.
pub(crate) fn mappings(page: &Path, server: Option<u32>) -> io::Result<Mappings> {
    let file = MappedFile::at(page).map_err(|error| with_path(page, &error))?;
    let library = InstalledLibrary::find();
    let mut found = Mappings {
        // Each PID namespace has a process 1, as long as it has any process.
        are_some_hidden: !Path::new("/proc/1").exists(),
        ..Mappings::default()
    };
    let proc_error = |error| with_path(Path::new("/proc"), &error);
    for entry in fs::read_dir("/proc").map_err(proc_error)? {
        let Some(pid) = entry
            .map_err(proc_error)?
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        if Some(pid) == server || pid == std::process::id() {
            continue;
        }
        match fs::read(format!("/proc/{pid}/maps")) {
            Ok(maps) => {
                let maps = String::from_utf8_lossy(&maps);
                let has_library = library.is_in(&maps);
                if maps.lines().any(|line| file.is_in(line)) {
                    let Process { pid, name } = Process::of(pid);
                    found.readers.push(Reader {
                        pid,
                        name,
                        // The library has no file in a program that `run` has traced.
                        by_library: has_library || is_started_by_run(pid),
                    });
                } else if has_library {
                    found.library_only.push(Process::of(pid));
                } else if is_started_by_run(pid) {
                    found.run_only.push(Process::of(pid));
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                found.unreadable.push(Process::of(pid));
            }
            // The process has ended.
            Err(_) => {}
        }
    }
    found.readers.sort_by_key(|reader| reader.pid);
    for processes in [
        &mut found.library_only,
        &mut found.run_only,
        &mut found.unreadable,
    ] {
        processes.sort_by_key(|process| process.pid);
    }
    Ok(found)
}

/// Whether this process may examine those of other users: it has CAP_SYS_PTRACE
/// (capabilities(7)). A kernel may refuse all the same, as for a process of another user namespace.
pub(crate) fn may_examine_others() -> bool {
    const CAP_SYS_PTRACE: u64 = 19;
    let effective = super::super::status_line("CapEff:");
    let effective = effective.and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    effective.is_some_and(|effective| effective & (1 << CAP_SYS_PTRACE) != 0)
}

/// Who keeps a process from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Halt {
    /// A signal, such as SIGSTOP: its state is T.
    Signal,
    /// A debugger: its state is t.
    Debugger,
}

impl Halt {
    /// Who keeps this process from running; `None` if nobody does, or if that is unknown.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        Self::by_status(&super::read_text(format!("/proc/{pid}/status"))?)
    }

    /// As [`of`](Self::of), by the text of the process's `status` (proc_pid_status(5)).
    fn by_status(status: &str) -> Option<Self> {
        let state = status
            .lines()
            .find_map(|line| line.strip_prefix("State:"))?;
        match state.trim().chars().next()? {
            'T' => Some(Self::Signal),
            't' => Some(Self::Debugger),
            _ => None,
        }
    }
}

/// Whether `tickline run` has started this process to serve it. `false` if this user may not read
/// its environment.
fn is_started_by_run(pid: u32) -> bool {
    let read = |name| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
    names_itself(&read("environ"), &String::from_utf8_lossy(&read("status")))
}

/// Whether the environment names its own process in [`RUN_VARIABLE`]. The last number of `NSpid` is
/// the one that the process itself knows (proc_pid_status(5)).
fn names_itself(environment: &[u8], status: &str) -> bool {
    let mut variables = environment.split(|byte| *byte == 0);
    let named = variables.find_map(|variable| {
        let value = variable.strip_prefix(RUN_VARIABLE.as_bytes())?;
        value.strip_prefix(b"=")
    });
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
    let own = numbers.and_then(|numbers| numbers.split_ascii_whitespace().last());
    own.is_some_and(|own| named == Some(own.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_and_users_have_pages_of_their_own() {
        let mine = || Some(OsString::from("/run/user/7"));
        assert_eq!(of_machine(), Path::new("/run/tickline/page.v1"));
        assert_eq!(
            of_user(mine()).unwrap(),
            Path::new("/run/user/7/tickline/page.v1")
        );
        assert!(of_user(Some(OsString::from("relative"))).is_err());
    }

    #[test]
    fn a_process_that_run_has_started_is_named_by_its_environment() {
        let environment = b"A=1\0TICKLINE_RUN=7\0B=2\0";
        assert!(names_itself(environment, "Name:\tx\nNSpid:\t7\n"));
        assert!(!names_itself(environment, "NSpid:\t8\n"), "a child");
        assert!(
            names_itself(environment, "NSpid:\t4711\t7\n"),
            "in a container"
        );
        assert!(!names_itself(b"A=1\0", "NSpid:\t7\n"));
        assert!(!names_itself(b"", ""), "it has ended");
    }

    #[test]
    fn a_process_that_is_stopped_is_told_from_one_that_waits() {
        let of = |state| Halt::by_status(&format!("Name:\tx\nState:\t{state}\nTgid:\t7\n"));
        assert_eq!(of("T (stopped)"), Some(Halt::Signal));
        assert_eq!(of("t (tracing stop)"), Some(Halt::Debugger));
        assert_eq!(of("S (sleeping)"), None);
        assert_eq!(Halt::by_status(""), None, "it has ended");
    }

    /// Symptom: "No such file or directory", without the file.
    #[test]
    fn a_page_whose_readers_are_unknown_is_named() {
        let error = mappings(Path::new("/nonexistent/page"), None).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/page"), "{error}");
    }

    /// Symptom: "nothing is served there: `tickline serve` makes it", and `tickline serve` found
    /// the lock taken.
    #[test]
    fn a_server_of_a_deleted_page_is_told_of_though_it_is_not_visible() {
        let hint = |writer| served_without_file(Path::new("/run/page"), writer);
        let invisible = hint(LockHolder::Invisible).expect("a hint");
        assert!(
            invisible
                .contains("not visible here, as in a container, serves a deleted file: restart"),
            "{invisible}"
        );
        let visible = hint(LockHolder::Process(42)).expect("a hint");
        assert!(visible.contains("but process 42 serves"), "{visible}");
        assert_eq!(hint(LockHolder::None), None);
    }

    #[test]
    fn a_page_that_is_not_there_has_no_server_and_serves_nobody() {
        let missing = Path::new("/nonexistent/page");
        assert!(!has_server(missing));
        assert!(!serves(missing));
    }
}
