//! A clock on the real machine, with injected costs.

use std::time::Duration;

use tickline_core::cell::{LineCell, NextLine, StateCell, WindowedLine};
use tickline_core::comparison::CounterComparison;
use tickline_core::control::Cadence;
use tickline_core::driver::DrivenClock;
use tickline_core::shared::{BoundedReading, Event, SharedClock};
use tickline_core::state::LineState;

use super::*;
use crate::settings::{Driver, Settings};
use crate::status::{ClockState, Status};
use crate::testing::skip;
use crate::trust::facts::injected;

mod reviews;
mod unix_time;

/// The costs that a judgement measures, ns.
#[derive(Clone, Copy)]
struct CostsNs {
    counter: u64,
    os: u64,
    os_unix: u64,
}

/// Costs by which the OS clock serves Unix time, and the counter all else.
const UNIX_BY_OS: CostsNs = CostsNs {
    counter: 40,
    os: 120,
    os_unix: 36,
};

/// Costs by which the counter serves all, also after it was slower.
const ALL_BY_LINE: CostsNs = CostsNs {
    counter: 30,
    os: 120,
    os_unix: 36,
};

const SLOW_COUNTER: CostsNs = CostsNs {
    counter: 1_000,
    os: 40,
    os_unix: 40,
};

const FAST_COUNTER: CostsNs = CostsNs {
    counter: 1,
    os: 40,
    os_unix: 40,
};

/// An engine with injected costs. Its end ends the injection, which is into this thread.
struct CostedEngine(Engine);

impl core::ops::Deref for CostedEngine {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.0
    }
}

impl Drop for CostedEngine {
    fn drop(&mut self) {
        injected::COST.set(None);
    }
}

impl CostedEngine {
    fn new(driver: Driver, costs: CostsNs) -> Self {
        let engine = Self(Engine::new(driver));
        engine.inject(costs);
        engine
    }

    /// From now on, judgements measure these costs.
    fn inject(&self, costs: CostsNs) {
        injected::COST.set(Some(Cost {
            counter_ps: costs.counter * 1_000,
            os_ps: costs.os * 1_000,
            os_unix_ps: costs.os_unix * 1_000,
        }));
    }

    /// Judges, and iterates until there is a line. `None`, with a message, if another reason than
    /// the cost closes the gate here.
    fn judged(&self) -> Option<Status> {
        self.request_judgement();
        let start = std::time::Instant::now();
        loop {
            _ = self.iterate(Cadence::Scheduled);
            let status = self.status();
            match status.state {
                ClockState::Fast | ClockState::Fallback(Reason::Slow) => return Some(status),
                ClockState::Fallback(reason) => {
                    skip(reason);
                    return None;
                }
                _ => assert!(start.elapsed().as_secs() < 20, "{status:?}"),
            }
        }
    }

    /// Does the same as [`judged`](Self::judged), by other costs.
    fn judged_by(&self, costs: CostsNs) -> Option<Status> {
        self.inject(costs);
        self.judged()
    }
}

/// An engine with a line. `None`, with a message, if there is none by the counter here.
fn engine_with_line(costs: CostsNs) -> Option<CostedEngine> {
    let engine = CostedEngine::new(Driver::Manual, costs);
    let status = engine.judged()?;
    if status.state != ClockState::Fast {
        skip(format_args!(
            "no line by the counter here: {}",
            status.state
        ));
        return None;
    }
    Some(engine)
}

/// Whether the line serves Unix time. The value does not show it, because the OS clock returns
/// nearly the same, so this calls the fast path.
fn unix_by_line(engine: &Engine) -> bool {
    let before_ns = OsClock.unix_ns();
    let ns = engine.unix_now().as_nanos().cast_signed();
    let after_ns = OsClock.unix_ns();
    assert!(
        (before_ns - 1_000_000..=after_ns + 1_000_000).contains(&ns),
        "{before_ns}, {ns}, {after_ns}"
    );
    is_ever(engine, || {
        COUNTER
            .and_then(|counter| engine.clock.readings().read_unix_ns(&counter))
            .is_some()
    })
}

/// Whether `served` is true soon after an iteration. If the thread loses its CPU, the first,
/// short lines have ended by then.
fn is_ever(engine: &Engine, served: impl Fn() -> bool) -> bool {
    (0..1_000).any(|_| {
        _ = engine.iterate(Cadence::Scheduled);
        served()
    })
}

/// A clock with an interval of 10 ms, and its status by these costs: see
/// [`judged`](CostedEngine::judged).
fn engine_judged_by(costs: CostsNs) -> Option<(CostedEngine, Status)> {
    let engine = CostedEngine::new(Driver::Manual, costs);
    engine.apply(&Settings {
        interval: Duration::from_millis(10),
        ..Settings::DEFAULT
    });
    let status = engine.judged()?;
    Some((engine, status))
}

