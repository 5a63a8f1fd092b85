//! The public calls of clocks, on any machine.

use std::time::Duration;

use crate::common::{
    await_publications, read_in_order, read_until, run_in_child, wait_until, wait_until_fast,
};
use tickline::bounds::RangeNs;
use tickline::{
    Clock, ClockState, Driver, EnvironmentSwitch, ErrorKind, Event, Instant, LinePerCpu, Probes,
    Reason,
};
use tickline_core::counter::{Counter as _, HardwareCounter};

const DISABLED: ClockState = ClockState::Fallback(Reason::DisabledByProgram);

/// A clock that readers drive, and that uses the counter. `None`, with a message, if none does
/// here.
pub(crate) fn fast_clock() -> Option<Clock> {
    let clock = Clock::builder().driver(Driver::Reader).build();
    let clock = clock.expect("a clock without a thread");
    wait_until_fast(&clock).map(|_| clock)
}

/// Enables a clock, and reads it until it uses the counter again.
fn enable_until_fast(clock: &Clock) {
    clock.enable();
    read_until(clock, Clock::now_ordered, |status| {
        status.state == ClockState::Fast
    });
}

#[test]
fn disabling_takes_effect_at_once() {
    let Some(clock) = fast_clock() else { return };
    clock.disable();
    assert!(!clock.reading().is_from_counter());
}

#[test]
fn the_state_of_a_disabled_clock_says_who_has_disabled_it() {
    let Some(clock) = fast_clock() else { return };
    clock.disable();
    assert_eq!(clock.status().state, DISABLED);
}

#[test]
fn readings_are_in_order_while_the_clock_is_disabled_and_enabled() {
    let Some(clock) = fast_clock() else { return };
    let mut last_ns = clock.now_ordered().as_nanos();
    clock.disable();
    for _ in 0..100 {
        read_in_order(&clock, &mut last_ns);
    }
    enable_until_fast(&clock);
    read_in_order(&clock, &mut last_ns);
}

#[test]
fn reading_does_not_enable_a_clock() {
    let Some(clock) = fast_clock() else { return };
    clock.disable();
    for _ in 0..100 {
        std::hint::black_box((clock.now_ordered(), clock.unix_now()));
    }
    assert_eq!(clock.status().state, DISABLED);
}

#[test]
fn an_enabled_clock_uses_the_counter_again() {
    let Some(clock) = fast_clock() else { return };
    clock.disable();
    enable_until_fast(&clock);
}

#[test]
fn disabling_and_enabling_are_each_an_event() {
    let Some(clock) = fast_clock() else { return };
    clock.disable();
    enable_until_fast(&clock);
    let events = clock.status().events;
    assert_eq!(
        (events.get(Event::GateClosed), events.get(Event::GateOpened)),
        (1, 1)
    );
}

/// The gate stays closed until the next judgement. Calls for only Unix time lead to one, too.
#[test]
fn a_program_that_reads_only_unix_time_gets_the_counter_again() {
    let Some(clock) = fast_clock() else { return };
    clock.disable();
    std::hint::black_box(clock.unix_now());
    clock.enable();
    read_until(&clock, Clock::unix_now, |status| {
        status.state == ClockState::Fast
    });
}

/// Two calls that meet leave no gate that nobody opens.
#[cfg(not(target_family = "wasm"))]
#[test]
fn enabling_and_disabling_at_once_leaves_one_of_the_two() {
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    for _ in 0..500 {
        std::thread::scope(|scope| {
            scope.spawn(|| clock.disable());
            scope.spawn(|| {
                clock.enable();
                clock.maintain();
            });
        });
        if clock.status().state == DISABLED {
            assert!(!clock.reading().is_from_counter());
            continue;
        }
        wait_until(&clock, || {
            clock.maintain();
            clock.status().state != ClockState::Calibrating
        });
        assert_ne!(clock.status().state, DISABLED, "it was enabled");
    }
}

