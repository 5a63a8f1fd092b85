//! `tickline serve`: serves a page to other processes, shows its state, and switches it off and on.
//!
//! `server` has the server's loop, `notify` says that the page is there, and `status` prints the
//! status, of which `measure::line_lead` measures a part. `machine/docs/lease.md` has the rules,
//! `tickline-page` the page's file, and its writer.

mod metrics;
mod notify;
mod server;
mod service;
mod status;

use std::env;
use std::ffi::OsString;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;
use rustix::process::Uid;
use tickline_page::lease::{FAST_RATE_PPB, LeasePhase};
use tickline_page::page_file::{
    self, AttachedFile, FileError, LockHolder, PageError, PageErrorCause, PageSwitch,
};

use crate::args::{self, ServeAction, ServeStatus};
use crate::exit::Exit;
use crate::machine::page;
use crate::output::{self, JsonOutput};
use crate::words::{plain_path, rate, with_path};

use metrics::PageState;
use server::Folder;
use service::ServiceManager;
pub(crate) use status::PageReport;
#[cfg(test)]
pub(crate) use status::SCHEMA;

/// Why an action fails. The exit code says which of the two it is.
enum ServeError {
    /// Another start may help.
    MayPass(io::Error),
    /// The error remains until somebody removes its cause.
    Permanent(io::Error),
}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::MayPass(error)
    }
}

pub(crate) fn run(args: &args::Serve) -> io::Result<Exit> {
    match act(args) {
        Ok(exit) => Ok(exit),
        Err(ServeError::MayPass(error)) => Err(error),
        Err(ServeError::Permanent(error)) => {
            output::error_to_stderr(&error);
            Ok(Exit::Permanent)
        }
    }
}

fn act(args: &args::Serve) -> Result<Exit, ServeError> {
    let named = args.named_page().map_err(ServeError::Permanent)?;
    match &args.action {
        None => {
            refuse_nobody(rustix::process::geteuid()).map_err(ServeError::Permanent)?;
            let page = served_page(named).map_err(ServeError::Permanent)?;
            let folder = if named.is_none() {
                Folder::Make
            } else {
                Folder::Keep
            };
            server::run(&page, folder)
        }
        Some(ServeAction::Status(args)) => Ok(show_status(named, args)?),
        Some(ServeAction::Off(_)) => Ok(switch(named, "off", off)?),
        Some(ServeAction::On(_)) => Ok(switch(named, "on", on)?),
    }
}

/// Switches the page off or on, by `action`, whose name is `word`. If the machine's page is another
/// one, also says that it stays as it is.
fn switch(
    named: Option<&Path>,
    word: &str,
    action: fn(&Path) -> io::Result<Exit>,
) -> io::Result<Exit> {
    let page = served_page(named);
    let missing = page.as_ref().ok().filter(|page| is_missing(page)).cloned();
    let result = page.and_then(|page| action(&page));
    let is_chosen = named.is_some() || rustix::process::geteuid().is_root();
    if is_chosen {
        return result;
    }
    let Some(hint) = untouched(page::of_machine(), word) else {
        return result;
    };
    match result {
        Ok(exit) => {
            output::line_to_stderr(&format!("tickline: {hint}"));
            Ok(exit)
        }
        Err(error) => {
            let reason = missing.map_or_else(
                || error.to_string(),
                |page| format!("there is none at {}", plain_path(&page)),
            );
            Err(io::Error::other(format!(
                "{hint}; this user's page: {reason}"
            )))
        }
    }
}

/// Whether there is no such page, nor a server of its deleted file, as far as this user may see.
fn is_missing(page: &Path) -> bool {
    !may_exist(page) && page::deleted(page).is_none()
}

/// Whether there is such a file; `true` also if this user may not look for it.
fn may_exist(page: &Path) -> bool {
    page.try_exists().unwrap_or(true)
}