/// Does the same as [`engine_judged_by`], by these costs one after the other.
fn engine_judged_by_both(first: CostsNs, second: CostsNs) -> Option<(CostedEngine, Status)> {
    let (engine, _) = engine_judged_by(first)?;
    let status = engine.judged_by(second)?;
    Some((engine, status))
}

const SLOW: Option<Reason> = Some(Reason::Slow);
const SLOW_FOR_UNIX_TIME: Option<Reason> = Some(Reason::SlowForUnixTime);

#[test]
fn the_os_serves_unix_time_that_it_reads_faster() {
    let Some((engine, status)) = engine_judged_by(UNIX_BY_OS) else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    assert_eq!((status.state, status.reason()), (ClockState::Fast, None));
    let expected = (SLOW_FOR_UNIX_TIME, false);
    assert_eq!((status.unix_reason(), is_by_line), expected);
}

#[test]
fn the_line_serves_readings_with_bounds_while_the_os_serves_unix_time() {
    let Some((engine, _)) = engine_judged_by(UNIX_BY_OS) else {
        return;
    };
    let is_by_line = is_ever(&engine, || engine.read_ordered_bounded().is_some());
    assert!(is_by_line);
}

#[test]
fn the_os_serves_unix_time_until_the_counter_is_faster_by_a_tenth() {
    let not_by_a_tenth = CostsNs {
        counter: 35,
        ..UNIX_BY_OS
    };
    let Some((_engine, status)) = engine_judged_by_both(UNIX_BY_OS, not_by_a_tenth) else {
        return;
    };
    assert_eq!(status.unix_reason(), SLOW_FOR_UNIX_TIME);
}

#[test]
fn the_line_serves_unix_time_once_the_counter_is_faster_by_a_tenth() {
    let Some((engine, status)) = engine_judged_by_both(UNIX_BY_OS, ALL_BY_LINE) else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    assert_eq!(status.state, ClockState::Fast);
    assert_eq!((status.unix_reason(), is_by_line), (None, true));
}

/// The next line replaces the present one: the change takes no line from readers.
#[test]
fn a_line_is_replaced_when_it_begins_to_serve_unix_time() {
    let Some((engine, before)) = engine_judged_by(UNIX_BY_OS) else {
        return;
    };
    let Some(after) = engine.judged_by(ALL_BY_LINE) else {
        return;
    };
    let [before, after] = [before, after].map(|status| status.events.get(Event::Replacement));
    assert!(after > before, "{before}, {after}");
}

#[test]
fn a_counter_that_is_slower_only_for_monotonic_time_serves_both_with_a_warning() {
    let slower_for_monotonic_time = CostsNs {
        counter: 40,
        os: 39,
        os_unix: 300,
    };
    let Some((engine, status)) = engine_judged_by_both(ALL_BY_LINE, slower_for_monotonic_time)
    else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    assert_eq!(status.state, ClockState::Fast);
    assert_eq!(status.verdict(Gate::Cost).warning(), SLOW);
    assert_eq!((status.unix_reason(), is_by_line), (None, true));
}

#[test]
fn a_counter_that_is_slower_serves_no_unix_time() {
    let slower = CostsNs {
        counter: 40,
        os: 30,
        os_unix: 30,
    };
    let Some((engine, status)) = engine_judged_by_both(ALL_BY_LINE, slower) else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    assert_eq!(status.state, ClockState::Fallback(Reason::Slow));
    assert_eq!((status.unix_reason(), is_by_line), (SLOW, false));
}

/// A comparison starts threads, which a seccomp filter may not allow.
#[test]
fn a_clock_with_minimal_probes_compares_no_counters() {
    let engine = Engine::new(Driver::Manual);
    // ORDERING: Relaxed: one thread.
    engine.has_minimal_probes.store(true, Ordering::Relaxed);
    _ = engine.iterate(Cadence::Scheduled);
    assert!(!engine.needs_comparison());
}

