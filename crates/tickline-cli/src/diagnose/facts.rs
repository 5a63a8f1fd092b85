//! What is diagnosed: the part of a document that rules look at, as its JSON has it. The machine at hand goes through the
//! same JSON, so both ways end in one place.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use crate::cpu_list::{count, ranges};
use crate::machine::{Machine, in_step_on};
use crate::measure::calls::MONOTONIC;
use crate::measure::served_by::ServedBy;
use crate::measure::warp::Warp;

/// The facts. Whatever is missing is not known.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Facts {
    pub(crate) schema: Option<String>,
    /// Why the counter is not used, as a code.
    pub(crate) reason: Option<String>,
    pub(crate) machine: Machine,
    pub(crate) clock: Clock,
    pub(crate) costs: Vec<Row>,
    pub(crate) served_unknown: Option<String>,
    /// The CPUs' counters, compared pair by pair.
    pub(crate) warp: Option<Warp>,
}

/// What the global clock says.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Clock {
    pub(crate) frequency_hz: Option<u64>,
    pub(crate) nominal_frequency_hz: Option<u64>,
    pub(crate) environment_unrecognised: bool,
}

/// A clock of the table.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Row {
    pub(crate) clock: String,
    pub(crate) cost_ns: Option<f64>,
    pub(crate) ratio_to_counter: Option<f64>,
    pub(crate) resolution_ns: Option<u64>,
    pub(crate) served_by: Option<ServedBy>,
}

/// The clocks by which programs ask for the precise time, the most usual first.
const PRECISE: [&str; 3] = [MONOTONIC, "clock_gettime REALTIME", "gettimeofday"];

/// A clock that is not made of the counter.
const COARSE: &str = "clock_gettime MONOTONIC_COARSE";

/// The counter read in order, as the vDSO reads it: what a clock costs at the least that is made of it.
const ORDERED: [&str; 2] = ["lfence; rdtsc", "isb; cntvct_el0"];

/// The counter read bare. A machine that was recorded may be of another target than this program.
const BARE: [&str; 2] = ["rdtsc", "cntvct_el0"];

impl Facts {
    /// Those of a document.
    ///
    /// # Errors
    ///
    /// If they cannot be read back, which would be a mistake in this program.
    pub(crate) fn of(document: &impl Serialize) -> serde_json::Result<Self> {
        serde_json::from_value(serde_json::to_value(document)?)
    }

    fn row(&self, clock: &str) -> Option<&Row> {
        self.costs.iter().find(|row| row.clock == clock)
    }

    pub(super) fn cost_ns(&self, clock: &str) -> Option<f64> {
        self.row(clock)?.cost_ns
    }

    /// The counter's name, and what reading it costs, ns.
    pub(super) fn counter(&self) -> Option<(&'static str, f64)> {
        BARE.into_iter().find_map(|name| Some((name, self.cost_ns(name)?)))
    }

    /// The precise clock of which it is known who serves it: its name, and who.
    pub(crate) fn precise(&self) -> Option<(&str, ServedBy)> {
        PRECISE.into_iter().find_map(|clock| Some((clock, self.row(clock)?.served_by?)))
    }

    /// Who serves the coarse clock, which the vDSO answers whatever the clocksource is.
    pub(super) fn coarse(&self) -> Option<ServedBy> {
        self.row(COARSE)?.served_by
    }

    /// What a precise clock would cost if the vDSO read the counter, ns: the coarse clock, which the vDSO answers whatever the
    /// clocksource is, is all of its work but that reading. Both as measured on this machine.
    pub(super) fn attainable_ns(&self) -> Option<f64> {
        let coarse = self.row(COARSE).filter(|row| row.served_by == Some(ServedBy::Vdso))?;
        let counter = ORDERED.into_iter().find_map(|counter| self.cost_ns(counter))?;
        Some(coarse.cost_ns? + counter)
    }

    /// What the precise clock costs, ns.
    pub(super) fn precise_ns(&self) -> Option<f64> {
        PRECISE.into_iter().find_map(|clock| self.cost_ns(clock))
    }

    pub(super) fn clocksource(&self) -> Option<&str> {
        self.machine.clocksource.as_deref()
    }

