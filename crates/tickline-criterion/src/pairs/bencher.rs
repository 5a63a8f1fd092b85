//! The bencher of [`BenchPairs`](crate::BenchPairs).

use std::collections::VecDeque;
use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;

use criterion::BatchSize;

use crate::measurement::readings::{Elapsed, PairClock, PairReads};
use crate::number::index;
use crate::pairs::collector::{Collector, Inputs, PairSize};

/// Times a routine by pairs of readings. [`BenchPairs`](crate::BenchPairs) has an example.
///
/// Calls of these methods of criterion's
/// [`Bencher`](https://docs.rs/criterion/0.8/criterion/struct.Bencher.html) stay as they are:
/// `iter`, `iter_batched`, `iter_batched_ref` and `iter_with_large_drop`. For the others:
///
/// | criterion's | here |
/// |---|---|
/// | `iter_with_setup(setup, routine)` | [`iter_batched(setup, routine, BatchSize::PerIteration)`](Self::iter_batched), which is the same |
/// | `to_async(runner).iter(routine)` | [`iter_async(block_on, routine)`](Self::iter_async) |
/// | the other methods of `to_async`; `iter_custom`, whose routine times itself | none: keep `bench_function` ([`CounterTime`](crate::CounterTime) shows `iter_custom`) |
#[derive(Debug)]
pub struct PairBencher<'a> {
    collector: &'a mut Collector<1>,
    iterations: u64,
    /// The sample for criterion; `None` if the benchmark timed nothing.
    pub(crate) returned: Option<Elapsed>,
}

/// The number of inputs that are made ahead, unless the sample needs fewer: the same number as in
/// criterion.
fn inputs_ahead(size: BatchSize, iterations: u64) -> u64 {
    let inputs = match size {
        BatchSize::SmallInput => iterations.div_ceil(10),
        BatchSize::LargeInput => iterations.div_ceil(1_000),
        BatchSize::NumBatches(batches) => iterations.div_ceil(batches.max(1)),
        BatchSize::NumIterations(inputs) => inputs,
        _ => 1,
    };
    inputs.max(1)
}

/// Takes a pair around `iterations` calls.
#[inline(always)]
pub(crate) fn timed<O>(
    clock: PairClock,
    iterations: u64,
    routine: &mut impl FnMut() -> O,
) -> PairReads {
    // A single iteration needs no loop, whose branch costs 1 ns, or more if it is mispredicted.
    if iterations == 1 {
        let start = clock.start();
        black_box(routine());
        return start.reads();
    }
    let start = clock.start();
    for _ in 0..iterations {
        black_box(routine());
    }
    start.reads()
}

/// Takes a pair around one call for each input: a value, or a reference to one that stays where it
/// is. Outputs are dropped after the second reading.
#[inline(always)]
fn timed_batch<I, O>(
    clock: PairClock,
    mut inputs: impl ExactSizeIterator<Item = I>,
    outputs: &mut Vec<O>,
    routine: &mut impl FnMut(I) -> O,
) -> PairReads {
    if inputs.len() == 1
        && let Some(input) = inputs.next()
    {
        let input = black_box(input);
        let start = clock.start();
        let output = black_box(routine(input));
        let reads = start.reads();
        drop(output);
        return reads;
    }
    outputs.reserve(inputs.len());
    let start = clock.start();
    for input in inputs {
        outputs.push(black_box(routine(input)));
    }
    let reads = start.reads();
    outputs.clear();
    reads
}

impl<'a> PairBencher<'a> {
    pub(crate) fn new(collector: &'a mut Collector<1>, iterations: u64) -> Self {
        Self {
            collector,
            iterations,
            returned: None,
        }
    }