/// Symptom: if the program set a `Trust` during a reader's first judgement, the gates ignored it
/// until another fact changed.
#[test]
fn a_trust_that_is_set_during_the_first_judgement_counts() {
    let engine = Engine::new(Driver::Reader);
    for trust in Trust::ALL.iter().copied() {
        let Next::Judge(mut ticket) = engine.clock.ask(sys::lock_token(), &OsClock) else {
            panic!("a judgement is due");
        };
        // Another test may compare the counters at this moment, and the result is the process's.
        while !engine.collect(&mut ticket) {
            std::thread::yield_now();
        }
        engine.apply(&Settings {
            trust,
            assume_invariant: true,
            ..Settings::DEFAULT
        });
        let grounds = Grounds {
            closed_by: None,
            unix_closed_by: None,
            clocksource: Clocksource::Unknown,
        };
        assert!(matches!(
            engine.settle_by(ticket, grounds),
            Next::NoIteration(Obstacle::Unjudged)
        ));
        assert_eq!(engine.clock.stage(), Stage::Unjudged);
        let mut facts = Facts::UNKNOWN;
        engine.add_clock_facts(&mut facts, LineKind::Common);
        assert_eq!((facts.trust, facts.assume_invariant), (trust, true));
    }
}

/// Symptom: readers had collected facts in steps; after a call of `enable()` they judged by these,
/// and a clock that readers drive stayed closed.
#[test]
fn a_request_is_not_judged_by_facts_that_are_older() {
    let engine = CostedEngine::new(Driver::Reader, SLOW_COUNTER);
    while !engine.prepare_one_task() {}
    engine.inject(FAST_COUNTER);
    engine.enable();
    _ = engine.iterate(Cadence::OnDemand);
    assert_ne!(engine.state(), ClockState::Fallback(Reason::Slow));
}

/// Changes the facts of the last judgement, by a ticket that is not settled.
fn change_facts(engine: &Engine, change: impl FnOnce(&mut Facts)) {
    let mut ticket = engine.clock.ask_review(sys::lock_token());
    change(ticket.as_mut().expect("a clock that is judged").facts_mut());
}

/// Symptom: the kernel rejected the counter. The thread and readers noticed it, but a program that
/// drives the clock itself never did.
#[test]
fn a_program_that_drives_the_clock_hears_of_new_facts() {
    let engine = CostedEngine::new(Driver::Manual, FAST_COUNTER);
    if engine.judged().is_none() {
        return;
    }
    change_facts(&engine, |facts| *facts = Facts::UNKNOWN);
    for _ in 0..8 {
        engine.iterate_for_program();
    }
    assert!(facts::are_current(
        engine.clock.lock(sys::lock_token()).unwrap().facts()
    ));
}

/// Puts the common line ahead. `false` if it has just ended.
fn put_ahead(engine: &Engine, ahead_ns: i64) -> bool {
    // A driven clock gives its cell to nobody.
    let driven: &DrivenClock = &engine.clock;
    let clock = core::ptr::from_ref(driven).cast::<SharedClock>();
    // SAFETY: `DrivenClock` is `repr(C)`, and the clock of the common line is its first field.
    let clock = unsafe { &*clock };
    engine
        .read_ordered_bounded()
        .is_some_and(|reading| put_clock_ahead(clock.cell(), reading, ahead_ns))
}

/// Publishes a line that is ahead of the OS clock, with its bounds, as a suspend with the counter
/// running does. `reading` is one by the present line. `false` if that has just ended.
fn put_clock_ahead(cell: &LineCell, reading: BoundedReading, ahead_ns: i64) -> bool {
    let old = cell.snapshot();
    let mut bounds = reading.bounds;
    bounds.lower.base_ns += ahead_ns;
    bounds.upper.base_ns += ahead_ns;
    // The slope is the same except for the tag, which changes the time by about 100 ns.
    let Some(next) = old.state.next_line(old.slope()) else {
        return false;
    };
    let line = WindowedLine {
        state: LineState {
            b: old.state.b + ahead_ns,
            ..next
        },
        ..old
    };
    cell.publish(old.state, &NextLine::new(line, bounds))
}

/// An engine whose counter was found to be slow, and would be fast now. `None`, with a message, if
/// another reason closes the gate here.
fn engine_with_slow_counter() -> Option<CostedEngine> {
    let engine = CostedEngine::new(Driver::Reader, SLOW_COUNTER);
    let status = engine.judged()?;
    assert_eq!(status.state, ClockState::Fallback(Reason::Slow));
    engine.inject(FAST_COUNTER);
    Some(engine)
}

#[test]
fn a_status_has_the_costs_that_were_judged() {
    let costs = CostsNs {
        counter: 0,
        os: 40,
        os_unix: 41,
    };
    let engine = CostedEngine::new(Driver::Reader, costs);
    assert_eq!(engine.status().cost, None, "nothing is judged yet");
    let Some(status) = engine.judged() else {
        return;
    };
    let cost = Cost {
        counter_ps: 0,
        os_ps: 40_000,
        os_unix_ps: 41_000,
    };
    assert_eq!(status.cost, Some(cost));
}

