//! A process that may not read the counter. It has a program of its own: a process chooses its way
//! to the OS clock at its first reading, and no other test may have read it before.
#![cfg(all(target_os = "linux", not(miri)))]

use std::time::Duration;

use tickline::{Clock, Driver};
use tickline_observe::{fork, skip};
use tickline_utc::{Utc, UtcUnknown};

/// Whether the kernel says what it knows of its clock: a filter may forbid the question.
fn may_ask_the_kernel() -> bool {
    let mut timex = core::mem::MaybeUninit::<libc::timex>::zeroed();
    // SAFETY: `timex` is valid for reads and writes; with `modes` 0 nothing is changed.
    unsafe { libc::adjtimex(timex.as_mut_ptr()) >= 0 }
}

/// Symptom: std's clock, by which the thread waited for chronyd's answer, ended the process by
/// SIGSEGV.
#[test]
fn a_process_without_the_right_to_the_counter_may_ask() {
    let code = fork::code_of_fork(|| {
        // SAFETY: the call takes numbers. From here on no code may ask std or libc for the time.
        if unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) } != 0 {
            return fork::CANNOT;
        }
        let clock = Clock::builder().driver(Driver::Manual).build();
        let clock = clock.expect("a clock without a thread");
        let utc = Utc::start(&clock).expect("a thread");
        // The kernel answers everywhere, unless a filter forbids the question.
        let has_answered = (0..2_000).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            utc.now() != Err(UtcUnknown::NoSource)
        });
        if has_answered {
            0
        } else if may_ask_the_kernel() {
            1
        } else {
            fork::CANNOT
        }
    });
    match code {
        fork::CANNOT => skip("the counter cannot be denied, or no source answers"),
        code => assert_eq!(code, 0, "of the child"),
    }
}
