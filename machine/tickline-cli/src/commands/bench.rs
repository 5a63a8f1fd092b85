//! `tickline bench`: measures the costs of the clocks.

use std::io;
use std::time::{Duration, Instant};

use super::result::show_result;
use crate::args;
use crate::document::Document;
use crate::exit::Exit;
use crate::float::as_f64;
use crate::measure::calls;
use crate::measure::costs::{self, BenchSummary, CostRow, LongRun};
use crate::output::JsonOutput;
use crate::progress::Progress;
use crate::screen::Screen;
use crate::setup::Setup;
use crate::words::figure;

pub(crate) fn run(args: &args::Bench) -> io::Result<Exit> {
    let setup = Setup::start()?;
    let output = JsonOutput::open(args.json.target.as_deref())?;
    let progress = Progress::new();
    costs::settle();
    let calls = setup.calls();
    let cpu_time = calls.iter().find(|call| call.name == calls::CPU_TIME);
    let cpu_ns = || cpu_time.and_then(|clock| Some(clock.read_ns.as_ref()?()));
    let start = Instant::now();
    let before_ns = cpu_ns();
    let costs = costs::measure(&calls, args.rounds, progress.part("costs", 0.0, 0.5));
    let long_run = costs::long_run(&calls, args.calls, progress.part("the long run", 0.5, 1.0));
    let after_ns = cpu_ns();
    let cpu_percent = before_ns
        .zip(after_ns)
        .map(|(before_ns, after_ns)| percent(before_ns, after_ns, start.elapsed()));
    let mut document = setup.document("bench", costs, None)?;
    progress.finish();
    document.bench = Some(BenchSummary {
        rounds: args.rounds,
        calls: args.calls,
        long_run,
        cpu_percent,
    });
    output.emit(&document, &text(&document))?;
    Ok(document.exit())
}

/// The CPU time between two readings as a share of the elapsed time, percent.
fn percent(before_ns: u64, after_ns: u64, elapsed: Duration) -> f64 {
    let used_s = as_f64(after_ns.saturating_sub(before_ns)) / 1e9;
    100.0 * used_s / elapsed.as_secs_f64()
}

fn text(document: &Document) -> String {
    const COSTS: [&str; 5] = [
        "clock",
        "fastest round",
        "median",
        "90 % below",
        "times the counter",
    ];
    const LONG_RUN: [&str; 3] = ["clock", "ns a call", "s in all"];
    let mut screen = Screen::for_stdout();
    show_result(document, &mut screen);
    let Some(BenchSummary {
        rounds,
        calls,
        long_run,
        cpu_percent,
    }) = &document.bench
    else {
        return screen.text;
    };
    screen.heading(&format!(
        "Costs, ns a call in a tight loop; {rounds} rounds over all clocks, interleaved"
    ));
    let cost = |row: &CostRow| {
        vec![
            row.clock.clone(),
            figure(row.cost_ns),
            figure(row.median_ns),
            figure(row.p90_ns),
            figure(row.ratio_to_counter),
        ]
    };
    screen.table(&COSTS, &document.costs.iter().map(cost).collect::<Vec<_>>());
    screen.heading(&format!(
        "Long run: {calls} calls of each clock, with all interruptions"
    ));
    let run = |run: &LongRun| {
        vec![
            run.clock.to_owned(),
            figure(run.mean_ns),
            figure(run.total_s),
        ]
    };
    screen.table(&LONG_RUN, &long_run.iter().map(run).collect::<Vec<_>>());
    if let Some(warning) = disturbed(&document.costs, *cpu_percent) {
        screen.line("");
        screen.say("", &warning);
    }
    screen.text
}

