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

use super::service::ServiceManager;
use crate::machine::page::{Halt, Process, Reader};
use crate::machine::{self, Ntp};
use crate::measure::line_lead::LineLead;

pub(super) use no_line::WhyNoLine;

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
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "ServerKeys"))]
    pub(super) server: PageServer,
    /// Who keeps the server's process from running.
    #[serde(skip)]
    server_halt: Option<Halt>,
    /// `off`, `no_line`, `first_publication`, `published`, `doubted` or `expired`: `tickline explain
    /// PHASE` explains one.
    #[serde(serialize_with = "serialize_phase")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) phase: PagePhase,
    /// In the phase `no_line`: the code of the gate that is closed on this machine, as this command
    /// finds it, if the cause is not in one process. The server's log has the server's own reason.
    #[serde(serialize_with = "serialize_why_no_line")]
    #[cfg_attr(test, schemars(with = "Option<String>"))]
    #[serde(rename = "no_line_reason")]
    pub(super) why_no_line: Option<WhyNoLine>,
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
    #[serde(rename = "lead_ns")]
    pub(super) lead_limit_ns: Option<i64>,
    /// The same for readings of Unix time, ns.
    #[serde(rename = "unix_lead_ns")]
    pub(super) unix_lead_limit_ns: Option<i64>,
    /// How far the line is above the OS clock now, ns: at least this.
    #[serde(rename = "ahead_ns")]
    pub(super) lead_now_ns: Option<i64>,
    /// The kernel's correction of the rate of its clock, ppb.
    rate_ppb: Option<i64>,
    /// The processes that have the page mapped.
    pub(super) readers: Vec<Reader>,
    /// The number of processes that this user may not examine.
    #[serde(serialize_with = "serialize_count")]
    #[cfg_attr(test, schemars(with = "usize"))]
    pub(super) readers_unknown: Vec<Process>,
    /// Whether the kernel permits this process to examine others, as far as this process's rights
    /// decide that.
    #[serde(skip)]
    may_examine_others: bool,
    /// Whether `/proc` hides the processes of other users.
    readers_hidden: bool,
    /// The processes that have the library of `tickline run`, and not this page: they use another
    /// page, or none, or another library replaces their calls.
    #[serde(serialize_with = "serialize_pids")]
    #[cfg_attr(test, schemars(with = "Vec<u32>"))]
    pub(super) library_only: Vec<Process>,
    /// The processes that `tickline run` has started, and that have neither: they started before
    /// the page, or cannot be served. Those that overwrite their environment are not found.
    #[serde(serialize_with = "serialize_pids")]
    #[cfg_attr(test, schemars(with = "Vec<u32>"))]
    pub(super) run_only: Vec<Process>,
    /// The inode number of the time namespace that the page was made for.
    time_namespace: Option<u64>,
    /// The command that switches the page on.
    #[serde(skip)]
    on: String,
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

/// What is known about the server of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(into = "ServerKeys")]
pub(super) enum PageServer {
    /// This process serves the page.
    Process(u32),
    /// There is a server, and its process is not visible here.
    Invisible,
    /// There is no server.
    None,
    /// Why it is unknown whether there is a server, in words.
    Unknown(String),
}

impl PageServer {
    /// The server by the holder of the page's lock. A page that serves has a server, or had one
    /// until a second ago, also if the lock shows none.
    fn of(holder: Result<LockHolder, PageError>, snapshot: &PageSnapshot) -> Self {
        match holder {
            Ok(LockHolder::Process(pid)) => Self::Process(pid),
            Ok(LockHolder::Invisible) => Self::Invisible,
            Ok(LockHolder::None) if snapshot.is_served => Self::Unknown(
                "its process is not visible here, as in a container, or has just ended".to_owned(),
            ),
            Ok(LockHolder::None) => Self::None,
            Err(error) => Self::Unknown(unknown_server(&error)),
        }
    }

    /// Whether there is a server, if that is known.
    pub(super) const fn exists(&self) -> Option<bool> {
        match self {
            Self::Process(_) | Self::Invisible => Some(true),
            Self::None => Some(false),
            Self::Unknown(_) => None,
        }
    }

    /// The number of its process, if that is known.
    const fn pid(&self) -> Option<u32> {
        match self {
            Self::Process(pid) => Some(*pid),
            Self::Invisible | Self::None | Self::Unknown(_) => None,
        }
    }

