//! Events in the life of a process: exec, daemons, limits, stops, namespaces, closed descriptors, a
//! forbidden counter. Plain forks are in `forks.rs`, filters in `seccomp.rs`, handlers in
//! `signal.rs`.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tickline::backend::OsClock;
use tickline::{Clock, ClockState, Driver, ErrorKind, Reason};
use tickline_core::reference::{Reference, SUSPENDED_BOUND_NS};
use tickline_observe::monotonic_ns;

use crate::common::procfs::{
    await_tickline_threads, own_signals, status_field, tickline_threads, timers,
};
use crate::common::{
    alone, assert_right_if_possible, await_publications, goes_on, own_name, read_in_order,
    run_in_fork, skip, wait_until_fast, wait_until_it_agrees_with_the_os,
};
use tickline_observe::fork::{CANNOT, code_in_time_namespace, code_of_fork};

// Tests: the functions of these names.
in_processes! { run_in_child:
    many_clocks_live_side_by_side,
    nothing_is_left_of_a_dropped_clock,
    a_clock_changes_neither_the_environment_nor_its_callers_scheduling,
    many_threads_use_a_clock_at_once,
    a_process_that_was_stopped_goes_on_at_the_present_time,
    a_clock_survives_the_loss_of_its_descriptors,
}

// Tests: the functions of these names.
in_processes! { run_in_child_of_a_kernel:
    a_forked_child_may_exec,
    a_daemon_has_a_clock,
    without_a_thread_start_fails_and_the_clock_works,
    a_process_without_the_right_to_the_counter_has_a_clock,
    a_process_without_the_right_to_the_counter_can_wait_for_a_clock,
    a_fork_into_a_time_namespace_that_is_ahead_is_followed,
    a_fork_into_a_time_namespace_that_is_behind_does_not_step_back,
    the_time_asleep_is_boottime_minus_the_monotonic_time,
}

/// Ordered readings until a line of this process's own serves, or a gate is closed. Returns whether
/// that took less than 20 s, and no reading stepped back from `last`.
fn settles(clock: &Clock, mut last: u64) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        for _ in 0..100 {
            if !goes_on(clock, &mut last) {
                return false;
            }
        }
        if clock.status().is_judged && clock.status().state != ClockState::Calibrating {
            return true;
        }
    }
    false
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("procfs").count()
}

fn is_open(descriptor: i32) -> bool {
    // SAFETY: the call only reads the descriptor's flags.
    unsafe { libc::fcntl(descriptor, libc::F_GETFD) >= 0 }
}

// ---- fork, exec, daemons ----------------------------------------------------------------------

const EXECUTED: &str = "TICKLINE_TEST_EXECUTED";

/// A program that a forked child executes inherits no descriptor, no thread and no blocked signal
/// of the clock's.
fn a_forked_child_may_exec() {
    if std::env::var_os(EXECUTED).is_some() {
        assert!(timers().is_empty(), "the parent's timer came along");
        assert!(tickline_threads().is_empty());
        assert_eq!(own_signals("SigBlk:"), 0, "blocked");
        wait_until_fast(Clock::global());
        let _guard = tickline::start().unwrap();
        await_tickline_threads(1);
        return;
    }
    let _guard = tickline::start().unwrap();
    wait_until_fast(Clock::global());
    await_tickline_threads(1);
    run_in_fork(|| {
        black_box(tickline::now_ns());
        let name = own_name().expect("this is a child");
        let mut program = Command::new(std::env::current_exe().unwrap());
        panic!("{}", program.args(alone(&name)).env(EXECUTED, "1").exec());
    });
}

/// fork, setsid, fork, and all descriptors closed, as daemons do, before and after the clock is
/// started.
fn a_daemon_has_a_clock() {
    let guard = tickline::start().unwrap();
    wait_until_fast(Clock::global());
    let last = Clock::global().now_ordered().as_nanos();
    run_in_fork(|| {
        // SAFETY: the call has no precondition.
        unsafe { libc::setsid() };
        let code = code_of_fork(|| {
            for descriptor in 0..256 {
                // SAFETY: this process owns all descriptors that it closes here.
                unsafe { libc::close(descriptor) };
            }
            daemon(last).err().map_or(0, |fault| fault as i32)
        });
        let fault = Fault::ALL.into_iter().find(|fault| *fault as i32 == code);
        assert_eq!(code, 0, "{fault:?}");
    });
    drop(guard);
}

