//! A compared clock: a closure, inlined into the loops that measure it.

use std::time::Duration;

use serde::Serialize;
use tickline_core::counter::HardwareCounter;
use tickline_observe::Count;

/// The purpose of a call. Clocks are compared within their group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// A bare instruction.
    Counter,
    /// The time in ns, or a value that users of the clock compare and subtract like a time.
    Time,
    /// A time that may be milliseconds old.
    Coarse,
}

/// A clock, with the loops that measure it.
#[derive(Debug, Clone, Copy)]
pub struct ClockSubject {
    /// The name of the call.
    pub name: &'static str,
    /// The group of the call.
    pub group: Group,
    /// Makes this many calls in a tight loop.
    pub tight: fn(u32),
    /// Makes this many calls, each complete before the next begins.
    pub awaited: fn(u32),
    /// A reading in `unit`, from the clock's own zero. The first call may set up the clock.
    pub read: fn() -> u64,
    /// Exchanges readings between threads for this time.
    pub exchange: fn(Duration) -> Count,
    /// The unit of these readings: ns or ticks.
    pub unit: &'static str,
}

/// The counter of this machine.
///
/// # Panics
///
/// If the machine has none. The programs can then compare nothing.
#[must_use]
pub fn counter() -> HardwareCounter {
    HardwareCounter::if_present().expect("this target has no counter")
}

/// Makes a [`ClockSubject`] from a call, which is inlined into the measuring loops, and from a
/// conversion of its result into a number in `unit`.
macro_rules! subject {
    ($group:ident, $name:expr, $call:expr, $unit:ident $value:expr) => {
        $crate::subject::ClockSubject {
            name: $name,
            group: $crate::subject::Group::$group,
            tight: |calls| {
                let call = $call;
                for _ in 0..calls {
                    ::std::hint::black_box(call());
                }
            },
            awaited: |calls| {
                let call = $call;
                let counter = $crate::subject::counter();
                for _ in 0..calls {
                    ::std::hint::black_box(call());
                    ::tickline_core::counter::Counter::barrier(&counter);
                }
            },
            read: || {
                let value = $value;
                let call = $call;
                value(call())
            },
            exchange: |time| {
                let value = $value;
                let call = $call;
                $crate::exchange::exchange(time, |_| value(call()))
            },
            unit: stringify!($unit),
        }
    };
}
pub(crate) use subject;

/// The conversion of a result that is already a number.
pub(crate) fn same(value: u64) -> u64 {
    value
}

/// A value that is made once, at the first use: a clock, or a zero for instants without one.
macro_rules! once {
    ($kind:ty, $now:expr) => {{
        static VALUE: ::std::sync::OnceLock<$kind> = ::std::sync::OnceLock::new();
        VALUE.get_or_init(|| $now)
    }};
}
pub(crate) use once;

/// The whole duration in ns: 584 years fit.
pub(crate) fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
