//! `tickline serve status`: the state of a page. `text.rs` shows it.

mod no_line;
mod text;

use std::io;
use std::path::Path;

use serde::{Serialize, Serializer};
use tickline::Reason;
use tickline_page::HardwareCounter;
use tickline_page::lease::{LeasePhase, ProcessHighWater};
use tickline_page::page_file::{
    AttachedFile, FileError, LockHolder, PageError, PageErrorCause, PageSnapshot, lock_holder,
};

use super::line_lead::LineLead;
use super::service::ServiceManager;
use crate::machine::page::Reader;
use crate::machine::{self, Ntp};

/// The name and version of the structure of this JSON.
pub(crate) const SCHEMA: &str = "tickline-serve/1";

/// The state of a page. A value that is not known is null.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PageReport {
    /// The name and version of this structure.
    schema: &'static str,
    /// The page's file.
    page: String,
    /// The number of the user who owns the page.
    owner: u32,
    /// The server's process.
    pub(super) server_pid: Option<u32>,
    /// Why the server's process is not known, in words.
    pub(super) server_unknown: Option<String>,
    /// Whether there is a server, if that is known.
    #[serde(skip)]
    pub(super) has_server: Option<bool>,
    /// `off`, `no_line`, `first_publication`, `published`, `doubted` or `expired`: `tickline explain
    /// PHASE` explains one.
    #[serde(serialize_with = "serialize_phase")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) phase: PagePhase,
    /// In the phase `no_line`: the code of the gate that is closed on this machine, as this command
    /// finds it, if the cause is not in one process. The server's log has the server's own reason.
    #[serde(serialize_with = "serialize_reason")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    pub(super) no_line_reason: Option<Reason>,
    /// What is known about the server of a page without a line, if there is no such reason.
    #[serde(skip)]
    servers_reason: Option<&'static str>,
    /// Whether `tickline serve off` has switched the page off.
    pub(super) switched_off: bool,
    /// Whether a line is served now.
    pub(super) serving: bool,
    /// The number of changes of the page.
    generation: u64,
    /// The time since the first tick of the line in use, ns.
    pub(super) age_ns: Option<i64>,
    /// The length of the last lease, ns.
    lease_ns: Option<i64>,
    /// The time until the leases run out, ns; negative if they have run out.
    pub(super) lease_left_ns: Option<i64>,
    /// How far readings are above the OS clock at most, at its present rate, ns; null in the phase
    /// `doubted`.
    pub(super) lead_ns: Option<i64>,
    /// The same for readings of Unix time, ns.
    pub(super) unix_lead_ns: Option<i64>,
    /// How far the line is above the OS clock now, ns: at least this.
    pub(super) ahead_ns: Option<i64>,
    /// The kernel's correction of the rate of its clock, ppb.
    rate_ppb: Option<i64>,
    /// The processes that have the page mapped.
    pub(super) readers: Vec<Reader>,
    /// The number of processes that this user may not examine.
    pub(super) readers_unknown: usize,
    /// Whether `/proc` hides the processes of other users.
    readers_hidden: bool,
    /// The processes that have the library of `tickline run`, and not this page: they use another
    /// page, or none, or another library replaces their calls.
    pub(super) library_only: Vec<u32>,
    /// The processes that `tickline run` has started, and that have neither: they started before
    /// the page, or cannot be served. Those that overwrite their environment are not found.
    pub(super) run_only: Vec<u32>,
    /// The inode number of the time namespace that the page was made for.
    time_namespace: Option<u64>,
    /// What to do if nothing is served.
    #[serde(skip)]
    next: String,
}

/// A page's phase for its readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PagePhase {
    /// The phase that the server has stored.
    Stored(LeasePhase),
    /// The server has stored a phase with a line, and the leases have run out since.
    Expired,
}

