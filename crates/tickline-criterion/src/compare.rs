//! Two routines in one process, in turns and in random order.
//!
//! | file | does |
//! |---|---|
//! | `couples.rs` | keeps the couples that count, and takes the medians of rounds |
//! | `signed_rank.rs` | gives the difference its interval |
//! | `random.rs` | decides which routine comes first |

mod couples;
mod random;
mod signed_rank;

use std::fmt;
use std::hint::black_box;
use std::time::SystemTime;

use serde_json::{Map, Value, json};

use crate::compare::couples::{Couples, LEAST, show};
use crate::compare::random::Random;
use crate::current;
use crate::elapsed::{Elapsed, as_f64};
use crate::number::{count, index};
use crate::pair::{Ends, Source};
use crate::pairs::cause::Cause;
use crate::pairs::files;
use crate::pairs::outcome::Ns;
use crate::pairs::slice::{Counting, Slice};
use crate::pairs::watch::Watch;
use crate::pairs::{BenchPairs, PairId};
use crate::plot::{self, Series};
use crate::session::Scale;
use crate::time::{CounterTime, least_ns};

/// Both routines run so often that the slower one's pair is this long, ns. The cost of a pair is
/// then 1 % of it. A counter with a resolution of 10 ns reads it within 0.5 %, and the median of a
/// round's hundreds of pairs is more exact than that.
const PAIR_NS: f64 = 2_000.0;
const MOST_ITERATIONS: u64 = 1 << 16;

/// The fewest couples of a sample. criterion takes 10 samples or more, so they have enough couples
/// for a comparison, however few iterations it asks for.
const LEAST_OF_SAMPLE: u64 = 8;

/// Disturbed couples are replaced by others, until there are this many times the wanted couples.
const MOST_COUPLES: u64 = 2;

/// The two pairs of a couple may differ by this, ns, even if both routines are the same: some
/// cycles, which depend on where code and data are in memory (the example `known_delays`). The
/// interval is wider by this at both ends.
const PLACE_NS: f64 = 1.0;

/// Routines do not count as different if the difference is below this part of the first one's
/// median, even if the interval excludes 0. Two copies of the same code can differ by as much,
/// depending on where the linker puts them.
const LEAST_PERCENT: f64 = 0.5;

const STEM: &str = "comparison";
const HEADING: &str = "The first routine against the second, in turns";
const INDENT: &str = "                        ";
const VERSION: u32 = 1;

/// What [`compare`] has found. Times are ns of an iteration.
///
/// Its text is what is printed below criterion's line.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Comparison {
    /// The median of the first routine, ns.
    pub a_ns: f64,
    /// The median of the second, ns.
    pub b_ns: f64,
    /// How much longer the second takes than the first, ns: the estimate of Hodges and Lehmann,
    /// over the rounds.
    pub difference_ns: f64,
    /// The lower end of the interval that contains the difference with 95 % confidence, ns. The
    /// interval allows for 1 ns a pair, because the routines' code is at different places in
    /// memory.
    pub low_ns: f64,
    /// Its upper end, ns.
    pub high_ns: f64,
    /// Couples that count.
    pub couples: u64,
    /// Couples that were disturbed. They are excluded, unless all are included.
    pub disturbed: u64,
    /// Iterations of each routine in a couple.
    pub iterations: u64,
    causes: String,
    are_included: Counting,
}

impl Comparison {
    /// The difference as a part of the first routine's median, %.
    #[must_use]
    pub fn percent(&self) -> f64 {
        self.difference_ns / self.a_ns * 100.0
    }

    /// Whether the interval excludes 0.
    #[must_use]
    pub fn excludes_zero(&self) -> bool {
        self.low_ns > 0.0 || self.high_ns < 0.0
    }

    /// Whether the routines differ: the interval excludes 0, and the difference is at least 0.5 %.
    /// A smaller difference can come from where code and data are in memory.
    #[must_use]
    pub fn is_different(&self) -> bool {
        self.excludes_zero() && self.percent().abs() >= LEAST_PERCENT
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { a_ns, b_ns, difference_ns, low_ns, high_ns, couples, disturbed, iterations, .. } = self;
        let verdict = match (self.is_different(), *difference_ns < 0.0) {
            (true, true) => "the second is faster",
            (true, false) => "the second is slower",
            _ => "not told apart",
        };
        let how = match self.are_included {
            Counting::Undisturbed => "excluded",
            Counting::All => "included",
        };
        write!(
            f,
            "{INDENT}medians: {} and {}; difference {difference_ns:+.3} ns ({:+.2} %), 95 % in \
             [{low_ns:+.3}, {high_ns:+.3}] ns: {verdict}\n{INDENT}{couples} couples of {iterations} \
             iterations each, {disturbed} more disturbed and {how}",
            Ns(*a_ns),
            Ns(*b_ns),
            self.percent(),
        )?;
        if self.causes.is_empty() { Ok(()) } else { write!(f, ": {}", self.causes) }
    }
}

