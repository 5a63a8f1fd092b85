//! What the guest and `cargo xtask vm` must agree on besides the phases of the report (`phase.rs`):
//! the words on the kernel's command line, the programs on Debian, the guest's requests, and the
//! limits that both compare with. `xtask/src/vm.rs` compiles this file, too.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::phase::Phase;

/// What the guest does. `acts.rs` performs most acts; those on Debian are in `programs.rs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Act {
    /// Changes nothing.
    None,
    /// Runs the program `tickline` while clocks or rights are wrong.
    AskProgram,
    /// Runs `tickline who` on a program that asks for the time.
    Who,
    /// Runs governor's limiter before and after one CPU's counter moves ahead.
    Limiter,
    /// Runs `tickline serve`, and a static program under `tickline run`.
    Serve,
    /// Compares UTC with the true time, in the guest's scenarios.
    Utc,
    /// Switches the clocksource, and switches it back.
    Switch,
    /// Makes the kernel reject the TSC.
    Reject,
    /// Sets the clock by an hour and by a second, both ways.
    SetClock,
    /// Changes the kernel's rate.
    Adjtimex,
    /// Takes a CPU offline, and brings it back.
    Hotplug,
    /// Asks the host to stop the machine for a while.
    Pause,
    /// Asks the host to save the machine's state, and to load it into a new machine.
    Save,
    /// Asks the host to move the machine to hosts with other counters.
    Migrate,
    /// Suspends the machine to RAM.
    Suspend,
    /// Runs programs on Debian.
    Programs,
    /// Tests the package, and its systemd unit, on Debian.
    Systemd,
}

/// The trust of the clock under test: `tickline::Trust`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Trust {
    Kernel,
    Auto,
    Measured,
}

/// The state of the clock to wait for before the act.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Awaits {
    Fast,
    Fallback,
}

/// A scenario of the act "utc" (`utc.rs`), which is also the name of its phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Scenario {
    Lies,
    LiesBeyond,
    Silent,
    Reported,
    ReportedRtcsync,
    ReportedSlewing,
    Stepped,
    Set,
    Killed,
    KilledRtcsync,
    KilledSlewing,
    Paused,
    Restarted,
    #[serde(rename = "steered_20")]
    Steered20,
    #[serde(rename = "steered_100")]
    Steered100,
    #[serde(rename = "steered_400")]
    Steered400,
    SteeredByAdjtime,
    SteeredEachSecond,
    NtpdRs,
    Leap,
    Suspended,
    Moved,
    ClockBound,
    Stranger,
    Kernel,
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Awaits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A program on Debian, which `programs.toml` explains. The guest gets the programs as JSON.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) about: String,
    /// The file in `/opt` that must have been built.
    pub(crate) file: String,
    pub(crate) command: String,
    pub(crate) calls: u64,
    pub(crate) least: f64,
    #[serde(default, rename = "static")]
    pub(crate) is_static: bool,
    /// Whether the command starts a server. It then puts the mode's words, from the variable `RUN`,
    /// before the server's own command.
    #[serde(default, rename = "server")]
    pub(crate) is_server: bool,
}

impl Program {
    pub(crate) fn has(&self, mode: Mode) -> bool {
        mode != Mode::Preload || !self.is_static
    }

    /// The phase in which the program exchanges readings with others, while the server is killed,
    /// started and stopped.
    pub(crate) fn exchange_phase(&self) -> String {
        format!("{} served exchange", self.name)
    }
}

/// The way in which a program on Debian gets its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Mode {
    Native,
    /// Under `tickline run`.
    Run,
    /// With the library in LD_PRELOAD.
    Preload,
}

impl Mode {
    pub(crate) const ALL: [Self; 3] = [Self::Native, Self::Run, Self::Preload];

    /// The phase in which a program runs in this mode.
    pub(crate) fn phase_of(self, program: &str) -> String {
        format!("{program} {self}")
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// A line of JSON that the guest sends to the host.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Phase(Box<Phase>),
    Request(Request),
}

/// What the guest asks the host for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Stop the machine for a while.
    Pause,
    /// Save the machine's state, and load it into a new machine.
    Save,
    /// The same, with so many ticks more on the new machine's counter, or on the counter of one
    /// CPU.
    Migrate { cpu: Option<u32>, ticks: i64 },
}

/// The interval of the clock under test, ms: the default interval. `tickline.interval_ms` sets
/// another. The present interval, in the status, may be shorter.
pub(crate) const INTERVAL_MS: u64 = 500;

/// A reading is far from its bracket if its distance exceeds `FAR_BRACKETS` times the width of its
/// row's narrowest bracket. A line is fitted to brackets. At the end of its window it may be off
/// by 1.5 times their width (`control/schedule.rs`), which is rounded up.
pub(crate) const FAR_BRACKETS: u64 = 2;

/// The smallest number of ordered readings of a guest's readers.
pub(crate) const READINGS: u64 = 100_000;

/// The smallest number of readings in a scenario of the act "utc".
pub(crate) const UTC_READINGS: u64 = 10_000_000;

/// The width of a narrow range of UTC, ns: half of it is as much as UTC moves in a second at 400
/// ppm.
pub(crate) const NARROW_NS: u64 = 2 * 400_000;

/// The root delay and the root dispersion that the guest's NTP server states, ns.
pub(crate) const DELAY_NS: i64 = 1_000_000;
pub(crate) const DISPERSION_NS: i64 = 5_250_000;

/// A tenth of the error that the server states, ns: its lies are so many tenths.
pub(crate) const TENTH_NS: i64 = (DISPERSION_NS + DELAY_NS / 2) / 10;

/// The lie of the server in the scenario `ntpd_rs`, in tenths of its stated error.
pub(crate) const NTPD_RS_LIE: i64 = 9;
