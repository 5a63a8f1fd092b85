//! `tickline bench`: what the clocks cost.

use std::io::{self, Write};

use crate::args;
use crate::document::{Bench, CostRow, Document};
use crate::exit::Exit;
use crate::measure::costs::{self, LongRun};
use crate::output::Outputs;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::wrap::Look;

pub(crate) fn run(args: &args::Bench) -> io::Result<Exit> {
    let setup = Setup::start();
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    costs::settle();
    let costs = costs::measure(args.rounds, progress.part("costs", 0.0, 0.5));
    let mut long_run = costs::long_run(args.calls, progress.part("the long run", 0.5, 1.0));
    long_run.iter_mut().filter(|run| !setup.can_call(run.clock)).for_each(LongRun::forget);
    let mut document = setup.document("bench", costs, None);
    drop(setup);
    progress.finish();
    document.bench = Some(Bench { rounds: args.rounds, calls: args.calls, long_run });
    outputs.emit(&document, |out| write(&document, Look::of_stdout(), out))?;
    Ok(document.exit())
}

/// Writes the document as text.
fn write(document: &Document, look: Look, out: &mut dyn Write) -> io::Result<()> {
    look.say("", &document.verdict, out)?;
    document.build_note().map_or(Ok(()), |note| look.say("", note, out))?;
    let Some(Bench { rounds, calls, long_run }) = &document.bench else { return Ok(()) };
    let title = format!("Costs, ns a call in a tight loop; {rounds} rounds over all clocks, interleaved");
    writeln!(out, "\n{}", look.wrap("", &title))?;
    const COSTS: [(&str, &str); 5] = [
        ("clock", "clock"),
        ("cost_ns", "fastest round"),
        ("median_ns", "median"),
        ("p90_ns", "90 % below"),
        ("ratio_to_counter", "to counter"),
    ];
    look.table_of(&COSTS, &document.costs, out)?;
    let title = format!("Long run: {calls} calls of each clock, with all interruptions");
    writeln!(out, "\n{}", look.wrap("", &title))?;
    look.table_of(&[("clock", "clock"), ("mean_ns", "ns a call"), ("total_s", "s in all")], long_run, out)?;
    disturbed(&document.costs).map_or(Ok(()), |warning| writeln!(out, "\n{}", look.wrap("", &warning)))
}

/// The warning that other programs have disturbed the measurement; `None` where few clocks suffered.
fn disturbed(costs: &[CostRow]) -> Option<String> {
    /// A round that has lost the CPU takes many times as long as the fastest; one at a lower
    /// frequency of the CPU takes less than twice as long.
    const SLOWER: f64 = 2.0;
    let known: Vec<_> = costs.iter().filter_map(|row| row.cost_ns.zip(row.p90_ns)).collect();
    let all = known.len();
    let slower = known.into_iter().filter(|(fastest_ns, p90_ns)| *p90_ns > SLOWER * fastest_ns).count();
    (slower > 0 && slower * 4 >= all).then(|| {
        format!(
            "Warning: for {slower} of {all} clocks, one round in ten took more than twice as long as the fastest: something \
             else uses the CPUs. End it, or measure on an idle CPU (Linux: taskset -c CPU tickline bench), and run this again. Until \
             then, only the column \"fastest round\" says what a call costs; more --rounds make it surer."
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// On a loaded machine the column had 500 to 19,000 ns beside 10 ns, and nothing was said.
    #[test]
    fn a_disturbed_measurement_is_told_from_a_quiet_one() {
        let row = |p90_ns| CostRow { cost_ns: Some(10.0), p90_ns: Some(p90_ns), ..CostRow::default() };
        let warning = |p90s_ns: &[f64]| disturbed(&p90s_ns.iter().copied().map(row).collect::<Vec<_>>());
        assert_eq!(warning(&[]), None);
        assert_eq!(warning(&[10.0, 11.0, 12.0, 19.0, 500.0]), None, "one clock alone");
        let said = warning(&[10.0, 11.0, 12.0, 19_000.0]).expect("a warning");
        assert!(said.starts_with("Warning: for 1 of 4 clocks") && said.contains("run this again"), "{said}");
    }
}