/// The check of a daemon that failed, and its exit code: a daemon has no stderr for a panic's text.
#[derive(Debug, Clone, Copy)]
enum Fault {
    NotDrivenByReaders = 1,
    DoesNotSettleWithReaders,
    DoesNotStart,
    DoesNotSettleWithItsThread,
    NotDrivenByItsThread,
    HoldsAStandardStream,
    LeavesADescriptor,
}

impl Fault {
    const ALL: [Self; 7] = [
        Self::NotDrivenByReaders,
        Self::DoesNotSettleWithReaders,
        Self::DoesNotStart,
        Self::DoesNotSettleWithItsThread,
        Self::NotDrivenByItsThread,
        Self::HoldsAStandardStream,
        Self::LeavesADescriptor,
    ];

    /// This fault, unless `is_right`.
    fn unless(self, is_right: bool) -> Result<(), Self> {
        if is_right { Ok(()) } else { Err(self) }
    }
}

fn daemon(parents_last: u64) -> Result<(), Fault> {
    let clock = Clock::global();
    let is_driven_by = |driver| clock.status().driver == Some(driver);
    Fault::NotDrivenByReaders.unless(is_driven_by(Driver::Reader))?;
    Fault::DoesNotSettleWithReaders.unless(settles(clock, parents_last))?;
    let guard = tickline::start().map_err(|_| Fault::DoesNotStart)?;
    let last = clock.now_ordered().as_nanos();
    Fault::DoesNotSettleWithItsThread.unless(settles(clock, last))?;
    Fault::NotDrivenByItsThread.unless(is_driven_by(Driver::Thread))?;
    // The program's next files are to be its standard streams, not the timer. The thread opens
    // files of the kernel for a moment.
    let are_free = |_| {
        std::thread::sleep(Duration::from_millis(1));
        !(0..3).any(is_open)
    };
    Fault::HoldsAStandardStream.unless((0..1_000).any(are_free))?;
    drop(guard);
    Fault::LeavesADescriptor.unless(!(0..64).any(is_open))
}

// ---- numbers ----------------------------------------------------------------------------------

/// Instances of every driver, all at once.
fn many_clocks_live_side_by_side() {
    let drivers = [Driver::Thread, Driver::Reader, Driver::Manual]
        .into_iter()
        .cycle()
        .take(96);
    let clocks: Vec<Clock> = drivers.map(clock_with_interval_of_20_ms).collect();
    await_tickline_threads(32);
    let start = Instant::now();
    let mut last = vec![0; clocks.len()];
    while start.elapsed() < Duration::from_millis(500) {
        for (clock, last) in clocks.iter().zip(&mut last) {
            read_in_order(clock, last);
            clock.maintain();
        }
    }
    for clock in &clocks {
        wait_until_it_agrees_with_the_os(clock);
    }
}

fn clock_with_interval_of_20_ms(driver: Driver) -> Clock {
    let builder = Clock::builder().driver(driver);
    builder.interval(Duration::from_millis(20)).build().unwrap()
}

/// A dropped clock leaves no threads, descriptors, handlers or blocked signals.
fn nothing_is_left_of_a_dropped_clock() {
    wait_until_fast(Clock::global());
    let handled_and_blocked = || ["SigCgt:", "SigBlk:"].map(own_signals);
    let before = (open_descriptors(), handled_and_blocked());
    for _ in 0..3 {
        let guard = Clock::builder()
            .interval(Duration::from_millis(1))
            .start_global()
            .unwrap();
        let clocks =
            [Driver::Thread, Driver::Reader, Driver::Manual].map(clock_with_interval_of_20_ms);
        for clock in &clocks {
            clock.maintain();
            black_box((clock.now(), clock.status()));
        }
        assert_eq!(handled_and_blocked(), before.1, "while clocks live");
        drop((guard, clocks));
        await_tickline_threads(0);
        assert_eq!((open_descriptors(), handled_and_blocked()), before);
    }
}

