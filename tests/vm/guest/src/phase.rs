//! A guest's report: phases, each a line of JSON. A file of the guest fills each part of a phase,
//! and the rules of `cargo xtask vm` read it. `xtask/src/vm.rs` compiles this file, too.
//!
//! A part or a figure that a phase lacks is left out of its line.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

// The names of phases that both halves know. Acts name the others, and `guests.toml` has them.
pub(crate) const MACHINE: &str = "machine";
pub(crate) const START: &str = "start";
pub(crate) const BEFORE: &str = "before";
pub(crate) const AFTER: &str = "after";
pub(crate) const SET_CLOCK: &str = "set_clock";
pub(crate) const STATES: &str = "states";
pub(crate) const ERROR: &str = "error";
pub(crate) const END: &str = "end";

/// A phase of the report.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Phase {
    pub(crate) name: String,
    /// The phase's length by the guest's clock.
    pub(crate) ms: Option<u64>,
    /// The clocksource with which the kernel keeps time. In a phase with `diagnosis` or `who`, the
    /// program `tickline` names it.
    pub(crate) clocksource: Option<String>,
    /// The error with which the guest, an act or a program gave up.
    pub(crate) error: Option<String>,
    /// A command of the phase, and any text, for people.
    pub(crate) command: Option<String>,
    pub(crate) text: Option<String>,
    pub(crate) unavailable: Option<Unavailable>,
    pub(crate) machine: Option<Machine>,

    // A clock under test, and the threads that read it.
    pub(crate) watched: Option<Watched>,
    pub(crate) comparison: Option<Comparison>,
    pub(crate) readers: Option<Readers>,
    pub(crate) cost: Option<Cost>,

    // An act.
    /// Whether it could be done.
    pub(crate) done: Option<bool>,
    /// Whether its result was seen.
    pub(crate) waited: Option<Waited>,
    pub(crate) noticed: Option<Noticed>,
    pub(crate) resumed: Option<Resumed>,
    /// The time that the machine slept, by its kernel.
    pub(crate) slept_ms: Option<u64>,

    // A program, by its output.
    pub(crate) program: Option<ProgramRun>,
    pub(crate) diagnosis: Option<Diagnosis>,
    /// The first finding of the diagnosis; `ntp_unsynchronised` only if there is no other.
    pub(crate) finding: Option<Finding>,
    /// The kernel's flag at the end of the program `tickline`.
    pub(crate) kernel_synchronised: Option<bool>,
    pub(crate) who: Option<Who>,
    /// The first row of `tickline who` on the program that asks.
    pub(crate) asker: Option<Caller>,
    /// The jumps of the counter that `tickline watch` has seen.
    pub(crate) jumps: Option<usize>,
    pub(crate) called: Option<Called>,
    pub(crate) served: Option<Served>,
    pub(crate) limited: Option<Limited>,

    // Readings of UTC.
    pub(crate) utc: Option<Utc>,
    pub(crate) daemon: Option<Daemon>,
    pub(crate) claims: Option<Claims>,
    /// The growth of a range in 8 s without an answer.
    pub(crate) grown_ns: Option<u64>,

    // A program on Debian.
    /// Its messages on standard error.
    pub(crate) messages: Option<String>,
    pub(crate) measured: Option<Measured>,
    pub(crate) counted: Option<Counted>,
    pub(crate) native: Option<Native>,
    pub(crate) exchange: Option<Exchange>,
    /// Whether it has a page mapped.
    pub(crate) is_served: Option<bool>,
    /// Whether a page was served at the end of each state of the server, while programs exchange
    /// readings (`programs/exchange.rs`).
    pub(crate) states: Option<Vec<bool>>,
    pub(crate) step: Option<Step>,
}

impl Phase {
    pub(crate) fn named(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            ..Self::default()
        }
    }

    /// The phase that says what the guest, or one of its programs, lacks.
    pub(crate) fn unavailable(what: impl Into<String>, program: Option<String>) -> Self {
        Self {
            unavailable: Some(Unavailable {
                what: what.into(),
                program,
            }),
            ..Self::named("unavailable")
        }
    }
}

/// What the guest, the host or a program lacks (`acts.rs`, `programs.rs`; xtask's `qemu.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Unavailable {
    pub(crate) what: String,
    /// The program that lacks it; `None` if it is the guest.
    pub(crate) program: Option<String>,
}

/// The machine (`machine.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) kernel: String,
    pub(crate) command_line: String,
    pub(crate) cpus: usize,
    /// The clocksources that the kernel offers, separated by spaces.
    pub(crate) clocksources: String,
}

