//! The cells of each row. A figure that the guest has not reported is an empty cell, or
//! a dash in the tables of programs.

use super::super::agreed::{Mode, Program, Scenario};
use super::super::check::named;
use super::super::guest::ExpectedFinding;
use super::super::judge;
use super::super::phase::{self, Figures, Phase, Utc, Watched};
use super::super::programs::POSTGRES;
use super::Row;
use crate::outcome::word;

/// A figure or a text, or an empty cell.
fn cell(found: Option<impl ToString>) -> String {
    found.map_or_else(String::new, |found| found.to_string())
}

/// A figure in whole units, or a dash.
fn rounded(figure: Option<f64>) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.0}"))
}

impl Row<'_> {
    fn phases<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Phase> {
        named(&self.run.phases, name)
    }

    /// The first value of a phase.
    pub(super) fn first<'a, T>(
        &'a self,
        name: &str,
        value: impl Fn(&'a Phase) -> Option<T>,
    ) -> Option<T> {
        let mut phases = self.run.phases.iter().filter(|phase| phase.name == name);
        phases.find_map(value)
    }

    /// The result of the checks in these phases, with the faults.
    pub(super) fn result(&self, phases: &[impl AsRef<str>]) -> String {
        let is_among = |name: &str| phases.iter().any(|phase| phase.as_ref() == name);
        let checks = self
            .guest
            .checks
            .iter()
            .filter(|check| is_among(&check.phase));
        let faults = judge::violated(checks, &self.run.phases).join("; ");
        let is_reached = self.run.phases.iter().any(|phase| is_among(&phase.name));
        match faults.as_str() {
            "" if is_reached => "passed".to_owned(),
            // The guest lacks the program.
            "" => "SKIPPED".to_owned(),
            _ => format!("FAILED: {}", faults.replace('|', "/")),
        }
    }

    /// The cells of a program, with all its modes.
    pub(super) fn program(&self, program: &Program) -> String {
        let modes = Mode::ALL.map(|mode| mode.phase_of(&program.name));
        let measured = |mode: &String| self.first(mode, |phase| phase.measured.as_ref());
        let counted = |mode: &String| self.first(mode, |phase| phase.counted.as_ref());
        let phases = modes.iter().flat_map(|mode| self.phases(mode));
        let all = phases.filter_map(|phase| phase.measured.as_ref());
        let readings = Vec::from_iter(all.flat_map(|one| [&one.monotonic, &one.realtime]));
        let back = readings.iter().map(|one| one.backward);
        let back = back.reduce(|sum, one| sum + one);
        let below_ns = readings.iter().map(|one| one.below_os_ns).max();
        let above_ns = readings.iter().map(|one| one.above_os_ns).max();
        let outside_ns = below_ns.zip(above_ns);
        let [native_ns, run_ns, preload_ns] = modes
            .each_ref()
            .map(|mode| measured(mode).and_then(|measured| measured.ns));
        let ratio = native_ns
            .zip(run_ns)
            .map(|(native_ns, run_ns)| native_ns / run_ns);
        let counts: Vec<String> = modes
            .iter()
            .filter_map(counted)
            .map(|counted| counted.served_clocks.to_string())
            .collect();
        let calls = counted(&modes[0]).map(|counted| counted.calls);
        let exchange = self.first(&program.exchange_phase(), |phase| phase.exchange.as_ref());
        let exchanged = exchange.map(|exchange| {
            let readings = &exchange.readings;
            let back = readings.backward + readings.below_others;
            format!("{} calls, {back} back", readings.calls)
        });
        let cells = [
            rounded(native_ns),
            rounded(run_ns),
            rounded(preload_ns),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")),
            cell(calls.map(|calls| format!("{} of {calls}", counts.join(" / ")))),
            cell(back),
            cell(outside_ns.map(|(below_ns, above_ns)| format!("-{below_ns} +{above_ns}"))),
            exchanged.unwrap_or_else(|| "-".to_owned()),
            self.result(&program.phases()),
        ];
        cells.join(" | ")
    }

    /// The cells of Postgres' own measurements, in each mode.
    pub(super) fn postgres(&self) -> String {
        let all = |figure: fn(&Figures) -> Option<f64>| {
            let in_mode = |mode: Mode| {
                let phase = mode.phase_of(POSTGRES);
                rounded(self.first(&phase, |phase| figure(&phase.measured.as_ref()?.figures)))
            };
            Mode::ALL.map(in_mode).join(" / ")
        };
        [
            all(|figures| figures.pg_test_timing_ns),
            all(|figures| figures.explain_on_ms),
            all(|figures| figures.explain_off_ms),
        ]
        .join(" | ")
    }

    /// The cells of a step of the package or its unit, or of a program that ran during the steps.
    pub(super) fn step(&self, step: &str) -> String {
        let nothing = Phase::default();
        let phase = self.phases(step).next().unwrap_or(&nothing);
        let (unit, served) = match (&phase.exchange, &phase.step) {
            (Some(exchange), _) => (
                format!(
                    "{} calls in {} answers",
                    exchange.readings.calls, exchange.answers
                ),
                format!("{} back", exchange.readings.backward),
            ),
            (None, Some(step)) => (step.state.clone(), step.serving.to_string()),
            (None, None) => (String::new(), String::new()),
        };
        [
            cell(phase.command.as_ref()),
            unit,
            served,
            self.result(&[step]),
        ]
        .join(" | ")
    }

    /// The cells of a guest's figures.
    pub(super) fn figures(&self) -> Vec<String> {
        let watched = |name: &str| self.first(name, |phase| phase.watched.as_ref());
        let state = |name: &str| {
            let words = |Watched { state, reason, .. }: &Watched| match reason {
                Some(reason) => format!("{state} {reason}"),
                None => state.clone(),
            };
            cell(watched(name).map(words))
        };
        let outside_ns = |name: &str| {
            let watched = self.phases(name).filter_map(|phase| phase.watched.as_ref());
            watched.map(|one| one.ahead_ns.max(one.behind_ns)).max()
        };
        let thousands = |count: u64| format!("{}k", count / 1_000);
        let readers = self.first(phase::END, |phase| phase.readers.as_ref());
        let cost = self.first(phase::END, |phase| phase.cost.as_ref());
        let percent = cost.map(|cost| cost.os_to_now_percent);
        let unix_us = self
            .phases(phase::SET_CLOCK)
            .filter_map(|phase| Some(phase.waited.as_ref()?.after_us))
            .max();
        let found = self.first(phase::BEFORE, |phase| {
            Some(phase.comparison.as_ref()?.found)
        });
        let cells = [
            word(&self.verdict).to_owned(),
            cell(self.first(phase::BEFORE, |phase| phase.clocksource.as_ref())),
            cell(found),
            state(phase::BEFORE),
            state(phase::AFTER),
            cell(readers.map(|readers| thousands(readers.readings))),
            cell(readers.map(|readers| thousands(readers.exchanges))),
            cell(readers.map(|readers| readers.backward)),
            cell(outside_ns(phase::BEFORE).max(outside_ns(phase::AFTER))),
            cell(unix_us),
            cell(percent.map(|percent| format!("{}.{:02}x", percent / 100, percent % 100))),
        ];
        vec![cells.join(" | ")]
    }

    /// The cells of the readings of UTC in a scenario.
    pub(super) fn utc(&self, scenario: Scenario) -> String {
        let utc = self.first(&scenario.to_string(), |phase| phase.utc.as_ref());
        let number = |figure: fn(&Utc) -> Option<u64>, unit: u64| {
            cell(utc.and_then(figure).map(|found| found / unit))
        };
        let cells = [
            number(|utc| Some(utc.readings), 1),
            number(|utc| Some(utc.answered), 1),
            number(|utc| Some(utc.missed), 1),
            number(|utc| Some(utc.missed_ns), 1_000_000),
            number(|utc| utc.narrowest_ns, 1_000),
            cell(utc.map(|utc| utc.in_order.join(", "))),
        ];
        cells.join(" | ")
    }

    /// The cells of the first printed finding, for each phase with an expected finding.
    pub(super) fn found(&self) -> Vec<String> {
        let printed = |ExpectedFinding { phase, code, .. }: &ExpectedFinding| {
            let clocksource = cell(self.first(phase, |phase| phase.clocksource.as_ref()));
            let clocksource = if clocksource.is_empty() {
                "unknown"
            } else {
                &clocksource
            };
            let finding = self.first(phase, |phase| phase.finding.as_ref());
            let found = finding.map_or("", |finding| finding.code.as_str());
            let gain = finding.and_then(|finding| finding.gain_ratio);
            let gain = cell(gain.map(|ratio| format!("{ratio:.1}x")));
            format!("{clocksource} | `{code}` | {found} | {gain}")
        };
        self.guest.findings.iter().map(printed).collect()
    }
}
