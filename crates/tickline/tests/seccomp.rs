//! Clocks under seccomp filters that kill. The lists are those of `PLATFORM.md`, "System calls".
#![cfg(target_os = "linux")]

mod common;

use std::hint::black_box;
use std::time::Duration;

use common::fork::{CANNOT, status_of_fork};
use common::{in_child, skip, skipped_in_an_emulator, until_fast};
use tickline::{Clock, Driver, Event, Probes, Reason, State};

/// What tickline calls itself with minimal probes, where libc has to ask the kernel for the time,
/// and there was no clock with full probes before.
const MINIMAL: &[libc::c_long] = &[libc::SYS_clock_gettime, libc::SYS_getpid];

/// What the thread driver calls besides, once it runs.
const PARKING: &[libc::c_long] = &[libc::SYS_futex];

/// What std and libc call to make and to end a thread; for `madvise`, also its advice is checked.
const THREADS: &[libc::c_long] = &[
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_brk,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigaction,
    libc::SYS_sigaltstack,
    libc::SYS_set_robust_list,
    RSEQ,
    libc::SYS_sched_getaffinity,
    libc::SYS_gettid,
    libc::SYS_exit,
];

/// What the tests call: to sleep, to allocate, and to end.
const TEST: &[libc::c_long] = &[
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_brk,
    libc::SYS_exit_group,
];

/// `rseq`, which not every libc's crate names: `arch/x86/entry/syscalls/syscall_64.tbl` of the
/// kernel, and `include/uapi/asm-generic/unistd.h` for newer architectures.
const RSEQ: libc::c_long = if cfg!(target_arch = "x86_64") { 334 } else { 293 };

/// `MADV_DONTNEED`, and the guard pages of newer kernels
/// (`include/uapi/asm-generic/mman-common.h`): what libc does with a thread's stack. Not
/// `MADV_WIPEONFORK`.
const STACK_ADVICE: [u32; 3] = [4, 102, 103];

/// Offsets in `struct seccomp_data` (seccomp(2)), of the low half on little-endian machines.
const NUMBER: u32 = 0;
const THIRD_ARGUMENT: u32 = 32;

fn statement(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: u16::try_from(code).expect("a BPF code"), jt: 0, jf: 0, k }
}

/// Kills the process at every system call that is not in `lists`, from now on, in all its threads.
/// Returns whether this machine has such filters.
fn allow_only(lists: &[&[libc::c_long]]) -> bool {
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let unless_equal = |number: u32| {
        let jump = statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, number);
        libc::sock_filter { jf: 1, ..jump }
    };
    let allow = statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW);
    let mut program = vec![load(NUMBER)];
    for number in lists.iter().copied().flatten() {
        program.extend([unless_equal(u32::try_from(*number).expect("a number")), allow]);
    }
    if lists.contains(&THREADS) {
        // Any other call goes past all of this.
        let advice = STACK_ADVICE.iter().flat_map(|advice| [unless_equal(*advice), allow]);
        let advice: Vec<_> = [load(THIRD_ARGUMENT)].into_iter().chain(advice).collect();
        let madvise = u32::try_from(libc::SYS_madvise).expect("a number");
        let past = u8::try_from(advice.len()).expect("a short program");
        program.push(libc::sock_filter { jf: past, ..unless_equal(madvise) });
        program.extend(advice);
    }
    program.push(statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_KILL_PROCESS));
    let filter = libc::sock_fprog {
        len: u16::try_from(program.len()).expect("a short program"),
        filter: program.as_mut_ptr(),
    };
    // SAFETY: passes numbers: gives up the right to gain privileges, which filters demand.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return false;
    }
    let installed =
        // SAFETY: the filter and its program are valid for the call, which copies them.
        unsafe {
            libc::syscall(
                libc::SYS_seccomp,
                libc::SECCOMP_SET_MODE_FILTER,
                libc::SECCOMP_FILTER_FLAG_TSYNC,
                &raw const filter,
            )
        };
    // Freeing it may be a system call.
    std::mem::forget(program);
    installed == 0
}

/// Runs `body` in a forked child of a fresh process. Returns the signal that killed it, if one
/// did; `None`, with a message, if this machine cannot do it.
fn under_a_filter(body: impl FnOnce() -> i32) -> Option<Option<i32>> {
    if cfg!(target_pointer_width = "32") {
        skip("32-bit system calls have other names");
        return None;
    }
    if skipped_in_an_emulator() {
        return None;
    }
    let status = status_of_fork(body);
    if libc::WIFSIGNALED(status) {
        return Some(Some(libc::WTERMSIG(status)));
    }
    match libc::WEXITSTATUS(status) {
        0 => Some(None),
        CANNOT => {
            skip("this machine has no seccomp filters");
            None
        }
        fault => panic!("the child found fault {fault}"),
    }
}

/// Everything that can be asked of a clock. Returns whether it was right.
fn use_up(clock: &Clock) -> bool {
    let mut last = 0;
    for _ in 0..5_000 {
        let now = clock.now_ordered_ns();
        if now < last {
            return false;
        }
        last = now;
        black_box((clock.now_ns(), clock.unix_ns(), clock.recent_ns()));
        black_box((clock.reading(), clock.unix_reading()));
    }
    clock.maintain();
    clock.disable();
    clock.enable();
    clock.maintain();
    black_box(clock.now_ns());
    clock.status().utc_error_ns.is_none()
}