fn a_clock_changes_neither_the_environment_nor_its_callers_scheduling() {
    let facts = || {
        let thread = Path::new("/proc/thread-self");
        let scheduling = std::fs::read_to_string(thread.join("sched")).unwrap_or_default();
        let is_setting = |line: &&str| line.starts_with("policy") || line.starts_with("prio");
        (
            std::env::vars_os().collect::<Vec<_>>(),
            status_field(thread, "Cpus_allowed:"),
            scheduling
                .lines()
                .filter(is_setting)
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let before = facts();
    let guard = tickline::start().unwrap();
    wait_until_fast(Clock::global());
    assert_eq!(facts(), before, "while a thread calibrates");
    drop(guard);
    assert_eq!(facts(), before);
}

/// The first readings of a process, by many threads at once, while one starts and drops the
/// clock's thread. All are in one order.
fn many_threads_use_a_clock_at_once() {
    let largest = AtomicU64::new(0);
    let gate = std::sync::Barrier::new(129);
    std::thread::scope(|scope| {
        for _ in 0..128 {
            scope.spawn(|| {
                gate.wait();
                for turn in 0..2_000 {
                    // ORDERING: Acquire, pairs with the Release below: the reading of `before` was
                    // complete before this one begins.
                    let before = largest.load(Ordering::Acquire);
                    let now = tickline::now_ordered_ns();
                    assert!(now >= before, "{now} after {before}");
                    // ORDERING: Release, pairs with the Acquire above.
                    largest.fetch_max(now, Ordering::Release);
                    if turn % 64 == 0 {
                        std::thread::yield_now();
                    }
                }
            });
        }
        gate.wait();
        for _ in 0..20 {
            let guards: Vec<_> = (0..3).map(|_| tickline::start().unwrap()).collect();
            std::thread::sleep(Duration::from_millis(1));
            drop(guards);
        }
    });
    await_tickline_threads(0);
    wait_until_fast(Clock::global());
}

// ---- stops ------------------------------------------------------------------------------------

/// A process that is stopped for longer than any line is valid goes on in order, with fresh
/// readings, and its control loop goes on.
fn a_process_that_was_stopped_goes_on_at_the_present_time() {
    let own = std::process::id();
    let stop = format!("kill -STOP {own} && sleep 0.25 && kill -CONT {own}");
    for driver in [Driver::Thread, Driver::Reader] {
        let clock = Clock::builder()
            .driver(driver)
            .interval(Duration::from_millis(20))
            .build()
            .unwrap();
        let fast = wait_until_fast(&clock).is_some();
        for _ in 0..3 {
            let last = clock.now_ordered().as_nanos();
            let stopped_at = monotonic_ns();
            // A shell stops this process, all its threads, and continues it a while later.
            assert!(
                Command::new("sh")
                    .args(["-c", &stop])
                    .status()
                    .unwrap()
                    .success()
            );
            // Up to this reading: the next line may take long.
            let stopped_ns = monotonic_ns() - stopped_at;
            let now = clock.now_ordered().as_nanos();
            assert!(now >= last, "{now} after {last}");
            wait_until_it_agrees_with_the_os(&clock);
            assert!(
                stopped_ns > 200_000_000,
                "the process was not stopped: {stopped_ns} ns"
            );
            assert!(
                now - last > stopped_ns / 2,
                "{now} is stale: {last} was {stopped_ns} ns ago, {:?}",
                clock.status()
            );
        }
        if fast {
            await_publications(&clock, 3);
        }
    }
}

// ---- refusals ---------------------------------------------------------------------------------

/// Under `RLIMIT_NPROC` the system makes no thread. That is an error, the attempt leaves nothing
/// behind, and the clock works.
fn without_a_thread_start_fails_and_the_clock_works() {
    let mut before = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `before` is valid for a write.
    unsafe { libc::getrlimit(libc::RLIMIT_NPROC, &raw mut before) };
    let none = libc::rlimit {
        rlim_cur: 0,
        ..before
    };
    // SAFETY: lowers this process's own limit; the struct is valid.
    unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const none) };
    // The limit does not bind root. 65534 is the user `nobody`.
    // SAFETY: the call takes numbers; the kernel refuses it if this is not root.
    unsafe { libc::setresuid(65_534, 65_534, 65_534) };
    if std::thread::Builder::new().spawn(|| {}).is_ok() {
        return skip("this user may have as many threads as it likes");
    }
    // The lowest free number: a descriptor that is left behind moves it.
    // SAFETY: the copied descriptor is this process's own; the copy is closed again.
    let lowest_free = || unsafe { libc::dup(1) };
    let first = lowest_free();
    // SAFETY: the copy was made above.
    unsafe { libc::close(first) };
    let global_works = "readers drive the clock without it";
    for (refused, what_to_do) in [
        (tickline::start().err(), global_works),
        (
            Clock::builder()
                .interval(Duration::from_millis(5))
                .start_global()
                .err(),
            global_works,
        ),
        (
            Clock::builder().build().err(),
            "a clock with Driver::Reader needs none",
        ),
    ] {
        let error = refused.expect("no thread, no success");
        assert_eq!(error.kind(), ErrorKind::ThreadNotStarted);
        let cause = error.system_error().expect("the system has refused it");
        let expected =
            format!("the thread \"tickline\" could not be started ({what_to_do}): {cause}");
        assert_eq!(error.to_string(), expected);
    }
    assert_eq!(lowest_free(), first, "the attempts have left a descriptor");
    let clock = Clock::global();
    assert!(
        clock.status().driver == Some(Driver::Reader) && settles(clock, 0),
        "{:?}",
        clock.status()
    );
    wait_until_it_agrees_with_the_os(clock);
    crate::common::read_until(clock, Clock::now, |status| {
        status.interval_ns.is_none_or(|ns| ns > 5_000_000)
    });
    // SAFETY: restores the old limit, which needs no privilege; the struct is valid.
    unsafe { libc::setrlimit(libc::RLIMIT_NPROC, &raw const before) };
    drop(tickline::start().unwrap());
}