/// A clock in a phase: the distances of readings, and of their bounds, from their brackets
/// (`brackets.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Watched {
    /// The state at the end, and the code of the closed gate.
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
    /// The reasons for not using the counter, in any row of brackets.
    pub(crate) reasons: BTreeSet<String>,
    pub(crate) rows: u64,
    /// The rows before which the counter served.
    pub(crate) fast_percent: u64,
    /// The results of `reading()` by a line, with the line's bounds.
    pub(crate) bounded_percent: u64,
    /// The rows with a distance of more than `FAR_BRACKETS` widths of the row's narrowest bracket.
    pub(crate) far_percent: u64,
    pub(crate) narrowest_bracket_ns: Option<u64>,
    /// The largest distances of `now_ordered` from its bracket.
    pub(crate) ahead_ns: u64,
    pub(crate) behind_ns: u64,
    /// The number of results of `reading()` whose bounds missed the bracket.
    pub(crate) bound_violated: u64,
    pub(crate) widest_bound_ns: u64,
    /// The largest distance of `unix_now` from its bracket.
    pub(crate) unix_outside_ns: u64,
    pub(crate) unix_bound_violated: u64,
    pub(crate) unix_widest_bound_ns: u64,
    /// The clock's whole status at the end, for people.
    pub(crate) status: String,
}

/// The comparison of the CPUs' counters (`brackets.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Comparison {
    pub(crate) found: Found,
    /// The whole result, for people.
    pub(crate) detail: String,
}

/// The kind of a comparison's result: `tickline::CounterComparison`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Found {
    #[default]
    Pending,
    Single,
    Synchronised,
    Unsynchronised,
    Impossible,
    Unknown,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The counts of the threads that read all the time (`readers.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Readers {
    pub(crate) readings: u64,
    /// The ordered readings that were compared with another thread's reading.
    pub(crate) exchanges: u64,
    /// The ordered readings that were below an earlier one, and the largest such step.
    pub(crate) backward: u64,
    pub(crate) largest_backward_ns: u64,
    /// The plain readings that were below their thread's last one.
    pub(crate) backward_in_thread: u64,
    pub(crate) os_largest_backward_ns: u64,
}

/// The costs of a call of `now_ns`, and of `clock_gettime` (`cost.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Cost {
    pub(crate) ps_a_call: u64,
    pub(crate) os_ps_a_call: u64,
    pub(crate) os_to_now_percent: u64,
}

/// Whether an event was seen in time, and after how much of the guest's time (`lab.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Waited {
    pub(crate) reached: bool,
    pub(crate) after_us: u64,
}

/// A change that the clock must notice within one interval (`acts.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Noticed {
    pub(crate) beyond_interval_us: u64,
    /// The clock's state then.
    pub(crate) state: String,
    pub(crate) reason: Option<String>,
}

/// The clock directly after a resume or a move (`resume.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Resumed {
    /// The time until which the bounds of readings missed the OS clock.
    pub(crate) outside_ms: u64,
    /// The time until which they did so although the state was not `Disrupted`.
    pub(crate) unreported_ms: u64,
    /// The time until which the state was `Disrupted`.
    pub(crate) disrupted_ms: u64,
    /// The largest lead of readings over the OS clock.
    pub(crate) ahead_us: u64,
}

/// How a program ended, and what it wrote (`report.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct ProgramRun {
    /// `None` if the program did not start, or a signal has ended it.
    pub(crate) exit_code: Option<i32>,
    /// Its standard output, if this is JSON, for people.
    pub(crate) output: Option<Value>,
    /// Its standard error, or why it did not start.
    pub(crate) errors: String,
}

/// A part of the JSON of the program `tickline`, which has a schema (`doctor.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Diagnosis {
    pub(crate) fast: bool,
    pub(crate) health: Health,
    pub(crate) machine: DiagnosedMachine,
    /// The most severe one first.
    pub(crate) findings: Vec<Finding>,
}

/// The health in that JSON.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Health {
    pub(crate) level: String,
}

/// The machine in that JSON.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct DiagnosedMachine {
    pub(crate) clocksource: Option<String>,
    pub(crate) counter_difference_ticks: Option<u64>,
}

/// A finding in that JSON.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Finding {
    pub(crate) code: String,
    pub(crate) fix: String,
    pub(crate) gain_ratio: Option<f64>,
}

/// What `tickline who` says (`who.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Who {
    pub(crate) rows: usize,
    pub(crate) asker_rows: usize,
    pub(crate) first_is_asker: bool,
    /// The costs of the asker's calls, now and when fixed; `None` if they are unknown, or without
    /// such calls.
    pub(crate) core_permille: Option<u64>,
    pub(crate) fixed_core_permille: Option<u64>,
    /// The counted calls, of those that the asker has counted itself; `None` without an asker.
    pub(crate) counted_permille: Option<u64>,
    pub(crate) lost_calls: u64,
    pub(crate) instead: Vec<String>,
}