/// Says that the machine's page stays as it is; `None` if there is none.
fn untouched(machine: &Path, word: &str) -> Option<String> {
    if !machine.exists() {
        return None;
    }
    let words = format!("serve {word}");
    let command = ServiceManager::of(machine).command_for(&words, machine);
    let page = machine.display();
    Some(format!(
        "the machine's page {page} stays as it is: {command} switches it {word}"
    ))
}

/// Refuses user 65534, of whom no page would be trusted, before the page's folder is made.
fn refuse_nobody(user: Uid) -> io::Result<()> {
    if user.as_raw() != 65_534 {
        return Ok(());
    }
    Err(io::Error::other(
        "user 65534 (nobody) can't serve a page: programs do not trust that user's pages, because \
         in a user namespace the number stands for every user outside of it; serve the page as \
         another user",
    ))
}

/// The page that this user names, or else serves.
fn served_page(named: Option<&Path>) -> io::Result<PathBuf> {
    if let Some(page) = named {
        return absolute(page);
    }
    let user = rustix::process::geteuid();
    default_page(user, env::var_os("XDG_RUNTIME_DIR"))
}

/// Shows the state of the page, and writes its figures for a metrics collector, also if there is no
/// page.
fn show_status(named: Option<&Path>, args: &ServeStatus) -> io::Result<Exit> {
    let output = JsonOutput::open(args.json.target.as_deref())?;
    let figures = output.open_second("--openmetrics", args.openmetrics.as_deref())?;
    let page = match named {
        Some(page) => absolute(page),
        None => page::find().ok_or_else(no_default_page),
    };
    // Programs may read a page that this process can't open, so its state is not known then.
    let is_found = page.as_ref().is_ok_and(|page| may_exist(page));
    let report = page.and_then(|page| {
        let attached = AttachedFile::open(&page).map_err(page_error)?;
        PageReport::read(&page, &attached)
    });
    let mut shown = match &report {
        Ok(report) => report.text(),
        Err(_) => String::new(),
    };
    if let Some(destination) = figures {
        let state = match &report {
            Ok(report) => PageState::Known(report),
            Err(_) if is_found => PageState::Unknown,
            Err(_) => PageState::NoPage,
        };
        let figures = metrics::text(state, Timestamp::now());
        if !destination.is_stdout() {
            destination.save(figures.as_bytes())?;
        } else if report.is_ok() {
            shown = figures;
        } else {
            output::to_stdout(figures)?;
        }
    }
    let report = report?;
    output.emit(&report, &shown)?;
    Ok(if report.serving {
        Exit::Success
    } else {
        Exit::Negative
    })
}

/// The path from the root folder, which readers of a page need. Without `..`, unless the folder
/// before it is missing, or is below one that may not be searched. Fails if the present folder has
/// been removed.
pub(super) fn absolute(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path).map_err(|error| with_path(path, &error))?;
    let parts: Vec<Component<'_>> = path.components().collect();
    let Some(last_up) = parts.iter().rposition(|part| *part == Component::ParentDir) else {
        return Ok(path);
    };
    // The folder before `..` may be a link, so that only the system knows what is above it.
    let (up, below) = parts.split_at(last_up + 1);
    let resolved = PathBuf::from_iter(up).canonicalize();
    Ok(resolved.map_or_else(
        |_| path.clone(),
        |folder| folder.join(PathBuf::from_iter(below)),
    ))
}

/// The page that root, or another user with this `XDG_RUNTIME_DIR`, serves.
fn default_page(user: Uid, runtime_folder: Option<OsString>) -> io::Result<PathBuf> {
    if user.is_root() {
        Ok(page::of_machine().to_owned())
    } else {
        page::of_user(runtime_folder)
    }
}

/// The error if neither the machine nor this user has a page.
pub(super) fn no_default_page() -> io::Error {
    no_page(&page::missing())
}

/// The error for a page that does not exist.
fn no_page(page: &Path) -> io::Error {
    if let Some(hint) = page::deleted(page) {
        return io::Error::other(hint);
    }
    let next = ServiceManager::of(page).next_without_page(page);
    io::Error::other(nothing_at(page, &page::default_pages(), &next))
}

