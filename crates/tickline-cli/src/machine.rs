//! The machine: collectors only. What cannot be read is `None`.

use std::fs;

use serde::Serialize;
use tickline::{Comparison, Status};

/// The machine.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Machine {
    /// The processor's name.
    pub(crate) cpu: Option<String>,
    /// The kernel's release.
    pub(crate) kernel: Option<String>,
    /// What the kernel makes its time from.
    pub(crate) clocksource: Option<String>,
    /// What it could be made from.
    pub(crate) available_clocksources: Option<String>,
    /// The hypervisor that this is a guest of; `none` without one.
    pub(crate) hypervisor: &'static str,
    /// What a comparison of the CPUs' counters has found, in words.
    pub(crate) counters: String,
}

impl Machine {
    pub(crate) fn read(status: &Status) -> Self {
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
            hypervisor: status.hypervisor.name(),
            counters: comparison(status.comparison),
        }
    }
}

/// What a comparison of the CPUs' counters has found.
fn comparison(comparison: Comparison) -> String {
    match comparison {
        Comparison::Pending => "not compared by this program".to_owned(),
        Comparison::Single => "one CPU only".to_owned(),
        Comparison::InStep { cpus } => format!("in step on {cpus} CPUs"),
        Comparison::Apart(pair) => format!(
            "CPU {} and CPU {} are apart by {} ticks at least",
            pair.here,
            pair.there,
            pair.difference.size_ticks()
        ),
        _ => "could not be compared".to_owned(),
    }
}
