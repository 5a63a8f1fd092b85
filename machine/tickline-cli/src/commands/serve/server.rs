//! The server's loop, and its log on standard error.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::ppoll;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::time::TimeSpec;
use tickline::{Clock, ClockState, LinePerCpu, Reason};
use tickline_page::Publisher;
use tickline_page::lease::LeasePhase;
use tickline_page::page_file::{FileError, PageError, PageErrorCause};

use crate::exit::Exit;
use crate::machine;
use crate::measure::standstill;
use crate::output::{error_to_stderr, line_to_stderr};
use crate::signal;
use crate::words::{plain, plain_path, with_path};

use super::notify::ReadyMessage;
use super::{fast_rate, folder_of, make_folder, no_parent, wrong_path};

/// Whether the server makes the page's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    /// The folder of a default page: the server makes it, unless it exists.
    Make,
    /// The folder of any other page: the user makes it.
    Keep,
}

/// Serves the page until a signal comes or the page is switched off.
pub(super) fn run(page: &Path, folder: Folder) -> io::Result<Exit> {
    let (stop, mask) = stop_flag()?;
    let clock = Clock::builder().line_per_cpu(LinePerCpu::Off).build();
    let clock = clock.map_err(io::Error::other)?;
    // A process that may not read the counter gets its time by system call, which can't be
    // replaced.
    if machine::may_read_counter() != Some(false) {
        standstill::check(None)?;
    }
    let mut log = ServerLog { page, last: None };
    let mut publisher = match start(&clock, page, folder, &stop, mask) {
        Ok(Some(publisher)) => publisher,
        Ok(None) => {
            log.write("stopped before it served this page");
            return Ok(Exit::Success);
        }
        Err(StartError::Folder(error)) => return no_folder(page, &error),
        Err(StartError::Page(error)) => return no_page(error),
    };
    if publisher.phase() != LeasePhase::Off {
        log.log_start(&publisher);
    }
    let mut ready_message = ReadyMessage::of_environment();
    let mut is_deleted = false;
    loop {
        log.send(&mut ready_message);
        // ORDERING: Relaxed, pairs with the signal handler's store, which publishes no other data.
        let is_stopped = stop.load(Ordering::Relaxed);
        let is_ending = is_stopped || is_deleted;
        if is_ending {
            publisher.end();
        }
        let next_in = match publisher.maintain() {
            Ok(next_in) => next_in,
            Err(error) => return failed(error),
        };
        if publisher.phase() == LeasePhase::Off {
            log.write("the page is switched off: run `tickline serve on`, then start a server");
            // Another server may have the page from here on.
            drop(publisher);
            // A unit whose server ends before it is ready has failed.
            // ORDERING: Relaxed, as above.
            while ready_message.is_pending() && !stop.load(Ordering::Relaxed) {
                ppoll(&mut [], Some(TimeSpec::from_duration(PAUSE)), Some(mask)).ok();
                log.send(&mut ready_message);
            }
            return Ok(Exit::Success);
        }
        if is_ending && !publisher.has_line() {
            log.write("stopped: the leases have run out");
            // The next server makes a new file, so another start helps.
            return Ok(if is_stopped {
                Exit::Success
            } else {
                Exit::Error
            });
        }
        log.log_change(&publisher);
        // After the stores, so that a slow answer costs the leases no time before them.
        if !is_deleted && !publisher.is_at_its_path() {
            is_deleted = true;
            log.write(
                "the page's file was deleted or replaced, and no program finds the one that is \
                 served; this server ends when the leases have run out",
            );
        }
        // After an interrupted sleep the next iteration is early and does nothing.
        ppoll(&mut [], Some(TimeSpec::from_duration(next_in)), Some(mask)).ok();
    }
}

/// For how long a server tries to start while an error may pass. Another server that systemd stops
/// ends within this time: the unit's `TimeoutStopSec` is shorter. On a full disk systemd starts the
/// server once in this time, not ten times a second.
const PATIENCE: Duration = Duration::from_secs(6);

/// The pause between two tries to start, or to say that a page is there that is switched off.
const PAUSE: Duration = Duration::from_millis(100);

