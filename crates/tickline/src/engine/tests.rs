//! Readings of a whole engine.

use core::cell::Cell;
use core::sync::atomic::Ordering;

use tickline_core::control::{Cadence, INTERVAL_RANGE_NS};
use tickline_core::counter::Counter;
use tickline_core::driver::Next;
use tickline_core::gate::keeper::Decision;
use tickline_core::gate::{Reason, Verdict};
use tickline_core::reference::{Reference, ReferenceKind, Resolutions};

use super::gates::each_gate;
use super::*;
use crate::status::Status;
use crate::sys;
use crate::testing::skip;

#[test]
fn ordering_a_threads_first_recent_time_is_there_before_it() {
    for _ in 0..8 {
        let engine = Engine::new(Driver::Reader);
        let start = engine.now_ordered();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                engine.registration.register(1, engine.now_ordered());
                engine.registration.begin(1);
            });
            while !engine.has_thread() {
                std::thread::yield_now();
            }
            // No exchange comes before this load: an exchange sees the newest value by any
            // ordering.
            assert!(engine.recent() >= start);
        });
    }
}

/// The lines of two CPUs differ by their bounds.
#[test]
fn an_earlier_time_does_not_replace_the_recent_one() {
    let engine = Engine::new(Driver::Reader);
    engine.registration.register(1, Instant::from_nanos(7));
    engine.registration.begin(1);
    engine.registration.store_recent(Instant::from_nanos(6));
    assert_eq!(engine.recent(), Instant::from_nanos(7));
}

#[test]
fn readers_run_no_iteration_beside_a_thread() {
    let engine = Engine::new(Driver::Reader);
    engine.registration.register(1, engine.now_ordered());
    engine.registration.begin(1);
    (0..100).for_each(|_| _ = engine.now());
    assert!(COUNTER.is_none() || !engine.is_judged());
}

#[test]
fn an_iteration_ends_a_row_of_refusals() {
    let engine = Engine::new(Driver::Manual);
    // ORDERING: Relaxed for both, on one thread.
    engine.refused_since_ns.store(1, Ordering::Relaxed);
    if engine.iterate(Cadence::Scheduled).is_err() {
        return skip("readings don't use the counter here");
    }
    assert_eq!(engine.refused_since_ns.load(Ordering::Relaxed), NEVER_NS);
}

#[test]
fn a_thread_that_has_not_begun_does_not_run() {
    let engine = Engine::new(Driver::Reader);
    engine.registration.register(1, engine.now_ordered());
    assert!(!engine.has_thread());
}

/// Its starter was killed, and the next one has registered another thread.
#[test]
fn a_forgotten_thread_does_not_begin_for_its_successor() {
    let engine = Engine::new(Driver::Reader);
    engine.registration.register(1, engine.now_ordered());
    engine.registration.register(2, engine.now_ordered());
    engine.registration.begin(1);
    assert!(!engine.has_thread());
    engine.registration.begin(2);
    assert!(engine.has_thread());
}

#[test]
fn a_reader_without_a_counter_judges_the_gates() {
    let engine = Engine::new(Driver::Reader);
    engine.judge_without_counter();
    assert!(engine.is_judged());
}

#[test]
fn a_reader_of_a_manual_clock_without_a_counter_does_not_judge_the_gates() {
    let engine = Engine::new(Driver::Manual);
    engine.judge_without_counter();
    assert!(!engine.is_judged());
}

/// A judgement takes too long for each reading.
#[test]
fn a_reader_without_a_counter_judges_the_gates_once() {
    let engine = Engine::new(Driver::Reader);
    engine.judge_without_counter();
    // ORDERING: Relaxed; the same thread stores it, in `judge_without_counter`.
    let refusals = || engine.refused_since_ns.load(Ordering::Relaxed);
    let _held = engine.clock.lock(sys::lock_token());
    engine.judge_without_counter();
    assert_eq!(refusals(), NEVER_NS, "nothing was asked for");
}

/// A machine whose reference takes `read_ns` for each reading, and whose counter ticks once in
/// `tick_ns`.
struct SlowMachine {
    ns: Cell<u64>,
    tick_ns: u64,
    read_ns: u64,
}

impl SlowMachine {
    fn pass(&self, ns: u64) -> u64 {
        self.ns.set(self.ns.get() + ns);
        self.ns.get()
    }
}

impl Counter for SlowMachine {
    fn now(&self) -> u64 {
        self.pass(10) / self.tick_ns
    }

    fn barrier(&self) {}
}

impl Reference for SlowMachine {
    fn monotonic_ns(&self) -> i64 {
        self.pass(self.read_ns).cast_signed()
    }

    fn unix_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

/// The status of a clock after iterations on this machine, which makes no line.
fn status_on(tick_ns: u64, read_ns: u64) -> Status {
    let engine = Engine::new(Driver::Manual);
    let machine = SlowMachine {
        ns: Cell::new(1 << 40),
        tick_ns,
        read_ns,
    };
    let resolutions = Resolutions::new(1, 1, ReferenceKind::Independent);
    let decision = Decision::Open {
        resolutions,
        serves_unix_time: true,
    };
    for _ in 0..100 {
        let mut next = engine.clock.ask(sys::lock_token(), &machine);
        if let Next::Judge(ticket) = next {
            next = ticket.settle(decision, Some(&machine), &machine);
        }
        let Next::Iterate(permit) = next else {
            panic!("every gate is open");
        };
        let interval_ns = *INTERVAL_RANGE_NS.start();
        let next = permit.iterate(interval_ns, Cadence::Scheduled, &machine, &machine);
        let Next::Rest(iteration) = next else {
            panic!("there is no first line");
        };
        machine.pass(iteration.next_in_ns);
    }
    engine.status()
}

#[test]
fn a_status_has_the_frequency_of_a_counter_that_is_too_slow() {
    let status = status_on(250, 10);
    let hz = status.too_slow_counter_hz.expect("it was measured");
    assert!(hz.abs_diff(4_000_000) < 40_000, "{hz} Hz");
}

#[test]
fn the_text_of_a_status_has_the_frequency_of_a_counter_that_is_too_slow() {
    let mut status = status_on(250, 10);
    status.verdicts = each_gate(|gate| match gate {
        Gate::Calibration => Verdict::closed(Reason::CounterTooSlow),
        _ => Verdict::open(gate),
    });
    let frequency = format!("it ticks at {} Hz", status.too_slow_counter_hz.unwrap());
    let text = status.to_string();
    assert!(text.contains(&frequency), "{text}");
}

/// Symptom: "the last calibration has run out" of a clock that never had one.
#[test]
fn a_status_tells_of_no_line_if_the_counter_was_too_slow_for_one() {
    let mut status = status_on(250, 10);
    status.state = crate::ClockState::Calibrating;
    let text = status.to_string();
    assert!(!text.contains("the last calibration has run out"), "{text}");
}

#[test]
fn a_status_says_how_old_samples_are_that_make_no_line() {
    let mut status = status_on(1, 600_000);
    status.verdicts = each_gate(|gate| match gate {
        Gate::Calibration => Verdict::closed(Reason::SamplesTooOld),
        _ => Verdict::open(gate),
    });
    let sample = status.too_old_sample.expect("samples are too old");
    let age = format!("a sample was {} ns old", sample.age_ns);
    let limit = format!("may be {} ns old", sample.limit_ns);
    let text = status.to_string();
    assert!(text.contains(&age) && text.contains(&limit), "{text}");
}
