//! The bencher of [`BenchPairs`](crate::BenchPairs).

use std::future::Future;
use std::hint::black_box;
use std::pin::Pin;

use criterion::BatchSize;

use crate::elapsed::Elapsed;
use crate::number::{count, index};
use crate::pair::{Ends, Source};
use crate::pairs::collector::{Collector, Flow};
use crate::pairs::distribution::Distribution;

/// Times a routine by pairs of readings. It has methods of criterion's
/// [`Bencher`](https://docs.rs/criterion/latest/criterion/struct.Bencher.html), so that closures
/// stay as they are. [`BenchPairs`](crate::BenchPairs) has an example.
#[derive(Debug)]
pub struct PairBencher<'a> {
    collector: &'a mut Collector<1, Distribution>,
    iterations: u64,
    share: Option<f64>,
    /// The sample for criterion; `None` if the benchmark timed nothing.
    pub(crate) returned: Option<Elapsed>,
}

/// How many inputs are made ahead: as many as criterion makes.
fn inputs(size: BatchSize, iterations: u64) -> u64 {
    let batches = match size {
        BatchSize::SmallInput => 10,
        BatchSize::LargeInput => 1_000,
        BatchSize::NumBatches(batches) => batches.max(1),
        BatchSize::NumIterations(inputs) => return inputs.max(1),
        _ => return 1,
    };
    iterations.div_ceil(batches).max(1)
}

/// Takes a pair around `iterations` calls.
#[inline(always)]
pub(crate) fn timed<O>(source: Source, iterations: u64, routine: &mut impl FnMut() -> O) -> Ends {
    // A single iteration has no loop. The branch at the end of a loop costs a ns, and more if it is
    // mispredicted.
    if iterations == 1 {
        let start = source.start();
        black_box(routine());
        return start.ends();
    }
    let start = source.start();
    for _ in 0..iterations {
        black_box(routine());
    }
    start.ends()
}

/// Takes a pair around one call for each input. Outputs are dropped after the end.
#[inline(always)]
fn timed_batch<I, O>(
    source: Source,
    inputs: &mut Vec<I>,
    outputs: &mut Vec<O>,
    routine: &mut impl FnMut(I) -> O,
) -> Ends {
    if inputs.len() == 1
        && let Some(input) = inputs.pop()
    {
        let input = black_box(input);
        let start = source.start();
        let output = black_box(routine(input));
        let ends = start.ends();
        drop(output);
        return ends;
    }
    outputs.reserve(inputs.len());
    let inputs = black_box(inputs);
    let start = source.start();
    for input in inputs.drain(..) {
        outputs.push(black_box(routine(input)));
    }
    let ends = start.ends();
    outputs.clear();
    ends
}

impl<'a> PairBencher<'a> {
    pub(crate) fn new(collector: &'a mut Collector<1, Distribution>, iterations: u64) -> Self {
        let iterations = collector.asked().unwrap_or(iterations);
        Self { collector, iterations, share: None, returned: None }
    }

    /// Puts enough iterations into a pair that the pair's cost is at most this share of its time.
    /// Without this call, each iteration is a pair. With it, a time is the mean over the iterations
    /// of a pair. The resolution is finer by their number, but a single slow iteration shows less.
    ///
    /// # Panics
    ///
    /// If `share` is not between 0.0001 and 1.
    pub fn cost_share(&mut self, share: f64) -> &mut Self {
        assert!((1e-4..=1.0).contains(&share), "a pair's share of {share} is outside 0.0001 to 1");
        self.share = Some(share);
        self
    }

    /// How long a pair must be for its share.
    fn least_ticks(&self) -> f64 {
        let own = self.share.map_or(0.0, |share| self.collector.cost_ticks() / share);
        own.max(self.collector.least_ticks())
    }

    /// Times `routine`, including the drop of its output, as `Bencher::iter` does.
    #[inline(never)]
    pub fn iter<O>(&mut self, mut routine: impl FnMut() -> O) {
        let source = self.collector.source();
        let least_ticks = self.least_ticks();
        let iterations =
            self.collector.choose(least_ticks, |iterations| timed(source, iterations, &mut routine).ticks());
        let mut sample = self.collector.sample(self.iterations, 1);
        while sample.push([timed(source, iterations, &mut routine)]) == Flow::More {}
        self.returned = Some(sample.finish());
    }