/// Why a server did not start.
#[derive(Debug)]
enum StartError {
    /// The folder of a default page cannot be made.
    Folder(io::Error),
    Page(PageError),
}

impl StartError {
    fn may_pass(&self) -> bool {
        match self {
            Self::Folder(error) => error.raw_os_error().is_some_and(is_shortage),
            Self::Page(error) => may_pass(error),
        }
    }
}

/// Tries once to start to publish.
fn try_start(clock: &Clock, page: &Path, folder: Folder) -> Result<Publisher, StartError> {
    if folder == Folder::Make {
        make_folder(page).map_err(StartError::Folder)?;
    }
    Publisher::start(clock.clone(), page).map_err(StartError::Page)
}

/// Starts to publish. Tries again for [`PATIENCE`] at most, while another server serves the page,
/// as in an upgrade or at the end of a trial server, and after any other error that may pass.
/// `None` if a stop signal ends the wait.
fn start(
    clock: &Clock,
    page: &Path,
    folder: Folder,
    stop: &AtomicBool,
    mask: SigSet,
) -> Result<Option<Publisher>, StartError> {
    let mut waited = Duration::ZERO;
    loop {
        let error = match try_start(clock, page, folder) {
            Err(error) if error.may_pass() => error,
            result => return result.map(Some),
        };
        // ORDERING: Relaxed, as in `run`.
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if waited >= PATIENCE {
            return Err(error);
        }
        if waited.is_zero() {
            let patience_s = PATIENCE.as_secs();
            let text = match &error {
                StartError::Page(error)
                    if matches!(error.cause(), PageErrorCause::Served { .. }) =>
                {
                    format!("{error}; waiting for its end, {patience_s} s at most")
                }
                StartError::Page(error) => format!("{error}; trying again for {patience_s} s"),
                StartError::Folder(error) => {
                    let error = with_path(folder_of(page), error);
                    format!("{error}; trying again for {patience_s} s")
                }
            };
            line_to_stderr(&format!("tickline: {}", plain(&text)));
        }
        ppoll(&mut [], Some(TimeSpec::from_duration(PAUSE)), Some(mask)).ok();
        waited += PAUSE;
    }
}

/// The end of a server that has no page. Its exit code says whether another start may help.
fn no_page(error: PageError) -> io::Result<Exit> {
    if let Some(text) = wrong_path(&error) {
        error_to_stderr(&io::Error::other(text));
        return Ok(Exit::Permanent);
    }
    failed(error)
}

/// The end of a server that cannot serve.
fn failed(error: PageError) -> io::Result<Exit> {
    if let Some(folder) = missing_folder(&error) {
        let folder = plain_path(folder);
        let text = format!("{error}; make {folder}, to which only its owner may write");
        error_to_stderr(&io::Error::other(text));
        return Ok(Exit::Permanent);
    }
    if may_pass(&error) {
        return Err(io::Error::other(error));
    }
    error_to_stderr(&error);
    Ok(Exit::Permanent)
}

/// The end of a server whose default page has no folder.
fn no_folder(page: &Path, error: &io::Error) -> io::Result<Exit> {
    let text = with_path(folder_of(page), error);
    if error.raw_os_error().is_some_and(is_shortage) {
        return Err(text);
    }
    error_to_stderr(&match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(no_parent(page)),
        io::ErrorKind::ReadOnlyFilesystem => io::Error::other(format!(
            "{text}; mount a writable folder there, or name another page by --page"
        )),
        _ => text,
    });
    Ok(Exit::Permanent)
}

/// The folder of the page, if the error is that there is none. The server does not make it: who may
/// write to a folder is for the user to decide.
fn missing_folder(error: &PageError) -> Option<&Path> {
    let folder = error.path().parent()?;
    // An empty path is the present folder.
    let is_missing = error.is_not_found() && folder != Path::new("") && !folder.exists();
    is_missing.then_some(folder)
}

/// Whether the next start may succeed, though nobody removes the error's cause.
fn may_pass(error: &PageError) -> bool {
    cause_may_pass(*error.cause(), missing_folder(error))
}

