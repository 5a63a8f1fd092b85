//! A library that contains tickline, and that `unload.rs` loads and unloads.
#![cfg(target_os = "linux")]

use std::hint::black_box;

use tickline::{Clock, UnixTime};

/// Uses the clock without a thread. The status asks for the token of the process.
#[unsafe(no_mangle)]
extern "C" fn read() {
    black_box((Clock::global().now_ordered(), UnixTime::now()));
    black_box(Clock::global().status());
}

/// Starts the clock's thread, and ends it.
#[unsafe(no_mangle)]
extern "C" fn start_and_stop() {
    drop(tickline::start().expect("a thread"));
}

/// Starts the clock's thread, which nothing ends.
#[unsafe(no_mangle)]
extern "C" fn start_and_forget() {
    std::mem::forget(tickline::start().expect("a thread"));
}
