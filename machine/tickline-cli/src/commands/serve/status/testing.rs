//! The state of a page, for the tests of what shows it.

use super::*;

/// A page that a server keeps, without readers.
pub(in crate::commands::serve) fn report() -> PageReport {
    PageReport {
        schema: SCHEMA,
        page: "/run/tickline/page.v1".to_owned(),
        owner: 7,
        server: PageServer::Process(42),
        server_halt: None,
        phase: PagePhase::Stored(LeasePhase::Published),
        why_no_line: None,
        switched_off: false,
        serving: true,
        generation: 2,
        age_ns: Some(1_500_000_000),
        lease_ns: Some(2_000_000_000),
        lease_left_ns: Some(500_000_000),
        lead_limit_ns: Some(120),
        unix_lead_limit_ns: Some(140),
        lead_now_ns: Some(15),
        rate_ppb: Some(0),
        readers: Vec::new(),
        readers_unknown: Vec::new(),
        may_examine_others: false,
        readers_hidden: false,
        library_only: Vec::new(),
        run_only: Vec::new(),
        time_namespace: None,
        on: "`tickline serve on`".to_owned(),
        next: "systemctl status tickline".to_owned(),
    }
}

/// A page with this word, whose line is not in use.
pub(super) fn unserved(phase: LeasePhase) -> PageSnapshot {
    let mut snapshot = PageSnapshot::default();
    snapshot.phase = phase;
    snapshot
}

/// A page with this word, whose line is in use.
pub(super) fn served(phase: LeasePhase) -> PageSnapshot {
    let mut snapshot = unserved(phase);
    snapshot.is_served = true;
    snapshot
}
