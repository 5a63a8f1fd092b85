//! The program's own time source, behind a [`Clock`].

use std::fmt;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use tickline::backend::Backend;
use tickline::{
    Clock, ClockState, EnvironmentSwitch, Gate, Instant, Probes, Reading, Reason, UnixTime,
};

/// A clock that a test moves, and that remembers its switch.
#[derive(Debug)]
struct Own {
    ns: AtomicU64,
    state: Mutex<ClockState>,
}

impl Own {
    fn at(ns: u64) -> Arc<Self> {
        Arc::new(Self {
            ns: AtomicU64::new(ns),
            state: Mutex::new(ClockState::Backend),
        })
    }

    fn set_state(&self, state: ClockState) {
        *self.state.lock().expect("no panic") = state;
    }
}

/// Unix time is a thousand times the monotonic time.
impl Backend for Own {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.ns.load(Ordering::Relaxed))
    }

    fn unix_now(&self) -> UnixTime {
        UnixTime::from_nanos(self.now().as_nanos() * 1_000)
    }

    fn reading(&self) -> Reading<Instant> {
        let ns = self.now().as_nanos();
        let [earliest, latest] = [ns - 2, ns + 3].map(Instant::from_nanos);
        Reading::new(self.now(), earliest..=latest)
    }

    fn unix_reading(&self) -> Reading<UnixTime> {
        let ns = self.unix_now().as_nanos();
        let [earliest, latest] = [ns - 20, ns + 30].map(UnixTime::from_nanos);
        Reading::from_counter(self.unix_now(), earliest..=latest)
    }

    fn state(&self) -> ClockState {
        *self.state.lock().expect("no panic")
    }

    fn disable(&self) {
        self.set_state(ClockState::Fallback(Reason::DisabledByProgram));
    }

    fn enable(&self) {
        self.set_state(ClockState::Fast);
    }
}

/// Every reading of monotonic time, ns.
fn read_ns(clock: &Clock) -> [u64; 3] {
    [clock.now(), clock.now_ordered(), clock.recent()].map(Instant::as_nanos)
}

#[test]
fn every_monotonic_reading_of_the_clock_is_the_backends() {
    let clock = Clock::from_backend(Own::at(5_000));
    assert_eq!(read_ns(&clock), [5_000; 3]);
}

#[test]
fn unix_time_of_the_clock_is_the_backends() {
    let clock = Clock::from_backend(Own::at(5_000));
    assert_eq!(clock.unix_now().as_nanos(), 5_000_000);
}

#[test]
fn a_clone_on_another_thread_shows_the_backends_present_time() {
    let own = Own::at(5_000);
    let clock = Clock::from_backend(Arc::<Own>::clone(&own));
    own.ns.store(6_000, Ordering::Relaxed);
    let elsewhere = std::thread::spawn(move || read_ns(&clock));
    assert_eq!(elsewhere.join().unwrap(), [6_000; 3]);
}

#[test]
fn the_global_clock_does_not_read_the_backend_of_another() {
    let _clock = Clock::from_backend(Own::at(6_000));
    assert_ne!(Instant::now().as_nanos(), 6_000);
}

#[test]
fn the_bounds_of_a_reading_are_the_backends() {
    let reading = Clock::from_backend(Own::at(5_000)).reading();
    let ns = [reading.earliest(), reading.time(), reading.latest()].map(Instant::as_nanos);
    assert_eq!(ns, [4_998, 5_000, 5_003]);
}

#[test]
fn the_bounds_of_a_reading_of_unix_time_are_the_backends() {
    let unix = Clock::from_backend(Own::at(5_000)).unix_reading();
    let unix_ns = [unix.earliest(), unix.time(), unix.latest()].map(UnixTime::as_nanos);
    assert_eq!(unix_ns, [4_999_980, 5_000_000, 5_000_030]);
}

/// Only this backend's Unix time is from the counter.
#[test]
fn the_backend_says_whether_a_reading_is_from_the_counter() {
    let clock = Clock::from_backend(Own::at(5_000));
    assert!(!clock.reading().is_from_counter());
    assert!(clock.unix_reading().is_from_counter());
}

/// A simulation whose present is before the zero of its time.
#[derive(Debug)]
struct BeforeZero;

impl BeforeZero {
    const NOW: Instant = Instant::from_signed_nanos(-5);
}

