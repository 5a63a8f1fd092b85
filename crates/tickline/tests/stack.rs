//! The stack that a reading needs at most: a signal handler may run on an alternate stack of a few
//! KiB. Each test runs in a process of its own.
//!
//! The handler runs on an alternate stack that was painted before. It stores the address of its own
//! frame, and calls one function, which makes one public call. The words below that frame that have
//! lost their paint are the stack of the call, including libc and the vDSO. The kernel's signal
//! frame and the handler's own are above, so they do not count.
//!
//! A signal handler may have a stack of 8 KiB (std gives threads such an alternate stack). The
//! kernel's frame takes up to 3.3 KiB of it. So a call of optimised code takes at most 4 KiB.
//! Unoptimised code promises nothing: each copy and each adapter of an iterator has a frame there.
//! The largest uses measured here, by painting an alternate stack, in bytes (x86_64, Rust 1.95):
//!
//! | call | release | debug |
//! |---|---|---|
//! | first readings, which collect the facts in steps | 2,439 | 6,175 |
//! | `maintain` that judges in one go | 2,303 | 5,727 |
//! | `reading`, with an iteration | 2,439 | 6,447 |
//!
//! To measure unoptimised code: `cargo test -p tickline --test stack -- --ignored`; it fails, and
//! prints the bytes.
#![cfg(target_os = "linux")]

mod common;

use std::hint::black_box;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{handle, run_in_child, wait_until_fast};
use tickline::{Clock, Instant, Probes, Trust, UnixTime};

/// The promise of README and crate docs, bytes.
const PROMISED_BYTES: usize = 4096;

/// The alternate stack, bytes: room for the largest signal frame, and for too large a call.
const STACK_BYTES: usize = 64 << 10;

/// The paint: eight bytes that no call leaves on a stack by chance.
const PAINT: u64 = 0xa5c3_96e1_5a3c_691e;

/// The function that the handler calls, as a number.
static CALL: AtomicUsize = AtomicUsize::new(0);

/// The address of the handler's frame.
static TOP: AtomicUsize = AtomicUsize::new(0);

/// Stores the address of its frame, and makes the call.
extern "C" fn handler(_: libc::c_int) {
    let mark = 0_u8;
    TOP.store((&raw const mark).addr(), Ordering::Relaxed);
    let call = CALL.load(Ordering::Relaxed);
    // SAFETY: `stack_bytes` has stored a function of this type.
    let call = unsafe { std::mem::transmute::<usize, fn()>(call) };
    call();
    black_box(&mark);
}

/// An alternate stack for this thread, until the process ends.
struct Painted {
    words: *mut u64,
}

const WORDS: usize = STACK_BYTES / 8;

impl Painted {
    fn new() -> Self {
        let words = vec![0_u64; WORDS].leak().as_mut_ptr();
        let stack = libc::stack_t {
            ss_sp: words.cast(),
            ss_flags: 0,
            ss_size: STACK_BYTES,
        };
        // SAFETY: the stack lives until the process ends, and has no other use.
        let result = unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) };
        assert_eq!(result, 0);
        handle(libc::SIGUSR1, handler as *const (), libc::SA_ONSTACK);
        Self { words }
    }

    /// The stack that `call` uses below its caller's frame, bytes.
    fn stack_bytes(&self, call: fn()) -> usize {
        // SAFETY: the stack has this length, and nothing runs on it now.
        let words = unsafe { std::slice::from_raw_parts_mut(self.words, WORDS) };
        words.fill(PAINT);
        CALL.store(call as usize, Ordering::Relaxed);
        // SAFETY: the signal goes to this thread, whose handler is installed.
        assert_eq!(unsafe { libc::raise(libc::SIGUSR1) }, 0);
        // SAFETY: the handler has returned. The compiler does not see its stores, so the words are
        // read through a new reference.
        let words = unsafe { std::slice::from_raw_parts(black_box(self.words), WORDS) };
        let lowest = words
            .iter()
            .position(|word| *word != PAINT)
            .expect("the handler ran");
        TOP.load(Ordering::Relaxed) - (self.words.addr() + 8 * lowest)
    }
}

