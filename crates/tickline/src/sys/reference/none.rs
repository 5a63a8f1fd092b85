//! Systems without any clock, such as `wasm32-unknown-unknown`, where those of `std` panic. A
//! reading never panics, so it is 0, and the state is [`Unavailable`](crate::State::Unavailable).

use tickline_core::sample::Reference;

/// Always 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OsClock;

impl Reference for OsClock {
    fn monotonic_ns(&self) -> i64 {
        0
    }

    fn realtime_ns(&self) -> i64 {
        0
    }
}