    /// Puts so many iterations into a pair that the pair's cost is at most this share of its time.
    /// Without this call, each iteration is a pair. With this call, each time is the mean over the
    /// iterations of a pair: the resolution is finer by their number, but a single slow iteration
    /// is less visible.
    ///
    /// # Panics
    ///
    /// If `share` is not between 0.0001 and 1.
    pub fn cost_share(&mut self, share: f64) -> &mut Self {
        assert!(
            (1e-4..=1.0).contains(&share),
            "a pair's share of {share} is outside 0.0001 to 1"
        );
        self.collector.pair_size = PairSize::CostShare(share);
        self
    }

    /// Puts one iteration into each pair, also in turns with another build (`--against`), where a
    /// pair otherwise has enough iterations for 2 us or more. The comparison is then of the latency
    /// of an iteration, and not of the throughput of many: each begins when all work before it has
    /// executed, and ends when its own has, so that no two overlap. The OS clock, which measures
    /// where the counter can't be trusted, does not promise this order.
    /// [The page about comparisons](crate::comparisons#the-latency-of-an-iteration) has an example.
    ///
    /// The counter's resolution is not checked: a difference that is small against
    /// [`Calibration::resolution_ns`](crate::measurement::Calibration::resolution_ns) is not seen.
    /// [`compare`](crate::compare()) has no such mode; there, let each input depend on the result
    /// before it.
    ///
    /// The build that is started decides; the other one needs no such call. Of this call and
    /// [`cost_share`](Self::cost_share) the last counts.
    pub fn latency(&mut self) -> &mut Self {
        self.collector.pair_size = PairSize::One;
        self
    }

    /// Times `routine`, including the drop of its output, as `Bencher::iter` does.
    #[inline(never)]
    pub fn iter<O>(&mut self, mut routine: impl FnMut() -> O) {
        let clock = self.collector.time.pair_clock();
        let iterations = self
            .collector
            .choose_iterations_per_pair(Inputs::None, |iterations| {
                timed(clock, iterations, &mut routine).ticks()
            });
        let mut sample = self.collector.begin_sample(self.iterations);
        while sample
            .push([timed(clock, iterations, &mut routine)])
            .is_continue()
        {}
        self.returned = Some(sample.finish());
    }

    /// Times `routine` on inputs from `setup`, without the drop of its output, as
    /// `Bencher::iter_batched` does. The routine gets all inputs, in the order of their setup; only
    /// the other build of `--against`, and a sample that includes disturbed pairs, may drop some
    /// unused.
    pub fn iter_batched<I, O>(
        &mut self,
        setup: impl FnMut() -> I,
        mut routine: impl FnMut(I) -> O,
        size: BatchSize,
    ) {
        let (mut batch, mut outputs) = (Vec::new(), Vec::new());
        self.batched(setup, size, |clock, inputs, iterations| {
            batch.extend(inputs.drain(..iterations));
            timed_batch(
                clock,
                black_box(&mut batch).drain(..),
                &mut outputs,
                &mut routine,
            )
        });
    }

    /// Times `routine` as [`iter_batched`](Self::iter_batched) does, but passes the input by
    /// reference. The input is dropped after the second reading.
    pub fn iter_batched_ref<I, O>(
        &mut self,
        setup: impl FnMut() -> I,
        mut routine: impl FnMut(&mut I) -> O,
        size: BatchSize,
    ) {
        let mut outputs = Vec::new();
        self.batched(setup, size, |clock, inputs, iterations| {
            let batch = black_box(&mut inputs.make_contiguous()[..iterations]);
            let reads = timed_batch(clock, batch.iter_mut(), &mut outputs, &mut routine);
            inputs.drain(..iterations);
            reads
        });
    }