/// Calls by name, and the most stack that each has used, bytes.
struct Calls(Vec<(&'static str, fn(), usize)>);

impl Calls {
    /// Makes each call in this order, `times` times.
    fn make(&mut self, stack: &Painted, times: u32) {
        for _ in 0..times {
            for (_, call, most) in &mut self.0 {
                *most = stack.stack_bytes(*call).max(*most);
            }
        }
    }
}

/// Prints what all calls have used, and checks that none has used more than the promise.
fn check<const N: usize>(groups: [(&str, &Calls); N]) {
    let mut largest = ("", 0);
    for (when, calls) in groups {
        for &(name, _, most) in &calls.0 {
            writeln!(std::io::stdout(), "{when}: {name}: {most} bytes").expect("stdout");
            if most > largest.1 {
                largest = (name, most);
            }
        }
    }
    assert!(
        (1..=PROMISED_BYTES).contains(&largest.1),
        "{largest:?}, of {PROMISED_BYTES} bytes at most"
    );
}

macro_rules! calls {
    ($($name:literal: $call:expr;)*) => {
        Calls(vec![$(($name, || { black_box($call); }, 0)),*])
    };
}

/// Every call that a handler may make, on the global clock.
fn all_calls() -> Calls {
    calls! {
        "now_ns": tickline::now_ns();
        "now_ordered_ns": tickline::now_ordered_ns();
        "unix_ns": tickline::unix_ns();
        "recent_ns": tickline::recent_ns();
        "Instant": (Instant::now().elapsed(), Instant::now_ordered(), Instant::recent());
        "UnixTime": UnixTime::now();
        "reading": Clock::global().reading();
        "unix_reading": Clock::global().unix_reading();
        "maintain": Clock::global().maintain();
        "disable": Clock::global().disable();
        "reading, disabled": Clock::global().reading();
        "maintain, disabled": Clock::global().maintain();
        "enable": Clock::global().enable();
    }
}

/// The first reading of the process, and further ones until a line serves: they collect the facts,
/// one step a call, and run the first iterations. Then every call, many times.
#[test]
#[cfg_attr(debug_assertions, ignore = "unoptimised code promises nothing")]
fn readings_need_little_stack() {
    run_in_child(&[], || {
        let stack = Painted::new();
        let mut first = calls! { "now_ns": tickline::now_ns(); };
        first.make(&stack, 300);
        let mut second = calls! { "reading": Clock::global().reading(); };
        second.make(&stack, 300);
        assert!(Clock::global().status().is_judged);
        let mut all = all_calls();
        all.make(&stack, 300);
        println!(
            "state: {}, {:?}",
            Clock::global().status().state,
            Clock::global().status().events
        );
        check([("at first", &first), ("then", &second), ("any time", &all)]);
    });
}

/// `maintain` is the first call, and judges the gates in one go; also with minimal probes, and if
/// the verdict needs a comparison, which a thread makes.
#[test]
#[cfg_attr(debug_assertions, ignore = "unoptimised code promises nothing")]
fn maintaining_needs_little_stack() {
    for name in ["full", "minimal"] {
        run_in_child(&[("TICKLINE_TEST_PROBES", name)], || {
            let is_minimal =
                std::env::var("TICKLINE_TEST_PROBES").is_ok_and(|name| name == "minimal");
            let probes = if is_minimal {
                Probes::Minimal
            } else {
                Probes::Full
            };
            let stack = Painted::new();
            let mut first = calls! { "maintain": Clock::global().maintain(); };
            first.make(&stack, 1);
            let guard = Clock::builder()
                .probes(probes)
                .trust(Trust::Measured)
                .start_global()
                .unwrap();
            if probes == Probes::Full {
                wait_until_fast(Clock::global());
            }
            drop(guard);
            let mut all = all_calls();
            all.make(&stack, 300);
            println!(
                "state: {}, {:?}",
                Clock::global().status().state,
                Clock::global().status().events
            );
            check([("alone", &first), ("after a thread", &all)]);
        });
    }
}
