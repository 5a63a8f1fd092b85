//! The findings as text for people.

use std::io::{self, Write};

use tickline::{Comparison, Environment, State};

use crate::findings::Findings;
use crate::plot;

/// Writes the findings.
pub(crate) fn write(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{}", findings.verdict())?;
    machine(findings, out)?;
    gates(findings, out)?;
    costs(findings, out)?;
    track(findings, out)?;
    out.flush()
}

fn machine(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    let machine = &findings.machine;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    writeln!(out, "\nMachine")?;
    writeln!(out, "  CPU          {}", known(&machine.cpu))?;
    writeln!(out, "  kernel       {}", known(&machine.kernel))?;
    let (current, available) = (known(&machine.clocksource), known(&machine.available_clocksources));
    writeln!(out, "  clocksource  {current} (available: {available})")?;
    writeln!(out, "  hypervisor   {}", findings.status.hypervisor.name())?;
    let mhz = |hz: u64| format!("{}.{:06} MHz", hz / 1_000_000, hz % 1_000_000);
    if let Some(hz) = findings.status.frequency_hz {
        writeln!(out, "  counter      {}, measured", mhz(hz))?;
    }
    if let Some(hz) = findings.status.nominal_hz {
        writeln!(out, "  counter      {}, nominal", mhz(hz))?;
    }
    writeln!(out, "  counters     {}", comparison(findings.status.comparison))?;
    Ok(())
}

/// What a comparison of the CPUs' counters has found.
pub(crate) fn comparison(comparison: Comparison) -> String {
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

fn gates(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nGates")?;
    for verdict in findings.status.verdicts {
        let name = verdict.gate.name();
        match verdict.closed {
            None => match verdict.warning {
                None => writeln!(out, "  {name:<15} open")?,
                Some(warning) => {
                    writeln!(out, "  {name:<15} open, but {warning} [{}]", warning.code())?;
                }
            },
            Some(reason) => writeln!(out, "  {name:<15} closed: {reason} [{}]", reason.code())?,
        }
    }
    if findings.status.environment == Environment::Unrecognised {
        writeln!(out, "  note: the environment variable TICKLINE is neither on nor off; it is ignored")?;
    }
    Ok(())
}

fn costs(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nCosts: calls in a tight loop, fastest round        ns    ratio to the bare counter")?;
    for cost in &findings.costs {
        match (cost.ns, findings.ratio(cost)) {
            (Some(ns), Some(ratio)) => writeln!(out, "  {:<42} {ns:>9.2} {ratio:>8.2}", cost.name)?,
            (Some(ns), None) => writeln!(out, "  {:<42} {ns:>9.2}        -", cost.name)?,
            (None, _) => writeln!(out, "  {:<42} {:>9}        -", cost.name, "none here")?,
        }
    }
    Ok(())
}

fn track(findings: &Findings, out: &mut impl Write) -> io::Result<()> {
    let (track, status) = (&findings.track, &findings.status);
    writeln!(out, "\nOffset from CLOCK_MONOTONIC (*) and claimed bound (.)")?;
    for line in plot::lines(&track.points) {
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "{} looks: largest offset {:.0} ns, largest bound {} ns, outside their bracket {}, bound violated {}",
        track.points.len(),
        track.largest_offset_ns(),
        track.largest_bound_ns(),
        track.outside(),
        track.violated()
    )?;
    if status.state == State::Fast {
        writeln!(
            out,
            "the bound holds as long as CLOCK_MONOTONIC's rate stays within {} ppb of the measured one",
            status.rho_ppb
        )?;
    }
    match status.utc_error_ns {
        Some(ns) => {
            writeln!(out, "Unix time: within {} us of UTC, as claimed by the NTP daemon", ns.div_ceil(1_000))
        }
        None => writeln!(out, "Unix time: the kernel says that it is not synchronised to UTC"),
    }
}