/// The CPUs of a clock that is fast by one line have one counter, so the thread may move.
#[test]
fn ordered_ticks_are_between_those_that_were_read_before_and_after() {
    let builder = Clock::builder().driver(Driver::Reader);
    let clock = builder.line_per_cpu(LinePerCpu::Off).build().unwrap();
    if wait_until_fast(&clock).is_none() {
        return;
    }
    let Some(counter) = HardwareCounter::if_present() else {
        panic!("a clock is fast by a counter");
    };
    // The line may end while this thread waits for a CPU. There are no ticks then.
    let mut found = None;
    wait_until(&clock, || {
        std::hint::black_box(clock.now()); // renews the line
        let before = counter.now_ordered();
        found = clock
            .ticks_ordered()
            .map(|ticks| (before, ticks, counter.now_ordered()));
        found.is_some()
    });
    let (before, ticks, after) = found.unwrap();
    assert!(
        ticks.wrapping_sub(before) <= after.wrapping_sub(before),
        "{before}, {ticks}, {after} ticks"
    );
}

#[test]
fn readers_do_not_drive_a_manual_clock() {
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    for _ in 0..10_000 {
        std::hint::black_box(clock.now());
    }
    assert!(!clock.status().is_judged);
}

#[test]
fn maintain_drives_a_manual_clock() {
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    wait_until(&clock, || {
        std::thread::sleep(clock.maintain().min(Duration::from_millis(1)));
        clock.status().state != ClockState::Calibrating
    });
}

#[test]
fn maintain_does_not_change_the_driver_of_a_manual_clock() {
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    clock.maintain();
    assert_eq!(clock.status().driver, Some(Driver::Manual));
}

#[test]
fn a_clock_that_was_disabled_before_it_began_stays_so() {
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    clock.disable();
    (0..5).for_each(|_| _ = clock.maintain());
    let status = clock.status();
    assert_eq!(status.state, DISABLED);
    assert_eq!(status.events.get(Event::FirstPublication), 0);
}

#[test]
fn an_error_names_a_setting_out_of_range_its_value_and_its_limits() {
    type Setting = fn(tickline::ClockBuilder) -> tickline::ClockBuilder;
    let cases: [(Setting, &str); 5] = [
        (
            |b| b.interval(Duration::ZERO),
            "interval of 0ns is outside 1ms to 10s",
        ),
        (
            |b| b.interval(Duration::from_micros(999)),
            "interval of 999µs is outside 1ms to 10s",
        ),
        (|b| b.interval(Duration::MAX), "is outside 1ms to 10s"),
        (
            |b| b.recent_every(Duration::from_nanos(99_999)),
            "recent_every of 99.999µs is outside 100µs to 10s",
        ),
        (
            |b| b.recent_every(Duration::from_secs(11)),
            "recent_every of 11s is outside 100µs to 10s",
        ),
    ];
    for (setting, expected) in cases {
        let error = setting(Clock::builder()).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(
            setting(Clock::builder()).start_global().unwrap_err().kind(),
            ErrorKind::OutOfRange
        );
    }
}

#[test]
fn settings_of_the_thread_are_refused_without_one() {
    for driver in [Driver::Reader, Driver::Manual] {
        let builder = || Clock::builder().driver(driver);
        for (error, setting) in [
            (
                builder().line_per_cpu(LinePerCpu::On).build().unwrap_err(),
                "line_per_cpu",
            ),
            (
                builder()
                    .recent_every(Duration::from_millis(1))
                    .build()
                    .unwrap_err(),
                "recent_every",
            ),
            (builder().start_global().unwrap_err(), "start_global"),
        ] {
            assert_eq!(error.kind(), ErrorKind::IncompatibleSettings, "{error}");
            let expected = format!("{setting} needs Driver::Thread, not Driver::{driver:?}");
            assert_eq!(error.to_string(), expected);
        }
    }
}