/// Compares two routines. They run in turns within one process, so that a disturbance affects both.
/// For each couple a random number decides which routine comes first. The result is the difference
/// of medians, with a confidence interval of 95 % by Wilcoxon's signed rank test over rounds.
///
/// criterion runs this as one benchmark, and gets the mean of the second routine's pairs that
/// count. Filters, warm-up and measurement time are criterion's. The result is printed below
/// criterion's line, stored as `new/comparison.json` beside its files, and drawn on its page.
/// Returns `None` if criterion measured nothing (`--list`, `--test`, a filter). If fewer than 50
/// couples count, it prints that, and returns `None`.
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
///     println!("the second takes {:+.1} % longer", comparison.percent());
/// }
/// # let _ = std::fs::remove_dir_all(directory);
/// ```
///
/// With criterion's default settings, bound to a CPU, and while compilers ran on it, this prints on
/// an AMD EPYC, family 25, model 17:
///
/// ```text
/// parse                   time:   [10.687 ns 10.738 ns 10.796 ns]
///                         medians: 4.1 ns and 10.6 ns; difference +6.513 ns (+159.73 %), 95 % in [+6.508, +6.517] ns: the second is slower
///                         800021 couples of 256 iterations each, 10526 more disturbed and excluded: preempted 9271, interrupted 1255
/// ```
pub fn compare<C: BenchPairs, A, B>(
    criterion: &mut C,
    id: impl PairId<C::Id>,
    mut a: impl FnMut() -> A,
    mut b: impl FnMut() -> B,
) -> Option<Comparison> {
    let (begin, samples) = (SystemTime::now(), current::samples());
    let mut comparer = None;
    criterion.run(id.into_id(), &mut |iterations| {
        let comparer = comparer.get_or_insert_with(Comparer::new);
        let source = comparer.time.source();
        comparer.sample(
            iterations,
            &mut [&mut |iterations| timed(source, iterations, &mut a), &mut |iterations| {
                timed(source, iterations, &mut b)
            }],
        )
    });
    let comparer = comparer.filter(|_| current::samples().wrapping_sub(samples) > 1)?;
    let messages = comparer.time.messages();
    let Some(comparison) = comparer.comparison() else {
        messages.too_few(count(comparer.couples.counted.len()), LEAST);
        return None;
    };
    messages.beside_criterion(&comparison);
    let files = files::Files {
        stem: STEM,
        heading: HEADING,
        json: &|name| comparer.json(name, &comparison),
        svg: &|name| comparer.draw(name, &comparison),
    };
    files::store(&comparer.time, (&comparer.told_ns, begin), &files);
    Some(comparison)
}

/// Takes a pair around `iterations` calls. Not inlined, so that equal routines have equal code.
#[inline(never)]
fn timed<O>(source: Source, iterations: u64, routine: &mut impl FnMut() -> O) -> Ends {
    let start = source.start();
    for _ in 0..iterations {
        black_box(routine());
    }
    start.ends()
}

/// The couples of a comparison, over all samples.
struct Comparer {
    time: CounterTime,
    watch: Watch,
    random: Random,
    /// 0 until chosen.
    iterations: u64,
    bencher: u64,
    slice: Slice<2>,
    couples: Couples,
    told_ns: Vec<f64>,
}

