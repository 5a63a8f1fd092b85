//! Compares two routines that run in turns in one process, in random order.
//!
//! Where the linker places a loop changes its time, often by 1 %, so that two closures of equal
//! text differ. The compiler therefore makes [`COPIES`] of each routine's code, each behind another
//! number of bytes. A sample has a stretch of each copy, and the copies are the replicates of the
//! analysis (`statistics/couples.rs`). Heap and stack are shifted before each stretch
//! (`placement.rs`).

use std::hint::black_box;

use crate::bench_pairs::{BenchPairs, PairId};
use crate::measurement::readings::{Elapsed, PairClock, PairReads};
use crate::number::{index, random_below, random_side};
use crate::pairs::bencher;
use crate::pairs::collector::{Collector, Inputs};
use crate::pairs::placement::{self, HeapShift};
use crate::results::comparison::{Comparison, MeasuredCouples, Sides};

/// The number of copies of each routine's code.
const COPIES: usize = 8;

/// Compares two routines, A and B. They run in turns within one process, so that a disturbance
/// affects both. A *couple* is a time of A and the time of B next to it. For each couple a random
/// number decides which routine comes first. The result is an estimate of the difference (Hodges
/// and Lehmann's), with a confidence interval of 95 % by Wilcoxon's signed rank test. The times of
/// A and B are estimated in the same way, from the same rounds. So is the percentage, the ratio of
/// both times less 1. Its own interval includes the uncertainty of A, and stays right if the
/// machine changes its speed. The estimates may differ a little from the difference and the ratio
/// of these times. All of these times are medians; where some calls of a routine are slow, only
/// [its mean tells](crate::comparison_method#medians-and-means).
///
/// A is the reference. If A gets slower, the difference shrinks, and a limit of a baseline passes:
/// bench A by itself, too.
///
/// In a couple each routine is called so often that its calls take 2 us or more. For shorter
/// routines this is therefore a comparison of throughput. To compare the time of a call alone, let
/// each input depend on the result before it.
///
/// The interval is over eight copies of the code of each routine, at different addresses, and heap
/// and stack are shifted between visits to the copies. What both closures have inlined is therefore
/// at eight places. A function that only one of them calls, and that is not inlined, is at one
/// place for the whole run: the comparison cannot tell what this place costs. A difference below
/// 1 % is never reported.
///
/// criterion runs the comparison as one benchmark, and gets the mean of B's pairs that count.
/// Filters, warm-up and measurement time are criterion's. The result is printed below criterion's
/// line, stored as `new/comparison.json` next to criterion's files, and drawn in its report.
/// Returns `None` if criterion measured nothing (`--list`, `--test`, a filter), or, with a printed
/// line, if fewer than six of the copies have three couples each that count.
///
/// ```
/// use std::hint::black_box;
///
/// use criterion::Criterion;
/// use tickline_criterion::{CounterTime, compare};
///
/// let mut criterion = Criterion::default().with_measurement(CounterTime::new_or_wall_time());
/// # let name = format!("tickline-criterion-compare-{}", std::process::id());
/// # let directory = std::env::temp_dir().join(name);
/// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
/// #     .warm_up_time(std::time::Duration::from_millis(5)).nresamples(1_000)
/// #     .measurement_time(std::time::Duration::from_millis(50));
/// let text = || black_box("1234567");
/// let comparison =
///     compare(&mut criterion, "parse", || text().parse::<u32>(), || text().parse::<f64>());
/// if let Some(comparison) = comparison {
///     println!("B takes {:+.1} % longer", comparison.difference_percent.estimate);
/// }
/// # std::fs::remove_dir_all(directory).ok();
/// ```
pub fn compare<C: BenchPairs, A, B>(
    criterion: &mut C,
    id: impl Into<PairId>,
    mut a: impl FnMut() -> A,
    mut b: impl FnMut() -> B,
) -> Option<Comparison> {
    let mut collector = None;
    let mut heap = HeapShift::default();
    criterion.run(id.into(), &mut |iterations| {
        let collector = collector.get_or_insert_with(|| Collector::new(None));
        let clock = collector.time.pair_clock();
        let mut routines: Routines<'_> = [
            &mut |copy, calls| timed_copy(copy, clock, calls, &mut a),
            &mut |copy, calls| timed_copy(copy, clock, calls, &mut b),
        ];
        sample(collector, iterations, &mut routines, &mut heap)
    });
    let collector = collector.filter(Collector::has_measured)?;
    MeasuredCouples {
        collector: &collector,
        replicates: &collector.collected.replicates(COPIES),
        iterations_per_pair: collector.iterations_per_pair(),
        disturbances: collector.collected.disturbances.clone(),
        sides: Sides::Routines,
    }
    .report()
}

/// Takes a pair around calls of A or B, by a copy of the code.
type Routines<'a> = [&'a mut dyn FnMut(usize, u64) -> PairReads; 2];

/// Takes a pair around `calls` calls, by this copy of the code.
fn timed_copy<O>(
    copy: usize,
    clock: PairClock,
    calls: u64,
    routine: &mut impl FnMut() -> O,
) -> PairReads {
    let copies = [
        timed::<0, O, _>,
        timed::<1, O, _>,
        timed::<2, O, _>,
        timed::<3, O, _>,
        timed::<4, O, _>,
        timed::<5, O, _>,
        timed::<6, O, _>,
        timed::<7, O, _>,
    ];
    const { assert!(COPIES == 8) };
    copies[copy % COPIES](clock, calls, routine)
}

/// Takes a pair around `calls` calls. It is not inlined, so that equal routines have equal code. A
/// copy has `COPY` stores before the routine, which the others lack. Without them the compiler
/// would make one function of all copies, and each would be at the same place within a cache line.
#[inline(never)]
fn timed<const COPY: usize, O, R: FnMut() -> O>(
    clock: PairClock,
    calls: u64,
    routine: &mut R,
) -> PairReads {
    for store in 0..COPY {
        black_box(store);
    }
    bencher::timed(clock, calls, routine)
}

/// Takes a sample, with a stretch of each copy of the code. Both routines are called from one call
/// site, so that they begin alike.
fn sample(
    collector: &mut Collector<2>,
    iterations: u64,
    routines: &mut Routines<'_>,
    heap: &mut HeapShift,
) -> Elapsed {
    let iterations_per_pair = collector.choose_iterations_per_pair(Inputs::None, |iterations| {
        let ticks = routines
            .iter_mut()
            .map(|routine| routine(0, iterations).ticks());
        ticks.max().unwrap_or(0)
    });
    let mut sample = collector.begin_sample(iterations);
    // A short sample does not reach all copies, so each begins with another one.
    let first_copy = index(random_below(COPIES as u64));
    for stretch in 1..=COPIES {
        let copy = (first_copy + stretch) % COPIES;
        heap.shift();
        let is_over = placement::on_shifted_stack(&mut || {
            loop {
                let first = random_side();
                let mut bundle = [PairReads::default(); 2];
                for routine in [first, 1 - first] {
                    bundle[routine] = routines[routine](copy, iterations_per_pair);
                }
                if sample.push(bundle).is_break() {
                    return true;
                }
                if stretch < COPIES && sample.has_share(stretch, COPIES) {
                    return false;
                }
            }
        });
        sample.end_stretch(copy);
        if is_over {
            break;
        }
    }
    sample.finish()
}
