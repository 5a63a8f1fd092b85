//! What is measured of a clock: a call, inlined into the loops that time it.

use std::time::Duration;

use serde::Serialize;
use tickline_core::counter::HardwareCounter;

use crate::handover::Count;

/// What a call is for; clocks are compared with their like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// An instruction without a clock around it.
    Counter,
    /// The time in ns, or what the clock's users compare and subtract as such.
    Time,
    /// Ticks, to be converted later.
    Ticks,
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
    /// So many calls, as fast as they go.
    pub tight: fn(u32),
    /// So many calls, each complete before the next begins.
    pub awaited: fn(u32),
    /// A reading in ns, since a zero of the clock's own. The first call may set the clock up.
    pub now_ns: Option<fn() -> u64>,
    /// Hands readings over between threads for so long.
    pub hand_over: Option<HandOver>,
}

/// Handovers of one clock.
#[derive(Debug, Clone, Copy)]
pub struct HandOver {
    /// Hands over for so long.
    pub run: fn(Duration) -> Count,
    /// The unit of the readings.
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

/// A call, inlined into what measures it: its cost alone, or also as `ns` or `ticks` that can be compared.
macro_rules! subject {
    ($group:ident, $name:expr, $call:expr) => {
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
            now_ns: None,
            hand_over: None,
        }
    };
    ($group:ident, $name:expr, $call:expr, ticks $value:expr) => {
        $crate::subject::Subject {
            hand_over: Some($crate::subject::HandOver {
                run: |time| {
                    let (value, call) = ($value, $call);
                    $crate::handover::between(time, || value(call()))
                },
                unit: "ticks",
            }),
            ..$crate::subject::subject!($group, $name, $call)
        }
    };
    ($group:ident, $name:expr, $call:expr, ns $value:expr) => {
        $crate::subject::Subject {
            now_ns: Some(|| {
                let (value, call) = ($value, $call);
                value(call())
            }),
            hand_over: Some($crate::subject::HandOver {
                run: |time| {
                    let (value, call) = ($value, $call);
                    $crate::handover::between(time, || value(call()))
                },
                unit: "ns",
            }),
            ..$crate::subject::subject!($group, $name, $call)
        }
    };
}
pub(crate) use subject;

/// What is a number already.
pub(crate) fn same(value: u64) -> u64 {
    value
}