/// The message for a page that does not exist; `next` says what to do. A path that is not one
/// of the default pages may have a typing error.
fn nothing_at(page: &Path, defaults: &[PathBuf], next: &str) -> String {
    let shown = plain_path(page);
    if defaults.iter().any(|default| default == page) {
        format!("there is no page {shown}, so nothing is served there. Next, {next}")
    } else {
        let doubt = doubt_path(page, defaults);
        format!("there is no page {shown}: {doubt}. If this is the right path, {next}")
    }
}

/// Doubts the path of a page that does not exist. Says what is missing, and which of the default
/// pages are there.
fn doubt_path(page: &Path, defaults: &[PathBuf]) -> String {
    let folder = folder_of(page);
    let missing = if folder.is_dir() {
        "nothing is at this path".to_owned()
    } else {
        format!("there is no folder {}", plain_path(folder))
    };
    let existing = defaults.iter().filter(|default| default.exists());
    let existing: Vec<_> = existing.map(|default| plain_path(default)).collect();
    match existing.as_slice() {
        [] => {
            let defaults: Vec<_> = defaults.iter().map(|default| plain_path(default)).collect();
            format!("{missing}, and no page is at {}", defaults.join(" or "))
        }
        [one] => format!("{missing}; {one} exists"),
        several => format!("{missing}; {} exist", several.join(" and ")),
    }
}

/// The error for a page that cannot be used, with a hint if the page does not exist.
pub(super) fn page_error(error: PageError) -> io::Error {
    if error.is_not_found() {
        return no_page(error.path());
    }
    let text = wrong_path(&error).or_else(|| without_proc(&error, Path::new("/proc/self")));
    match text {
        Some(text) => io::Error::other(text),
        None => io::Error::other(error),
    }
}

/// The error with what to do, if this process can't be examined because there is no `/proc`, as in
/// a chroot. `own` is the process's folder there.
fn without_proc(error: &PageError, own: &Path) -> Option<String> {
    if !matches!(error.cause(), PageErrorCause::Process(_)) || own.exists() {
        return None;
    }
    Some(format!(
        "{error}; mount /proc here: mount -t proc proc /proc"
    ))
}

/// Doubts the path of a file that is no page, unless it has a page's name. The error's own advice,
/// to move the file away, is for a page.
fn wrong_path(error: &PageError) -> Option<String> {
    let (PageErrorCause::File(FileError::TooShort { bytes }) | PageErrorCause::OtherFile { bytes }) =
        error.cause()
    else {
        return None;
    };
    if error.path().file_name() == page::of_machine().file_name() {
        return None;
    }
    let page = plain_path(error.path());
    Some(format!(
        "{page}: this file of {bytes} bytes is not a page; is this the right path?"
    ))
}

fn off(page: &Path) -> io::Result<Exit> {
    let before = page_file::switch_off(page).map_err(page_error)?;
    let phase = match before {
        PageSwitch::Off
        | PageSwitch::On {
            phase: LeasePhase::Off,
        } => "was off already".to_owned(),
        PageSwitch::On { phase } => format!("off; it was {}", phase.code()),
    };
    say(page, &phase)
}

fn on(page: &Path) -> io::Result<Exit> {
    let before = page_file::switch_on(page).map_err(page_error)?;
    let holder = page_file::lock_holder(page).ok();
    let start = ServiceManager::of(page).start(page);
    say(page, &after_on(before, holder, &start))
}

/// What to do after `serve on`. `before` is the switch's position until then, `holder` the holder
/// of the page's lock, if that is known, and `start` says how to start a server. The phase does not
/// show whether a server runs, because a killed one leaves `published`.
fn after_on(before: PageSwitch, holder: Option<LockHolder>, start: &str) -> String {
    match (before, holder) {
        (PageSwitch::Off, _) => format!("a server may serve it again; start one: {start}"),
        (PageSwitch::On { .. }, Some(LockHolder::None)) => {
            format!("was not switched off; no server runs; start one: {start}")
        }
        (PageSwitch::On { .. }, _) => "was not switched off".to_owned(),
    }
}

