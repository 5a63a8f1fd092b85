use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use criterion::measurement::Measurement;
use tickline_observe::skip;

use super::*;
use crate::measurement::calibration::Scale;
use crate::measurement::readings::Elapsed;
use crate::measurement::time::CounterTime;

const LONG_TICKS: u64 = 1_000;

fn pair(start_ticks: u64, ticks: u64) -> PairReads {
    PairReads {
        start_ticks,
        end_ticks: start_ticks + ticks,
        cpus: None,
    }
}

fn reading(ticks: u64) -> Option<ThreadReading> {
    Some(ThreadReading {
        id: id(ticks)?,
        ticks,
        times: ThreadTimes {
            cpu_ns: ticks,
            ..ThreadTimes::default()
        },
    })
}

/// The number of the reading at this time.
fn id(ticks: u64) -> Option<NonZeroU64> {
    NonZeroU64::new(ticks)
}

/// The readings at two times.
fn readings(before: u64, after: u64) -> Option<(ThreadReading, ThreadReading)> {
    reading(before).zip(reading(after))
}

fn must_not_read() -> Option<ThreadReading> {
    panic!("the times were read")
}

/// A history with `short_pairs` short pairs since the last long one, and the last reading at
/// `last_ticks`.
fn history(short_pairs: u32, last_ticks: u64) -> History {
    History {
        last: reading(last_ticks),
        short_pairs,
    }
}

#[test]
fn a_pair_after_a_long_one_has_readings_of_its_own() {
    let mut history = history(0, 500);
    assert_eq!(history.before(|| reading(700)), id(700));
    let pair = pair(710, LONG_TICKS);
    let after = history.after(id(700), &pair, LONG_TICKS, || reading(1_800));
    assert_eq!(after, readings(700, 1_800));
}

#[test]
fn the_first_pair_of_a_thread_has_a_reading_before_its_start() {
    assert_eq!(History::default().before(|| reading(700)), id(700));
}

#[test]
fn nothing_is_read_around_short_pairs_that_follow_each_other() {
    let mut history = history(SHORT_PAIRS, 500);
    assert_eq!(history.before(must_not_read), id(500));
    let after = history.after(id(500), &pair(710, 10), LONG_TICKS, must_not_read);
    assert_eq!(after, None);
}

/// The gap before a long pair is then short, too.
#[test]
fn among_short_pairs_the_last_reading_is_renewed() {
    let mut history = history(SHORT_PAIRS, 500);
    let late = pair(500 + LONG_TICKS, 10);
    let after = history.after(id(500), &late, LONG_TICKS, || reading(1_600));
    assert_eq!(after, None);
    assert_eq!(history.before(must_not_read), id(1_600));
}

/// Symptom: in a short benchmark, the sample after the first one was unsure, because that one was
/// short.
#[test]
fn a_few_short_pairs_do_not_change_what_is_expected() {
    let mut history = History::default();
    for at in 1..SHORT_PAIRS.into() {
        assert_eq!(history.before(|| reading(at)), id(at));
        history.after(id(at), &pair(at, 10), LONG_TICKS, must_not_read);
    }
    assert_eq!(history.before(|| reading(700)), id(700));
    history.after(id(700), &pair(710, 10), LONG_TICKS, must_not_read);
    assert_eq!(history.before(must_not_read), id(700));
}

#[test]
fn a_long_pair_after_short_ones_is_compared_with_the_last_reading() {
    let mut history = history(SHORT_PAIRS, 500);
    assert_eq!(history.before(must_not_read), id(500));
    let pair = pair(600, LONG_TICKS);
    let after = history.after(id(500), &pair, LONG_TICKS, || reading(1_700));
    assert_eq!(after, readings(500, 1_700));
    assert_eq!(history.before(|| reading(1_800)), id(1_800));
}

#[test]
fn times_that_can_no_longer_be_read_are_unknown() {
    let mut history = history(0, 500);
    assert_eq!(history.before(|| None), None);
    let after = history.after(None, &pair(600, LONG_TICKS), LONG_TICKS, || reading(1_700));
    assert_eq!(after, None);
}