/// Lets the time pass until the next judgement is due.
fn make_due(engine: &Engine) {
    let ticket = engine
        .clock
        .ask_review(sys::lock_token())
        .expect("no other thread");
    let closed = Decision::Closed {
        retry_at_ns: Some(OsClock.monotonic_ns()),
    };
    _ = ticket.settle(closed, COUNTER.as_ref(), &OsClock);
}

/// Symptom: a clock whose cost was measured in a bad moment had no line for the rest of its life.
#[test]
fn a_slow_counter_is_measured_again() {
    let Some(engine) = engine_with_slow_counter() else {
        return;
    };
    _ = engine.iterate(Cadence::Scheduled);
    assert_eq!(
        engine.state(),
        ClockState::Fallback(Reason::Slow),
        "not at once"
    );
    make_due(&engine);
    _ = engine.iterate(Cadence::Scheduled);
    assert_ne!(engine.state(), ClockState::Fallback(Reason::Slow));
}

#[test]
fn readers_of_only_unix_time_have_a_slow_counter_measured_again() {
    let Some(engine) = engine_with_slow_counter() else {
        return;
    };
    make_due(&engine);
    let start = std::time::Instant::now();
    while engine.state() == ClockState::Fallback(Reason::Slow) {
        engine.unix_now();
        assert!(start.elapsed().as_secs() < 60, "nobody judges");
    }
}

/// An engine whose line has ended, because nobody renewed it. `None`, with a message, if there is
/// no line by the counter here.
fn engine_with_an_ended_line() -> Option<CostedEngine> {
    let (engine, _) = engine_judged_by(ALL_BY_LINE)?;
    let start = std::time::Instant::now();
    while engine.read_ordered_bounded_while_valid().is_some() {
        std::thread::sleep(Duration::from_millis(10)); // the interval
        assert!(start.elapsed().as_secs() < 20, "{:?}", engine.status());
    }
    Some(engine)
}

/// Symptom: after a pause without readings the status said "fast", and the next reading came from
/// the OS clock.
#[test]
fn a_clock_whose_line_has_ended_calibrates() {
    if let Some(engine) = engine_with_an_ended_line() {
        assert_eq!(engine.state(), ClockState::Calibrating);
    }
}

#[test]
fn a_clock_whose_line_has_ended_is_judged_as_one_without_a_line() {
    if let Some(engine) = engine_with_an_ended_line() {
        let verdict = engine.status().verdict(Gate::Calibration);
        assert_eq!(verdict.warning(), Some(Reason::NoLine));
    }
}

/// An engine that is disrupted, because its line is `ahead_ns` ahead of the OS clock. `None`, with
/// a message, if there is no line by the counter here.
fn engine_ahead(ahead_ns: i64) -> Option<CostedEngine> {
    let engine = engine_with_line(FAST_COUNTER)?;
    // If a line ends while this thread is preempted, the loop tries again.
    let seen = (0..10_000).any(|_| {
        _ = engine.iterate(Cadence::Scheduled);
        put_ahead(&engine, ahead_ns) && engine.state() == ClockState::Disrupted
    });
    assert!(seen, "{}", engine.state());
    Some(engine)
}

/// The state is `Disrupted` before any iteration has found that the line is ahead of the OS clock.
/// After the next iteration, the state is not `Fast` until the line is back.
#[test]
fn a_line_that_is_ahead_of_the_os_clock_is_disrupted() {
    if let Some(engine) = engine_ahead(50_000_000) {
        _ = engine.iterate(Cadence::Scheduled);
        assert_ne!(engine.state(), ClockState::Fast);
    }
}

/// As after the OS clock has jumped ahead.
#[test]
fn a_line_that_is_behind_the_os_clock_is_disrupted() {
    engine_ahead(-50_000_000);
}

/// The OS clock, which serves a disabled clock, is behind the line's last reading.
#[test]
fn a_reading_after_disable_is_in_order_and_within_its_bounds() {
    let Some(engine) = engine_ahead(50_000_000) else {
        return;
    };
    let last = engine.now_ordered();
    engine.disable();
    let reading = engine.reading();
    assert!(
        (last..=reading.latest()).contains(&reading.time()),
        "{reading:?} after {last:?}"
    );
}

/// The reasons why a line is missing do not count while there is one.
#[test]
fn a_clock_with_a_line_has_the_recorded_verdict_about_calibration() {
    let engine = CostedEngine::new(Driver::Manual, FAST_COUNTER);
    if engine.judged().is_none() {
        return;
    }
    let recorded = Verdict::closed(Reason::CounterTooSlow);
    engine.record_verdict(recorded);
    assert!(is_ever(&engine, || {
        engine.status().verdict(Gate::Calibration) == recorded
    }));
}