    /// Whether the kernel would keep time with this clocksource; `None` if it does not say.
    pub(super) fn offers(&self, clocksource: &str) -> Option<bool> {
        let list = self.machine.available_clocksources.as_deref()?;
        Some(list.split_whitespace().any(|name| name == clocksource))
    }

    pub(super) fn hypervisor(&self) -> &str {
        self.machine.hypervisor.as_deref().unwrap_or("unknown")
    }

    /// Whether the firmware says that the machine is QEMU's. It says something else where a cloud has its own name put in.
    pub(super) fn is_qemu(&self) -> bool {
        self.machine.product.as_deref().is_some_and(|product| product.contains("QEMU"))
    }

    /// Where that was not recorded, the clocksource tells: these are found on x86 alone.
    pub(super) fn is_x86(&self) -> bool {
        match self.machine.architecture.as_deref() {
            Some(architecture) => matches!(architecture, "x86_64" | "x86"),
            None => matches!(self.clocksource(), Some("hpet" | "acpi_pm" | "pit" | "pmtmr")),
        }
    }

    /// A process of 32 bits, whatever the kernel's are.
    pub(super) fn is_x86_32(&self) -> bool {
        self.machine.architecture.as_deref() == Some("x86")
    }

    /// A word of the kernel's command line.
    pub(super) fn parameter(&self, parameter: &str) -> bool {
        let line = self.machine.kernel_command_line.as_deref().unwrap_or_default();
        line.split_whitespace().any(|word| word == parameter)
    }

    /// The word of the kernel's command line that begins like this.
    pub(super) fn parameter_of(&self, name: &str) -> Option<&str> {
        let line = self.machine.kernel_command_line.as_deref()?;
        line.split_whitespace().find(|word| word.starts_with(name))
    }

    /// Whether CPUID says that the TSC runs at one rate in all power states.
    pub(super) fn invariant(&self) -> Option<bool> {
        self.machine.cpuid.as_ref()?.invariant_tsc
    }

    /// Whether CPUID says that a hypervisor is below.
    pub(super) fn is_guest(&self) -> bool {
        self.machine.cpuid.as_ref().is_some_and(|cpuid| cpuid.hypervisor == Some(true))
    }

    /// Whether the counters of all CPUs were compared, and found in step.
    pub(super) fn in_step(&self) -> bool {
        let online = self.machine.online_cpus.as_deref();
        let all = |warp: &Warp| warp.in_step == Some(true) && online == Some(ranges(&warp.cpus).as_str());
        // The clock compares those that this process may use.
        let clock = online.and_then(count).is_some_and(|online| self.machine.counters == in_step_on(online));
        (clock || self.warp.as_ref().is_some_and(all)) && !self.are_apart()
    }

    /// Whether the counters of two CPUs were found to differ.
    pub(super) fn are_apart(&self) -> bool {
        self.are_apart_to_clock() || self.apart_by_pairs().is_some()
    }

    /// ...by the comparison that tickline's clock makes.
    pub(super) fn are_apart_to_clock(&self) -> bool {
        self.machine.counters_apart_ticks.is_some() || self.reason.as_deref() == Some("unsynchronised")
    }

    /// ...by the comparison of all pairs: the worst one, in words.
    pub(super) fn apart_by_pairs(&self) -> Option<String> {
        let warp = self.warp.as_ref().filter(|warp| warp.in_step == Some(false))?;
        let apart: Vec<_> = warp.pairs.iter().filter(|pair| pair.in_step == Some(false)).collect();
        let worst = apart.iter().max_by(|a, b| a.largest_warp_ns.total_cmp(&b.largest_warp_ns));
        Some(match worst {
            Some(worst) => format!(
                "CPU {} and CPU {} are apart by {:.0} ns at least ({} of {} pairs are)",
                worst.from_cpu,
                worst.to_cpu,
                worst.largest_warp_ns,
                apart.len(),
                warp.pairs.len()
            ),
            None => "a comparison of the CPUs' counters, pair by pair".to_owned(),
        })
    }

    /// What the comparisons of the counters have found, in words.
    pub(crate) fn counters(&self) -> Cow<'_, str> {
        let by_pairs = self.apart_by_pairs().filter(|_| !self.are_apart_to_clock());
        by_pairs.map_or_else(|| self.machine.counters.as_str().into(), Cow::from)
    }
}