#[test]
fn a_pair_around_other_pairs_is_unknown() {
    let mut history = history(0, 500);
    let outer = history.before(|| reading(700));
    let inner = history.before(|| reading(800));
    let of_inner = history.after(inner, &pair(810, LONG_TICKS), LONG_TICKS, || reading(1_900));
    assert_eq!(of_inner, readings(800, 1_900));
    let of_outer = history.after(outer, &pair(710, 1_300), LONG_TICKS, || reading(2_100));
    assert_eq!(of_outer, None);
}

#[test]
fn calls_of_a_usual_cost_calibrate_the_meter() {
    let mut costs_ns = [400.0; TRIALS];
    costs_ns[..10].fill(-3e6); // The thread lost the CPU.
    costs_ns[10..15].fill(9e6);
    assert_eq!(usual_calls_ns(costs_ns), Some(400));
}

/// Symptom in a sandbox whose CPU clock has steps of 10 ms: every sample would be 0 or 10 ms.
#[test]
fn a_cpu_clock_with_long_steps_is_refused() {
    let mut costs_ns = [-50.0; TRIALS];
    costs_ns[0] = 10e6;
    assert_eq!(usual_calls_ns(costs_ns), None);
    assert_eq!(usual_calls_ns([10e6; TRIALS]), None);
}

fn meter() -> Option<ThreadMeter> {
    let (Some(clock), Some(_)) = (PairClock::counter(), system::cpu_ns()) else {
        skip("no counter, or a system without these times");
        return None;
    };
    // Any rate will do, because these tests don't compare the clocks.
    Some(ThreadMeter {
        clock,
        scale: MeterScale {
            ns_per_tick: 1.0,
            calls_ns: 0,
            others_calls_ns: 0,
        },
        long_ticks: LONG_TICKS,
    })
}

/// Whether nothing is known about a long pair that began with this reading and ends on this thread.
fn is_unknown(meter: &ThreadMeter, before: Option<NonZeroU64>) -> bool {
    let start_ticks = meter.clock.ticks();
    let pair = pair(start_ticks, LONG_TICKS);
    meter.readings(before, &pair).is_none()
}

#[test]
fn a_reading_of_the_times_has_the_counters_ticks() {
    let Some(meter) = meter() else { return };
    let start = meter.clock.start();
    let read = |thread: &mut Thread| {
        let file = thread.file.as_ref()?;
        Some([
            read_before(file, meter.clock)?,
            read_after(file, meter.clock)?,
        ])
    };
    let readings = with_thread(read).flatten().expect("two readings");
    let around = start.reads();
    for reading in readings {
        assert!((around.start_ticks..=around.end_ticks).contains(&reading.ticks));
    }
}

/// A file of `/proc` would show the other thread's times.
#[test]
fn a_pair_that_began_on_another_thread_is_unknown() {
    let Some(meter) = meter() else { return };
    let elsewhere = std::thread::spawn(move || meter.before()).join();
    let elsewhere = elsewhere.expect("a thread").expect("a reading");
    meter.before().expect("a reading");
    assert!(is_unknown(&meter, Some(elsewhere)));
}

/// In the child of a fork, the inherited file is the parent's.
#[test]
fn a_pair_that_began_before_a_fork_is_unknown() {
    let Some(meter) = meter() else { return };
    let before = meter.before();
    assert!(!is_unknown(&meter, before), "the same process");
    let before = meter.before();
    with_thread(|thread| {
        thread.process = 0;
        thread.file = None;
    })
    .expect("this thread");
    assert!(is_unknown(&meter, before));
    assert!(!is_unknown(&meter, meter.before()), "a file of its own");
}

