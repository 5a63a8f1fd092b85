//! Chains of multiplications whose time is known.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Twice what it is told, so often.
macro_rules! doubled {
    ($step:stmt;) => { $step };
    ($step:stmt; $_one:tt $($rest:tt)*) => {
        doubled!($step; $($rest)*);
        doubled!($step; $($rest)*);
    };
}

/// So many multiplications, below 4,096, each of which needs the one before. Squares, because a
/// product with a constant would be folded; in straight lines of each power of two, because the
/// end of a loop may be guessed wrong, which takes 5 ns.
#[inline(never)]
pub(crate) fn chain(mut value: u64, count: u32) -> u64 {
    macro_rules! bit {
        ($bit:literal, $($doublings:tt)*) => {
            if count & (1 << $bit) != 0 {
                doubled!(value = value.wrapping_mul(value); $($doublings)*);
            }
        };
    }
    bit!(0,);
    bit!(1, x);
    bit!(2, x x);
    bit!(3, x x x);
    bit!(4, x x x x);
    bit!(5, x x x x x);
    bit!(6, x x x x x x);
    bit!(7, x x x x x x x);
    bit!(8, x x x x x x x x);
    bit!(9, x x x x x x x x x);
    bit!(10, x x x x x x x x x x);
    bit!(11, x x x x x x x x x x x);
    value
}

/// What [`chain`] takes, ns, where each call needs the one before, so that the processor is never
/// idle: by a run of some 30 us.
pub(crate) fn truth_ns(count: u32) -> f64 {
    let calls = 40_000 / (count + 20);
    let start = Instant::now();
    let value = (0..calls).fold(black_box(3), |value, _| chain(value, black_box(count)));
    black_box(value);
    start.elapsed().as_secs_f64() * 1e9 / f64::from(calls)
}

/// How many multiplications [`chain`] needs to take `delay_ns`, its call included.
pub(crate) fn multiplications(delay_ns: f64) -> u32 {
    let during = Duration::from_millis(100);
    let call_ns = long(during, || truth_ns(0));
    let multiplication_ns = (long(during, || truth_ns(1_000)) - call_ns) / 1_000.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some fifty")]
    let count = ((delay_ns - call_ns) / multiplication_ns).round() as u32;
    count
}

/// A chain of so many multiplications, and 4 cycles more, `MORE` times. Each call needs the one
/// before, so that calls do not overlap.
pub(crate) fn each<const MORE: u32>(count: u32) -> impl FnMut() -> u64 {
    let mut value = 3;
    move || {
        value = chain(value, black_box(count));
        for _ in 0..MORE {
            value = value.wrapping_mul(value).rotate_left(7); // 3 cycles and 1
        }
        value
    }
}

/// What a call of `routine` takes, ns: by a run of some 50 us.
pub(crate) fn run_ns(mut routine: impl FnMut() -> u64) -> f64 {
    const CALLS: u32 = 1_000;
    let start = Instant::now();
    for _ in 0..CALLS {
        black_box(routine());
    }
    start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}

/// The median of many of them.
pub(crate) fn long(during: Duration, truth_ns: impl Fn() -> f64) -> f64 {
    let begin = Instant::now();
    let mut runs_ns = vec![truth_ns()];
    while begin.elapsed() < during {
        runs_ns.push(truth_ns());
    }
    median(&mut runs_ns)
}

pub(crate) fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}