/// A row of the JSON of `tickline who`.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Caller {
    pub(crate) pid: u32,
    pub(crate) process: Option<String>,
    pub(crate) clock: String,
    pub(crate) calls_per_second: f64,
    pub(crate) core_percent: Option<f64>,
    pub(crate) fixed_core_percent: Option<f64>,
}

/// The findings of the program that only calls the clock (`served.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Called {
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) backward: u64,
    /// The cost of a call in the fastest batch.
    pub(crate) call_ns: u64,
}

/// What was before that program under `tickline run` (`served.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Served {
    /// The cost of a call without tickline.
    pub(crate) native_call_ns: Option<u64>,
    /// The last reading of the program that ran before.
    pub(crate) last_ns_before: Option<u64>,
    /// The messages of a server that has ended.
    pub(crate) server: Option<String>,
}

/// The JSON of governor's limiter (`acts.rs`; `tests/vm/limiter` prints it).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Limited {
    pub(crate) messages: u64,
    pub(crate) refused: u64,
    pub(crate) backward: u64,
}

/// Readings of UTC (`utc/counts.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Utc {
    pub(crate) readings: u64,
    /// The readings with a range.
    pub(crate) answered: u64,
    /// The readings whose range does not contain the true time, and the largest distance.
    pub(crate) missed: u64,
    pub(crate) missed_ns: u64,
    pub(crate) narrowest_ns: Option<u64>,
    /// The number of readings of each kind, and the time of the last one.
    pub(crate) kinds: Kinds,
    pub(crate) after_ms: Kinds,
    /// The codes of all kinds, in the order of their first readings.
    pub(crate) in_order: Vec<String>,
}

/// A figure for each kind of readings that a rule is about: their source, or why there is none.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Kinds {
    pub(crate) chronyd: Option<u64>,
    pub(crate) clock_bound: Option<u64>,
    pub(crate) kernel: Option<u64>,
    pub(crate) leap_second: Option<u64>,
    pub(crate) disrupted: Option<u64>,
}

/// The daemon of a scenario (`utc.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Daemon {
    /// Whether it has become the source.
    pub(crate) synchronised: Waited,
    pub(crate) log: String,
    /// How chronyd has answered.
    pub(crate) channel: Option<String>,
}

/// How far chronyd's own claims have missed (`utc/claims.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) asked: u64,
    /// The largest distance between the true time and a claim.
    pub(crate) missed_ns: u64,
    /// The largest distance between the true rate of the kernel's clock and a stated rate with its
    /// error.
    pub(crate) rate_missed_ppb: u64,
}

/// A program on Debian in one mode, over several processes: the cost of memory accesses in the
/// emulator depends on their addresses, which differ between processes (`programs.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) monotonic: Readings,
    pub(crate) realtime: Readings,
    /// The time of a call in the fastest batch of any answer; for a server, the time of a request
    /// in the fastest answer.
    pub(crate) ns: Option<f64>,
    /// The smallest of each of the program's own figures.
    pub(crate) figures: Figures,
    pub(crate) exit_code: Option<i32>,
    /// The largest leads that the server has stated.
    pub(crate) lead_ns: u64,
    pub(crate) unix_lead_ns: u64,
}

/// A program's readings of one clock, over several answers (`programs/load.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Readings {
    pub(crate) calls: u64,
    pub(crate) backward: u64,
    /// The number of answers whose first reading was below an earlier reading of another program.
    pub(crate) below_others: u64,
    /// The largest distances of readings from the OS clock's readings around them.
    pub(crate) below_os_ns: u64,
    pub(crate) above_os_ns: u64,
}

/// Postgres' own figures (`tests/vm/programs/servers.py`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) pg_test_timing_ns: Option<f64>,
    pub(crate) explain_on_ms: Option<f64>,
    pub(crate) explain_off_ms: Option<f64>,
}

/// The system calls that strace has counted for a number of calls, and the server's messages
/// meanwhile (`programs/load.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Counted {
    pub(crate) calls: u64,
    pub(crate) served_clocks: u64,
    pub(crate) server: String,
}

/// The figures of the same program without tickline (`programs.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Native {
    pub(crate) ns: Option<f64>,
    pub(crate) figures: Figures,
}

/// A program that exchanges readings with others (`programs/exchange.rs`).
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct Exchange {
    pub(crate) answers: u64,
    pub(crate) readings: Readings,
}

/// The unit after a step of the package (`programs/units.rs`).
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Step {
    pub(crate) state: String,
    /// Whether a page is served.
    pub(crate) serving: bool,
}
