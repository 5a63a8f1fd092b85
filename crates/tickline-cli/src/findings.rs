//! Everything that was found, and the verdict.

use std::fs;

use tickline::{Clock, State, Status};

use crate::calls::COUNTER;
use crate::costs::Cost;
use crate::track::Track;

/// Everything that was found.
#[derive(Debug, Clone)]
pub(crate) struct Findings {
    pub(crate) machine: Machine,
    pub(crate) status: Status,
    pub(crate) costs: Vec<Cost>,
    pub(crate) track: Track,
}

/// The machine. What could not be read is `None`.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) cpu: Option<String>,
    pub(crate) kernel: Option<String>,
    pub(crate) clocksource: Option<String>,
    pub(crate) available_clocksources: Option<String>,
}

impl Machine {
    fn read() -> Self {
        const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0";
        let line = |path: &str| {
            let text = fs::read_to_string(path).ok()?;
            Some(text.trim().to_owned()).filter(|text| !text.is_empty())
        };
        let cpu = fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
            let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "))?;
            Some(name.1.to_owned())
        });
        Self {
            cpu,
            kernel: line("/proc/sys/kernel/osrelease"),
            clocksource: line(&format!("{CLOCKSOURCE}/current_clocksource")),
            available_clocksources: line(&format!("{CLOCKSOURCE}/available_clocksource")),
        }
    }
}

impl Findings {
    pub(crate) fn new(costs: Vec<Cost>, track: Track) -> Self {
        Self { machine: Machine::read(), status: Clock::global().status(), costs, track }
    }

    /// Whether tickline reads the counter here.
    pub(crate) fn is_fast(&self) -> bool {
        self.status.state == State::Fast
    }

    /// What a call costs, ns.
    pub(crate) fn cost_ns(&self, name: &str) -> Option<f64> {
        self.costs.iter().find(|cost| cost.name == name)?.ns
    }

    /// How many times as much as the bare counter.
    pub(crate) fn ratio(&self, cost: &Cost) -> Option<f64> {
        Some(cost.ns? / self.cost_ns(COUNTER)?)
    }

    /// One sentence.
    pub(crate) fn verdict(&self) -> String {
        let (now, os) = (self.cost_ns("tickline::now_ns"), self.cost_ns("clock_gettime MONOTONIC"));
        match (self.status.state, now, os) {
            (State::Fast, Some(now), Some(os)) => format!(
                "tickline reads the counter here: {now:.1} ns a call where clock_gettime takes {os:.1}, {:.1} times as \
                 fast; it was seen at most {:.0} ns from CLOCK_MONOTONIC (its own bound: {} ns).",
                os / now,
                self.track.largest_offset_ns(),
                self.track.largest_bound_ns()
            ),
            (State::Fallback(reason), _, _) => {
                let detail = match (reason, &self.machine.clocksource) {
                    (
                        tickline::Reason::KernelRejected
                        | tickline::Reason::KernelUsesOther
                        | tickline::Reason::Untested,
                        Some(name),
                    ) => format!(" ({name})"),
                    _ => String::new(),
                };
                format!("tickline serves the OS clock here, because {reason}{detail}.")
            }
            (state, _, _) => format!("tickline serves the OS clock for now; its state is {state}."),
        }
    }
}
