//! Two clocks in one `Criterion`.
//!
//! If each clock had its own `Criterion`, both would write the page of a group to the same place,
//! and only the last clock's benchmarks would be there. Here the benchmarks of both clocks are in
//! one group, and criterion draws them in one plot.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use tickline_criterion::{CounterTime, Elapsed, Start};

/// One of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    WallTime,
    CounterTime,
}

impl Which {
    pub(crate) const BOTH: [Self; 2] = [Self::WallTime, Self::CounterTime];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::WallTime => "WallTime",
            Self::CounterTime => "CounterTime",
        }
    }
}

/// Measures by the clock that was chosen last, through this value or a clone. The choice adds a
/// branch to both readings, which is negligible. A program that needs one clock uses that clock
/// alone.
#[derive(Debug, Clone)]
pub(crate) struct Clocks {
    tsc: CounterTime,
    chosen: Rc<Cell<Which>>,
}

impl Clocks {
    pub(crate) fn new(tsc: CounterTime) -> Self {
        Self { tsc, chosen: Rc::new(Cell::new(Which::WallTime)) }
    }

    /// Chooses the clock for all later measurements. Returns its name.
    pub(crate) fn choose(&self, which: Which) -> &'static str {
        self.chosen.set(which);
        which.name()
    }
}

/// A reading of the clock that is chosen.
pub(crate) enum Begun {
    Wall(Instant),
    Tsc(Start),
}

impl Measurement for Clocks {
    type Intermediate = Begun;
    /// The times by `WallTime` and by `CounterTime`. The clock that is not chosen has measured
    /// nothing.
    type Value = (Duration, Elapsed);

    #[inline]
    fn start(&self) -> Begun {
        match self.chosen.get() {
            Which::WallTime => Begun::Wall(WallTime.start()),
            Which::CounterTime => Begun::Tsc(self.tsc.start()),
        }
    }

    #[inline]
    fn end(&self, begun: Begun) -> Self::Value {
        match begun {
            Begun::Wall(start) => (WallTime.end(start), self.tsc.zero()),
            Begun::Tsc(start) => (WallTime.zero(), self.tsc.end(start)),
        }
    }

    #[inline]
    fn add(&self, one: &Self::Value, other: &Self::Value) -> Self::Value {
        (WallTime.add(&one.0, &other.0), self.tsc.add(&one.1, &other.1))
    }

    #[inline]
    fn zero(&self) -> Self::Value {
        (WallTime.zero(), self.tsc.zero())
    }

    fn to_f64(&self, value: &Self::Value) -> f64 {
        match self.chosen.get() {
            Which::WallTime => WallTime.to_f64(&value.0),
            Which::CounterTime => self.tsc.to_f64(&value.1),
        }
    }

    /// Both clocks measure ns, and share one formatter.
    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}