/// On targets without a counter that reason comes first.
fn is_honest(state: State) -> bool {
    matches!(state, State::Fallback(Reason::KernelUnknown | Reason::Untested | Reason::NoCounter))
}

fn expect(outcome: Option<Option<i32>>, killed: Option<i32>) {
    if let Some(outcome) = outcome {
        assert_eq!(outcome, killed, "the signal that killed the child");
    }
}

#[test]
fn minimal_probes_live_under_a_filter_that_kills() {
    in_child("minimal_probes_live_under_a_filter_that_kills", &[], || {
        for driver in [Driver::Thread, Driver::Reader, Driver::Manual] {
            let outcome = under_a_filter(|| {
                let thread: &[_] = if driver == Driver::Thread { THREADS } else { &[] };
                if !allow_only(&[MINIMAL, PARKING, thread, TEST]) {
                    return CANNOT;
                }
                let settings = Clock::builder().probes(Probes::Minimal).driver(driver);
                let Ok(clock) = settings.interval(Duration::from_millis(2)).start() else { return 1 };
                if !use_up(&clock) {
                    return 2;
                }
                std::thread::sleep(Duration::from_millis(20));
                let status = clock.status();
                drop(clock);
                if is_honest(status.state) && status.driver == driver { 0 } else { 3 }
            });
            expect(outcome, None);
        }
    });
}

/// The reader and the manual driver need the two calls alone: neither memory nor a futex.
#[test]
fn without_a_thread_the_list_is_two_calls() {
    in_child("without_a_thread_the_list_is_two_calls", &[], || {
        let outcome = under_a_filter(|| {
            let settings = Clock::builder().probes(Probes::Minimal).driver(Driver::Reader);
            let Ok(clock) = settings.start() else { return 1 };
            if !allow_only(&[MINIMAL, &[libc::SYS_exit_group]]) {
                return CANNOT;
            }
            if use_up(&clock) { 0 } else { 2 }
        });
        expect(outcome, None);
    });
}

/// The control: the filter kills the same program with full probes.
#[test]
fn full_probes_are_killed_by_the_same_filter() {
    in_child("full_probes_are_killed_by_the_same_filter", &[], || {
        for driver in [Driver::Thread, Driver::Reader, Driver::Manual] {
            let outcome = under_a_filter(|| {
                if !allow_only(&[MINIMAL, PARKING, THREADS, TEST]) {
                    return CANNOT;
                }
                let Ok(clock) = Clock::builder().driver(driver).start() else { return 1 };
                use_up(&clock);
                drop(clock);
                0
            });
            expect(outcome, Some(libc::SIGSYS));
        }
    });
}

/// Waits until the thread has stored the time once, and so is past everything that std does to
/// start it.
fn await_the_thread(clock: &Clock) {
    let first = clock.recent_ns();
    while clock.recent_ns() == first {
        std::thread::yield_now();
    }
}

/// A clock that was started before the filter, and ends under it.
#[test]
fn a_thread_from_before_the_filter_goes_on_and_ends() {
    in_child("a_thread_from_before_the_filter_goes_on_and_ends", &[], || {
        let outcome = under_a_filter(|| {
            let settings = Clock::builder().probes(Probes::Minimal).interval(Duration::from_millis(2));
            let Ok(clock) = settings.start() else { return 1 };
            await_the_thread(&clock);
            // Ending the thread takes the calls that every thread takes.
            let end = [libc::SYS_munmap, libc::SYS_rt_sigprocmask, libc::SYS_sigaltstack, libc::SYS_exit];
            if !allow_only(&[MINIMAL, PARKING, &end, &[libc::SYS_madvise], TEST]) {
                return CANNOT;
            }
            let before = clock.recent_ns();
            std::thread::sleep(Duration::from_millis(50));
            if clock.recent_ns() == before {
                return 2; // the thread is not there
            }
            drop(clock);
            0
        });
        expect(outcome, None);
    });
}

/// A clock that calibrates with full probes, and is restricted after that: its verdicts stay, and
/// it recalibrates under the filter.
#[test]
fn the_global_clock_may_be_calibrated_before_the_filter() {
    in_child("the_global_clock_may_be_calibrated_before_the_filter", &[], || {
        let outcome = under_a_filter(|| {
            let fast = until_fast(Clock::global()).is_some();
            let interval = Duration::from_millis(2);
            let Ok(guard) = Clock::builder().probes(Probes::Minimal).interval(interval).start_global() else {
                return 1;
            };
            await_the_thread(Clock::global());
            let end = [libc::SYS_munmap, libc::SYS_rt_sigprocmask, libc::SYS_sigaltstack, libc::SYS_exit];
            if !allow_only(&[&MINIMAL[..1], PARKING, &end, &[libc::SYS_madvise], TEST]) {
                return CANNOT;
            }
            let clock = Clock::global();
            let publications = || clock.status().events.get(Event::Publication);
            let before = publications();
            let mut last = 0;
            for _ in 0..100 {
                std::thread::sleep(Duration::from_millis(2));
                let now = clock.now_ordered_ns();
                if now < last {
                    return 2;
                }
                last = now;
            }
            if fast && publications() <= before {
                return 3;
            }
            drop(guard);
            // The restriction is for good, so readers survive as well.
            for _ in 0..100_000 {
                black_box(tickline::now_ns());
            }
            i32::from(clock.status().driver != Driver::Reader) * 4
        });
        expect(outcome, None);
    });
}
