//! `tickline serve status`: what a page serves.

use std::io::{self, Write};
use std::path::Path;

use serde::{Serialize, Serializer};
use tickline::page::Phase;
use tickline_page::{HardwareCounter, Machine, PageFile};

use crate::machine;
use crate::terminal::plain;

/// What a page serves; `help.rs` describes the keys.
#[derive(Debug, Serialize)]
pub(super) struct Status {
    schema: &'static str,
    page: String,
    owner: u32,
    server_pid: Option<u32>,
    server_unknown: Option<String>,
    #[serde(serialize_with = "name")]
    phase: Phase,
    pub(super) serving: bool,
    generation: u64,
    age_ns: Option<i64>,
    lease_ns: Option<i64>,
    lease_left_ns: Option<i64>,
    lead_ns: Option<i64>,
    unix_lead_ns: Option<i64>,
    time_namespace: Option<u64>,
}

impl Status {
    pub(super) fn of(page: &Path) -> io::Result<Self> {
        let file = PageFile::open(page).map_err(super::no_page)?;
        file.attach(&Machine::find()?).map_err(io::Error::other)?;
        let counter = HardwareCounter::if_present().filter(|_| machine::counter_readable() != Some(false));
        let counter = counter.ok_or_else(|| io::Error::other("this process may not read the counter"))?;
        let found = file.snapshot(&counter);
        let (server_pid, server_unknown) = match tickline_page::writer_of(page) {
            Ok(pid) => (pid, None),
            Err(error) => (None, Some(error.to_string())),
        };
        Ok(Self {
            schema: "tickline-serve/1",
            page: page.display().to_string(),
            owner: file.owner(),
            server_pid,
            server_unknown,
            phase: found.phase.into(),
            serving: found.is_served,
            generation: found.generation,
            age_ns: found.age_ns,
            lease_ns: found.lease_ns,
            lease_left_ns: found.left_ns,
            lead_ns: found.lead_ns,
            unix_lead_ns: found.unix_lead_ns,
            time_namespace: file.page().header().map(|header| header.time_namespace),
        })
    }

    pub(super) fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "page    {}, of user {}", plain(&self.page), self.owner)?;
        match (self.server_pid, &self.server_unknown) {
            (Some(pid), _) => writeln!(out, "server  process {pid}")?,
            (None, None) => writeln!(out, "server  none that is seen here")?,
            (None, Some(reason)) => writeln!(out, "server  unknown: {}", plain(reason))?,
        }
        let meaning = match (self.phase, self.serving) {
            (Phase::Off, _) => "switched off; programs ask the OS clock",
            (Phase::Cold | Phase::Opening, _) => "there is no line; programs ask the OS clock",
            (_, false) => "the leases have run out; programs ask the OS clock",
            (Phase::Unsure, true) => "the line may be too low; programs ask the OS clock, too",
            _ => "programs take the time from the page",
        };
        writeln!(out, "phase   {}: {meaning}", self.phase.name())?;
        if let (Some(age_ns), Some(left_ns), Some(lease_ns)) =
            (self.age_ns, self.lease_left_ns, self.lease_ns)
        {
            let (age, left, lease) = (Seconds(age_ns), Seconds(left_ns), Seconds(lease_ns));
            match left_ns {
                0.. => writeln!(out, "lease   {lease}; in use for {age}; all leases end in {left}")?,
                _ => writeln!(out, "lease   {lease}; all leases ended {left} ago")?,
            }
        }
        if let Some(lead_ns) = self.lead_ns.filter(|_| self.serving) {
            write!(out, "lead    at most {lead_ns} ns above the OS clock")?;
            match self.unix_lead_ns {
                Some(unix_ns) => writeln!(out, "; Unix time at most {unix_ns} ns")?,
                None => writeln!(out, "; the OS serves Unix time")?,
            }
        }
        Ok(())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
fn name<S: Serializer>(phase: &Phase, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(phase.name())
}

/// Nanoseconds as seconds, without a sign.
struct Seconds(i64);

impl std::fmt::Display for Seconds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = self.0.unsigned_abs() / 1_000_000;
        write!(f, "{}.{:03} s", ms / 1_000, ms % 1_000)
    }
}
