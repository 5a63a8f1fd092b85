//! `tickline who`: which processes call for the time by system calls, how often, and at what cost.
//!
//! tracepoints (`tracepoint`) -> samples (`count`) -> calls by process and clock (`tally`) -> costs
//! (`cost`, `clocks`) -> the document.
#![cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    allow(dead_code, reason = "nothing is counted there")
)]

mod clocks;
mod cost;
#[cfg_attr(
    not(all(
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64")
    )),
    path = "nowhere.rs"
)]
mod count;
mod instead;
mod obstacle;
mod tally;
mod text;
mod tracepoint;

use std::collections::BTreeMap;
use std::io;

use self::clocks::Asked;
use self::obstacle::Obstacle;
use self::tally::Counted;
use crate::args;
use crate::document::{Caller, Document, Who};
use crate::exit::Exit;
use crate::output::Outputs;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::wrap::Look;

pub(crate) fn run(args: &args::Who) -> io::Result<Exit> {
    let setup = Setup::start();
    if let Some(pid) = args.process {
        exists(pid)?;
    }
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    let counted = count::count(args.process, args.time, progress.part("calls", 0.0, 0.8));
    // Afterwards, since tracepoints make each system call costlier.
    let mut document = setup.measure_costs("who", &progress, 0.8);
    document.diagnose();
    let who = match counted {
        Ok(counted) => Who::of(args.process, &counted, &document),
        Err(obstacle) => Who::prevented(args, &obstacle),
    };
    progress.finish();
    let exit = if who.obstacle.is_none() { Exit::Fast } else { Exit::Closed };
    document.who = Some(who);
    outputs.emit(&document, |out| text::write(&document, Look::of_stdout(), out))?;
    Ok(exit)
}

/// Checks that the process exists, by `/proc`. Without `/proc`, any process passes.
///
/// # Errors
///
/// If there is no such process.
fn exists(pid: u32) -> io::Result<()> {
    let proc = std::path::Path::new("/proc");
    if proc.join("self").exists() && !proc.join(pid.to_string()).exists() {
        return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no process {pid}")));
    }
    Ok(())
}

impl Who {
    fn of(process: Option<u32>, counted: &Counted, facts: &Document) -> Self {
        let mut costs: BTreeMap<Asked, Option<f64>> = BTreeMap::new();
        let callers = counted.tally.rows().map(|(pid, name, asked, calls)| {
            let cost_ns = *costs.entry(asked).or_insert_with(|| cost::measure(asked));
            caller(pid, name, asked, per_second(calls, counted.seconds), cost_ns, facts)
        });
        let mut callers: Vec<Caller> = callers.collect();
        let weight = |caller: &Caller| (caller.core_percent.unwrap_or(0.0), caller.calls_per_second);
        callers.sort_by(|a, b| weight(b).partial_cmp(&weight(a)).unwrap_or(std::cmp::Ordering::Equal));
        Self {
            process,
            counted_s: Some(counted.seconds),
            from_monotonic_ns: Some(counted.from_ns),
            until_monotonic_ns: Some(counted.until_ns),
            sampled_every: Some(counted.every),
            lost_calls: counted.tally.lost,
            callers,
            obstacle: None,
            instead: Vec::new(),
        }
    }

    fn prevented(args: &args::Who, obstacle: &Obstacle) -> Self {
        Self {
            process: args.process,
            counted_s: None,
            from_monotonic_ns: None,
            until_monotonic_ns: None,
            sampled_every: None,
            lost_calls: 0,
            callers: Vec::new(),
            obstacle: Some(obstacle.to_string()),
            instead: instead::commands(obstacle, args.process, args.time.as_secs()),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "far less than 2^53 calls")]
fn per_second(calls: u64, seconds: f64) -> f64 {
    calls as f64 / seconds
}

fn caller(
    pid: u32,
    name: Option<&str>,
    asked: Asked,
    calls_per_second: f64,
    cost_ns: Option<f64>,
    facts: &Document,
) -> Caller {
    let percent = |ns: f64| calls_per_second * ns / 1e9 * 100.0;
    let fixed_ns = asked.fixed_ns(cost_ns, facts);
    Caller {
        pid,
        process: name.map(str::to_owned),
        clock: asked.name(),
        calls_per_second,
        cost_ns,
        core_percent: cost_ns.map(percent),
        fixed_ns,
        fixed_core_percent: fixed_ns.map(percent),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::tally::Tally;
    use super::*;
    use crate::args::Json;

    fn facts() -> Document {
        let facts = json!({
            "costs": [
                { "clock": "clock_gettime MONOTONIC", "cost_ns": 900.0, "served_by": "system_call" },
                { "clock": "clock_gettime MONOTONIC_COARSE", "cost_ns": 5.0, "served_by": "vdso" },
                { "clock": "lfence; rdtsc", "cost_ns": 20.0 },
            ],
        });
        serde_json::from_value(facts).unwrap()
    }

    #[test]
    fn shares_are_calls_times_costs() {
        let caller = caller(7, Some("a"), Asked::Clock(1), 100_000.0, Some(1_000.0), &facts());
        assert_eq!(caller.clock, "clock_gettime MONOTONIC");
        assert!((caller.core_percent.unwrap() - 10.0).abs() < 1e-9);
        assert!((caller.fixed_core_percent.unwrap() - 0.25).abs() < 1e-9);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_costliest_caller_comes_first() {
        let mut tally = Tally::default();
        tally.add(1, Asked::Clock(-6), 9_000, |_| None);
        tally.add(2, Asked::Clock(1), 10, |_| Some("few".to_owned()));
        tally.add(3, Asked::Clock(1), 1_000, |_| Some("many".to_owned()));
        let who = Who::of(
            None,
            &Counted { tally, seconds: 2.0, every: 1, from_ns: 5, until_ns: 2_000_000_005 },
            &facts(),
        );
        let order: Vec<_> = who.callers.iter().map(|caller| caller.pid).collect();
        assert_eq!(order, [3, 2, 1], "an unknown cost weighs nothing");
        assert!((who.calls_per_second() - 5_005.0).abs() < 1e-9);
        assert!(who.core_percent() > 0.0 && who.fixed_core_percent().is_some());
    }

    #[test]
    fn an_obstacle_comes_with_what_to_run() {
        let json = Json { target: None };
        let args = args::Who { json, process: Some(7), all: false, time: Duration::from_secs(3) };
        for obstacle in [
            Obstacle::NotMounted,
            Obstacle::Denied,
            Obstacle::NotBuilt,
            io::Error::from_raw_os_error(24).into(),
        ] {
            let who = Who::prevented(&args, &obstacle);
            assert!(who.obstacle.is_some_and(|text| !text.is_empty()));
            assert!(who.instead.iter().any(|command| command.contains("strace")), "{obstacle}");
        }
    }
}