#[test]
fn a_pair_is_unknown_if_the_file_cannot_be_read() {
    let Some(meter) = meter() else { return };
    with_thread(|thread| thread.file = None).expect("this thread");
    assert_eq!(meter.before(), None);
    assert!(is_unknown(&meter, None));
    let long = pair(meter.clock.ticks(), LONG_TICKS);
    assert_eq!(meter.after(None, &long), LostTime::unknown(LONG_TICKS));
    let short = pair(meter.clock.ticks(), 1);
    assert_eq!(meter.after(None, &short), LostTime::default());
    assert_eq!(
        ThreadMeter::calibrate(meter.clock, 1.0).err(),
        Some(system::MISSING)
    );
}

/// Another program that keeps this thread's CPU busy until it is dropped.
struct Rival(std::process::Child);

impl Drop for Rival {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

fn work_for(duration: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < duration {
        black_box(7);
    }
}

/// The time of the sample, as it is and after the subtraction, and the progress of the CPU clock.
fn sample_ns(time: &CounterTime) -> (Elapsed, f64) {
    let cpu_ns = system::cpu_ns().expect("a clock");
    let start = time.start();
    work_for(Duration::from_millis(20));
    let elapsed = time.end(start);
    let cpu_ns = system::cpu_ns().expect("a clock") - cpu_ns;
    (elapsed, as_f64(cpu_ns))
}

/// The variable by which a test that runs itself again tells each process its role.
const ROLE: &str = "TICKLINE_CRITERION_TEST_ROLE";

/// This program, which runs only this test, in this role.
fn program(test: &str, role: &str) -> std::process::Command {
    let program = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new(program);
    command.args(["--exact", test, "--nocapture"]);
    command.env(ROLE, role);
    command
}

/// Symptom: under load, all figures doubled.
///
/// The sample is taken by a process of its own, because other tests are threads of this one, whose
/// time is not told from the routine's. The rival inherits its CPU.
#[test]
fn a_sample_beside_a_busy_program_takes_the_time_in_which_it_ran() {
    const TEST: &str = "measurement::thread_meter::tests::a_sample_beside_a_busy_program_takes_the_time_in_which_it_ran";
    match std::env::var(ROLE).as_deref() {
        Ok("rival") => work_for(Duration::from_secs(60)), // if it is not killed before
        Ok(_) => measure_beside(|| program(TEST, "rival")),
        Err(_) => {
            let child = program(TEST, "measure").output().expect("a child");
            let text = String::from_utf8_lossy(&child.stderr).into_owned();
            assert!(child.status.success(), "{text}");
            text.lines()
                .filter_map(|line| line.strip_prefix("SKIPPED: "))
                .for_each(skip);
        }
    }
}

fn measure_beside(rival: impl FnOnce() -> std::process::Command) {
    let cpu = core_affinity::get_core_ids().unwrap_or_default();
    let time = CounterTime::builder().quiet().build_or_wall_time();
    let (None, Some(&cpu)) = (time.not_subtracted(), cpu.first()) else {
        return skip("nothing is subtracted here");
    };
    if !core_affinity::set_for_current(cpu) {
        return skip("the thread can't be bound to a CPU");
    }
    let mut rival = rival();
    let rival = rival.stdout(std::process::Stdio::null()).spawn();
    let _rival = Rival(rival.expect("a rival"));
    // The first samples may end before the other program begins.
    let (elapsed, cpu_ns) = (0..500)
        .map(|_| sample_ns(&time))
        .find(|(elapsed, _)| elapsed.lost.waited_ns > 1_000_000)
        .expect("the scheduler takes turns");
    let scale = Scale {
        cost_ticks: 0.0,
        ..time.scale()
    };
    let untouched = Elapsed {
        lost: LostTime::default(),
        ..elapsed
    };
    let (left_ns, all_ns) = (elapsed.to_ns(&scale), untouched.to_ns(&scale));
    let lost = elapsed.lost;
    assert!(left_ns < all_ns, "{lost:?}");
    assert!(
        (left_ns - cpu_ns).abs() < (all_ns - cpu_ns).abs() / 2.0,
        "{left_ns} of {all_ns}, but the CPU clock says {cpu_ns}; {lost:?}"
    );
}

/// Works for the measured thread on the same CPU, and yields in between, until it is dropped.
struct Helper {
    state: Arc<HelperState>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// What the measured thread and its helper tell each other.
#[derive(Default)]
struct HelperState {
    is_over: AtomicBool,
    requests: AtomicU64,
    answers: AtomicU64,
    /// The helper's CPU clock at its last answer.
    cpu_ns: AtomicU64,
}

impl Helper {
    fn on(cpu: core_affinity::CoreId) -> Self {
        let state = Arc::new(HelperState::default());
        let shared = Arc::clone(&state);
        let thread = std::thread::spawn(move || {
            core_affinity::set_for_current(cpu);
            answer(&shared);
        });
        Self {
            state,
            thread: Some(thread),
        }
    }