#[test]
fn a_clock_without_a_thread_may_decline_a_line_for_each_cpu() {
    for driver in [Driver::Reader, Driver::Manual] {
        let builder = Clock::builder().driver(driver);
        assert!(builder.line_per_cpu(LinePerCpu::Off).build().is_ok());
    }
}

#[test]
fn a_line_for_each_cpu_is_refused_with_minimal_probes() {
    let error = Clock::builder()
        .probes(Probes::Minimal)
        .line_per_cpu(LinePerCpu::On)
        .build()
        .unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (
            ErrorKind::IncompatibleSettings,
            "line_per_cpu needs Probes::Full, not Probes::Minimal"
        )
    );
}

#[test]
fn the_environment_switches_the_counter_off() {
    run_in_child(&[("TICKLINE", "off")], || {
        (0..1_000).for_each(|_| _ = std::hint::black_box(tickline::now_ns()));
        let status = Clock::global().status();
        assert_eq!(status.environment, EnvironmentSwitch::Off);
        assert_eq!(
            status.state,
            ClockState::Fallback(Reason::DisabledByEnvironment)
        );
    });
}

#[test]
fn a_clock_that_is_switched_off_says_so_before_its_first_reading() {
    run_in_child(&[("TICKLINE", "off")], || {
        assert_eq!(
            Clock::global().status().state,
            ClockState::Fallback(Reason::DisabledByEnvironment)
        );
    });
}

#[test]
fn nonsense_in_the_environment_is_reported() {
    run_in_child(&[("TICKLINE", "of")], || {
        let switch = Clock::global().status().environment;
        assert_eq!(switch, EnvironmentSwitch::Unrecognised);
    });
}

#[test]
fn nonsense_in_the_environment_closes_no_gate() {
    run_in_child(&[("TICKLINE", "of")], || {
        let clock = Clock::global();
        wait_until_fast(clock);
        assert_ne!(
            clock.status().state,
            ClockState::Fallback(Reason::DisabledByEnvironment)
        );
    });
}

/// The first reading, without any start, reads an environment that is larger than its buffer.
#[test]
fn a_first_reading_finds_the_variable() {
    let filler: Vec<(String, String)> = (0..200)
        .map(|number| (format!("A_TICKLINE_{number}"), "TICKLINE=on".repeat(7)))
        .collect();
    let mut environment: Vec<_> = filler
        .iter()
        .map(|(name, value)| (&**name, &**value))
        .collect();
    environment.push(("TICKLINE", "off"));
    run_in_child(&environment, || {
        std::hint::black_box(tickline::now_ns());
        let switch = Clock::global().status().environment;
        assert_eq!(switch, EnvironmentSwitch::Off);
    });
}

/// The settings of `start_global` reach a control loop that readers had made before.
#[test]
fn start_global_sets_the_interval() {
    run_in_child(&[], || {
        let clock = Clock::global();
        if wait_until_fast(clock).is_none() {
            return;
        }
        let _guard = Clock::builder()
            .interval(Duration::from_millis(5))
            .start_global()
            .unwrap();
        // A younger clock reaches a longer interval. With that setting, the global clock would,
        // too.
        let younger = Clock::builder().build().unwrap();
        wait_until(&younger, || {
            younger.status().interval_ns > Some(100_000_000)
        });
        // Iterations come more often while the machine is busy and the bound would grow wide.
        let interval_ns = clock.status().interval_ns;
        assert!(
            interval_ns.is_some_and(|ns| ns <= 5_000_000),
            "{interval_ns:?} ns"
        );
    });
}

