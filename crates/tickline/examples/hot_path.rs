//! The hot paths as separate functions, for the test of the machine code (`tests/disassembly.rs`),
//! and for `objdump -d --no-show-raw-insn target/release/examples/hot_path`.
//!
//! Its output has: "now_ns", "now_ordered_ns", "unix_ns", "reading".
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

/// `tickline::now_ns`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn tickline_hot_now_ns() -> u64 {
    tickline::now_ns()
}

/// `tickline::now_ordered_ns`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn tickline_hot_now_ordered_ns() -> u64 {
    tickline::now_ordered_ns()
}

/// `tickline::unix_ns`.
#[unsafe(no_mangle)]
#[inline(never)]
pub extern "C" fn tickline_hot_unix_ns() -> u64 {
    tickline::unix_ns()
}

/// `Clock::reading`.
#[unsafe(no_mangle)]
#[inline(never)]
pub fn tickline_hot_reading() -> tickline::Reading<tickline::Instant> {
    tickline::Clock::global().reading()
}

fn main() {
    println!("now_ns {}", tickline_hot_now_ns());
    println!("now_ordered_ns {}", tickline_hot_now_ordered_ns());
    println!("unix_ns {}", tickline_hot_unix_ns());
    println!("reading {:?}", tickline_hot_reading());
}
