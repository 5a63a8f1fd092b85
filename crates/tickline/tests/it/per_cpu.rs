//! A line for each CPU, on any machine. The lines must also work if the counters are synchronised.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tickline::{Clock, ClockState, ErrorKind, Event, LinePerCpu, Status};
use tickline_observe::{Bounded, Bracket};

use crate::common::{self, procfs};

/// Starts a clock with a line for each CPU. `None`, with a message, if this machine can't have one.
fn new_clock(interval: Duration) -> Option<Clock> {
    let builder = Clock::builder()
        .interval(interval)
        .line_per_cpu(LinePerCpu::On);
    match builder.build() {
        Ok(clock) => Some(clock),
        Err(error) => {
            assert!(
                matches!(error.kind(), ErrorKind::LinePerCpuUnsupported),
                "{error}"
            );
            common::skip(error);
            None
        }
    }
}

/// [Starts a clock](new_clock), and waits until it is fast.
fn fast_clock(interval: Duration) -> Option<Clock> {
    let clock = new_clock(interval)?;
    wait_until_fast_by(&clock, |lines| lines > 0)?;
    Some(clock)
}

/// Calls the clock until it is fast, and the number of its CPUs' lines is right. `None`, with a
/// message, behind a closed gate.
fn wait_until_fast_by(clock: &Clock, lines: impl Fn(usize) -> bool) -> Option<()> {
    common::wait_until_fast(clock)?;
    let wanted = |status: Status| status.state == ClockState::Fast && lines(status.per_cpu.len());
    common::read_until(clock, Clock::now, wanted);
    Some(())
}

/// Whether the bounds were void meanwhile, because the OS clock jumped or changed its rate.
fn is_void(clock: &Clock) -> bool {
    let events = clock.status().events;
    [Event::BoundViolation, Event::Disruption]
        .iter()
        .any(|event| events.get(*event) > 0)
}

/// Compares every kind of reading with readings of the OS clock around it, on threads that move
/// between CPUs. So none of their readings steps back by more than the bounds.
#[test]
fn readings_are_those_of_the_os_clock() {
    let Some(clock) = fast_clock(Duration::from_millis(1)) else {
        return;
    };
    let end = Instant::now() + Duration::from_millis(500);
    let fast = AtomicU32::new(0);
    // A line starts up to microseconds ahead, and is slewed; 1 ms is far from what another CPU's
    // origin would be.
    let is_near = |at: Bracket| at.ahead_ns().max(at.behind_ns()) < 1_000_000;
    let read = || {
        while Instant::now() < end {
            let reading = Bounded::read(&clock);
            let readings = [
                Bracket::around(|| clock.now().as_nanos()),
                Bracket::around(|| clock.now_ordered().as_nanos()),
                Bracket::by(libc::CLOCK_REALTIME, || clock.unix_now().as_nanos()),
                Bounded::read_unix(&clock).bracket,
            ];
            let has_jumped = |at: &Bracket| at.after_ns.abs_diff(at.before_ns) > 1_000_000_000;
            if is_void(&clock) || readings.iter().any(has_jumped) {
                return common::skip("the OS clock jumped");
            }
            assert_eq!(reading.missed_ns(), 0, "{reading:?}");
            assert!(readings.iter().all(|at| is_near(*at)), "{readings:?}");
            // ORDERING: Relaxed, a count on its own.
            fast.fetch_add(u32::from(reading.by_counter), Ordering::Relaxed);
        }
    };
    std::thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(read)));
    assert!(
        fast.into_inner() > 0 || is_void(&clock),
        "by no line: {:?}",
        clock.status()
    );
    assert!(clock.recent().as_nanos() <= clock.now().as_nanos() + 1_000_000);
}

#[test]
fn a_disabled_clock_has_no_line_for_any_cpu() {
    let Some(clock) = fast_clock(Duration::from_millis(5)) else {
        return;
    };
    clock.disable();
    assert!(!clock.reading().is_from_counter());
    assert!(clock.status().per_cpu.is_empty());
    assert!(clock.now().as_nanos() > 0 && clock.unix_now().as_nanos() > 0);
}

#[test]
fn an_enabled_clock_has_a_line_for_each_cpu_again() {
    let Some(clock) = fast_clock(Duration::from_millis(5)) else {
        return;
    };
    clock.disable();
    clock.enable();
    wait_until_fast_by(&clock, |lines| lines > 0).expect("fast again");
}

/// The global clock goes back to one line when its thread stops.
#[test]
fn the_global_clock_can_have_a_line_for_each_cpu() {
    common::run_in_child(&[], || {
        for _ in 0..2 {
            let guard = match Clock::builder().line_per_cpu(LinePerCpu::On).start_global() {
                Ok(guard) => guard,
                Err(error) => return common::skip(error),
            };
            let Some(()) = wait_until_fast_by(Clock::global(), |lines| lines > 0) else {
                return;
            };
            drop(guard);
            wait_until_fast_by(Clock::global(), |lines| lines == 0).expect("fast by one line");
        }
    });
}

fn own_cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).expect("the CPUs of this thread");
    (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect()
}

fn run_on(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("a CPU of this process");
}