/// A status shows the interval that was set, not what the thread does.
#[test]
fn the_thread_recalibrates_at_the_interval_of_start_global() {
    run_in_child(&[], || {
        let clock = Clock::global();
        if wait_until_fast(clock).is_none() {
            return;
        }
        let _guard = Clock::builder()
            .interval(Duration::from_millis(5))
            .start_global()
            .unwrap();
        let with_default = Clock::builder().build().unwrap();
        // Longer than a loop takes to grow to its own interval of 500 ms.
        std::thread::sleep(Duration::from_millis(1_500));
        if wait_until_fast(&with_default).is_none() {
            return;
        }
        let replacements = |clock: &Clock| clock.status().events.get(Event::Replacement);
        let mut seen = Vec::new();
        // On a busy machine both threads may be late for a time, and then equally often.
        for _ in 0..5 {
            let before = [clock, &with_default].map(replacements);
            await_publications(clock, 40);
            let after = [clock, &with_default].map(replacements);
            let [of_global, of_other] = [after[0] - before[0], after[1] - before[1]];
            // With one interval both would replace their lines about equally often. Until it knows
            // the range of the dither, a thread with the default interval comes each 31 ms.
            if 4 * of_other < 3 * of_global {
                return;
            }
            seen.push([of_global, of_other]);
        }
        panic!("replacements at 5 ms and at the default interval: {seen:?}");
    });
}

#[test]
fn a_clock_in_a_log_has_its_driver_and_its_state() {
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    clock.disable();
    assert_eq!(
        format!("{clock:?}"),
        "Clock { driver: Some(Manual), state: Fallback(DisabledByProgram), .. }"
    );
}

/// What CPUID says of the processor, as the kernel has read it.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn the_facts_of_the_processor_are_those_of_the_kernel() {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = text.lines().find_map(|line| line.strip_prefix("flags"));
    let Some(flags) = flags else {
        return crate::common::skip("this kernel does not list the processor's flags");
    };
    let has = |name: &str| flags.split_whitespace().any(|flag| flag == name);
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    clock.maintain();
    let status = clock.status();
    assert_eq!(status.is_virtual, has("hypervisor"));
    let closed_by = status.verdict(tickline::Gate::Invariant).closed_by();
    let expected = (!has("nonstop_tsc")).then_some(Reason::NotInvariant);
    assert_eq!(closed_by, expected);
}

/// A tick that was read between two readings becomes a time between theirs.
#[test]
fn the_bounds_of_the_line_convert_a_tick() {
    let builder = Clock::builder().line_per_cpu(LinePerCpu::Off);
    let clock = builder.build().unwrap();
    if wait_until_fast(&clock).is_none() {
        return;
    }
    let Some(counter) = HardwareCounter::if_present() else {
        panic!("a clock is fast by a counter");
    };
    // The line may end while this thread waits for a CPU. There are no bounds then.
    let mut found = None;
    wait_until(&clock, || {
        let before = clock.reading();
        let ticks = counter.now_ordered();
        let after = clock.reading();
        found = clock.bounds().map(|bounds| (before, ticks, after, bounds));
        found.is_some()
    });
    let (before, ticks, after, bounds) = found.unwrap();
    let RangeNs {
        earliest_ns,
        latest_ns,
    } = bounds.monotonic_range_at(ticks);
    let as_ns = |instant: Instant| i64::try_from(instant.as_nanos()).unwrap();
    assert!(earliest_ns <= latest_ns, "{bounds:?} at {ticks}");
    assert!(
        latest_ns >= as_ns(before.earliest()),
        "{latest_ns}, {before:?}"
    );
    assert!(
        earliest_ns <= as_ns(after.latest()),
        "{earliest_ns}, {after:?}"
    );
    assert!(latest_ns - earliest_ns < 1_000_000, "{bounds:?} at {ticks}");
}

/// Also on a machine without a usable counter.
#[test]
fn a_clock_without_a_line_has_no_bounds() {
    let builder = Clock::builder().line_per_cpu(LinePerCpu::Off);
    let clock = builder.build().unwrap();
    wait_until_fast(&clock);
    clock.disable();
    assert_eq!(clock.bounds(), None);
}