    /// Takes pairs by `timed`, which takes a number of inputs off the front.
    #[inline(never)]
    fn batched<I>(
        &mut self,
        mut setup: impl FnMut() -> I,
        size: BatchSize,
        mut timed: impl FnMut(PairClock, &mut VecDeque<I>, usize) -> PairReads,
    ) {
        let clock = self.collector.time.pair_clock();
        let mut inputs = VecDeque::new();
        let iterations =
            self.collector
                .choose_iterations_per_pair(Inputs::MadeBefore, |iterations| {
                    inputs.extend((0..iterations).map(|_| setup()));
                    timed(clock, &mut inputs, index(iterations)).ticks()
                });
        let ahead = inputs_ahead(size, self.iterations).div_ceil(iterations);
        let mut sample = self.collector.begin_sample(self.iterations);
        loop {
            if inputs.is_empty() {
                // The routine gets all inputs, as in criterion.
                let pairs = ahead.min(sample.min_left());
                inputs.extend((0..pairs * iterations).map(|_| setup()));
            }
            if sample
                .push([timed(clock, &mut inputs, index(iterations))])
                .is_break()
            {
                break;
            }
        }
        self.returned = Some(sample.finish());
    }

    /// Times `routine` without the drop of its output, as `Bencher::iter_with_large_drop` does.
    pub fn iter_with_large_drop<O>(&mut self, mut routine: impl FnMut() -> O) {
        self.iter_batched(|| (), |()| routine(), BatchSize::SmallInput);
    }

