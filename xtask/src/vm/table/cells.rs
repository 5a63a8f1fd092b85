//! The cells of each row. A figure that the guest has not reported is an empty cell, or
//! a dash in the tables of programs.

use super::super::agreed::Scenario;
use super::super::guest::ExpectedFinding;
use super::super::judge;
use super::super::programs::{MODES, POSTGRES, Program, SERVED_EXCHANGE};
use super::super::report::{Figures, Phase, Readings, named};
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
    /// The phases of this name.
    fn phases<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Phase> {
        named(&self.run.phases, name)
    }

    /// The first value of a phase.
    pub(super) fn first<'a, T>(
        &'a self,
        name: &str,
        value: impl Fn(&'a Phase) -> Option<T>,
    ) -> Option<T> {
        let mut phases = self.run.phases.iter().filter(|phase| phase.phase == name);
        phases.find_map(value)
    }

    /// The largest value in all phases of this name.
    fn largest(&self, name: &str, value: impl Fn(&Phase) -> Option<u64>) -> Option<u64> {
        self.phases(name).filter_map(value).max()
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
        let is_reached = self.run.phases.iter().any(|phase| is_among(&phase.phase));
        match faults.as_str() {
            "" if is_reached => "passed".to_owned(),
            // The guest lacks the program.
            "" => "SKIPPED".to_owned(),
            _ => format!("FAILED: {}", faults.replace('|', "/")),
        }
    }

    /// The cells of a program, with all its modes.
    pub(super) fn program(&self, program: &Program) -> String {
        let modes = MODES.map(|mode| program.phase_in(mode));
        let mut readings = Vec::<&Readings>::new();
        for phase in modes.iter().flat_map(|mode| self.phases(mode)) {
            readings.extend([&phase.monotonic, &phase.realtime]);
        }
        let back = readings.iter().filter_map(|one| one.backward);
        let back = back.reduce(|sum, one| sum + one);
        let below_ns = readings.iter().filter_map(|one| one.below_os_ns).max();
        let above_ns = readings.iter().filter_map(|one| one.above_os_ns).max();
        let outside_ns = below_ns.zip(above_ns);
        let [native_ns, run_ns, preload_ns] = modes
            .each_ref()
            .map(|mode| self.first(mode, |phase| phase.ns));
        let ratio = native_ns
            .zip(run_ns)
            .map(|(native_ns, run_ns)| native_ns / run_ns);
        let counted: Vec<String> = modes
            .iter()
            .filter_map(|mode| self.first(mode, |phase| phase.counted.served_clocks))
            .map(|count| count.to_string())
            .collect();
        let calls = self.first(&modes[0], |phase| phase.counted.calls);
        let exchange = program.phase_in(SERVED_EXCHANGE);
        let exchanged = self.first(&exchange, |phase| {
            let back = phase.backward? + phase.below_others?;
            Some(format!("{} calls, {back} back", phase.calls?))
        });
        let cells = [
            rounded(native_ns),
            rounded(run_ns),
            rounded(preload_ns),
            ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")),
            cell(calls.map(|calls| format!("{} of {calls}", counted.join(" / ")))),
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
            let in_mode = |mode| {
                let phase = format!("{POSTGRES} {mode}");
                rounded(self.first(&phase, |phase| figure(&phase.figures)))
            };
            MODES.map(in_mode).join(" / ")
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
        let (unit, served) = match phase.calls {
            Some(calls) => (
                format!("{calls} calls in {} answers", cell(phase.answers)),
                format!("{} back", cell(phase.backward)),
            ),
            None => (cell(phase.state.as_ref()), cell(phase.serving)),
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
        let state = |name: &str| {
            let state = cell(self.first(name, |phase| phase.state.as_ref()));
            let reason = cell(self.first(name, |phase| phase.reason.as_ref()));
            format!("{state} {reason}").trim_end().to_owned()
        };
        let outside_ns = |name: &str| {
            let ahead_ns = self.largest(name, |phase| phase.ahead_ns);
            ahead_ns.max(self.largest(name, |phase| phase.behind_ns))
        };
        let thousands = |count: Option<u64>| cell(count.map(|count| format!("{}k", count / 1_000)));
        let backward = self.first("end", |phase| phase.readers.backward);
        let percent = self.largest("end", |phase| phase.cost.os_to_now_percent);
        let cells = [
            word(&self.verdict).to_owned(),
            cell(self.first("before", |phase| phase.clocksource.as_ref())),
            cell(self.first("before", |phase| phase.comparison.found.as_ref())),
            state("before"),
            state("after"),
            thousands(self.largest("end", |phase| phase.readers.readings)),
            thousands(self.largest("end", |phase| phase.readers.exchanges)),
            cell(backward),
            cell(outside_ns("before").max(outside_ns("after"))),
            cell(self.largest("set_clock", |phase| phase.work.after_us)),
            cell(percent.map(|percent| format!("{}.{:02}x", percent / 100, percent % 100))),
        ];
        vec![cells.join(" | ")]
    }

    /// The cells of the readings of UTC in a scenario.
    pub(super) fn utc(&self, scenario: Scenario) -> String {
        let name = &scenario.to_string();
        let number = |value: fn(&Phase) -> Option<u64>, unit: u64| {
            cell(self.first(name, value).map(|found| found / unit))
        };
        let kinds = self
            .phases(name)
            .next()
            .map(|phase| phase.in_order.join(", "));
        let cells = [
            number(|phase| phase.readings, 1),
            number(|phase| phase.answered, 1),
            number(|phase| phase.missed, 1),
            number(|phase| phase.missed_ns, 1_000_000),
            number(|phase| phase.narrowest_ns, 1_000),
            kinds.unwrap_or_default(),
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
            let found = self.first(phase, Phase::finding_code).unwrap_or_default();
            let gain = self.first(phase, |phase| phase.finding.as_ref()?.gain_ratio);
            let gain = cell(gain.map(|ratio| format!("{ratio:.1}x")));
            format!("{clocksource} | `{code}` | {found} | {gain}")
        };
        self.guest.findings.iter().map(printed).collect()
    }
}