impl Comparer {
    fn new() -> Self {
        let (time, bencher) = (CounterTime::current(), current::benchers());
        // Any number will do, if it differs between runs.
        let seed = SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| u64::from(time.subsec_nanos()));
        Self {
            watch: Watch::new(&time),
            random: Random::new(seed),
            iterations: 0,
            bencher,
            slice: Slice::new(),
            couples: Couples::new(time.counting()),
            told_ns: Vec::new(),
            time,
        }
    }

    /// Takes a sample. Both routines are called from one place in the code, so that they begin
    /// alike.
    fn sample(&mut self, iterations: u64, routines: &mut [&mut dyn FnMut(u64) -> Ends; 2]) -> Elapsed {
        let bencher = current::benchers();
        if bencher != self.bencher {
            // The warm-up is over.
            self.bencher = bencher;
            (self.couples, self.told_ns) = (Couples::new(self.time.counting()), Vec::new());
        }
        if self.iterations == 0 {
            self.choose(routines);
        }
        let each = self.iterations;
        let wanted = iterations.div_ceil(each).max(LEAST_OF_SAMPLE);
        let (before, all_before) = (self.couples.counted.len(), self.couples.all);
        let mut block = Vec::new();
        let mut slice_ticks = 0;
        self.watch.begin(&self.time, self.slice.cpu());
        loop {
            let ticks = loop {
                let first = index(self.random.next() & 1);
                let mut couple = [Ends::NONE; 2];
                for routine in [first, 1 - first] {
                    couple[routine] = routines[routine](each);
                }
                block.push(couple);
                let [a, b] = couple;
                let begin = block.first().map_or(0, |[a, b]| a.start_ticks.min(b.start_ticks));
                let ticks = a.end_ticks.max(b.end_ticks).saturating_sub(begin);
                let taken = count(self.couples.counted.len() - before + block.len());
                if ticks >= self.watch.block_ticks || taken + self.slice.good() >= wanted {
                    break ticks;
                }
            };
            self.slice.block(&mut block, self.watch.end_block(ticks));
            slice_ticks += ticks;
            let taken = count(self.couples.counted.len() - before);
            let most = wanted.saturating_mul(MOST_COUPLES);
            if slice_ticks >= self.watch.slice_ticks || taken + self.slice.good() >= wanted {
                let disturbed = self.watch.end_slice(&self.time, self.slice.cpu());
                self.couples.add(self.slice.end(disturbed, &self.watch.spins));
                slice_ticks = 0;
                let taken = count(self.couples.counted.len() - before);
                if taken >= wanted || self.couples.all - all_before >= most {
                    break;
                }
            }
        }
        // If all couples of this sample were disturbed, criterion gets the mean of the earlier
        // ones.
        let new = &self.couples.counted[before..];
        let told = if new.is_empty() { &self.couples.counted[..] } else { new };
        let sum: f64 = told.iter().map(|couple| as_f64(couple[1])).sum();
        let mean_ticks = sum / as_f64(count(told.len()).max(1));
        let each_ns = self.time.scale().net_ns(mean_ticks) / as_f64(each);
        let told = Elapsed::of_ns(each_ns * as_f64(iterations));
        self.told_ns.push(least_ns(told.to_ns(0.0, 0.0)));
        told
    }

    /// Chooses so many iterations that the longer of both pairs is long enough.
    fn choose(&mut self, routines: &mut [&mut dyn FnMut(u64) -> Ends; 2]) {
        let Scale { ns_per_tick, .. } = self.time.scale();
        let mut least_ns = |iterations| {
            let trials = (0..5).map(|_| {
                let ticks = routines.iter_mut().map(|routine| {
                    let Ends { start_ticks, end_ticks, .. } = routine(iterations);
                    end_ticks.saturating_sub(start_ticks)
                });
                ticks.max().unwrap_or(0)
            });
            as_f64(trials.min().unwrap_or(0)) * ns_per_tick
        };
        self.iterations = 1;
        while least_ns(self.iterations) < PAIR_NS && self.iterations < MOST_ITERATIONS {
            self.iterations *= 2;
        }
    }

    fn comparison(&self) -> Option<Comparison> {
        let scale = self.time.scale();
        let shown = show(&self.couples.counted, scale.resolution_ticks)?;
        let each = as_f64(self.iterations);
        let [a_ns, b_ns] = shown.medians.map(|ticks| scale.net_ns(ticks) / each);
        // Both medians contain the cost of a pair, so their difference does not.
        let ns = |ticks: f64| ticks * scale.ns_per_tick / each;
        let place_ns = PLACE_NS / each;
        Some(Comparison {
            a_ns,
            b_ns,
            difference_ns: ns(shown.difference.estimate),
            low_ns: ns(shown.difference.low) - place_ns,
            high_ns: ns(shown.difference.high) + place_ns,
            couples: count(self.couples.counted.len()),
            disturbed: self.couples.causes.total(),
            iterations: self.iterations,
            causes: self.couples.causes.to_string(),
            are_included: self.time.counting(),
        })
    }

    fn json(&self, benchmark: &str, comparison: &Comparison) -> Value {
        let causes: Map<_, _> = Cause::ALL
            .into_iter()
            .map(|cause| (cause.name().to_owned(), json!(self.couples.causes.get(cause))))
            .collect();
        json!({
            "version": VERSION,
            "benchmark": benchmark,
            "iterations_per_pair": comparison.iterations,
            "couples_counted": comparison.couples,
            "disturbed_are": match comparison.are_included {
                Counting::Undisturbed => "excluded",
                Counting::All => "included",
            },
            "disturbed": causes,
            "median_a_ns": comparison.a_ns,
            "median_b_ns": comparison.b_ns,
            "difference_ns": comparison.difference_ns,
            "low_ns": comparison.low_ns,
            "high_ns": comparison.high_ns,
            "confidence": 0.95,
            "is_different": comparison.is_different(),
        })
    }

    fn draw(&self, name: &str, comparison: &Comparison) -> Result<String, String> {
        let scale = self.time.scale();
        let each = as_f64(self.iterations);
        let histogram = |routine: usize| -> Vec<(f64, u64)> {
            let mut ticks: Vec<u64> = self.couples.counted.iter().map(|couple| couple[routine]).collect();
            ticks.sort_unstable();
            let equal = ticks.chunk_by(|one, other| one == other);
            equal.map(|same| (scale.net_ns(as_f64(same[0])) / each, count(same.len()))).collect()
        };
        let (a, b) = (histogram(0), histogram(1));
        let marks = [[("", comparison.a_ns)], [("", comparison.b_ns)]];
        let width_ns = as_f64(scale.resolution_ticks) * scale.ns_per_tick / each;
        let series = [
            Series { name: "first", histogram: &a, marks: &marks[0], width_ns },
            Series { name: "second", histogram: &b, marks: &marks[1], width_ns },
        ];
        let text = format!(
            "difference {:+.3} ns ({:+.2} %), 95 % in [{:+.3}, {:+.3}] ns",
            comparison.difference_ns,
            comparison.percent(),
            comparison.low_ns,
            comparison.high_ns
        );
        plot::draw(name, &text, &series)
    }
}