impl PagePhase {
    /// All phases.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let stored = LeasePhase::ALL.iter().copied().map(Self::Stored);
        stored.chain([Self::Expired])
    }

    const fn of(snapshot: &PageSnapshot) -> Self {
        match snapshot.phase {
            LeasePhase::Published | LeasePhase::Doubted if !snapshot.is_served => Self::Expired,
            stored => Self::Stored(stored),
        }
    }

    pub(super) const fn code(self) -> &'static str {
        match self {
            Self::Stored(phase) => phase.code(),
            Self::Expired => "expired",
        }
    }
}

/// Whether there is a server, if that is known, and why its process is unknown. A page that serves
/// has a server, or had one until a second ago, also if the lock shows none.
fn server(
    holder: &Result<LockHolder, PageError>,
    snapshot: &PageSnapshot,
) -> (Option<bool>, Option<String>) {
    match holder {
        Ok(LockHolder::Process(_)) => (Some(true), None),
        Ok(LockHolder::None) if snapshot.is_served => {
            let reason = "its process is not visible here, as in a container, or has just ended";
            (None, Some(reason.to_owned()))
        }
        Ok(LockHolder::None) => (Some(false), None),
        Ok(LockHolder::Invisible) => {
            let reason = "its process is not visible here, as in a container";
            (Some(true), Some(reason.to_owned()))
        }
        Err(error) => (None, Some(unknown_server(error))),
    }
}

/// Why the server's process is unknown, by the error of [`lock_holder`].
fn unknown_server(error: &PageError) -> String {
    match error.cause() {
        // The lock has mode 600, so this is the usual case of any other user.
        PageErrorCause::File(FileError::System { errno, .. })
        | PageErrorCause::Lock(FileError::System { errno, .. })
            if *errno == libc::EACCES =>
        {
            "only root and the page's owner may see it".to_owned()
        }
        _ => error.to_string(),
    }
}

/// What to look at if nothing is served, and the start of a server if there is none.
pub(super) fn next(manager: ServiceManager, page: &Path, has_server: Option<bool>) -> String {
    let look = manager.look();
    if has_server == Some(false) {
        format!("{look}; to start a server: {}", manager.start(page))
    } else {
        look.to_owned()
    }
}