/// The warning that other programs have disturbed the measurement; `None` without signs of that.
fn disturbed(costs: &[CostRow], cpu_percent: Option<f64>) -> Option<String> {
    /// The ratio to the fastest round that shows a lost CPU. A round that has lost the CPU takes
    /// many times as long. A round at a lower frequency of the CPU takes less than twice as long.
    const SLOWER: f64 = 2.0;
    /// The least share of the CPU without a warning, percent. It is a sign of its own because a
    /// process, once scheduled, keeps its CPU for some ms: most rounds run undisturbed.
    const MIN_PERCENT: f64 = 90.0;
    let known: Vec<_> = costs
        .iter()
        .filter_map(|row| row.cost_ns.zip(row.p90_ns))
        .collect();
    let all = known.len();
    let slower = known
        .into_iter()
        .filter(|(fastest_ns, p90_ns)| *p90_ns > SLOWER * fastest_ns)
        .count();
    let mut signs = Vec::new();
    if slower > 0 && slower * 4 >= all {
        signs.push(format!(
            "for {slower} of {all} clocks, one round in ten took more than twice as long as the \
             fastest"
        ));
    }
    if let Some(percent) = cpu_percent
        && percent < MIN_PERCENT
    {
        signs.push(format!("it had a CPU for {percent:.0} % of the time"));
    }
    if signs.is_empty() {
        return None;
    }
    let signs = signs.join("; ");
    Some(format!(
        "Warning: something else has used the CPUs during this measurement: {signs}. End it, or \
         measure on an idle CPU (Linux: taskset -c CPU tickline bench), and run this again. Until \
         then, only the column \"fastest round\" says what a call costs; more --rounds make it \
         surer."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: on a loaded machine, the column had 500 to 19,000 ns beside 10 ns, and no warning.
    #[test]
    fn a_disturbed_measurement_is_told_from_a_quiet_one() {
        let row = |p90_ns| CostRow {
            cost_ns: Some(10.0),
            p90_ns: Some(p90_ns),
            ..CostRow::default()
        };
        let warning = |p90s_ns: &[f64]| {
            disturbed(
                &p90s_ns.iter().copied().map(row).collect::<Vec<_>>(),
                Some(99.0),
            )
        };
        assert_eq!(warning(&[]), None);
        assert_eq!(
            warning(&[10.0, 11.0, 12.0, 19.0, 500.0]),
            None,
            "one clock alone"
        );
        let text = warning(&[10.0, 11.0, 12.0, 19_000.0]).expect("a warning");
        assert!(
            text.contains("for 1 of 4 clocks") && text.contains("run this again"),
            "{text}"
        );
        // With two busy programs on two CPUs, less than one round in ten was slow.
        let text = disturbed(&[row(10.0)], Some(66.0)).expect("a warning");
        assert!(text.contains("it had a CPU for 66 % of the time"), "{text}");
        assert_eq!(disturbed(&[row(10.0)], None), None);
    }

    #[test]
    fn a_round_of_twice_the_time_has_not_lost_its_cpu() {
        let row = |p90_ns| CostRow {
            cost_ns: Some(10.0),
            p90_ns: Some(p90_ns),
            ..CostRow::default()
        };
        assert_eq!(disturbed(&[row(20.0)], None), None);
        assert!(disturbed(&[row(20.1)], None).is_some());
    }

    #[test]
    fn a_thread_that_ran_half_the_time_had_half_a_cpu() {
        let found = percent(3_000_000_000, 4_000_000_000, Duration::from_secs(2));
        assert!((found - 50.0).abs() < 1e-9, "{found}");
    }

    #[test]
    fn nine_tenths_of_a_cpu_are_enough() {
        assert_eq!(disturbed(&[], Some(90.0)), None);
        assert!(disturbed(&[], Some(89.9)).is_some());
    }

    #[test]
    fn the_text_has_the_costs_and_the_long_run_of_each_clock() {
        let document = Document {
            costs: vec![CostRow {
                clock: "rdtsc".to_owned(),
                cost_ns: Some(9.0),
                median_ns: Some(9.25),
                p90_ns: Some(9.5),
                ratio_to_counter: Some(1.0),
                ..CostRow::default()
            }],
            bench: Some(BenchSummary {
                rounds: 31,
                calls: 1_000_000,
                long_run: vec![LongRun {
                    clock: "rdtsc",
                    mean_ns: Some(10.5),
                    total_s: Some(0.25),
                }],
                cpu_percent: Some(50.0),
            }),
            ..Document::default()
        };
        let text = text(&document);
        let words: Vec<_> = text.split_whitespace().collect();
        let words = words.join(" ");
        for part in [
            "31 rounds over all clocks",
            "rdtsc 9.00 9.25 9.50 1.00",
            "1000000 calls of each clock",
            "rdtsc 10.50 0.25",
            "it had a CPU for 50 % of the time",
        ] {
            assert!(words.contains(part), "no {part} in {text}");
        }
    }

    #[test]
    fn cpu_time_is_a_percentage_of_the_elapsed_time() {
        let elapsed = Duration::from_secs(4);
        assert_eq!(percent(1_000_000_000, 3_000_000_000, elapsed), 50.0);
        assert_eq!(percent(3, 1, elapsed), 0.0, "the clock was set");
    }
}
