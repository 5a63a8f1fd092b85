//! Reads `xtask/targets.toml`, the list of targets.

use serde::Deserialize;

use crate::files;

/// The published crates, in an order in which they can be published.
pub(crate) const PUBLISHED: &[&str] = &[
    "tickline-core",
    "tickline",
    "tickline-page",
    "tickline-utc",
    "tickline-quanta",
    "tickline-tracing",
    "tickline-criterion",
    PROGRAM,
];

/// The published crate that is a program; it has no public API.
pub(crate) const PROGRAM: &str = "tickline-cli";

/// The published crates that show results on a terminal. Targets without one leave them out.
const NEED_A_TERMINAL: [&str; 2] = ["tickline-criterion", PROGRAM];

/// The crates that are compiled for a target, with their names in the table. A library that needs a
/// terminal is not among `Libraries`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(super) enum Crates {
    #[default]
    #[serde(rename = "published crates")]
    Published,
    #[serde(rename = "libraries")]
    Libraries,
    #[serde(rename = "core")]
    Core,
}

impl Crates {
    pub(super) fn names(self) -> Vec<&'static str> {
        match self {
            Self::Published => PUBLISHED.to_vec(),
            Self::Libraries => {
                let mut names = PUBLISHED.to_vec();
                names.retain(|name| !NEED_A_TERMINAL.contains(name));
                names
            }
            Self::Core => vec!["tickline-core"],
        }
    }

    /// What the table calls them.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Published => "published crates",
            Self::Libraries => "libraries",
            Self::Core => "core",
        }
    }
}

/// The access to a target's counter; `xtask/targets.toml` explains the values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Counter {
    Checked,
    Read,
    None,
    #[default]
    Unreachable,
}

/// One target; `xtask/targets.toml` says what each field means.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Target {
    pub(super) triple: String,
    pub(super) crates: Crates,
    pub(super) linker: String,
    pub(super) runner: String,
    pub(super) libraries: String,
    pub(super) clocksources: String,
    pub(super) counter: Counter,
    pub(super) tests: bool,
    pub(super) why: String,
    #[serde(rename = "static")]
    pub(super) is_static: bool,
}

pub(super) fn all() -> Result<Vec<Target>, String> {
    #[derive(Deserialize)]
    struct List {
        target: Vec<Target>,
    }
    let list: Result<List, _> = toml::from_str(&files::read("xtask/targets.toml")?);
    list.map(|list| list.target)
        .map_err(|error| format!("targets.toml: {error}"))
}

/// The target of the machine that runs the checks.
pub(super) const HOST: &str = "x86_64-unknown-linux-gnu";
