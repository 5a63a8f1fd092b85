//! The source of Unix time on the slow path, and the judgements that its readers make.
//!
//! A line and the OS clock return nearly the same Unix time. The tests therefore put the line
//! ahead: only a reading by the line is then ahead of the OS clock.

use std::sync::Arc;

use tickline_core::driver::reader_may_judge_at;

use super::*;
use crate::per_cpu::{CpuLines, Requirements};
use crate::settings::LinePerCpu;
use crate::thread::ClockThread;

const AHEAD_NS: i64 = 50_000_000;

/// Whether a reading of Unix time by the slow path is ahead of the OS clock.
fn is_ahead(engine: &Engine) -> bool {
    let ns = engine.unix_slow().as_nanos().cast_signed();
    ns > OsClock.unix_ns() + AHEAD_NS / 2
}

/// Whether a reading of Unix time is ever ahead of the OS clock while the line is.
fn is_ever_ahead(engine: &Engine) -> bool {
    is_ever(engine, || put_ahead(engine, AHEAD_NS) && is_ahead(engine))
}

#[test]
fn the_slow_path_reads_unix_time_by_the_line() {
    if let Some(engine) = engine_with_line(FAST_COUNTER) {
        assert!(is_ever_ahead(&engine));
    }
}

#[test]
fn the_slow_path_reads_no_unix_time_by_a_line_if_the_os_serves_it() {
    if let Some(engine) = engine_with_line(UNIX_BY_OS) {
        assert!(engine.os_serves_unix());
        assert!(!is_ever_ahead(&engine));
    }
}

/// An engine whose thread keeps a line for each CPU. `None`, with a message, if that is impossible
/// here.
fn engine_with_cpu_lines() -> Option<(ClockThread<Arc<Engine>>, Arc<Engine>)> {
    let engine = Arc::new(Engine::new(Driver::Reader));
    let settings = Settings {
        line_per_cpu: LinePerCpu::On,
        interval: Duration::from_millis(10),
        ..Settings::DEFAULT
    };
    engine.apply(&settings);
    let thread = ClockThread::start(Arc::clone(&engine), settings).expect("a thread");
    while engine.cpu_lines().is_none() {
        if Requirements::of_this_machine().is_err() || engine.clock.stage().is_closed() {
            skip("there can be no line for each CPU here");
            return None;
        }
        std::thread::yield_now();
    }
    Some((thread, engine))
}

/// Puts the line of the CPU on which this thread runs ahead. `false` if it has none.
fn put_cpu_ahead(cpu_lines: &CpuLines) -> bool {
    cpu_lines
        .clock_here()
        .zip(cpu_lines.read_ordered_bounded())
        .is_some_and(|(clock, reading)| put_clock_ahead(clock.cell(), reading, AHEAD_NS))
}

/// Whether a reading of Unix time is ever ahead of the OS clock while this CPU's line is. The
/// thread may be moved to another CPU before the reading, or the line replaced.
fn is_ever_ahead_by_cpu(engine: &Engine) -> bool {
    (0..1_000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        engine.cpu_lines().is_some_and(put_cpu_ahead) && is_ahead(engine)
    })
}

#[test]
fn unix_time_comes_from_the_line_of_the_cpu() {
    let Some((_thread, engine)) = engine_with_cpu_lines() else {
        return;
    };
    if engine.os_serves_unix() {
        return skip("the OS serves Unix time here");
    }
    assert!(is_ever_ahead_by_cpu(&engine));
}

/// Takes a lock as soon as the engine's thread has released it.
fn take<T>(try_lock: impl Fn() -> Option<T>) -> T {
    loop {
        match try_lock() {
            Some(guard) => return guard,
            None => std::thread::yield_now(),
        }
    }
}

/// A verdict counts from then on, although the CPUs' lines still serve Unix time.
#[test]
fn unix_time_comes_from_no_cpus_line_once_the_os_serves_it() {
    if let Some((_thread, engine)) = engine_with_cpu_lines() {
        // The thread begins no judgement without the collector, and has ended an earlier one when
        // it releases the clock's lock.
        let _collector = take(|| engine.collector());
        drop(take(|| engine.clock.lock(sys::lock_token())));
        engine.record_verdict(Verdict::closed(Reason::SlowForUnixTime));
        assert!(!is_ever_ahead_by_cpu(&engine));
    }
}

/// Calls for Unix time that are frequent, outside of the time in which readers judge for a Unix
/// time from the OS. Returns whether the last one was outside of it, too.
fn read_unix_outside_the_judging_time(read_unix: impl Fn()) -> bool {
    while reader_may_judge_at(OsClock.unix_ns()) {
        std::thread::sleep(Duration::from_millis(1));
    }
    (0..1_000).for_each(|_| read_unix());
    !reader_may_judge_at(OsClock.unix_ns())
}

/// The state of a clock after these readings of Unix time from the OS, outside of the time in which
/// readers judge. `None`, with a message, if another reason than the cost closes the gate here.
fn state_outside_the_judging_time<T>(read_unix: impl Fn(&Engine) -> T) -> Option<ClockState> {
    loop {
        let engine = engine_with_slow_counter()?;
        make_due(&engine);
        if read_unix_outside_the_judging_time(|| _ = read_unix(&engine)) {
            return Some(engine.state());
        }
    }
}

/// Most of these readings stay one call of the OS.
#[test]
fn readers_of_unix_time_from_the_os_judge_only_in_a_part_of_the_time() {
    if let Some(state) = state_outside_the_judging_time(Engine::unix_now) {
        assert_eq!(state, ClockState::Fallback(Reason::Slow));
    }
}

/// Symptom: each of these readings asked the OS twice.
#[test]
fn readers_of_unix_time_with_bounds_from_the_os_judge_only_in_a_part_of_the_time() {
    let read = |engine: &Engine| engine.unix_reading();
    if let Some(state) = state_outside_the_judging_time(read) {
        assert_eq!(state, ClockState::Fallback(Reason::Slow));
    }
}

/// An engine that waits for the kernel's decision about the counter, and may judge again now.
fn engine_of_undecided_kernel() -> Engine {
    let engine = Engine::new(Driver::Reader);
    let Next::Judge(ticket) = engine.clock.ask(sys::lock_token(), &OsClock) else {
        panic!("a judgement is due");
    };
    let grounds = Grounds {
        closed_by: Some(Reason::KernelUndecided),
        unix_closed_by: None,
        clocksource: Clocksource::Unknown,
    };
    _ = engine.settle_by(ticket, grounds);
    make_due(&engine);
    engine
}

/// These readings need the monotonic clock anyway.
#[test]
fn readers_of_unix_time_that_the_os_does_not_serve_judge_at_any_time() {
    if COUNTER.is_none() {
        return skip("readers do not judge without a counter");
    }
    let is_judged_outside = || {
        let engine = engine_of_undecided_kernel();
        assert!(!engine.os_serves_unix());
        read_unix_outside_the_judging_time(|| _ = engine.unix_now())
            && (engine.clock.stage() != Stage::Waiting
                || matches!(engine.state(), ClockState::Fallback(_)))
    };
    // The calls of an attempt are not frequent if this thread is preempted.
    assert!((0..1_000).any(|_| is_judged_outside()));
}