/// `prctl(PR_SET_TSC)`: reading the counter is a SIGSEGV, in the vDSO too. The gate says so, and
/// time comes from the kernel.
fn a_process_without_the_right_to_the_counter_has_a_clock() {
    let code = code_of_fork(|| {
        // SAFETY: the call takes numbers. From here on no code may ask std or libc for the time.
        if unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) } != 0 {
            return CANNOT;
        }
        let exchanges = tickline::exchange::between(0, 0);
        assert_eq!(exchanges.count, 0, "an exchange reads the counter");
        for driver in [Driver::Reader, Driver::Thread] {
            let mut last = 0;
            let clock = Clock::builder()
                .driver(driver)
                .interval(Duration::from_millis(50))
                .build()
                .unwrap();
            while last == 0 || !clock.status().is_judged {
                for _ in 0..100 {
                    read_in_order(&clock, &mut last);
                }
                black_box((clock.unix_now(), clock.reading(), clock.unix_reading()));
            }
            // On targets without a counter that gate comes first.
            let reason = clock.status().reason();
            assert!(
                matches!(reason, Some(Reason::Denied | Reason::NoCounter)),
                "{reason:?}"
            );
            clock.disable();
            clock.enable();
            clock.maintain();
            assert!(clock.now_ordered().as_nanos() >= last && clock.unix_now().as_nanos() > 0);
        }
        0
    });
    assert_right_if_possible("this kernel cannot deny the counter", code);
}

/// A wait that measures its time by std would raise SIGSEGV in the vDSO.
fn a_process_without_the_right_to_the_counter_can_wait_for_a_clock() {
    let code = code_of_fork(|| {
        // SAFETY: the call takes numbers. From here on no code may ask std or libc for the time.
        if unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) } != 0 {
            return CANNOT;
        }
        for driver in [Driver::Reader, Driver::Thread, Driver::Manual] {
            let clock = Clock::builder().driver(driver).build().unwrap();
            let reason = clock.wait_until_decided(Duration::from_secs(20)).reason();
            // On targets without a counter that gate comes first.
            assert!(
                matches!(reason, Some(Reason::Denied | Reason::NoCounter)),
                "{driver:?}: {reason:?}"
            );
        }
        0
    });
    assert_right_if_possible("this kernel cannot deny the counter", code);
}

// ---- namespaces -------------------------------------------------------------------------------

/// Runs `body` in a time namespace whose monotonic clock is `ahead_ns` ahead.
fn run_in_time_namespace(ahead_ns: i64, body: impl FnOnce()) {
    let code = code_in_time_namespace(ahead_ns, || {
        body();
        0
    });
    assert_right_if_possible("no time namespace can be made here", code);
}