impl Backend for BeforeZero {
    fn now(&self) -> Instant {
        Self::NOW
    }

    fn unix_now(&self) -> UnixTime {
        UnixTime::UNIX_EPOCH
    }

    fn reading(&self) -> Reading<Instant> {
        Reading::exact(Self::NOW)
    }

    fn unix_reading(&self) -> Reading<UnixTime> {
        Reading::exact(self.unix_now())
    }

    fn state(&self) -> ClockState {
        ClockState::Backend
    }
}

/// Symptom: readings of the clock were at zero.
#[test]
fn a_backends_instant_before_zero_stays_before_it() {
    let clock = Clock::from_backend(Arc::new(BeforeZero));
    let read = [clock.now(), clock.now_ordered(), clock.recent()];
    assert_eq!(read, [BeforeZero::NOW; 3]);
    assert_eq!(clock.reading(), Reading::exact(BeforeZero::NOW));
}

#[test]
fn a_clock_has_the_state_of_its_backend() {
    let clock = Clock::from_backend(Own::at(5_000));
    assert_eq!(clock.status().state, ClockState::Backend);
}

#[test]
fn a_backend_is_told_when_its_clock_is_switched() {
    let clock = Clock::from_backend(Own::at(5_000));
    clock.disable();
    let disabled = ClockState::Fallback(Reason::DisabledByProgram);
    assert_eq!(clock.status().state, disabled);
    clock.enable();
    assert_eq!(clock.status().state, ClockState::Fast);
}

#[test]
fn a_disabled_backend_is_still_read() {
    let clock = Clock::from_backend(Own::at(5_000));
    clock.disable();
    assert_eq!(clock.now().as_nanos(), 5_000);
}

#[test]
fn the_maintenance_of_a_clock_with_a_backend_is_never_due_at_once() {
    let clock = Clock::from_backend(Own::at(5_000));
    assert!((0..100).all(|_| !clock.maintain().is_zero()));
}

#[test]
fn a_clock_with_a_backend_has_no_driver() {
    let clock = Clock::from_backend(Own::at(5_000));
    assert_eq!(clock.status().driver, None);
}

/// There is nothing to wait for.
#[test]
fn a_clock_with_a_backend_counts_as_judged() {
    let clock = Clock::from_backend(Own::at(5_000));
    assert!(clock.status().is_judged);
}

#[test]
fn a_clock_with_a_backend_has_no_line() {
    let clock = Clock::from_backend(Own::at(5_000));
    clock.maintain();
    assert_eq!(clock.bounds(), None);
    assert!(clock.status().per_cpu.is_empty());
}

#[test]
fn a_clock_with_a_backend_has_no_figures_and_no_events() {
    let clock = Clock::from_backend(Own::at(5_000));
    clock.maintain();
    let status = clock.status();
    let figures = [status.frequency_hz, status.bound_ns, status.max_drift_ppb];
    assert_eq!(figures, [None; 3]);
    assert_eq!(status.events.iter().map(|(_, count)| count).sum::<u64>(), 0);
}

/// The gate of a reason is the gate that core closes for it.
#[test]
fn a_fallback_closes_the_gate_of_its_reason_and_no_other() {
    let own = Own::at(5_000);
    let clock = Clock::from_backend(Arc::<Own>::clone(&own));
    for (reason, gate) in [
        (Reason::DisabledByProgram, Gate::User),
        (Reason::DisabledByEnvironment, Gate::User),
        (Reason::NoCounter, Gate::Supported),
        (Reason::NoAtomics, Gate::Supported),
        (Reason::Denied, Gate::Readable),
        (Reason::NotInvariant, Gate::Invariant),
        (Reason::KernelRejected, Gate::Kernel),
        (Reason::HypervisorPolicy, Gate::Kernel),
        (Reason::Unsynchronised, Gate::Synchronised),
        (Reason::Slow, Gate::Cost),
        (Reason::SamplesTooOld, Gate::Calibration),
    ] {
        own.set_state(ClockState::Fallback(reason));
        let status = clock.status();
        assert_eq!(status.reason(), Some(reason));
        for verdict in status.verdicts() {
            let expected = (verdict.gate() == gate).then_some(reason);
            assert_eq!(verdict.closed_by(), expected, "{reason:?}: {verdict:?}");
        }
    }
}