    /// Times `routine` on inputs that `setup` makes, without the drop of its output, as
    /// `Bencher::iter_batched` does.
    #[inline(never)]
    pub fn iter_batched<I, O>(
        &mut self,
        mut setup: impl FnMut() -> I,
        mut routine: impl FnMut(I) -> O,
        size: BatchSize,
    ) {
        let source = self.collector.source();
        let (mut batch, mut outputs) = (Vec::new(), Vec::new());
        let least_ticks = self.least_ticks();
        let iterations = self.collector.choose(least_ticks, |iterations| {
            batch.extend((0..iterations).map(|_| setup()));
            timed_batch(source, &mut batch, &mut outputs, &mut routine).ticks()
        });
        let ahead = inputs(size, self.iterations).max(iterations);
        let mut inputs = Vec::new();
        let mut sample = self.collector.sample(self.iterations, 1);
        loop {
            if count(inputs.len()) < iterations {
                inputs.extend((0..ahead).map(|_| setup()));
            }
            let left = count(inputs.len()) - iterations;
            batch.extend(inputs.drain(index(left)..));
            if sample.push([timed_batch(source, &mut batch, &mut outputs, &mut routine)]) == Flow::Full {
                break;
            }
        }
        self.returned = Some(sample.finish());
    }

    /// As [`iter_batched`](Self::iter_batched), but `routine` gets its input by reference; the
    /// input is dropped after the end.
    pub fn iter_batched_ref<I, O>(
        &mut self,
        setup: impl FnMut() -> I,
        mut routine: impl FnMut(&mut I) -> O,
        size: BatchSize,
    ) {
        self.iter_batched(
            setup,
            |mut input| {
                let output = routine(&mut input);
                (output, input)
            },
            size,
        );
    }

    /// Times futures. `block_on` runs a future to its end, on this thread: with tokio,
    /// `|future| runtime.block_on(future)`.
    ///
    /// ```
    /// use criterion::Criterion;
    /// use tickline_criterion::{BenchPairs, CounterTime};
    ///
    /// let mut criterion = Criterion::default().with_measurement(CounterTime::or_wall_time());
    /// # let directory = std::env::temp_dir().join(format!("tickline-criterion-async-{}", std::process::id()));
    /// # let mut criterion = criterion.without_plots().output_directory(&directory).sample_size(10)
    /// #     .warm_up_time(std::time::Duration::from_millis(5)).nresamples(1_000)
    /// #     .measurement_time(std::time::Duration::from_millis(20));
    /// let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    /// criterion.bench_pairs("yield", |bencher| {
    ///     bencher.to_async(|future| runtime.block_on(future)).iter(|| tokio::task::yield_now());
    /// });
    /// # let _ = std::fs::remove_dir_all(directory);
    /// ```
    pub fn to_async<E>(&mut self, block_on: E) -> AsyncPairBencher<'_, 'a, E>
    where
        E: for<'f> Fn(Pin<Box<dyn Future<Output = ()> + 'f>>),
    {
        AsyncPairBencher { bencher: self, block_on }
    }
}

/// Times futures by pairs of readings: [`PairBencher::to_async`].
#[expect(missing_debug_implementations, reason = "a function that runs futures has none")]
pub struct AsyncPairBencher<'b, 'a, E> {
    bencher: &'b mut PairBencher<'a>,
    block_on: E,
}

impl<E> AsyncPairBencher<'_, '_, E>
where
    E: for<'f> Fn(Pin<Box<dyn Future<Output = ()> + 'f>>),
{
    /// Times the futures that `routine` makes, each from the call of `routine` to the end of the
    /// future. All of them run within one `block_on`, whose own time does not count. Each future is
    /// a pair of its own.
    ///
    /// # Panics
    ///
    /// If [`cost_share`](PairBencher::cost_share) was called.
    pub fn iter<F: Future>(&mut self, mut routine: impl FnMut() -> F) {
        let routine = move |()| {
            let future = routine();
            async move { drop(black_box(future.await)) }
        };
        self.iter_batched(|| (), routine, BatchSize::PerIteration);
    }

    /// As [`iter`](Self::iter), on inputs that `setup` makes before the start.
    ///
    /// # Panics
    ///
    /// If [`cost_share`](PairBencher::cost_share) was called.
    pub fn iter_batched<I, F: Future>(
        &mut self,
        mut setup: impl FnMut() -> I,
        mut routine: impl FnMut(I) -> F,
        size: BatchSize,
    ) {
        let PairBencher { collector, iterations, share, returned } = &mut *self.bencher;
        assert!(share.is_none(), "batches of futures are not timed: each is a pair of its own");
        let ahead = inputs(size, *iterations);
        (self.block_on)(Box::pin(async {
            let source = collector.source();
            let mut inputs = Vec::new();
            let mut sample = collector.sample(*iterations, 1);
            loop {
                let input = match inputs.pop() {
                    Some(input) => input,
                    None => {
                        inputs.extend((1..ahead).map(|_| setup()));
                        setup()
                    }
                };
                let input = black_box(input);
                let start = source.start();
                let output = black_box(routine(input).await);
                let ends = start.ends();
                drop(output);
                if sample.push([ends]) == Flow::Full {
                    break;
                }
            }
            *returned = Some(sample.finish());
        }));
    }
}
