//! A counter that is denied (`PR_SET_TSC`) after a clock was calibrated.
//!
//! The vDSO reads the counter as well, so a signal handler stands in for the counter. The handler
//! counts who has executed the instruction, returns a number in place of the counter, and continues
//! after the instruction.

use std::hint::black_box;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tickline::{Clock, ClockState, Driver, Instant, Probes, UnixTime};

use crate::common::{handle, skip, wait_until_fast};

// Tests: the functions of these names.
in_processes! { run_in_child: nobody_reads_the_counter_after_disable_with_minimal_probes }

/// The address of the vDSO, and its greatest length, bytes.
static VDSO: AtomicUsize = AtomicUsize::new(0);
const VDSO_BYTES: usize = 4 << 12;

/// The number in place of the counter, ticks.
static TICKS: AtomicU64 = AtomicU64::new(0);

/// The number of reads of the counter by the vDSO, and by other code.
static BY_VDSO: AtomicU32 = AtomicU32::new(0);
static BY_OTHERS: AtomicU32 = AtomicU32::new(0);

extern "C" fn stand_in(_: libc::c_int, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: the kernel passes the context of what was interrupted.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let index = |register: libc::c_int| usize::try_from(register).unwrap_or(0);
    let at = usize::try_from(registers[index(libc::REG_RIP)]).unwrap_or(0);
    // SAFETY: an instruction of at least two bytes is there.
    let code = unsafe { (at as *const [u8; 2]).read_unaligned() };
    let bytes = match code {
        [0x0f, 0x31] => 2, // rdtsc
        [0x0f, 0x01] => 3, // rdtscp
        // SAFETY: ends the process: this was another fault.
        _ => unsafe { libc::_exit(99) },
    };
    let is_vdso = at.wrapping_sub(VDSO.load(Ordering::Relaxed)) < VDSO_BYTES;
    if is_vdso { &BY_VDSO } else { &BY_OTHERS }.fetch_add(1, Ordering::Relaxed);
    let ticks = TICKS.fetch_add(1_000, Ordering::Relaxed);
    let half = |ticks: u64| i64::try_from(ticks & 0xffff_ffff).unwrap_or(0);
    registers[index(libc::REG_RAX)] = half(ticks);
    registers[index(libc::REG_RDX)] = half(ticks >> 32);
    registers[index(libc::REG_RIP)] += bytes;
}

/// Sets the TSC mode of this thread, which the threads that it starts inherit. Returns whether the
/// kernel did so.
fn set_tsc_mode(mode: libc::c_int) -> bool {
    // SAFETY: the call takes a number.
    unsafe { libc::prctl(libc::PR_SET_TSC, mode) == 0 }
}

/// The number of reads of the counter by code other than the vDSO during `calls`.
fn count_reads_during(calls: impl FnOnce()) -> Option<u32> {
    // SAFETY: the call takes and returns a number.
    let vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) };
    VDSO.store(usize::try_from(vdso).unwrap_or(0), Ordering::Relaxed);
    // SAFETY: every x86_64 processor has this instruction, and it is not denied yet.
    TICKS.store(unsafe { core::arch::x86_64::_rdtsc() }, Ordering::Relaxed);
    // The handler is async-signal-safe: it uses only its context and atomics.
    handle(libc::SIGSEGV, stand_in as *const (), libc::SA_SIGINFO);
    let before = BY_OTHERS.load(Ordering::Relaxed);
    if !set_tsc_mode(libc::PR_TSC_SIGSEGV) {
        skip("this kernel cannot deny the counter");
        return None;
    }
    calls();
    assert!(set_tsc_mode(libc::PR_TSC_ENABLE));
    Some(BY_OTHERS.load(Ordering::Relaxed) - before)
}

fn make_every_call(clock: &Clock) {
    for _ in 0..200 {
        black_box((
            tickline::now_ns(),
            tickline::now_ordered_ns(),
            tickline::unix_ns(),
        ));
        black_box((
            tickline::recent_ns(),
            Instant::now().elapsed(),
            Instant::recent(),
        ));
        black_box((Instant::now_ordered(), UnixTime::now()));
        black_box((
            clock.now(),
            clock.now_ordered(),
            clock.unix_now(),
            clock.recent(),
        ));
        black_box((
            clock.reading(),
            clock.unix_reading(),
            clock.maintain(),
            clock.status(),
        ));
        clock.disable();
    }
}

fn nobody_reads_the_counter_after_disable_with_minimal_probes() {
    let clock = Clock::global();
    let fast = wait_until_fast(clock).is_some();
    let settings = Clock::builder()
        .probes(Probes::Minimal)
        .interval(Duration::from_millis(2));
    let guard = settings.start_global().unwrap();
    // The control: a line in use reads the counter.
    let Some(reads) = count_reads_during(|| {
        for _ in 0..100 {
            black_box(clock.now());
        }
    }) else {
        return;
    };
    assert!(
        reads > 0 || !fast || clock.status().state != ClockState::Fast,
        "the denial was not noticed"
    );
    clock.disable();
    let reads = count_reads_during(|| make_every_call(clock));
    assert_eq!(reads, Some(0), "with a thread");
    drop(guard);
    let reads = count_reads_during(|| {
        make_every_call(clock);
        // No thread driver: the thread would inherit the denial, its signals are blocked, and the
        // vDSO reads the counter there as well.
        for driver in [Driver::Reader, Driver::Manual] {
            let own = Clock::builder()
                .probes(Probes::Minimal)
                .driver(driver)
                .build()
                .unwrap();
            own.disable();
            make_every_call(&own);
        }
    });
    assert_eq!(reads, Some(0), "without a thread");
    println!("{BY_VDSO:?} reads by the vDSO");
    clock.enable();
    black_box(clock.now());
}
