//! What a call costs in this guest, and how many times more the OS clock takes.

use std::hint::black_box;
use std::time::SystemTime;

use serde_json::{Value, json};
use tickline::Clock;
use tickline_core::counter::{Counter, HardwareCounter};

use crate::system::{monotonic_ns, realtime_ns};

/// Calls in a batch: some 0.1 to 1 ms, so that a batch without an interrupt is common.
const CALLS: u32 = 1_000;

/// Batches; the fastest counts. Those of all calls are interleaved, so that all meet the same
/// disturbances.
const BATCHES: u32 = 100;

/// So many different calls.
const CALLED: usize = 8;

/// ps a call of everything, and the ratios that matter, in percent.
pub(crate) fn measure(clock: &Clock) -> Value {
    let counter = HardwareCounter::if_present();
    let calls: [(&str, &dyn Fn() -> u64); CALLED] = [
        ("now_ns", &|| batch_ns(|| clock.now_ns())),
        ("now_ordered_ns", &|| batch_ns(|| clock.now_ordered_ns())),
        ("unix_ns", &|| batch_ns(|| clock.unix_ns())),
        ("reading", &|| batch_ns(|| clock.reading())),
        ("clock_gettime_monotonic", &|| batch_ns(monotonic_ns)),
        ("clock_gettime_realtime", &|| batch_ns(realtime_ns)),
        ("system_time", &|| batch_ns(SystemTime::now)),
        ("bare_counter", &|| batch_ns(|| counter.map(|counter| counter.now()))),
    ];
    let mut fastest_ns = [u64::MAX; CALLED];
    for _ in 0..BATCHES {
        for ((_, batch), fastest_ns) in calls.iter().zip(&mut fastest_ns) {
            *fastest_ns = (*fastest_ns).min(batch());
        }
    }
    let ps: serde_json::Map<String, Value> = calls
        .iter()
        .zip(fastest_ns)
        .map(|((name, _), ns)| ((*name).to_owned(), (ns * 1_000 / u64::from(CALLS)).into()))
        .collect();
    let [now, ordered, unix, _, monotonic, realtime, system, ..] = fastest_ns;
    let percent = |os: u64, ours: u64| os * 100 / ours.max(1);
    json!({
        "ps_a_call": ps,
        "os_to_now_percent": percent(monotonic, now),
        "os_to_now_ordered_percent": percent(monotonic, ordered),
        "os_to_unix_percent": percent(realtime, unix),
        "system_time_to_unix_percent": percent(system, unix),
    })
}

fn batch_ns<T>(call: impl Fn() -> T) -> u64 {
    let start_ns = monotonic_ns();
    for _ in 0..CALLS {
        black_box(call());
    }
    monotonic_ns() - start_ns
}
