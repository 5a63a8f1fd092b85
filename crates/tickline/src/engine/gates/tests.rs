//! A clock on the real machine, with injected costs.

use std::time::Duration;

use tickline_core::cell::{LineCell, NextLine, Snapshot, StateCell};
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

/// Injects these costs, ns: the counter; the OS clock's monotonic and Unix time.
fn inject(costs: (u64, u64, u64)) {
    let [counter_ps, os_ps, os_unix_ps] = <[u64; 3]>::from(costs).map(|ns| ns * 1_000);
    injected::COST.set(Some(Cost {
        counter_ps,
        os_ps,
        os_unix_ps,
    }));
}

/// Judges by these costs, and iterates until there is a line. `None`, with a message, if another
/// reason closes the gate here.
fn judged(engine: &Engine, costs: (u64, u64, u64)) -> Option<Status> {
    inject(costs);
    engine.request_judgement();
    let start = std::time::Instant::now();
    loop {
        _ = engine.iterate(Cadence::Scheduled);
        let status = engine.status();
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

/// Whether the line serves Unix time. The value does not show it, because the OS clock returns
/// nearly the same, so this calls the fast path.
fn unix_by_line(engine: &Engine) -> bool {
    let before_ns = OsClock.unix_ns();
    let ns = engine.unix_ns().cast_signed();
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

/// A clock, and its status once it was judged by these costs one after the other: see [`judged`].
fn judged_by(costs: &[(u64, u64, u64)]) -> Option<(Engine, Status)> {
    let engine = Engine::new(Driver::Manual);
    engine.apply(&Settings {
        interval: Duration::from_millis(10),
        ..Settings::DEFAULT
    });
    let mut status = engine.status();
    for costs in costs {
        status = judged(&engine, *costs)?;
    }
    Some((engine, status))
}

const SLOW: Option<Reason> = Some(Reason::Slow);

/// Costs by which the OS clock serves Unix time, and the counter all else.
const UNIX_BY_OS: (u64, u64, u64) = (40, 120, 36);

/// Costs by which the counter serves all.
const ALL_BY_LINE: (u64, u64, u64) = (30, 120, 36);

#[test]
fn unix_time_that_the_os_reads_faster_is_the_oss() {
    let Some((engine, status)) = judged_by(&[UNIX_BY_OS]) else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    injected::COST.set(None);
    assert_eq!((status.state, status.reason()), (ClockState::Fast, None));
    assert_eq!((status.unix_reason(), is_by_line), (SLOW, false));
}

#[test]
fn readings_with_bounds_are_the_lines_while_unix_time_is_the_oss() {
    let Some((engine, _)) = judged_by(&[UNIX_BY_OS]) else {
        return;
    };
    let is_by_line = is_ever(&engine, || engine.read_ordered_bounded().is_some());
    injected::COST.set(None);
    assert!(is_by_line);
}

#[test]
fn unix_time_stays_the_oss_until_the_counter_is_faster_by_a_tenth() {
    let Some((_, status)) = judged_by(&[UNIX_BY_OS, (35, 120, 36)]) else {
        return;
    };
    injected::COST.set(None);
    assert_eq!(status.unix_reason(), SLOW);
}

#[test]
fn unix_time_is_the_lines_once_the_counter_is_faster_by_a_tenth() {
    let Some((engine, status)) = judged_by(&[UNIX_BY_OS, ALL_BY_LINE]) else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    injected::COST.set(None);
    assert_eq!(status.state, ClockState::Fast);
    assert_eq!((status.unix_reason(), is_by_line), (None, true));
}

/// The next line replaces the present one: the change takes no line from readers.
#[test]
fn a_line_is_replaced_when_unix_time_becomes_the_lines() {
    let Some((engine, before)) = judged_by(&[UNIX_BY_OS]) else {
        return;
    };
    let Some(after) = judged(&engine, ALL_BY_LINE) else {
        return;
    };
    injected::COST.set(None);
    let [before, after] = [before, after].map(|status| status.events.get(Event::Replacement));
    assert!(after > before, "{before}, {after}");
}

#[test]
fn a_counter_that_is_slower_only_for_monotonic_time_serves_both_with_a_warning() {
    let Some((engine, status)) = judged_by(&[ALL_BY_LINE, (40, 39, 300)]) else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    injected::COST.set(None);
    assert_eq!(status.state, ClockState::Fast);
    assert_eq!(status.verdict(Gate::Cost).warning(), SLOW);
    assert_eq!((status.unix_reason(), is_by_line), (None, true));
}

#[test]
fn a_counter_that_is_slower_serves_no_unix_time() {
    let Some((engine, status)) = judged_by(&[ALL_BY_LINE, (40, 30, 30)]) else {
        return;
    };
    let is_by_line = unix_by_line(&engine);
    injected::COST.set(None);
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
        assert!(engine.collect(&mut ticket));
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
    let engine = Engine::new(Driver::Reader);
    inject((1_000, 40, 40));
    while !engine.prepare_one_task() {}
    inject((1, 40, 40));
    engine.enable();
    _ = engine.iterate(Cadence::OnDemand);
    injected::COST.set(None);
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
    let engine = Engine::new(Driver::Manual);
    let Some(_) = judged(&engine, (30, 120, 120)) else {
        return;
    };
    change_facts(&engine, |facts| *facts = Facts::UNKNOWN);
    for _ in 0..8 {
        engine.iterate_for_program();
    }
    assert!(facts::are_current(
        engine.clock.lock(sys::lock_token()).unwrap().facts()
    ));
    injected::COST.set(None);
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
    let line = Snapshot {
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
fn engine_with_slow_counter() -> Option<Engine> {
    let engine = Engine::new(Driver::Reader);
    let status = judged(&engine, (1_000, 40, 40))?;
    assert_eq!(status.state, ClockState::Fallback(Reason::Slow));
    inject((1, 40, 40));
    Some(engine)
}

#[test]
fn a_status_has_the_costs_that_were_judged() {
    let engine = Engine::new(Driver::Reader);
    assert_eq!(engine.status().cost, None, "nothing is judged yet");
    let Some(status) = judged(&engine, (0, 40, 41)) else {
        injected::COST.set(None);
        return;
    };
    let cost = Cost {
        counter_ps: 0,
        os_ps: 40_000,
        os_unix_ps: 41_000,
    };
    assert_eq!(status.cost, Some(cost));
    injected::COST.set(None);
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
    injected::COST.set(None);
}

#[test]
fn readers_of_only_unix_time_have_a_slow_counter_measured_again() {
    let Some(engine) = engine_with_slow_counter() else {
        return;
    };
    make_due(&engine);
    let start = std::time::Instant::now();
    while engine.state() == ClockState::Fallback(Reason::Slow) {
        engine.unix_ns();
        assert!(start.elapsed().as_secs() < 60, "nobody judges");
    }
    injected::COST.set(None);
}

/// An engine whose line has ended, because nobody renewed it. `None`, with a message, if there is
/// no line by the counter here.
fn engine_with_an_ended_line() -> Option<Engine> {
    let (engine, _) = judged_by(&[ALL_BY_LINE])?;
    injected::COST.set(None);
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
fn engine_ahead(ahead_ns: i64) -> Option<Engine> {
    let engine = Engine::new(Driver::Manual);
    let status = judged(&engine, (1, 1_000, 1_000))?;
    if status.state != ClockState::Fast {
        skip(format_args!(
            "no line by the counter here: {}",
            status.state
        ));
        return None;
    }
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
    let last_ns = engine.now_ordered_ns();
    engine.disable();
    let reading = engine.reading(tickline_core::reference::Timescale::Monotonic);
    assert!(
        (last_ns..=reading.latest()).contains(&reading.time()),
        "{reading:?} after {last_ns}"
    );
}

/// The reasons why a line is missing do not count while there is one.
#[test]
fn a_clock_with_a_line_has_the_recorded_verdict_about_calibration() {
    let engine = Engine::new(Driver::Manual);
    let Some(_) = judged(&engine, (30, 120, 120)) else {
        return;
    };
    injected::COST.set(None);
    let recorded = Verdict::closed(Reason::CounterTooSlow);
    engine.record_verdict(recorded);
    assert!(is_ever(&engine, || {
        engine.status().verdict(Gate::Calibration) == recorded
    }));
}
