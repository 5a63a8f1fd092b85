//! The findings as text for people.

use std::io::{self, Write};

use crate::document::{Document, TrackSummary};
use crate::plot;

/// Writes the document as text.
pub(crate) fn write(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}", document.verdict)?;
    machine(document, out)?;
    gates(document, out)?;
    costs(document, out)?;
    document.track.as_ref().map_or(Ok(()), |summary| track(document, summary, out))
}

fn machine(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    let machine = &document.machine;
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    writeln!(out, "\nMachine")?;
    writeln!(out, "  CPU          {}", known(&machine.cpu))?;
    writeln!(out, "  kernel       {}", known(&machine.kernel))?;
    let (current, available) = (known(&machine.clocksource), known(&machine.available_clocksources));
    writeln!(out, "  clocksource  {current} (available: {available})")?;
    writeln!(out, "  hypervisor   {}", machine.hypervisor)?;
    let mhz = |hz: u64| format!("{}.{:06} MHz", hz / 1_000_000, hz % 1_000_000);
    if let Some(hz) = document.clock.frequency_hz {
        writeln!(out, "  counter      {}, measured", mhz(hz))?;
    }
    if let Some(hz) = document.clock.nominal_frequency_hz {
        writeln!(out, "  counter      {}, nominal", mhz(hz))?;
    }
    writeln!(out, "  counters     {}", machine.counters)?;
    Ok(())
}

fn gates(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nGates")?;
    for gate in &document.gates {
        let text = gate.text.as_deref().unwrap_or_default();
        let line = match (gate.open, gate.reason.or(gate.warning)) {
            (true, None) => "open".to_owned(),
            (true, Some(code)) => format!("open, but {text} [{code}]"),
            (false, code) => format!("closed: {text} [{}]", code.unwrap_or_default()),
        };
        writeln!(out, "  {:<15} {line}", gate.gate)?;
    }
    if document.clock.environment_unrecognised {
        writeln!(out, "  note: the environment variable TICKLINE is neither on nor off; it is ignored")?;
    }
    Ok(())
}

fn costs(document: &Document, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nCosts: calls in a tight loop, fastest round        ns    ratio to the bare counter")?;
    for cost in &document.costs {
        match (cost.cost_ns, cost.ratio_to_counter) {
            (Some(ns), Some(ratio)) => writeln!(out, "  {:<42} {ns:>9.2} {ratio:>8.2}", cost.clock)?,
            (Some(ns), None) => writeln!(out, "  {:<42} {ns:>9.2}        -", cost.clock)?,
            (None, _) => writeln!(out, "  {:<42} {:>9}        -", cost.clock, "none here")?,
        }
    }
    Ok(())
}

fn track(document: &Document, track: &TrackSummary, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nOffset from CLOCK_MONOTONIC (*) and claimed bound (.)")?;
    for line in plot::lines(&track.points) {
        writeln!(out, "{line}")?;
    }
    writeln!(
        out,
        "{} looks: largest offset {:.0} ns, largest bound {} ns, outside their bracket {}, bound violated {}",
        track.points.len(),
        track.largest_offset_ns,
        track.largest_bound_ns,
        track.outside_bracket,
        track.bound_violated
    )?;
    if document.fast {
        writeln!(
            out,
            "the bound holds as long as CLOCK_MONOTONIC's rate stays within {} ppb of the measured one",
            document.clock.rho_ppb
        )?;
    }
    match document.clock.utc_error_ns {
        Some(ns) => {
            writeln!(out, "Unix time: within {} us of UTC, as claimed by the NTP daemon", ns.div_ceil(1_000))
        }
        None => writeln!(out, "Unix time: the kernel says that it is not synchronised to UTC"),
    }
}