    /// Has the helper work, and yields until it has.
    fn call(&self) {
        // ORDERING: Relaxed, for the load in `answer`: the number is all that is handed over.
        let request = self.state.requests.fetch_add(1, Ordering::Relaxed) + 1;
        // ORDERING: Acquire, pairs with the Release store in `answer`. Weaker would let `cpu_ns`
        // be that of an earlier answer.
        while self.state.answers.load(Ordering::Acquire) != request {
            std::thread::yield_now();
        }
    }

    fn cpu_ns(&self) -> u64 {
        // ORDERING: Relaxed, because the Acquire load in `call` comes first.
        self.state.cpu_ns.load(Ordering::Relaxed)
    }
}

/// Works for 20 us for each request.
fn answer(state: &HelperState) {
    let mut answered = 0;
    // ORDERING: Relaxed, because nothing else is read after it. It pairs with the store in `drop`.
    while !state.is_over.load(Ordering::Relaxed) {
        // ORDERING: Relaxed, pairs with the increment in `call`, which hands over nothing else.
        let request = state.requests.load(Ordering::Relaxed);
        if request == answered {
            std::thread::yield_now();
            continue;
        }
        work_for(Duration::from_micros(20));
        answered = request;
        let cpu_ns = system::cpu_ns().expect("a clock");
        // ORDERING: Relaxed, because the Release store below publishes it.
        state.cpu_ns.store(cpu_ns, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `call`.
        state.answers.store(answered, Ordering::Release);
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // ORDERING: Relaxed, for the load in `answer`.
        self.state.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the thread ends");
        }
    }
}

/// Symptom: a routine that waits for its helper by `yield_now` took 1.5 us of the 44 us of a call,
/// because a thread that yields stays runnable, so its wait is run delay.
#[test]
fn a_sample_that_yields_to_its_own_helper_has_the_time_of_the_helper() {
    let cpu = core_affinity::get_core_ids().unwrap_or_default();
    let time = CounterTime::builder().quiet().build_or_wall_time();
    let (None, Some(&cpu)) = (time.not_subtracted(), cpu.first()) else {
        return skip("nothing is subtracted here");
    };
    if !core_affinity::set_for_current(cpu) {
        return skip("the thread can't be bound to a CPU");
    }
    let helper = Helper::on(cpu);
    helper.call();
    let (cpu_ns, helper_ns) = (system::cpu_ns().expect("a clock"), helper.cpu_ns());
    let start = time.start();
    for _ in 0..500 {
        helper.call();
    }
    let elapsed = time.end(start);
    let cpu_ns = system::cpu_ns().expect("a clock") - cpu_ns;
    let helper_ns = helper.cpu_ns() - helper_ns;
    // Both run on one CPU, so the sample takes at least the time in which they ran.
    let (reported_ns, ran_ns) = (time.to_f64(&elapsed), as_f64(cpu_ns + helper_ns));
    assert!(
        reported_ns > 0.9 * ran_ns,
        "{reported_ns} of {ran_ns}, {helper_ns} of them the helper's; {:?}",
        elapsed.lost
    );
}

/// A routine that sleeps takes the time of its sleep.
#[test]
fn the_time_of_a_sleep_is_left() {
    let time = CounterTime::builder().quiet().build_or_wall_time();
    let start = time.start();
    std::thread::sleep(Duration::from_millis(20));
    assert!(time.to_f64(&time.end(start)) >= 20e6);
}
