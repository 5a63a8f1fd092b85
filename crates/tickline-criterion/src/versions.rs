//! The traits of each version of criterion: the same few lines for each.

use crate::elapsed::Elapsed;
use crate::pairs::bencher::InputBatch;
use crate::pairs::{PairId, sealed};
use crate::time::CounterTime;

/// Names of benchmarks: texts, or a version's `BenchmarkId`.
#[doc(hidden)]
#[derive(Debug)]
pub enum Id<B> {
    /// A text.
    Name(String),
    /// A `BenchmarkId`.
    Id(B),
}

impl<B> PairId<Id<B>> for &str {
    fn into_id(self) -> Id<B> {
        Id::Name(self.to_owned())
    }
}

impl<B> PairId<Id<B>> for String {
    fn into_id(self) -> Id<B> {
        Id::Name(self)
    }
}

macro_rules! version {
    ($criterion:ident) => {
        impl $criterion::measurement::Measurement for CounterTime {
            type Intermediate = crate::pair::Start;
            type Value = Elapsed;

            #[inline]
            fn start(&self) -> crate::pair::Start {
                self.source().start()
            }

            #[inline]
            fn end(&self, start: crate::pair::Start) -> Elapsed {
                start.end()
            }

            #[inline]
            fn add(&self, one: &Elapsed, other: &Elapsed) -> Elapsed {
                *one + *other
            }

            /// criterion calls this when it begins to warm up, to measure, and to time a batch.
            fn zero(&self) -> Elapsed {
                self.make_current();
                Elapsed::default()
            }

            /// The sample in ns, less the cost of its readings; never below an attosecond.
            /// criterion calls this once for each sample, after taking it.
            fn to_f64(&self, sample: &Elapsed) -> f64 {
                self.sample_ns(sample)
            }

            /// The formatter of `WallTime`, which is for ns: ps to s, and every kind of throughput.
            /// Reports by both clocks therefore look alike, and can be compared.
            fn formatter(&self) -> &dyn $criterion::measurement::ValueFormatter {
                $criterion::measurement::Measurement::formatter(&$criterion::measurement::WallTime)
            }
        }

        impl PairId<Id<$criterion::BenchmarkId>> for $criterion::BenchmarkId {
            fn into_id(self) -> Id<$criterion::BenchmarkId> {
                Id::Id(self)
            }
        }

        impl sealed::Criterion for $criterion::Criterion<CounterTime> {
            type Id = Id<$criterion::BenchmarkId>;

            fn run(&mut self, id: Self::Id, routine: &mut dyn FnMut(u64) -> Elapsed) {
                match id {
                    Id::Name(name) => {
                        self.bench_function(&name, |bencher| bencher.iter_custom(&mut *routine))
                    }
                    Id::Id(id) => {
                        self.bench_with_input(id, &(), |bencher, ()| bencher.iter_custom(&mut *routine))
                    }
                };
            }
        }

        impl sealed::Criterion for $criterion::BenchmarkGroup<'_, CounterTime> {
            type Id = Id<$criterion::BenchmarkId>;

            fn run(&mut self, id: Self::Id, routine: &mut dyn FnMut(u64) -> Elapsed) {
                match id {
                    Id::Name(name) => self.bench_function(name, |bencher| bencher.iter_custom(&mut *routine)),
                    Id::Id(id) => self.bench_function(id, |bencher| bencher.iter_custom(&mut *routine)),
                };
            }
        }

        impl From<$criterion::BatchSize> for InputBatch {
            fn from(size: $criterion::BatchSize) -> Self {
                use $criterion::BatchSize;
                match size {
                    BatchSize::PerIteration => Self::Inputs(1),
                    BatchSize::NumIterations(inputs) => Self::Inputs(inputs),
                    BatchSize::NumBatches(batches) => Self::Batches(batches),
                    // As many batches as criterion makes for these sizes.
                    BatchSize::SmallInput => Self::Batches(10),
                    BatchSize::LargeInput => Self::Batches(1_000),
                    _ => Self::Inputs(1),
                }
            }
        }
    };
}

#[cfg(feature = "criterion-0-7")]
version!(criterion_0_7);
#[cfg(feature = "criterion-0-8")]
version!(criterion);
