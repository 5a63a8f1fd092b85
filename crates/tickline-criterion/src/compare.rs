//! Compares two routines that run alternately in one process, in random order.

use crate::backend::readings::{Elapsed, PairClock, PairReads};
use crate::bench_pairs::{BenchPairs, PairId};
use crate::number::random_side;
use crate::pairs::bencher;
use crate::pairs::collector::Collector;
use crate::results::comparison::{Comparison, MeasuredCouples};

/// Compares two routines, A and B. They run alternately within one process, so that a disturbance
/// affects both. For each couple a random number decides which routine comes first. The result is
/// an estimate of the difference (Hodges and Lehmann's, over 60 rounds), with a confidence interval
/// of 95 % by Wilcoxon's signed rank test. A drift of the machine moves both medians, but not the
/// estimate. The estimate may therefore differ from the difference of the medians.
///
/// criterion runs the comparison as one benchmark, and gets the mean of B's pairs that count.
/// Filters, warm-up and measurement time are criterion's. The result is printed below criterion's
/// line, stored as `new/comparison.json` next to criterion's files, and drawn in its report.
/// Returns `None` if criterion measured nothing (`--list`, `--test`, a filter), or, with a printed
/// line, if fewer than 50 couples count.
///
/// ```
/// use std::hint::black_box;
///
/// use criterion::Criterion;
/// use tickline_criterion::{CounterTime, compare};
///
/// let mut criterion = Criterion::default().with_measurement(CounterTime::or_wall_time());
/// # let directory = std::env::temp_dir().join(format!("tickline-criterion-compare-{}", std::process::id()));
/// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
/// #     .warm_up_time(std::time::Duration::from_millis(5)).nresamples(1_000)
/// #     .measurement_time(std::time::Duration::from_millis(50));
/// let text = || black_box("1234567");
/// let comparison =
///     compare(&mut criterion, "parse", || text().parse::<u32>(), || text().parse::<f64>());
/// if let Some(comparison) = comparison {
///     println!("B takes {:+.1} % longer", comparison.difference_percent());
/// }
/// # std::fs::remove_dir_all(directory).ok();
/// ```
///
/// The output with criterion's default settings, bound to a CPU on which compilers ran, on an AMD
/// EPYC, family 25, model 17:
///
/// ```text
/// parse                   time:   [10.687 ns 10.738 ns 10.796 ns]
///                         medians: 4.1 ns and 10.6 ns; estimate over 60 rounds: +6.513 ns (+159.73 %), 95 % in [+6.508, +6.517] ns: B is slower
///                         800021 couples of 256 iterations each, 10526 more disturbed and excluded: preempted 9271, interrupted 1255
/// ```
pub fn compare<C: BenchPairs, A, B>(
    criterion: &mut C,
    id: impl Into<PairId>,
    mut a: impl FnMut() -> A,
    mut b: impl FnMut() -> B,
) -> Option<Comparison> {
    let mut collector = None;
    criterion.run(id.into(), &mut |iterations| {
        let collector = collector.get_or_insert_with(|| Collector::new(None));
        let clock = collector.time.pair_clock();
        let mut routines: [&mut dyn FnMut(u64) -> PairReads; 2] =
            [&mut |calls| timed(clock, calls, &mut a), &mut |calls| {
                timed(clock, calls, &mut b)
            }];
        sample(collector, iterations, &mut routines)
    });
    let collector = collector.filter(Collector::has_measured)?;
    let (couples, disturbances) = (
        &*collector.collected.couples,
        collector.collected.disturbances,
    );
    let names = ["A", "B"];
    MeasuredCouples {
        collector: &collector,
        couples,
        slice_ends: None,
        disturbances,
        names,
    }
    .report()
}

/// Takes a pair around `calls` calls. It is not inlined, so that equal routines have equal code.
#[inline(never)]
fn timed<O>(clock: PairClock, calls: u64, routine: &mut impl FnMut() -> O) -> PairReads {
    bencher::timed(clock, calls, routine)
}

/// Takes a sample. Both routines are called from one call site, so that they begin alike.
fn sample(
    collector: &mut Collector<2>,
    iterations: u64,
    routines: &mut [&mut dyn FnMut(u64) -> PairReads; 2],
) -> Elapsed {
    let iterations_per_pair = collector.choose_iterations_per_pair(None, |iterations| {
        let ticks = routines
            .iter_mut()
            .map(|routine| routine(iterations).ticks());
        ticks.max().unwrap_or(0)
    });
    let mut sample = collector.begin_sample(iterations);
    loop {
        let first = random_side();
        let mut group = [PairReads::default(); 2];
        for routine in [first, 1 - first] {
            group[routine] = routines[routine](iterations_per_pair);
        }
        if sample.push(group).is_break() {
            return sample.finish();
        }
    }
}