/// The correction of the kernel's clock up to which a line is published, in words.
fn fast_rate() -> String {
    rate(FAST_RATE_PPB.cast_signed())
}

fn say(page: &Path, text: &str) -> io::Result<Exit> {
    output::to_stdout(format!("{}: {text}\n", plain_path(page)))?;
    Ok(Exit::Success)
}

/// Makes the folder of a default page, unless it exists.
fn make_folder(page: &Path) -> io::Result<()> {
    let folder = folder_of(page);
    match DirBuilder::new().mode(0o755).create(folder) {
        // The umask may have removed permissions from the new folder.
        Ok(()) => std::fs::set_permissions(folder, Permissions::from_mode(0o755)),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

fn folder_of(page: &Path) -> &Path {
    page.parent().unwrap_or(page)
}

/// The folder of a default page cannot be made, because the folder for it is missing.
fn no_parent(page: &Path) -> String {
    let folder = folder_of(page);
    let missing = folder.parent().unwrap_or(folder);
    let remedy = if missing.starts_with("/run/user") {
        "log in, or run `loginctl enable-linger`"
    } else {
        "make it (in a container, mount a tmpfs there)"
    };
    let [folder, missing] = [folder, missing].map(plain_path);
    format!(
        "{folder} can't be made: there is no {missing}; {remedy}, or name another page by --page"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(user: Uid) -> PathBuf {
        default_page(user, Some("/run/user/7".into())).expect("a page")
    }

    #[test]
    fn root_serves_the_machines_page() {
        assert_eq!(page_of(Uid::ROOT), page::of_machine());
    }

    #[test]
    fn another_user_serves_a_page_in_the_runtime_folder() {
        assert_eq!(
            page_of(Uid::from_raw(7)),
            Path::new("/run/user/7/tickline/page.v1")
        );
    }

    #[test]
    fn a_machine_without_a_page_needs_no_word_about_it() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(untouched(&root.path().join("page.v1"), "off"), None);
    }

    /// Symptom: `off` of a user without a page began with how to start a server.
    #[test]
    fn a_page_is_missing_if_it_has_no_file() {
        let root = tempfile::tempdir().unwrap();
        let page = root.path().join("page.v1");
        assert!(is_missing(&page));
        std::fs::write(&page, "").unwrap();
        assert!(!is_missing(&page));
    }

    /// Symptom: a refused right to search the folder was said to be a missing page.
    #[test]
    fn a_page_that_cannot_be_looked_for_is_not_missing() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(!is_missing(&file.join("page.v1")));
    }

    /// Symptom: `on`, after a server was stopped or killed, said only "was not switched off".
    #[test]
    fn on_says_how_to_start_a_server_unless_one_has_the_lock() {
        let free = Some(LockHolder::None);
        assert!(after_on(PageSwitch::Off, free, "START").ends_with("; start one: START"));
        for phase in [LeasePhase::Off, LeasePhase::NoLine, LeasePhase::Published] {
            let on = |holder| after_on(PageSwitch::On { phase }, holder, "START");
            assert!(on(free).ends_with("; start one: START"), "{phase:?}");
            for holder in [Some(LockHolder::Process(42)), None] {
                assert_eq!(on(holder), "was not switched off");
            }
        }
    }

    #[test]
    fn the_folder_of_a_page_is_made_once_and_everybody_may_read_it() {
        let root = tempfile::tempdir().unwrap();
        let page = root.path().join("tickline/page.v1");
        for _ in 0..2 {
            make_folder(&page).unwrap();
            let folder = std::fs::metadata(root.path().join("tickline")).unwrap();
            assert!(folder.is_dir());
            assert_eq!(folder.permissions().mode() & 0o777, 0o755);
        }
    }

    /// Symptom: a unit had just failed at a start, and the only advice was another start.
    #[test]
    fn a_missing_default_page_is_answered_with_the_servers_state() {
        let page = PathBuf::from("/no/such/page");
        let text = nothing_at(&page, std::slice::from_ref(&page), "start a server");
        let expected = "so nothing is served there. Next, start a server";
        assert!(text.ends_with(expected), "{text}");
    }

    /// Symptom: after a typing error in `--page`, the first advice was the log of a server.
    #[test]
    fn a_path_with_a_typing_error_is_doubted_before_the_server() {
        let root = tempfile::tempdir().unwrap();
        let [page, default] = ["pgae", "page.v1"].map(|name| root.path().join(name));
        let text = nothing_at(&page, std::slice::from_ref(&default), "start a server");
        let [page, default] = [page, default].map(|path| path.display().to_string());
        assert_eq!(
            text,
            format!(
                "there is no page {page}: nothing is at this path, and no page is at {default}. If \
                 this is the right path, start a server"
            )
        );
    }

    #[test]
    fn a_folder_with_a_typing_error_is_named() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("tikcline");
        let expected = format!("there is no folder {}", folder.display());
        let doubt = doubt_path(&folder.join("page.v1"), &[]);
        assert!(doubt.starts_with(&expected), "{doubt}");
    }

    #[test]
    fn a_doubted_path_is_answered_with_the_default_pages_that_are_there() {
        let root = tempfile::tempdir().unwrap();
        let path = |name| root.path().join(name);
        let defaults = ["machine", "user"].map(path);
        std::fs::write(&defaults[0], "").unwrap();
        let expected = format!("nothing is at this path; {} exists", defaults[0].display());
        assert_eq!(doubt_path(&path("wrong"), &defaults), expected);
        std::fs::write(&defaults[1], "").unwrap();
        let [machine, user] = defaults.each_ref().map(|path| path.display());
        let expected = format!("nothing is at this path; {machine} and {user} exist");
        assert_eq!(doubt_path(&path("wrong"), &defaults), expected);
    }

    /// Symptom: `--page ../page` was shown as `/here/../page`.
    #[test]
    fn a_path_is_shown_without_its_way_up() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        let below = root.join("a/b");
        std::fs::create_dir_all(&below).unwrap();
        assert_eq!(
            absolute(&below.join("../page")).unwrap(),
            root.join("a/page")
        );
        assert_eq!(absolute(&below.join("..")).unwrap(), root.join("a"));
        assert_eq!(
            absolute(&below.join("../missing/page")).unwrap(),
            root.join("a/missing/page")
        );
        // What is above a missing folder is not known.
        let missing = root.join("missing/../page");
        assert_eq!(absolute(&missing).unwrap(), missing);
        std::os::unix::fs::symlink(&below, root.join("link")).unwrap();
        let above_link = root.join("link/../page");
        assert_eq!(absolute(&above_link).unwrap(), root.join("a/page"));
    }

    /// Symptom: "/run/tickline: No such file or directory" in an empty container.
    #[test]
    fn a_machine_without_run_is_told_what_to_mount() {
        assert_eq!(
            no_parent(page::of_machine()),
            "/run/tickline can't be made: there is no /run; make it (in a container, mount a tmpfs \
             there), or name another page by --page"
        );
    }

    /// Symptom: the advice to make a folder that only logind makes.
    #[test]
    fn a_user_without_a_session_is_told_to_log_in() {
        let text = no_parent(Path::new("/run/user/7/tickline/page.v1"));
        assert!(
            text.contains("there is no /run/user/7; log in, or run `loginctl"),
            "{text}"
        );
    }

    #[test]
    fn only_one_folder_is_made() {
        let root = tempfile::tempdir().unwrap();
        let error = make_folder(&root.path().join("missing/tickline/page.v1"));
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