/// As [`may_pass`]: another server may end, another process may write to the page once, and a
/// machine may have room again. A file may vanish for a moment, while its folder is there. Any
/// other error remains.
fn cause_may_pass(cause: PageErrorCause, missing_folder: Option<&Path>) -> bool {
    match cause {
        PageErrorCause::Served { .. } | PageErrorCause::Changed(_) => true,
        PageErrorCause::File(FileError::System { errno, .. })
        | PageErrorCause::Lock(FileError::System { errno, .. }) => {
            is_shortage(errno) || (errno == Errno::ENOENT as i32 && missing_folder.is_none())
        }
        PageErrorCause::Process(FileError::System { errno, .. }) => is_shortage(errno),
        _ => false,
    }
}

/// Whether the system lacks something that it may have soon, or failed once.
fn is_shortage(errno: i32) -> bool {
    matches!(
        Errno::from_raw(errno),
        Errno::ENOSPC
            | Errno::EDQUOT
            | Errno::ENOMEM
            | Errno::EMFILE
            | Errno::ENFILE
            | Errno::EAGAIN
            | Errno::EINTR
            | Errno::EIO
    )
}

/// The flag that a stop signal sets, and the signal mask for the server's sleep. These signals are
/// blocked except during the sleep, so none can arrive between the load of the flag and the sleep.
/// The clock's thread starts later and inherits the mask that blocks them.
fn stop_flag() -> io::Result<(Arc<AtomicBool>, SigSet)> {
    const STOPS: [Signal; 3] = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP];
    let stop = signal::stop_flag()?;
    let stops: SigSet = STOPS.into_iter().collect();
    let mut mask = stops.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    STOPS.into_iter().for_each(|signal| mask.remove(signal));
    Ok((stop, mask))
}

/// The server's log: a text for each change of the phase.
struct ServerLog<'a> {
    page: &'a Path,
    /// What was logged last about the phase, and the latest phase with that text.
    last: Option<(LeasePhase, String)>,
}

impl ServerLog<'_> {
    fn write(&self, text: &str) {
        let page = plain_path(self.page);
        line_to_stderr(&format!("tickline: {page}: {}", plain(text)));
    }

    /// Sends the message, and logs why it could not be sent.
    fn send(&self, message: &mut ReadyMessage) {
        if let Err(error) = message.send() {
            self.write(&error.to_string());
        }
    }

    fn log_start(&self, publisher: &Publisher) {
        self.write(&format!("process {} serves this page", std::process::id()));
        if !publisher.is_locked_in_memory() {
            self.write(
                "the page is not locked in memory, so a store may wait for a disk: raise `ulimit \
                 -l`, or LimitMEMLOCK= of the unit",
            );
        }
        if !publisher.uses_rseq() {
            self.write(
                "no restartable sequences here (they need x86-64, and rseq of the kernel): a line \
                 begins late if the server is stopped just before its store, and a reading may \
                 then step back if the OS clock is above its bound",
            );
        }
    }

    fn log_change(&mut self, publisher: &Publisher) {
        let phase = publisher.phase();
        let last_phase = self.last.as_ref().map(|(phase, _)| *phase);
        // This is the usual case, twice a second. It needs no status.
        if phase == LeasePhase::Published && last_phase == Some(phase) {
            return;
        }
        let now = ServerState {
            phase,
            clock: publisher.clock().status().state,
            waits_for_slew: publisher.waits_for_slew(),
        };
        let Some(text) = now.log_text(last_phase) else {
            return;
        };
        if self.last.as_ref().is_none_or(|(_, last)| *last != text) {
            self.write(&text);
        }
        self.last = Some((phase, text));
    }
}

/// What the log is about.
struct ServerState {
    phase: LeasePhase,
    clock: ClockState,
    /// Whether the server waits until the kernel slews its clock more slowly.
    waits_for_slew: bool,
}

