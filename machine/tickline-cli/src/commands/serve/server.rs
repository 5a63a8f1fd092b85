//! The server's loop, and its log on standard error.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::ppoll;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::time::TimeSpec;
use rustix::process::geteuid;
use tickline::{Clock, ClockState, LinePerCpu, Reason};
use tickline_page::Publisher;
use tickline_page::lease::LeasePhase;
use tickline_page::page_file::{FileError, PageError, PageErrorCause};

use crate::exit::Exit;
use crate::machine;
use crate::measure::standstill;
use crate::measure::warp::{TRIES_AGAIN, WHY_NOT_COMPARED};
use crate::output::line_to_stderr;
use crate::signal;
use crate::words::{plain, plain_path, shell_word, with_path};

use super::notify::ReadyMessage;
use super::service::command;
use super::{ServeError, fast_rate, folder_of, make_folder, no_parent, without_proc, wrong_path};

/// Whether the server makes the page's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Folder {
    /// The folder of a default page: the server makes it, unless it exists.
    Make,
    /// The folder of any other page: the user makes it.
    Keep,
}

/// Serves the page until a signal comes or the page is switched off.
pub(super) fn run(page: &Path, folder: Folder) -> Result<Exit, ServeError> {
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
        Err(StartError::Folder(error)) => return Err(no_folder(page, &error)),
        Err(StartError::Page(error)) => return Err(no_page(error)),
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
        let next_in = publisher.maintain().map_err(cannot_serve)?;
        if publisher.phase() == LeasePhase::Off {
            let on = command("serve on", page);
            log.write(&format!(
                "the page is switched off: run {on}, then start a server"
            ));
            // Another server may have the page from here on.
            drop(publisher);
            // A unit whose server ends before it is ready has failed.
            // ORDERING: Relaxed, as above.
            while ready_message.is_pending() && !stop.load(Ordering::Relaxed) {
                sleep(PAUSE, mask);
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
        sleep(next_in, mask);
    }
}

/// Sleeps, until a stop signal ends the sleep; `mask` is that of [`stop_flag`].
fn sleep(span: Duration, mask: SigSet) {
    ppoll(&mut [], Some(TimeSpec::from_duration(span)), Some(mask)).ok();
}

/// For how long a server tries to start while an error may pass. Another server that systemd stops
/// ends within this time: the unit's `TimeoutStopSec` is shorter. On a full disk systemd starts the
/// server once in this time, not ten times a second.
const PATIENCE: Duration = Duration::from_secs(6);

/// The pause between two tries to start, or to send the message of a page that is switched off.
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
        sleep(PAUSE, mask);
        waited += PAUSE;
    }
}

/// Why a server that has no page ends.
fn no_page(error: PageError) -> ServeError {
    match wrong_path(&error) {
        Some(message) => ServeError::Permanent(io::Error::other(message)),
        None => cannot_serve(error),
    }
}

/// Why a server that cannot serve its page ends.
fn cannot_serve(error: PageError) -> ServeError {
    if let Some(folder) = missing_folder(&error) {
        let folder = plain_path(folder);
        let message = format!("{error}; make {folder}, to which only its owner may write");
        return ServeError::Permanent(io::Error::other(message));
    }
    if let Some(folder) = unwritable_folder(&error) {
        let advice = advice_on_unwritable(folder);
        let message = format!(
            "{error}; this user may not write to {}: {advice}",
            plain_path(folder)
        );
        return ServeError::Permanent(io::Error::other(message));
    }
    if let Some(message) = without_proc(&error, Path::new("/proc/self")) {
        return ServeError::Permanent(io::Error::other(message));
    }
    if may_pass(&error) {
        ServeError::MayPass(io::Error::other(error))
    } else {
        ServeError::Permanent(io::Error::other(error))
    }
}

/// What to do about a folder that the server may not write to. The page's path may lead only
/// through folders of root and of this user.
fn advice_on_unwritable(folder: &Path) -> String {
    let shown = shell_word(&plain_path(folder));
    let is_own = fs::metadata(folder).is_ok_and(|found| found.uid() == geteuid().as_raw());
    if is_own {
        return format!("it is this user's own folder (chmod u+w {shown})");
    }
    format!(
        "serve the page as the owner of that folder (ls -ld {shown}), or name a page in a folder \
         of this user by --page"
    )
}

/// Why a server whose default page has no folder ends.
fn no_folder(page: &Path, error: &io::Error) -> ServeError {
    let named = with_path(folder_of(page), error);
    if error.raw_os_error().is_some_and(is_shortage) {
        return ServeError::MayPass(named);
    }
    ServeError::Permanent(match error.kind() {
        io::ErrorKind::NotFound => io::Error::other(no_parent(page)),
        io::ErrorKind::ReadOnlyFilesystem => io::Error::other(format!(
            "{named}; mount a writable folder there, or name another page by --page"
        )),
        _ => named,
    })
}

/// The folder of the page, if the error is that there is none. The server does not make it: who may
/// write to a folder is for the user to decide.
fn missing_folder(error: &PageError) -> Option<&Path> {
    let folder = error.path().parent()?;
    // An empty path is the present folder.
    let is_missing = error.is_not_found() && folder != Path::new("") && !folder.exists();
    is_missing.then_some(folder)
}

/// The folder of the page, if the error is that this user may not make a file in it. The first file
/// that a server makes there is the lock.
fn unwritable_folder(error: &PageError) -> Option<&Path> {
    let PageErrorCause::Lock(FileError::System { errno, .. }) = error.cause() else {
        return None;
    };
    let folder = folder_of(error.path());
    let may_write = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    (*errno == Errno::EACCES as i32 && !may_write).then_some(folder)
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
    for signal in STOPS {
        mask.remove(signal);
    }
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
        if self.phase == LeasePhase::Published {
            return Some(code.to_owned());
        }
        if self.phase == LeasePhase::FirstPublication {
            return None;
        }
        if let ClockState::Fallback(reason) = self.clock {
            return Some(match reason {
                Reason::Untested => format!(
                    "{code}: the counters of the CPUs are being compared; programs ask the OS clock"
                ),
                Reason::Untestable => format!(
                    "{code}: {reason}: {WHY_NOT_COMPARED}; the server {TRIES_AGAIN}; programs ask \
                     the OS clock"
                ),
                _ => format!("{code}: {reason}"),
            });
        }
        // The same in both phases and at any rate, so one slew is logged once.
        if self.waits_for_slew {
            let rate = fast_rate();
            return Some(format!(
                "not served: the kernel slews its clock by more than {rate}; programs ask the OS \
                 clock"
            ));
        }
        Some(match (self.phase, self.clock) {
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
mod tests;
