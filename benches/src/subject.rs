//! A clock that is compared, as a closure that is inlined into the loop that measures it.

use std::time::Duration;

use serde::Serialize;
use tickline_core::counter::HardwareCounter;
use tickline_observe::Count;

/// What a call is for; clocks are compared with their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// An instruction without a clock around it.
    Counter,
    /// The time in ns, or what the clock's users compare and subtract as such.
    Time,
    /// A time that may be milliseconds old.
    Coarse,
    /// No public call.
    Internal,
}

/// A clock, and what is done with it. The second loop waits for each result.
#[derive(Debug, Clone, Copy)]
pub struct Subject {
    /// What is called.
    pub name: &'static str,
    /// What it is compared with.
    pub group: Group,
    /// This many calls, as fast as they go.
    pub tight: fn(u32),
    /// This many calls, each complete before the next begins.
    pub awaited: fn(u32),
    /// A reading in that unit, since a zero of the clock's own. The first call may set the clock
    /// up.
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
/// If there is none: nothing here can be compared then.
#[must_use]
pub fn counter() -> HardwareCounter {
    HardwareCounter::if_present().expect("this target has no counter")
}

/// A call that is inlined into the loop that measures it, and what makes a number in `unit` of its
/// result.
macro_rules! subject {
    ($group:ident, $name:expr, $call:expr, $unit:ident $value:expr) => {
        $crate::subject::Subject {
            name: $name,
            group: $crate::subject::Group::$group,
            tight: |calls| {
                let call = $call;
                for _ in 0..calls {
                    ::std::hint::black_box(call());
                }
            },
            awaited: |calls| {
                let (call, counter) = ($call, $crate::subject::counter());
                for _ in 0..calls {
                    ::std::hint::black_box(call());
                    ::tickline_core::counter::Counter::barrier(&counter);
                }
            },
            read: || {
                let (value, call) = ($value, $call);
                value(call())
            },
            exchange: |time| {
                let (value, call) = ($value, $call);
                $crate::exchange::between(time, || value(call()))
            },
            unit: stringify!($unit),
        }
    };
}
pub(crate) use subject;

/// What is a number already.
pub(crate) fn same(value: u64) -> u64 {
    value
}

/// A first reading, made once, of a clock whose instants show no zero.
macro_rules! epoch {
    ($kind:ty, $now:expr) => {{
        static EPOCH: ::std::sync::OnceLock<$kind> = ::std::sync::OnceLock::new();
        EPOCH.get_or_init(|| $now)
    }};
}
pub(crate) use epoch;

/// The whole duration in ns: 584 years fit.
pub(crate) fn whole_ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