#[test]
fn a_gate_opens_when_the_backend_serves_again() {
    let own = Own::at(5_000);
    let clock = Clock::from_backend(Arc::<Own>::clone(&own));
    own.set_state(ClockState::Fallback(Reason::Slow));
    assert_eq!(clock.status().reason(), Some(Reason::Slow));
    own.set_state(ClockState::Backend);
    assert_eq!(clock.status().reason(), None);
}

/// Symptom: the status of a clock by a card that had failed said that it was calibrating.
#[test]
fn a_status_says_why_a_backends_source_can_not_serve() {
    let own = Own::at(5_000);
    let clock = Clock::from_backend(Arc::<Own>::clone(&own));
    own.set_state(ClockState::BackendFallback("the card does not answer"));
    assert_eq!(
        clock.status().to_string(),
        "backend_fallback: readings come from the OS clock, because the card does not answer"
    );
}

#[test]
fn a_backends_own_fallback_closes_no_gate() {
    let own = Own::at(5_000);
    let clock = Clock::from_backend(Arc::<Own>::clone(&own));
    own.set_state(ClockState::BackendFallback("the card does not answer"));
    assert_eq!(clock.status().reason(), None);
}

#[test]
fn a_backend_can_ask_for_the_switch_of_the_environment() {
    let switch = EnvironmentSwitch::read(Probes::Full);
    assert_eq!(switch, Clock::global().status().environment);
}

/// Panics in a reading.
#[derive(Debug)]
struct Panics;

impl Backend for Panics {
    fn now(&self) -> Instant {
        panic!("a backend's bug")
    }
    fn unix_now(&self) -> UnixTime {
        UnixTime::UNIX_EPOCH
    }
    fn reading(&self) -> Reading<Instant> {
        Reading::exact(Instant::ZERO)
    }
    fn unix_reading(&self) -> Reading<UnixTime> {
        Reading::exact(self.unix_now())
    }
    fn state(&self) -> ClockState {
        ClockState::Unavailable
    }
}

/// The slow path never unwinds, on which the fast path relies.
#[cfg(not(target_family = "wasm"))]
#[test]
fn a_panic_of_a_backend_ends_the_process() {
    use crate::common::{own_name, started_again};

    const NAME: &str = "backend::a_panic_of_a_backend_ends_the_process";
    if own_name().as_deref() == Some(NAME) {
        let caught = std::panic::catch_unwind(|| Clock::from_backend(Arc::new(Panics)).now());
        println!("the panic was caught: {}", caught.is_err());
        return;
    }
    let output = started_again(NAME).output().expect("this test, once more");
    let text = output.stdout;
    let error = output.stderr;
    let [text, error] = [text, error].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(!output.status.success(), "{text}");
    assert!(!text.contains("the panic was caught"), "{text}");
    assert!(error.contains("a backend's bug"), "{error}");
}

/// A backend that stands still, and whose state is what `state` returns.
pub(crate) struct WithState<F>(pub(crate) F);

impl<F> fmt::Debug for WithState<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WithState")
    }
}

impl<F: Fn() -> ClockState + Send + Sync> Backend for WithState<F> {
    fn now(&self) -> Instant {
        Instant::ZERO
    }
    fn unix_now(&self) -> UnixTime {
        UnixTime::UNIX_EPOCH
    }
    fn reading(&self) -> Reading<Instant> {
        Reading::exact(self.now())
    }
    fn unix_reading(&self) -> Reading<UnixTime> {
        Reading::exact(self.unix_now())
    }
    fn state(&self) -> ClockState {
        (self.0)()
    }
}

#[test]
fn a_statuss_state_follows_from_its_verdicts() {
    // Its counter is switched off and on at each question.
    let questions = AtomicU64::new(0);
    let alternates = move || {
        if questions.fetch_add(1, Ordering::Relaxed).is_multiple_of(2) {
            ClockState::Fallback(Reason::DisabledByProgram)
        } else {
            ClockState::Fast
        }
    };
    let clock = Clock::from_backend(Arc::new(WithState(alternates)));
    for _ in 0..4 {
        let status = clock.status();
        let by_verdicts = match status.reason() {
            Some(reason) => ClockState::Fallback(reason),
            None => ClockState::Fast,
        };
        assert_eq!(status.state, by_verdicts);
    }
}
