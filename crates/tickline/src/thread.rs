//! The thread driver: when a clock's thread wakes up, and what it does then.
//!
//! - **The thread runs an iteration when one is due.** It also reviews the facts at least once in
//!   each interval, has the CPUs' counters compared if a gate needs that, and stores the recent
//!   time.
//! - **It sleeps until the next of these, or until the clock is set.** With minimal probes it does
//!   not notice a set clock (`sys/linux/sleep.rs`).
//! - **If another driver has the lock**, the thread waits twice as long after each refusal, up to
//!   the interval: that driver may be stopped.
//! - **A thread that was killed leaves the clock to readers** (`sys/linux/robust_futex.rs`). A
//!   thread that is killed before it begins does the same. From then on the recent time is the
//!   current time.
//! - **A thread that is no longer registered ends when it next wakes up**
//!   (`engine/registration.rs`).

use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use tickline_core::comparison::CounterComparison;
use tickline_core::control::{Cadence, MIN_INTERVAL_NS};
use tickline_core::driver::Obstacle;
use tickline_core::reference::Reference;

use crate::engine::Engine;
use crate::error::Error;
use crate::per_cpu::calibrations::CpuCalibrations;
use crate::per_cpu::wants_line_per_cpu;
use crate::settings::{Probes, Settings};
use crate::sleeping_thread::{BeginFlag, CLOCK_THREAD, SleepingThread};
use crate::sys::reference::OsClock;
use crate::sys::{STACK_BYTES, StoppableSleep, WakeCause};
use crate::trust::compare::{self, ComparisonThread};

/// The period at which a thread with a closed gate asks for the result of a comparison that may
/// open the gate, ns. Each pair of CPUs takes at least `REST_NS` (`trust/compare.rs`).
const ASK_RESULT_EVERY_NS: u64 = 50_000_000;

/// The id of the thread that was started last.
static LAST_ID: AtomicU64 = AtomicU64::new(0);

/// A clock's thread; stopped and joined when dropped. `sleeping_thread.rs` tells it from other
/// threads.
#[derive(Debug)]
pub(crate) struct ClockThread<E: Deref<Target = Engine>> {
    engine: E,
    thread: SleepingThread,
    /// No other thread of this process has the same, and none that an ancestor started before the
    /// fork.
    pub(crate) id: u64,
}

impl<E: Deref<Target = Engine> + Clone + Send + 'static> ClockThread<E> {
    pub(crate) fn start(engine: E, settings: Settings) -> Result<Self, Error> {
        let (name, sleep) = match engine.probes() {
            Probes::Full => (Some(CLOCK_THREAD), StoppableSleep::notifying_clock_set()),
            Probes::Minimal => (None, StoppableSleep::plain()),
        };
        // ORDERING: Relaxed: only uniqueness counts.
        let id = LAST_ID.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        // No other thread starts one for this clock now: the global clock has a lock for that.
        engine.registration.register(id, engine.now_ordered());
        let inside = engine.clone();
        let thread = SleepingThread::start(name, STACK_BYTES, sleep, move |sleep, begin_flag| {
            run(&inside, id, sleep, begin_flag, settings)
        })
        .inspect_err(|_| engine.registration.unregister())?;
        Ok(Self { engine, thread, id })
    }
}

impl<E: Deref<Target = Engine>> ClockThread<E> {
    /// Whether the thread has ended although its handle did not end it, or is another process's.
    pub(crate) fn is_gone(&self) -> bool {
        let futex = &self.engine.registration.futex;
        !self.thread.is_of_this_process() || self.thread.was_killed(futex)
    }
}

impl<E: Deref<Target = Engine>> Drop for ClockThread<E> {
    fn drop(&mut self) {
        if self.thread.is_of_this_process() {
            self.engine.registration.unregister();
        }
        self.thread
            .end_unless_killed(&self.engine.registration.futex);
        // Readers leave the CPUs' lines, if there are any, when these lines have ended.
    }
}

