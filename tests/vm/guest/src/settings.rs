//! The settings on the kernel's command line, `tickline.NAME=VALUE`:
//!
//! - `act` names the act (`acts.rs`).
//! - `trust` sets the clock's trust.
//! - `awaits` is the state to wait for before the act.
//! - `waive=invariant` assumes an invariant counter.
//! - `interval_ms` sets the clock's interval.
//! - `utc=NAME,NAME` names the scenarios of the act "utc".
//!
//! `agreed.rs` lists the acts, the trusts, the states and the scenarios.

use std::fs;
use std::io;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde::de::value::{Error, StrDeserializer};

use crate::agreed::{Act, Awaits, Scenario, Trust};

#[derive(Debug, PartialEq)]
pub(crate) struct Settings {
    pub(crate) act: Act,
    pub(crate) trust: Trust,
    pub(crate) awaits: Awaits,
    pub(crate) waive: Option<Waive>,
    pub(crate) interval: Option<Duration>,
    pub(crate) utc: Vec<Scenario>,
}

/// A gate of the clock that a setting opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Waive {
    Invariant,
}

impl Settings {
    /// Reads the kernel's command line.
    ///
    /// # Errors
    ///
    /// If `/proc` is not mounted. [`io::ErrorKind::InvalidInput`] if a setting is unknown,
    /// unreadable or missing.
    pub(crate) fn read() -> io::Result<Self> {
        let line = fs::read_to_string("/proc/cmdline")?;
        Self::parse(&line).map_err(|wrong| io::Error::new(io::ErrorKind::InvalidInput, wrong))
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut act = None;
        let mut trust = Trust::Auto;
        let mut awaits = Awaits::Fast;
        let mut waive = None;
        let mut interval = None;
        let mut utc = Vec::new();
        for setting in line.split_whitespace().filter_map(own) {
            let (name, value) = setting.split_once('=').unwrap_or((setting, ""));
            match name {
                "act" => act = Some(word(name, value)?),
                "trust" => trust = word(name, value)?,
                "awaits" => awaits = word(name, value)?,
                "waive" => waive = Some(word(name, value)?),
                "interval_ms" => interval = Some(milliseconds(name, value)?),
                "utc" => {
                    let scenarios = value.split(',').map(|one| word(name, one));
                    utc = scenarios.collect::<Result<_, _>>()?;
                }
                _ => return Err(format!("tickline.{name} is no setting")),
            }
        }
        Ok(Self {
            act: act.ok_or("tickline.act is missing")?,
            trust,
            awaits,
            waive,
            interval,
            utc,
        })
    }
}

/// A word of the command line without the prefix of this program's settings.
fn own(word: &str) -> Option<&str> {
    word.strip_prefix("tickline.")
}

fn word<T: DeserializeOwned>(name: &str, value: &str) -> Result<T, String> {
    T::deserialize(StrDeserializer::<Error>::new(value))
        .map_err(|error| format!("tickline.{name}={value}: {error}"))
}

fn milliseconds(name: &str, value: &str) -> Result<Duration, String> {
    let ms = value.parse().map(Duration::from_millis);
    ms.map_err(|error| format!("tickline.{name}={value}: {error}, expected milliseconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_are_left_out_have_defaults() {
        let settings = Settings::parse("console=ttyS0 tickline.act=none").unwrap();
        let expected = Settings {
            act: Act::None,
            trust: Trust::Auto,
            awaits: Awaits::Fast,
            waive: None,
            interval: None,
            utc: Vec::new(),
        };
        assert_eq!(settings, expected);
    }

    #[test]
    fn each_setting_is_read() {
        let line = "tickline.act=ask-program tickline.trust=measured tickline.awaits=fallback \
                    tickline.waive=invariant tickline.interval_ms=2000 tickline.utc=lies,steered_20";
        let expected = Settings {
            act: Act::AskProgram,
            trust: Trust::Measured,
            awaits: Awaits::Fallback,
            waive: Some(Waive::Invariant),
            interval: Some(Duration::from_secs(2)),
            utc: vec![Scenario::Lies, Scenario::Steered20],
        };
        assert_eq!(Settings::parse(line).unwrap(), expected);
    }

    #[test]
    fn a_setting_that_is_misspelt_or_unreadable_is_refused() {
        for (setting, expected) in [
            ("trust=kernal", "tickline.trust=kernal: unknown variant"),
            (
                "waive=invarient",
                "tickline.waive=invarient: unknown variant",
            ),
            ("awaits=fasst", "tickline.awaits=fasst: unknown variant"),
            ("utc=lies,slient", "tickline.utc=slient: unknown variant"),
            ("interval_ms=2s", "tickline.interval_ms=2s: invalid digit"),
            ("intervall_ms=2000", "tickline.intervall_ms is no setting"),
        ] {
            let line = format!("tickline.act=none tickline.{setting}");
            let error = Settings::parse(&line).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn an_act_that_is_unknown_or_missing_is_refused() {
        let error = Settings::parse("tickline.act=swich").unwrap_err();
        assert!(
            error.starts_with("tickline.act=swich: unknown variant"),
            "{error}"
        );
        let error = Settings::parse("console=ttyS0").unwrap_err();
        assert_eq!(error, "tickline.act is missing");
    }

    /// `cargo xtask vm` itself appends the other settings.
    #[test]
    fn the_settings_in_the_list_of_guests_are_known() {
        let list = include_str!("../../guests.toml");
        let kernels = list.lines().filter(|line| line.starts_with("kernel = "));
        let words = kernels.flat_map(|line| line.split([' ', '\'', '"']));
        let settings: Vec<&str> = words.filter(|word| own(word).is_some()).collect();
        assert!(settings.len() > 1, "{settings:?}");
        for setting in settings {
            let parsed = Settings::parse(&format!("tickline.act=none {setting}"));
            assert!(parsed.is_ok(), "{parsed:?}");
        }
    }
}