    /// Times the futures of `routine`, each from the call of `routine` until its output is dropped.
    /// Each future is a pair. All of them run within one `block_on`, whose own time does not count;
    /// with tokio, pass `|future| runtime.block_on(future)`.
    ///
    /// ```
    /// use criterion::Criterion;
    /// use tickline_criterion::{BenchPairs, CounterTime};
    ///
    /// let mut criterion = Criterion::default().with_measurement(CounterTime::new_or_wall_time());
    /// # let name = format!("tickline-criterion-async-{}", std::process::id());
    /// # let directory = std::env::temp_dir().join(name);
    /// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
    /// #     .warm_up_time(std::time::Duration::from_millis(5)).nresamples(1_000)
    /// #     .measurement_time(std::time::Duration::from_millis(20));
    /// let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    /// criterion.bench_pairs("yield", |bencher| {
    ///     bencher.iter_async(|future| runtime.block_on(future), tokio::task::yield_now);
    /// });
    /// # std::fs::remove_dir_all(directory).ok();
    /// ```
    ///
    /// # Panics
    ///
    /// If [`cost_share`](Self::cost_share) was called.
    pub fn iter_async<F: Future>(
        &mut self,
        block_on: impl FnOnce(Pin<Box<dyn Future<Output = ()> + '_>>),
        mut routine: impl FnMut() -> F,
    ) {
        assert!(
            !matches!(self.collector.pair_size, PairSize::CostShare(_)),
            "batches of futures are not timed: each is a pair of its own"
        );
        block_on(Box::pin(async {
            let clock = self.collector.time.pair_clock();
            let mut sample = self.collector.begin_sample(self.iterations);
            loop {
                let start = clock.start();
                drop(black_box(routine().await));
                if sample.push([start.reads()]).is_break() {
                    break;
                }
            }
            self.returned = Some(sample.finish());
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use criterion::measurement::Measurement;

    use super::*;
    use crate::measurement::time::CounterTime;

    /// The number of iterations in a sample: many, however slow the machine is at the moment.
    const ITERATIONS: u64 = 1_000;

    /// Runs a benchmark as criterion does for a sample of [`ITERATIONS`].
    fn bench(benchmark: impl FnOnce(&mut PairBencher<'_>)) {
        let time = CounterTime::builder().quiet().build_or_wall_time();
        _ = time.zero();
        let mut collector = Collector::new(None);
        benchmark(&mut PairBencher::new(&mut collector, ITERATIONS));
    }

    /// A setup that numbers its inputs, and a routine that expects them in order.
    #[derive(Debug, Default)]
    struct Inputs {
        made: Cell<u64>,
        used: Cell<u64>,
        /// How often the setup began anew, after the use of all inputs.
        batches: Cell<u64>,
    }

    impl Inputs {
        fn make(&self) -> u64 {
            let begins = self.made == self.used;
            self.batches.set(self.batches.get() + u64::from(begins));
            self.made.set(self.made.get() + 1);
            self.made.get()
        }

        fn take(&self, input: u64) {
            assert_eq!(self.used.replace(input), input - 1);
        }
    }

    /// All inputs of a sample are made ahead; or all inputs of a pair, which has several.
    const SIZES: [(BatchSize, f64); 2] = [
        (BatchSize::NumIterations(100_000), 1.0),
        (BatchSize::PerIteration, 0.01),
    ];

    /// Symptoms: a routine that takes from a queue what `setup` has put into it got another input.
    /// With 13 calls, `NumIterations(100_000)` made 1,100,000 inputs.
    #[test]
    fn the_routine_gets_each_input_in_its_order_as_in_criterion() {
        for (size, share) in SIZES {
            let inputs = Inputs::default();
            bench(|bencher| {
                let bencher = bencher.cost_share(share);
                bencher.iter_batched(|| inputs.make(), |input| inputs.take(input), size);
            });
            assert!(inputs.used.get() >= ITERATIONS);
            assert_eq!(inputs.made, inputs.used, "inputs that were not used");
        }
    }

    /// Symptom: a routine on a reference took 9 ns with 64 bytes and 2.8 us with 64 KiB, because
    /// the input was moved between the readings.
    #[test]
    fn inputs_by_reference_stay_one_behind_the_other_as_in_criterion() {
        for (size, share) in SIZES {
            let inputs = Inputs::default();
            let (mut last, mut successors) = (0, 0);
            bench(|bencher| {
                let routine = |input: &mut u64| {
                    let place = std::ptr::from_ref(input).addr();
                    let before = std::mem::replace(&mut last, place);
                    successors += u64::from(before + size_of::<u64>() == place);
                    inputs.take(*input);
                };
                let bencher = bencher.cost_share(share);
                bencher.iter_batched_ref(|| inputs.make(), routine, size);
            });
            let (calls, batches) = (inputs.used.get(), inputs.batches.get());
            assert_eq!(inputs.made, inputs.used, "inputs that were not used");
            assert!(
                successors >= calls - batches,
                "of {calls} inputs in {batches} batches, {successors} are behind the one before"
            );
        }
    }

    /// Further batches are for disturbed pairs.
    #[test]
    fn the_inputs_of_a_sample_are_made_ahead() {
        let inputs = Inputs::default();
        let size = BatchSize::NumIterations(100_000);
        bench(|bencher| bencher.iter_batched(|| inputs.make(), |input| inputs.take(input), size));
        let (calls, batches) = (inputs.used.get(), inputs.batches.get());
        assert!(batches < calls / 2, "{batches} batches for {calls} calls");
    }

    /// criterion 0.8, `BatchSize::iters_per_batch`: a tenth and a thousandth of the iterations, a
    /// number of batches, or a number of iterations.
    #[test]
    fn as_many_inputs_are_made_ahead_as_in_criterion() {
        for (size, inputs) in [
            (BatchSize::SmallInput, 1_001),
            (BatchSize::LargeInput, 11),
            (BatchSize::NumBatches(4), 2_502),
            (BatchSize::NumIterations(7), 7),
            (BatchSize::PerIteration, 1),
        ] {
            assert_eq!(inputs_ahead(size, 10_005), inputs, "{size:?}");
        }
    }

    #[test]
    fn at_least_one_input_is_made_ahead() {
        for size in [
            BatchSize::SmallInput,
            BatchSize::LargeInput,
            BatchSize::NumBatches(0),
            BatchSize::NumIterations(0),
        ] {
            assert!(
                inputs_ahead(size, 1) == 1 && inputs_ahead(size, 0) <= 1,
                "{size:?}"
            );
        }
    }
}