fn run(
    engine: &Engine,
    id: u64,
    sleep: &StoppableSleep,
    begin_flag: &BeginFlag,
    settings: Settings,
) {
    if !engine.registration.has_id(id) {
        return begin_flag.set(); // and ends: the futex may be another thread's by now
    }
    let _marked = (engine.probes() == Probes::Full).then(|| engine.registration.futex.hold());
    engine.registration.begin(id);
    begin_flag.set();
    let mut calibrations = CpuCalibrations::default();
    let mut reviews = Reviews::default();
    let mut comparison = CounterComparison::Pending;
    while engine.registration.has_id(id) {
        comparison = compare::result().unwrap_or(comparison);
        let has_line_per_cpu = engine.probes() == Probes::Full
            && wants_line_per_cpu(settings.line_per_cpu, comparison);
        let iterated = if has_line_per_cpu {
            engine.calibrate_cpus(&mut calibrations, sleep)
        } else {
            engine.leave_per_cpu();
            engine.iterate(Cadence::Scheduled)
        };
        let Some(wait_ns) = reviews.review_if_due(engine, iterated) else {
            continue;
        };
        match sleep_and_store_recent(engine, sleep, wait_ns, settings.recent_every) {
            WakeCause::Timeout => {}
            WakeCause::ClockSet => calibrations.force_due(),
            WakeCause::Stopped => return,
        }
    }
}

/// The thread's reviews of the facts.
#[derive(Debug, Default)]
struct Reviews {
    /// The time of the last review, ns.
    last_ns: Option<i64>,
    /// Wake-ups in a row at which the thread could run no iteration, although no gate was closed.
    refusals: u32,
    /// The comparison that a review may start.
    comparison_thread: ComparisonThread,
}

impl Reviews {
    /// Reviews the facts if that is due. `iterated` is the time to the next iteration, ns, or why
    /// none has run. Returns the time to sleep, ns. `None` if the gates were judged again: an
    /// iteration is due now.
    fn review_if_due(&mut self, engine: &Engine, iterated: Result<u64, Obstacle>) -> Option<u64> {
        let is_gate_closed = iterated == Err(Obstacle::GateClosed);
        let is_refused = iterated.is_err() && !is_gate_closed;
        self.refusals = if is_refused { self.refusals + 1 } else { 0 };
        let wait_ns = match iterated {
            Ok(in_ns) => in_ns,
            Err(Obstacle::GateClosed) => engine.interval_ns(),
            Err(_) => wait_after_refusals_ns(self.refusals, engine.interval_ns()),
        };
        let now_ns = OsClock.monotonic_ns();
        let since_ns = self.last_ns.map_or(u64::MAX, |last_ns| {
            now_ns.saturating_sub(last_ns).unsigned_abs()
        });
        // The facts are reviewed at least once in each interval: now, if the next wake-up would be
        // too late.
        if is_gate_closed || since_ns.saturating_add(wait_ns) > engine.interval_ns() {
            self.last_ns = Some(now_ns);
            if engine.needs_comparison() {
                self.comparison_thread.start_if_due();
            }
            if engine.review() {
                return None;
            }
        }
        let asks_result = is_gate_closed && self.comparison_thread.is_running();
        Some(if asks_result {
            wait_ns.min(ASK_RESULT_EVERY_NS)
        } else {
            wait_ns
        })
    }
}

/// The wait of a thread that was refused an iteration this many times in a row, ns. Another caller
/// runs one, which takes microseconds. But that caller may be stopped in the middle of it: so each
/// wait is twice as long as the one before, up to the interval.
fn wait_after_refusals_ns(refusals: u32, interval_ns: u64) -> u64 {
    let doublings = refusals.saturating_sub(1).min(u64::BITS - 1);
    MIN_INTERVAL_NS
        .saturating_mul(1 << doublings)
        .min(interval_ns)
}