fn clock_with_driver(driver: Driver) -> Clock {
    Clock::builder()
        .driver(driver)
        .interval(Duration::from_millis(5))
        .build()
        .unwrap()
}

const DAY_NS: u64 = 86_400_000_000_000;

/// A namespace whose monotonic clock alone is a day ahead shows a day less asleep.
fn the_time_asleep_is_boottime_minus_the_monotonic_time() {
    // A machine that is too busy to bracket a reading does not say.
    let asleep_ns = || (0..1_000).find_map(|_| OsClock.suspended_ns()).unwrap();
    let outside_ns = asleep_ns();
    run_in_time_namespace(DAY_NS.cast_signed(), || {
        let less_ns = (outside_ns - asleep_ns()).cast_unsigned();
        assert!(
            less_ns.abs_diff(DAY_NS) <= SUSPENDED_BOUND_NS,
            "{less_ns} ns less than {outside_ns} ns"
        );
    });
}

/// If a fork moves a calibrated clock into another namespace, it follows the clock of that
/// namespace when its line ends. A clock that is created there follows it from the start.
fn a_fork_into_a_time_namespace_that_is_ahead_is_followed() {
    let clock = clock_with_driver(Driver::Reader);
    wait_until_fast(&clock);
    let last = clock.now_ordered().as_nanos();
    run_in_time_namespace(DAY_NS.cast_signed(), || {
        wait_until_it_agrees_with_the_os(&clock);
        assert!(
            settles(&clock, last + DAY_NS / 100 * 99),
            "{:?}",
            clock.status()
        );
        for driver in [Driver::Reader, Driver::Thread] {
            let fresh = clock_with_driver(driver);
            assert!(settles(&fresh, last + DAY_NS), "{:?}", fresh.status());
            wait_until_it_agrees_with_the_os(&fresh);
        }
    });
}

/// In a namespace whose clock is behind, order comes first: readings do not step back, and no call
/// waits forever.
fn a_fork_into_a_time_namespace_that_is_behind_does_not_step_back() {
    let clock = clock_with_driver(Driver::Reader);
    // The last reading must be by a line, which leaves a high-water mark: the OS clock itself steps
    // back in the namespace.
    let mut last = loop {
        if wait_until_fast(&clock).is_none() {
            return;
        }
        let reading = clock.reading();
        if reading.is_from_counter() {
            break reading.time().as_nanos();
        }
    };
    run_in_time_namespace(-(monotonic_ns() / 2).cast_signed(), || {
        let start = Instant::now();
        // Time goes on: a reader calibrates the counter though the parent's line was to last
        // longer.
        let most = last + 300_000_000;
        while start.elapsed() < Duration::from_millis(300) || last < most {
            read_in_order(&clock, &mut last);
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "{:?}",
                clock.status()
            );
        }
        // A new clock has no past to be in order with.
        wait_until_it_agrees_with_the_os(&clock_with_driver(Driver::Reader));
    });
}

// ---- descriptors ------------------------------------------------------------------------------

/// The program closes the thread's descriptor, and its number becomes another file's. The clock
/// leaves that file alone, and goes on to recalibrate. The test replaces only this descriptor, in
/// one step. Closing all descriptors while threads run would race with the files that the threads
/// have open for a moment. tickline's files in sysfs are among them.
fn a_clock_survives_the_loss_of_its_descriptors() {
    let clock = Clock::builder()
        .interval(Duration::from_millis(5))
        .build()
        .unwrap();
    let fast = wait_until_fast(&clock).is_some();
    await_tickline_threads(1);
    let timers = timers();
    assert_eq!(timers.len(), 1);
    // SAFETY: the call takes no pointer.
    let other = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK) };
    // SAFETY: closes the timer, and makes its number the other's: what this test is about.
    assert_eq!(unsafe { libc::dup2(other, timers[0]) }, timers[0]);
    if fast {
        await_publications(&clock, 10);
    }
    drop(clock);
    await_tickline_threads(0);
    let mut expirations = 0_u64;
    // SAFETY: the number is valid for a write.
    let length = unsafe { libc::read(timers[0], (&raw mut expirations).cast(), 8) };
    let error = std::io::Error::last_os_error();
    assert_eq!(
        (length, error.kind()),
        (-1, std::io::ErrorKind::WouldBlock),
        "another descriptor"
    );
}