impl ServerState {
    /// The log's text about this state; `None` if the state needs none. `last_phase` is the phase
    /// of the text before this one.
    fn log_text(&self, last_phase: Option<LeasePhase>) -> Option<String> {
        let code = self.phase.code();
        Some(match (self.phase, self.clock) {
            (LeasePhase::Published, _) => code.to_owned(),
            (LeasePhase::FirstPublication, _) => return None,
            (_, ClockState::Fallback(Reason::Untested)) => {
                format!(
                    "{code}: the counters of the CPUs are being compared; programs ask the OS clock"
                )
            }
            (_, ClockState::Fallback(reason)) => format!("{code}: {reason}"),
            // The same in both phases and at any rate, so one slew is logged once.
            _ if self.waits_for_slew => {
                format!(
                    "not served: the kernel slews its clock by more than {}; programs ask the OS clock",
                    fast_rate()
                )
            }
            // The clock is calibrating, or the server is about to publish a line. Nothing changes
            // for programs: the server has just started, or the log has said why there is no line.
            (LeasePhase::NoLine, ClockState::Calibrating | ClockState::Fast)
                if matches!(last_phase, None | Some(LeasePhase::NoLine)) =>
            {
                return None;
            }
            (
                LeasePhase::Doubted,
                ClockState::Calibrating | ClockState::Fast | ClockState::Disrupted,
            ) => "doubted: the OS clock is not where the line is".to_owned(),
            // The leases run out after a doubted line, or if the server gets no CPU for that long.
            (LeasePhase::NoLine, ClockState::Fast) => "no_line: the leases have run out".to_owned(),
            (_, state) => format!("{code}: the clock is {state}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use tickline_page::lease::PageChanged;

    use super::*;

    /// The log's text about this state, after a line was published.
    fn log_text(phase: LeasePhase, clock: ClockState) -> Option<String> {
        let state = ServerState {
            phase,
            clock,
            waits_for_slew: false,
        };
        state.log_text(Some(LeasePhase::Published))
    }

    #[test]
    fn a_published_line_is_logged_whatever_the_clock() {
        for clock in [ClockState::Fast, ClockState::Calibrating] {
            let found = log_text(LeasePhase::Published, clock);
            assert_eq!(found.as_deref(), Some("published"));
        }
    }

    #[test]
    fn the_first_publication_is_not_logged_before_its_end() {
        assert_eq!(
            log_text(LeasePhase::FirstPublication, ClockState::Fast),
            None
        );
    }

    /// Symptom: a server on one CPU logged "no_line: the counters of the CPUs are being compared",
    /// and then "no_line: the clock is calibrating".
    #[test]
    fn a_clock_that_calibrates_is_not_logged_while_there_is_no_line() {
        for clock in [ClockState::Calibrating, ClockState::Fast] {
            let state = ServerState {
                phase: LeasePhase::NoLine,
                clock,
                waits_for_slew: false,
            };
            for last_phase in [None, Some(LeasePhase::NoLine)] {
                assert_eq!(state.log_text(last_phase), None);
            }
        }
    }

    #[test]
    fn a_page_without_a_line_says_why() {
        let fallback = ClockState::Fallback(Reason::KernelRejected);
        for (clock, expected) in [
            (
                ClockState::Fast,
                "no_line: the leases have run out".to_owned(),
            ),
            (
                ClockState::Calibrating,
                format!("no_line: the clock is {}", ClockState::Calibrating),
            ),
            (fallback, format!("no_line: {}", Reason::KernelRejected)),
        ] {
            assert_eq!(log_text(LeasePhase::NoLine, clock), Some(expected));
        }
    }

    /// An operator can't call a library. Symptom: the log named `tickline::start()`.
    #[test]
    fn a_clock_whose_counters_are_being_compared_is_described_for_an_operator() {
        for phase in [LeasePhase::NoLine, LeasePhase::Doubted] {
            let found = log_text(phase, ClockState::Fallback(Reason::Untested)).unwrap();
            let expected = "the counters of the CPUs are being compared; programs ask the OS clock";
            assert_eq!(found, format!("{}: {expected}", phase.code()));
        }
    }

    #[test]
    fn a_doubted_line_says_why() {
        for (clock, expected) in [
            (
                ClockState::Fast,
                "doubted: the OS clock is not where the line is".to_owned(),
            ),
            (
                ClockState::Fallback(Reason::KernelRejected),
                format!("doubted: {}", Reason::KernelRejected),
            ),
        ] {
            assert_eq!(log_text(LeasePhase::Doubted, clock), Some(expected));
        }
    }

    const SHORTAGES: [Errno; 8] = [
        Errno::ENOSPC,
        Errno::EDQUOT,
        Errno::ENOMEM,
        Errno::EMFILE,
        Errno::ENFILE,
        Errno::EAGAIN,
        Errno::EINTR,
        Errno::EIO,
    ];

    /// Symptom: exit code 2, after which a unit started its server for ever, 6 s at each start.
    #[test]
    fn an_error_that_somebody_has_to_fix_does_not_pass() {
        for cause in [
            FileError::WritableByOthers { mode: 0o777 }.into(),
            FileError::TooShort { bytes: 0 }.into(),
            PageErrorCause::OtherFile { bytes: 5 },
            PageErrorCause::UnknownWord { word: u64::MAX },
            PageErrorCause::OtherOwner { owner: 1, user: 0 },
            PageErrorCause::UnknownOffset { time_namespace: 7 },
            PageErrorCause::Counter(Reason::NoCounter),
            PageErrorCause::Process(failed_call(Errno::ENOENT)),
        ] {
            assert!(!cause_may_pass(cause, None), "{cause}");
        }
    }

    /// A directory at the path of the page's lock or of its new file; a name that is too long; a
    /// file system without locks or mappings.
    #[test]
    fn an_errno_that_is_not_known_to_pass_does_not_pass() {
        for errno in [
            Errno::EISDIR,
            Errno::ENAMETOOLONG,
            Errno::ENOLCK,
            Errno::ENODEV,
            Errno::EOPNOTSUPP,
            Errno::EINVAL,
            Errno::EROFS,
            Errno::EACCES,
            Errno::EPERM,
            Errno::ENOTDIR,
            Errno::ELOOP,
        ] {
            let cause = PageErrorCause::File(failed_call(errno));
            assert!(!cause_may_pass(cause, None), "{errno}");
        }
    }

    #[test]
    fn a_shortage_counts_as_a_cause_that_may_pass() {
        for errno in SHORTAGES {
            for cause in [
                PageErrorCause::File,
                PageErrorCause::Lock,
                PageErrorCause::Process,
            ] {
                assert!(cause_may_pass(cause(failed_call(errno)), None), "{errno}");
            }
        }
    }

    fn folder_error(errno: Errno) -> StartError {
        StartError::Folder(io::Error::from_raw_os_error(errno as i32))
    }

    /// Symptom: 78 at once for a folder of a default page on a full disk.
    #[test]
    fn a_shortage_at_the_making_of_the_folder_may_pass() {
        for errno in SHORTAGES {
            assert!(folder_error(errno).may_pass(), "{errno}");
        }
    }

    #[test]
    fn another_error_at_the_making_of_the_folder_does_not_pass() {
        for errno in [
            Errno::ENOENT,
            Errno::EROFS,
            Errno::EACCES,
            Errno::ENAMETOOLONG,
        ] {
            assert!(!folder_error(errno).may_pass(), "{errno}");
        }
    }

    #[test]
    fn another_process_that_serves_or_changes_the_page_may_end() {
        assert!(cause_may_pass(PageErrorCause::Changed(PageChanged), None));
        let process = Some(42);
        assert!(cause_may_pass(PageErrorCause::Served { process }, None));
    }

    #[test]
    fn a_file_that_is_missing_may_be_back_unless_its_folder_is_missing_too() {
        let missing = PageErrorCause::File(failed_call(Errno::ENOENT));
        assert!(cause_may_pass(missing, None));
        let folder = Some(Path::new("/run/tickline"));
        assert!(!cause_may_pass(missing, folder));
    }

    const fn failed_call(errno: Errno) -> FileError {
        FileError::System {
            problem: "it can't be made",
            errno: errno as i32,
        }
    }

    /// Symptom: a slew was logged once for each phase.
    #[test]
    fn a_slew_is_the_same_text_in_each_phase() {
        let slews = |phase| {
            let state = ServerState {
                phase,
                clock: ClockState::Fast,
                waits_for_slew: true,
            };
            state.log_text(None)
        };
        let found = slews(LeasePhase::NoLine).unwrap();
        assert!(found.starts_with("not served: the kernel slews"), "{found}");
        assert_eq!(slews(LeasePhase::Doubted), Some(found));
    }
}
