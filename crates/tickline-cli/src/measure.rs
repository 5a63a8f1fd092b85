//! What is measured, and nothing about what it means.

pub(crate) mod calls;
pub(crate) mod changes;
pub(crate) mod costs;
pub(crate) mod latency;
pub(crate) mod resolution;
pub(crate) mod served_by;
pub(crate) mod track;
pub(crate) mod warp;
pub(crate) mod watch;

use std::thread;
use std::time::Duration;

use tickline::{Clock, Instant, Status};

/// The global clock's status as soon as it is so, or when the time is over. By tickline's clock:
/// std's is a SIGSEGV in the vDSO where the process may not read the counter.
pub(crate) fn status_when(is_so: impl Fn(&Status) -> bool, patience: Duration) -> Status {
    let start = Instant::now();
    loop {
        let status = Clock::global().status();
        if is_so(&status) || start.elapsed() > patience {
            return status;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// The narrowest of some brackets: what `inner` gives between two reads of `outer`. An interruption
/// widens a bracket.
pub(crate) fn narrowest<T>(brackets: u32, outer: impl Fn() -> u64, inner: impl Fn() -> T) -> (u64, T, u64) {
    let bracket = || (outer(), inner(), outer());
    let width = |(before, _, after): &(u64, T, u64)| after.wrapping_sub(*before);
    let narrower = |a, b| if width(&b) < width(&a) { b } else { a };
    (1..brackets).map(|_| bracket()).fold(bracket(), narrower)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are a hundred days in ns, and more than any frequency in Hz"
)]
pub(crate) const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[expect(clippy::cast_precision_loss, reason = "as above")]
pub(crate) const fn signed_f64(value: i64) -> f64 {
    value as f64
}