/// Sleeps for `wait_ns` in steps of `step`, and stores the recent time before each step.
fn sleep_and_store_recent(
    engine: &Engine,
    sleep: &StoppableSleep,
    wait_ns: u64,
    step: Option<Duration>,
) -> WakeCause {
    let start_ns = OsClock.monotonic_ns();
    let wait = Duration::from_nanos(wait_ns);
    let mut left = wait;
    loop {
        engine.registration.store_recent(engine.now_ordered());
        let woken = sleep.wait(step.unwrap_or(left).min(left));
        let spent_ns = OsClock
            .monotonic_ns()
            .saturating_sub(start_ns)
            .unsigned_abs();
        left = wait.saturating_sub(Duration::from_nanos(spent_ns));
        if woken != WakeCause::Timeout || left.is_zero() {
            return woken;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Driver;
    use crate::sys;

    /// Symptom: a thread whose lock was held by a killed one woke 7,260 times a second.
    #[test]
    fn a_thread_that_is_refused_waits_twice_as_long_each_time() {
        let engine = Engine::new(Driver::Reader);
        let interval_ns = engine.interval_ns();
        let mut reviews = Reviews::default();
        let _held = engine.clock.lock(sys::lock_token()).expect("a free lock");
        let mut wait_ns = || reviews.review_if_due(&engine, engine.iterate(Cadence::Scheduled));
        for doublings in 0..100 {
            let doubled_ns = MIN_INTERVAL_NS.saturating_mul(1 << doublings.min(20));
            assert_eq!(wait_ns(), Some(doubled_ns.min(interval_ns)));
        }
    }

    #[test]
    fn an_iteration_ends_a_row_of_refusals() {
        let engine = Engine::new(Driver::Reader);
        let mut reviews = Reviews {
            last_ns: Some(OsClock.monotonic_ns()),
            ..Reviews::default()
        };
        let mut wait_ns = |iterated| {
            reviews
                .review_if_due(&engine, iterated)
                .expect("no judgement")
        };
        let refused = Err(Obstacle::LockHeld);
        (0..5).for_each(|_| _ = wait_ns(refused));
        assert_eq!(wait_ns(Ok(7_000)), 7_000);
        assert_eq!(wait_ns(refused), MIN_INTERVAL_NS);
    }

    #[test]
    fn a_thread_sleeps_for_the_interval_while_a_gate_is_closed() {
        let engine = Engine::new(Driver::Reader);
        engine.disable();
        let mut reviews = Reviews::default();
        let iterated = engine.iterate(Cadence::Scheduled);
        let wait_ns = reviews.review_if_due(&engine, iterated);
        assert!(
            !reviews.comparison_thread.is_running(),
            "its result would come earlier"
        );
        assert_eq!(wait_ns, Some(engine.interval_ns()));
    }

    /// The starter of the late thread was killed, and the next one has registered another thread.
    ///
    /// Symptom: nobody noticed that this thread was killed.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_late_thread_does_not_release_its_successors_futex() {
        use std::sync::{Arc, mpsc};

        let engine = Arc::new(Engine::new(Driver::Reader));
        let successors = Arc::clone(&engine);
        engine.registration.register(2, engine.now_ordered());
        let (held, is_held) = mpsc::channel();
        let (kill, is_killed) = mpsc::channel::<()>();
        let successor = move || {
            let guard = successors.registration.futex.hold();
            held.send(guard.is_some()).ok();
            is_killed.recv().ok();
            // SAFETY: ends this thread as if it were killed; it holds nothing that others need.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        };
        let thread = sys::Thread::spawn(None, successor).expect("a thread");
        if is_held.recv() != Ok(true) {
            return crate::testing::skip("no robust lists here");
        }
        let late = Arc::clone(&engine);
        let late = SleepingThread::start(
            None,
            STACK_BYTES,
            StoppableSleep::plain(),
            move |sleep, begin_flag| run(&late, 1, sleep, begin_flag, Settings::DEFAULT),
        );
        late.expect("a thread").end();
        drop(kill);
        let killed = std::time::Instant::now();
        while !thread.has_ended() {
            assert!(killed.elapsed().as_secs() < 60, "its end is not seen");
            std::thread::yield_now();
        }
        assert!(engine.registration.futex.owner_died());
    }
}