/// Symptom: the wait ended when any CPU had a line, and the status had neither bound nor frequency.
#[test]
fn a_wait_ends_when_the_callers_cpu_has_a_line() {
    for cpu in own_cpus() {
        let Some(clock) = new_clock(Duration::from_millis(500)) else {
            return;
        };
        let wait = || {
            run_on(cpu);
            clock.wait_until_decided(Duration::from_secs(20))
        };
        let status = std::thread::scope(|scope| scope.spawn(wait).join()).expect("no panic");
        let is_given_up = status.per_cpu.iter().any(|of_cpu| {
            of_cpu.cpu as usize == cpu && matches!(of_cpu.state, ClockState::Fallback(_))
        });
        // A busy machine may be late to replace the line. The status then lacks the bound only.
        if status.state == ClockState::Fast && !is_given_up {
            assert!(status.frequency_hz.is_some(), "CPU {cpu}: {status:?}");
        }
    }
}

/// The CPUs on which the clock's thread may run.
fn threads_cpus() -> Option<String> {
    procfs::status_field(procfs::tickline_threads().first()?, "Cpus_allowed_list:")
}

/// A thread that stays on its CPU sees no step back while that CPU's line is replaced.
#[test]
fn readings_on_one_cpu_are_in_order() {
    let Some(clock) = fast_clock(Duration::from_millis(1)) else {
        return;
    };
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for cpu in own_cpus().into_iter().take(2) {
            let clock = &clock;
            let stop = &stop;
            scope.spawn(move || {
                run_on(cpu);
                let mut last = tickline::Instant::ZERO;
                // ORDERING: Relaxed, a flag on its own.
                while !stop.load(Ordering::Relaxed) {
                    for reading in 0..1_000 {
                        let now = if reading % 3 == 0 {
                            clock.now_ordered()
                        } else {
                            clock.now()
                        };
                        assert!(now >= last, "CPU {cpu}: {now:?} after {last:?}");
                        last = now;
                    }
                }
            });
        }
        std::thread::sleep(Duration::from_millis(500));
        // ORDERING: Relaxed, a flag on its own.
        stop.store(true, Ordering::Relaxed);
    });
}

/// A thread that stays on its CPU, while the lines end again and again.
#[test]
fn a_reading_after_the_end_of_the_lines_is_not_below_the_bounds_of_one_before() {
    let Some(clock) = fast_clock(Duration::from_millis(5)) else {
        return;
    };
    run_on(own_cpus()[0]);
    for _ in 0..20 {
        let last = clock.reading();
        clock.disable();
        let next = clock.now_ordered();
        if is_void(&clock) {
            return common::skip("the OS clock jumped");
        }
        assert!(next >= last.earliest(), "{next:?} after {last:?}");
        clock.enable();
        let Some(()) = wait_until_fast_by(&clock, |lines| lines > 0) else {
            return;
        };
    }
}

/// The table has the CPUs that the thread may run on, and those on which readers run. After a
/// pass the thread has its former CPU mask.
#[test]
fn the_thread_calibrates_its_own_cpus_and_those_of_readers() {
    common::run_in_child(&[], || {
        let cpus = own_cpus();
        let (first, rest) = cpus.split_first().unwrap();
        run_on(*first); // as in a container with a small cpuset
        let Some(clock) = fast_clock(Duration::from_millis(5)) else {
            return;
        };
        let table = || clock.status().per_cpu;
        assert_eq!(
            table()
                .iter()
                .map(|cpu| cpu.cpu as usize)
                .collect::<Vec<_>>(),
            [*first]
        );
        common::wait_until(&clock, || {
            let served = table()[0];
            let has_rate = served.frequency_hz.is_some_and(|hz| hz > 1_000_000);
            served.state == ClockState::Fast && served.age_ns.is_some() && has_rate
        });

        let home = first.to_string();
        common::wait_until(&clock, || threads_cpus().is_none_or(|list| list == home));
        let Some(second) = rest.first() else {
            return common::skip("one CPU: no reader can run on another");
        };
        run_on(*second);
        common::wait_until(&clock, || {
            core::hint::black_box(clock.now());
            table()
                .iter()
                .any(|cpu| cpu.cpu as usize == *second && cpu.state == ClockState::Fast)
        });
        common::wait_until(&clock, || clock.reading().is_from_counter());
        common::wait_until(&clock, || threads_cpus().is_none_or(|list| list == home));
    });
}

/// A child has the lines, but not their thread. When the lines have ended, the OS clock serves the
/// child.
#[test]
fn a_forked_child_leaves_the_cpus_lines() {
    common::run_in_child(&[], || {
        let Some(clock) = fast_clock(Duration::from_millis(1)) else {
            return;
        };
        common::run_in_fork(|| {
            let before = clock.now().as_nanos();
            std::thread::sleep(Duration::from_millis(50));
            for _ in 0..100 {
                core::hint::black_box(clock.now());
            }
            let after = clock.now().as_nanos();
            let status = clock.status();
            assert!(after > before && status.per_cpu.is_empty(), "{status:?}");
        });
    });
}

/// Its readers make one, if the gates allow it; readers of only Unix time, too.
#[test]
fn a_forked_child_makes_a_common_line() {
    common::run_in_child(&[], || {
        let Some(clock) = fast_clock(Duration::from_millis(1)) else {
            return;
        };
        if clock.status().unix_reason().is_some() {
            return common::skip("the OS clock serves Unix time");
        }
        common::run_in_fork(|| {
            common::read_until(&clock, Clock::unix_now, |status| {
                status.per_cpu.is_empty() && status.state == ClockState::Fast
            });
        });
    });
}