impl PageReport {
    /// The state of the page at this path, which is open.
    pub(super) fn read(page: &Path, attached: &AttachedFile) -> io::Result<Self> {
        let none = || io::Error::other("there is no counter that this process may read");
        if machine::may_read_counter() == Some(false) {
            return Err(none());
        }
        let counter = HardwareCounter::if_present().ok_or_else(none)?;
        let ahead = LineLead::measure(|| {
            let page = attached.page();
            page.monotonic_by_line(&counter, &ProcessHighWater::new())
        });
        let snapshot = attached.file().snapshot(&counter);
        let excess_ns = ahead
            .as_ref()
            .zip(snapshot.lead_ns)
            .map_or(0, |(ahead, stated_ns)| {
                ahead
                    .lead_ns(stated_ns, snapshot.lease_left_ns.unwrap_or(0).max(0))
                    .saturating_sub(stated_ns)
            });
        let holder = lock_holder(page);
        let (has_server, server_unknown) = server(&holder, &snapshot);
        let server_pid = holder.ok().and_then(LockHolder::pid);
        let mappings = machine::page::mappings(page, server_pid)?;
        let is_without_line = snapshot.phase == LeasePhase::NoLine;
        let machines_state = is_without_line.then(no_line::machines_state).flatten();
        let no_line_reason = machines_state.and_then(no_line::reason_of_machine);
        let servers_reason = (is_without_line && no_line_reason.is_none())
            .then(|| no_line::servers_reason(has_server));
        let known_lead_ns = |stated_ns: Option<i64>| {
            if snapshot.phase == LeasePhase::Doubted {
                // The OS clock has left the line, so the lead has no known limit.
                return None;
            }
            Some(stated_ns?.saturating_add(excess_ns))
        };
        Ok(Self {
            schema: SCHEMA,
            page: page.display().to_string(),
            owner: attached.file().owner(),
            server_pid,
            server_unknown,
            has_server,
            phase: PagePhase::of(&snapshot),
            no_line_reason,
            servers_reason,
            switched_off: snapshot.is_switched_off,
            serving: snapshot.is_served,
            generation: snapshot.generation,
            age_ns: snapshot.age_ns,
            lease_ns: snapshot.lease_ns,
            lease_left_ns: snapshot.lease_left_ns,
            lead_ns: known_lead_ns(snapshot.lead_ns),
            unix_lead_ns: known_lead_ns(snapshot.unix_lead_ns),
            ahead_ns: ahead.map(|ahead| ahead.least_ns),
            rate_ppb: machine::ntp().as_ref().map(Ntp::rate_ppb),
            readers: mappings.readers,
            readers_unknown: mappings.unreadable,
            readers_hidden: mappings.are_some_hidden,
            library_only: mappings.library_only,
            run_only: mappings.run_only,
            time_namespace: attached
                .file()
                .page()
                .header()
                .map(|header| header.time_namespace),
            next: next(ServiceManager::of(page), page, has_server),
        })
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn serialize_phase<S: Serializer>(phase: &PagePhase, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(phase.code())
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn serialize_reason<S: Serializer>(
    reason: &Option<Reason>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    reason.map(Reason::code).serialize(serializer)
}

#[cfg(test)]
pub(super) mod testing;

#[cfg(test)]
mod tests {
    use super::testing::{served, unserved};
    use super::*;

    #[test]
    fn only_a_page_without_a_server_says_how_to_start_one() {
        let next = |has_server| next(ServiceManager::OpenRc, Path::new("/page"), has_server);
        let look = ServiceManager::OpenRc.look();
        assert_eq!(next(Some(true)), look);
        assert_eq!(next(None), look);
        let start =
            "; to start a server: rc-service tickline restart, or `tickline serve`, as root";
        assert_eq!(next(Some(false)), format!("{look}{start}"));
    }

    /// Symptom: "phase published" of a server that was dead, stopped or hung.
    #[test]
    fn leases_that_have_run_out_are_not_called_published() {
        for stored in [LeasePhase::Published, LeasePhase::Doubted] {
            let codes =
                [served(stored), unserved(stored)].map(|snapshot| PagePhase::of(&snapshot).code());
            assert_eq!(codes, [stored.code(), "expired"]);
        }
    }

    #[test]
    fn a_page_without_a_line_has_the_stored_phase() {
        for stored in [
            LeasePhase::Off,
            LeasePhase::NoLine,
            LeasePhase::FirstPublication,
        ] {
            assert_eq!(PagePhase::of(&unserved(stored)), PagePhase::Stored(stored));
        }
    }

    /// Whether there is a server, and whether it is said that its process is unknown.
    fn server_of(holder: LockHolder, snapshot: &PageSnapshot) -> (Option<bool>, bool) {
        let (has_server, unknown) = server(&Ok(holder), snapshot);
        (has_server, unknown.is_some())
    }

    /// Symptom: in a container no server, and an alert about it, while the page served.
    #[test]
    fn a_page_that_serves_is_not_said_to_have_no_server() {
        let page = served(LeasePhase::Published);
        assert_eq!(server_of(LockHolder::None, &page), (None, true));
    }

    /// Symptom: in a PID namespace "the server has stopped" of a server that held the lock.
    #[test]
    fn a_server_that_is_invisible_here_is_known_to_exist() {
        for page in [
            unserved(LeasePhase::Published),
            served(LeasePhase::Published),
        ] {
            assert_eq!(server_of(LockHolder::Invisible, &page), (Some(true), true));
        }
    }

    #[test]
    fn a_lock_says_whether_there_is_a_server() {
        let page = served(LeasePhase::Published);
        assert_eq!(
            server_of(LockHolder::Process(42), &page),
            (Some(true), false)
        );
        let page = unserved(LeasePhase::Published);
        assert_eq!(server_of(LockHolder::None, &page), (Some(false), false));
    }
}
