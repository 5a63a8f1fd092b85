//! criterion's traits for [`CounterTime`], and what [`BenchPairs`](crate::BenchPairs) needs of
//! criterion.

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BenchmarkGroup, Criterion};

use crate::calibration::Scale;
use crate::elapsed::Elapsed;
use crate::pair::Start;
use crate::pairs::{Id, PairId, sealed};
use crate::time::{CounterTime, count_sample, least_ns};

impl Measurement for CounterTime {
    type Intermediate = Start;
    type Value = Elapsed;

    #[inline]
    fn start(&self) -> Start {
        self.source().start()
    }

    #[inline]
    fn end(&self, start: Start) -> Elapsed {
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

    /// The sample in ns, less the cost of its readings; never below an attosecond. criterion calls
    /// this once for each sample, after taking it.
    fn to_f64(&self, sample: &Elapsed) -> f64 {
        count_sample();
        least_ns(match self.session() {
            Some(session) => session.to_ns(sample),
            None => sample.to_ns(&Scale::WALL),
        })
    }

    /// The formatter of `WallTime`, which is for ns: ps to s, and every kind of throughput. Reports
    /// by both clocks therefore look alike, and can be compared.
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

impl sealed::Criterion for Criterion<CounterTime> {
    fn run(&mut self, id: PairId, routine: &mut dyn FnMut(u64) -> Elapsed) {
        match id.0 {
            Id::Text(name) => self.bench_function(&name, |bencher| bencher.iter_custom(&mut *routine)),
            Id::Criterion(id) => {
                self.bench_with_input(id, &(), |bencher, ()| bencher.iter_custom(&mut *routine))
            }
        };
    }
}

impl sealed::Criterion for BenchmarkGroup<'_, CounterTime> {
    fn run(&mut self, id: PairId, routine: &mut dyn FnMut(u64) -> Elapsed) {
        match id.0 {
            Id::Text(name) => self.bench_function(name, |bencher| bencher.iter_custom(&mut *routine)),
            Id::Criterion(id) => self.bench_function(id, |bencher| bencher.iter_custom(&mut *routine)),
        };
    }
}