    /// Why its process is unknown, in words.
    fn unknown(&self) -> Option<&str> {
        match self {
            Self::Process(_) | Self::None => None,
            Self::Invisible => Some("its process is not visible here, as in a container"),
            Self::Unknown(reason) => Some(reason),
        }
    }
}

/// The keys of a server in the JSON.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ServerKeys {
    /// The server's process.
    server_pid: Option<u32>,
    /// Why the server's process is not known, in words.
    server_unknown: Option<String>,
}

impl From<PageServer> for ServerKeys {
    fn from(server: PageServer) -> Self {
        Self {
            server_pid: server.pid(),
            server_unknown: server.unknown().map(str::to_owned),
        }
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

/// What to look at if nothing is served; also how to start a server if there is none, or how to
/// restart one that hangs: its leases have run out, and nobody keeps it from running.
fn next(
    manager: ServiceManager,
    page: &Path,
    phase: PagePhase,
    server: &PageServer,
    halt: Option<Halt>,
) -> String {
    let look = manager.look();
    match server.exists() {
        Some(false) => format!("{look}; to start a server: {}", manager.start(page)),
        Some(true) if phase == PagePhase::Expired && halt.is_none() => {
            format!("{look}; to restart the server: {}", manager.restart(page))
        }
        _ => look.to_owned(),
    }
}

impl PageReport {
    /// The state of the page at this path, which is open.
    pub(super) fn read(page: &Path, attached: &AttachedFile) -> io::Result<Self> {
        let counter = readable_counter()?;
        let lead = LineLead::measure(|| {
            let page = attached.page();
            page.monotonic_by_line(&counter, &ProcessHighWater::new())
        });
        let snapshot = attached.file().snapshot(&counter);
        let server = PageServer::of(lock_holder(page), &snapshot);
        let server_halt = server.pid().and_then(Halt::of);
        let phase = PagePhase::of(&snapshot);
        let manager = ServiceManager::of(page);
        let mappings = machine::page::mappings(page, server.pid())?;
        let why_no_line =
            (snapshot.phase == LeasePhase::NoLine).then(|| WhyNoLine::of_server(&server));
        Ok(Self {
            schema: SCHEMA,
            page: page.display().to_string(),
            owner: attached.file().owner(),
            phase,
            why_no_line,
            switched_off: snapshot.is_switched_off,
            serving: snapshot.is_served,
            generation: snapshot.generation,
            age_ns: snapshot.age_ns,
            lease_ns: snapshot.lease_ns,
            lease_left_ns: snapshot.lease_left_ns,
            lead_limit_ns: lead_limit_ns(snapshot.lead_ns, lead.as_ref(), &snapshot),
            unix_lead_limit_ns: lead_limit_ns(snapshot.unix_lead_ns, lead.as_ref(), &snapshot),
            lead_now_ns: lead.map(|lead| lead.least_ns()),
            rate_ppb: machine::ntp().as_ref().map(Ntp::rate_ppb),
            readers: mappings.readers,
            readers_unknown: mappings.unreadable,
            may_examine_others: machine::page::may_examine_others(),
            readers_hidden: mappings.are_some_hidden,
            library_only: mappings.library_only,
            run_only: mappings.run_only,
            time_namespace: attached
                .file()
                .page()
                .header()
                .map(|header| header.time_namespace),
            on: manager.command_for("serve on", page),
            next: next(manager, page, phase, &server, server_halt),
            server_halt,
            server,
        })
    }
}

/// The counter, by which a page is read.
fn readable_counter() -> io::Result<HardwareCounter> {
    let counter = if machine::may_read_counter() == Some(false) {
        None
    } else {
        HardwareCounter::if_present()
    };
    counter.ok_or_else(|| io::Error::other("there is no counter that this process may read"))
}

/// How far readings are above the OS clock at most, ns: what the page states, and what `lead`
/// proves beyond it. `None` if the page states nothing, or if its line is doubted: the OS clock has
/// then left the line, and the lead has no known limit.
fn lead_limit_ns(
    stated_ns: Option<i64>,
    lead: Option<&LineLead>,
    snapshot: &PageSnapshot,
) -> Option<i64> {
    if snapshot.phase == LeasePhase::Doubted {
        return None;
    }
    let left_ns = snapshot.lease_left_ns.unwrap_or(0).max(0);
    let excess_ns = lead
        .zip(snapshot.lead_ns)
        .map_or(0, |(lead, stated_ns)| lead.excess_ns(stated_ns, left_ns));
    Some(stated_ns?.saturating_add(excess_ns))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn serialize_phase<S: Serializer>(phase: &PagePhase, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(phase.code())
}

#[expect(clippy::ref_option, reason = "serde's signature")]
fn serialize_why_no_line<S: Serializer>(
    why: &Option<WhyNoLine>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let reason = why.and_then(WhyNoLine::reason_of_machine);
    reason.map(Reason::code).serialize(serializer)
}

fn serialize_count<S: Serializer>(processes: &[Process], serializer: S) -> Result<S::Ok, S::Error> {
    processes.len().serialize(serializer)
}

fn serialize_pids<S: Serializer>(processes: &[Process], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(processes.iter().map(|process| process.pid))
}

#[cfg(test)]
pub(super) mod testing;

#[cfg(test)]
mod tests {
    use super::testing::{served, unserved};
    use super::*;

    #[test]
    fn only_a_page_without_a_server_says_how_to_start_one() {
        let next = |server: &PageServer| {
            let phase = PagePhase::Stored(LeasePhase::NoLine);
            let page = Path::new("/page");
            next(ServiceManager::OpenRc, page, phase, server, None)
        };
        let look = ServiceManager::OpenRc.look();
        let start = ServiceManager::OpenRc.start(Path::new("/page"));
        assert_eq!(next(&PageServer::Process(42)), look);
        assert_eq!(next(&PageServer::Unknown(String::new())), look);
        let expected = format!("{look}; to start a server: {start}");
        assert_eq!(next(&PageServer::None), expected);
    }

    /// Symptom: the log alone, of a server that hung.
    #[test]
    fn a_server_whose_leases_have_run_out_is_restarted_unless_it_is_stopped() {
        let next = |phase, halt| {
            let page = Path::new("/page");
            let server = PageServer::Process(42);
            next(ServiceManager::Systemd, page, phase, &server, halt)
        };
        let look = ServiceManager::Systemd.look();
        let restart = ServiceManager::Systemd.restart(Path::new("/page"));
        let expected = format!("{look}; to restart the server: {restart}");
        assert_eq!(next(PagePhase::Expired, None), expected);
        assert_eq!(next(PagePhase::Expired, Some(Halt::Signal)), look);
        let no_line = PagePhase::Stored(LeasePhase::NoLine);
        assert_eq!(next(no_line, None), look);
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

    /// Symptom: in a container no server, and an alert about it, while the page served.
    #[test]
    fn a_page_that_serves_is_not_said_to_have_no_server() {
        let server = PageServer::of(Ok(LockHolder::None), &served(LeasePhase::Published));
        assert_eq!(server.exists(), None);
        assert!(server.unknown().is_some());
    }

    /// Symptom: in a PID namespace "the server has stopped" of a server that held the lock.
    #[test]
    fn a_server_that_is_invisible_here_is_known_to_exist() {
        for page in [
            unserved(LeasePhase::Published),
            served(LeasePhase::Published),
        ] {
            let server = PageServer::of(Ok(LockHolder::Invisible), &page);
            assert_eq!(server.exists(), Some(true));
            assert!(server.unknown().is_some());
        }
    }

    #[test]
    fn a_lock_says_whether_there_is_a_server() {
        let page = served(LeasePhase::Published);
        let server = PageServer::of(Ok(LockHolder::Process(42)), &page);
        assert_eq!(server, PageServer::Process(42));
        let page = unserved(LeasePhase::Published);
        let server = PageServer::of(Ok(LockHolder::None), &page);
        assert_eq!(server, PageServer::None);
    }

    /// Whoever reads the JSON tells the four cases apart by the two keys.
    #[test]
    fn a_server_has_two_keys_of_which_at_most_one_has_a_value() {
        let keys = |server: PageServer| serde_json::to_value(server).unwrap();
        let expected = |pid: Option<u32>, unknown: Option<&str>| serde_json::json!({ "server_pid": pid, "server_unknown": unknown });
        assert_eq!(keys(PageServer::Process(42)), expected(Some(42), None));
        assert_eq!(keys(PageServer::None), expected(None, None));
        let reason = "no right";
        assert_eq!(
            keys(PageServer::Unknown(reason.to_owned())),
            expected(None, Some(reason))
        );
    }
}
