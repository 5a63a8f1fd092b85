//! What a status answers, and its texts.

use tickline_core::comparison::CounterDifference;

use super::*;
use crate::Clock;

/// The status of a clock without figures, in this state: every gate is open, and a thread drives
/// the clock.
fn status_of(state: ClockState) -> Status {
    Status {
        state,
        is_judged: true,
        verdicts: core::array::from_fn(|gate| Verdict::open(Gate::ALL[gate])),
        driver: Some(Driver::Thread),
        environment: EnvironmentSwitch::Unset,
        is_virtual: false,
        comparison: CounterComparison::Pending,
        cost: None,
        too_old_sample: None,
        too_slow_counter_hz: None,
        frequency_hz: None,
        bound_ns: None,
        max_drift_ppb: None,
        offset_ns: None,
        interval_ns: None,
        events: EventCounts::from_fn(|_| 0),
        per_cpu: Vec::new(),
    }
}

/// The text of a fallback on a system that can pin threads.
fn fallback_text(reason: Reason) -> String {
    format!("{reason}{}", advice(reason, None, true))
}

#[test]
fn each_state_has_its_code() {
    for (state, code) in [
        (ClockState::Calibrating, "calibrating"),
        (ClockState::Fast, "fast"),
        (ClockState::Disrupted, "disrupted"),
        (ClockState::Fallback(Reason::Slow), "fallback"),
        (ClockState::Unavailable, "unavailable"),
        (ClockState::Backend, "backend"),
        (
            ClockState::BackendFallback("its source is gone"),
            "backend_fallback",
        ),
        (ClockState::Mock, "mock"),
    ] {
        assert_eq!(state.code(), code);
    }
}

#[test]
fn a_status_says_whether_readings_come_from_the_counter() {
    for (state, reads_counter) in [
        (ClockState::Calibrating, false),
        (ClockState::Fast, true),
        (ClockState::Disrupted, true),
        (ClockState::Fallback(Reason::Slow), false),
        (ClockState::Unavailable, false),
        (ClockState::Backend, false),
        (ClockState::BackendFallback("its source is gone"), false),
        (ClockState::Mock, false),
    ] {
        assert_eq!(status_of(state).reads_counter(), reads_counter, "{state}");
    }
}

#[test]
fn a_status_has_the_verdict_of_each_gate_in_order() {
    let status = Clock::default().status();
    let gates = status.verdicts().iter().map(|verdict| verdict.gate());
    assert!(gates.eq(Gate::ALL.iter().copied()));
}

#[test]
fn a_status_without_figures_is_its_state() {
    let state = ClockState::Fast;
    assert_eq!(status_of(state).to_string(), state.to_string());
}

#[test]
fn a_status_shows_its_figures_with_their_units() {
    let mut status = status_of(ClockState::Fast);
    status.bound_ns = Some(12);
    status.frequency_hz = Some(2_600_000_000);
    assert_eq!(
        status.to_string(),
        "fast: readings come from the counter; bound 12 ns; counter 2600000000 Hz"
    );
}

#[test]
fn a_status_of_the_counter_says_when_it_has_a_bound_again() {
    let mut status = status_of(ClockState::Fast);
    status.frequency_hz = Some(2_600_000_000);
    let text = status.to_string();
    assert!(
        text.contains("; no bound until the next recalibration; counter 2600000000 Hz"),
        "{text}"
    );
}

#[test]
fn a_status_says_that_the_last_calibration_has_run_out() {
    let mut status = status_of(ClockState::Calibrating);
    for (frequency_hz, had_line) in [(None, false), (Some(2_600_000_000), true)] {
        status.frequency_hz = frequency_hz;
        let text = status.to_string();
        assert_eq!(
            text.contains("; the last calibration has run out"),
            had_line,
            "{text}"
        );
    }
}

#[test]
fn a_status_says_why_only_unix_time_comes_from_the_os_clock() {
    let mut status = status_of(ClockState::Fast);
    status.verdicts[Gate::UnixCost as usize] = Verdict::closed(Reason::SlowForUnixTime);
    let text = format!(
        "Unix time comes from the OS clock, because {}",
        Reason::SlowForUnixTime
    );
    assert!(status.to_string().ends_with(&text), "{status}");
}

#[test]
fn a_status_says_what_made_the_counter_slow() {
    for (gate, reason) in [
        (Gate::Cost, Reason::Slow),
        (Gate::UnixCost, Reason::SlowForUnixTime),
    ] {
        let mut status = status_of(ClockState::Fast);
        status.verdicts[gate as usize] = Verdict::closed(reason);
        status.cost = Some(Cost {
            counter_ps: 61_250,
            os_ps: 25_000,
            os_unix_ps: 26_990,
        });
        let text = "; a read of the counter takes 61.2 ns, one of the OS clock 25.0 ns (of Unix time \
                    26.9 ns)";
        assert!(status.to_string().contains(text), "{status}");
    }
}

#[test]
fn a_status_names_the_cpus_whose_counters_differ_and_by_how_much() {
    let mut status = status_of(ClockState::Fast);
    let difference = CounterDifference {
        min_ticks: -70_000,
        max_ticks: -66_930,
    };
    status.comparison = CounterComparison::Unsynchronised {
        cpu: 0,
        other_cpu: 3,
        difference,
    };
    let text = "; the counters of CPUs 0 and 3 differ by at least 66930 ticks";
    for (verdict, has_text) in [
        (Verdict::closed(Reason::Unsynchronised), true),
        (Verdict::open(Gate::Synchronised), false),
    ] {
        status.verdicts[Gate::Synchronised as usize] = verdict;
        assert_eq!(status.to_string().contains(text), has_text, "{status}");
    }
}

/// Symptom: the first line of a program's log said "fast". The program read the time every 50 ms,
/// and each later reading came from the OS clock.
#[test]
fn a_fast_status_says_what_its_readers_must_do() {
    let mut status = status_of(ClockState::Fast);
    for (driver, depends_on_readings) in [
        (Driver::Reader, true),
        (Driver::Thread, false),
        (Driver::Manual, false),
    ] {
        status.driver = Some(driver);
        let text = "fast: readings come from the counter; only while readings are frequent";
        assert_eq!(
            status.to_string().starts_with(text),
            depends_on_readings,
            "{status}"
        );
    }
}

/// As in a forked child, in which the lines end unless a thread renews them.
#[test]
fn a_status_with_a_line_for_each_cpu_demands_no_readings() {
    let mut status = status_of(ClockState::Fast);
    status.driver = Some(Driver::Reader);
    status.per_cpu.push(CpuStatus {
        cpu: 0,
        state: ClockState::Fast,
        frequency_hz: None,
        offset_ns: None,
        age_ns: None,
        failures: 0,
    });
    assert_eq!(status.to_string(), ClockState::Fast.to_string());
}

#[test]
fn a_status_without_a_line_says_what_its_driver_can_do() {
    let mut status = status_of(ClockState::Calibrating);
    let mut advice_of = |driver| {
        status.driver = driver;
        let text = status.to_string();
        let advice = text.split_once("; that takes ").map(|(_, advice)| advice);
        advice.unwrap_or_default().to_owned()
    };
    assert!(advice_of(Some(Driver::Reader)).starts_with("frequent readings"));
    assert!(
        advice_of(Some(Driver::Manual)).starts_with("the program's calls of Clock::maintain()")
    );
    assert_eq!(advice_of(Some(Driver::Thread)), "");
    assert_eq!(advice_of(None), "", "the backend calibrates");
}

/// Symptom: with `TICKLINE=offf` the text gave an operator no sign that the counter was in use.
#[test]
fn a_status_says_that_the_variables_value_is_ignored() {
    let mut status = status_of(ClockState::Fast);
    for (environment, is_ignored) in [
        (EnvironmentSwitch::Unset, false),
        (EnvironmentSwitch::On, false),
        (EnvironmentSwitch::Off, false),
        (EnvironmentSwitch::Unrecognised, true),
    ] {
        status.environment = environment;
        let text = status.to_string();
        let sentence = "; TICKLINE is ignored: its value is neither `on` nor `off` (small letters)";
        assert_eq!(text.ends_with(sentence), is_ignored, "{text}");
    }
}

/// Symptom: a program that had called `tickline::start()` was told to call it, while the thread
/// compared the counters.
#[test]
fn a_clock_with_a_thread_is_not_told_to_get_one() {
    let mut status = status_of(ClockState::Fallback(Reason::Untested));
    for (driver, needs_thread) in [
        (Some(Driver::Thread), false),
        (Some(Driver::Reader), true),
        (Some(Driver::Manual), true),
        (None, true),
    ] {
        let text = advice(Reason::Untested, driver, true);
        assert_eq!(text.contains("tickline::start()"), needs_thread, "{text}");
        let compares =
            "; with Probes::Full (the default) the clock's thread compares them, for 20 ms";
        assert_eq!(text.contains(compares), !needs_thread, "{text}");
        status.driver = driver;
        let here = advice(Reason::Untested, driver, sys::CAN_PIN_THREADS);
        let line = status.to_string();
        assert!(line.contains(&format!("compared yet{here}")), "{line}");
    }
}

/// Symptom: on macOS the text named `tickline::start()`, whose thread can't compare the counters.
/// After that call the text named a clock with a thread again.
#[test]
fn a_system_that_can_not_pin_threads_is_not_told_to_compare() {
    for reason in [
        Reason::NotInvariant,
        Reason::KernelUnknown,
        Reason::Untestable,
        Reason::Untested,
    ] {
        for driver in [None, Some(Driver::Reader), Some(Driver::Thread)] {
            assert_eq!(
                advice(reason, driver, false),
                "; tickline can't compare the CPUs' counters on this system, so readings stay \
                 with the OS clock"
            );
        }
    }
}

/// Symptom: the text named `ClockBuilder::trust(Trust::Measured)`. With it and `build()`, as in
/// the samples, a program made another clock, and `Instant::now` went on to read the OS clock.
#[test]
fn advice_on_a_setting_names_the_calls_for_both_kinds_of_clocks() {
    for (reason, setting) in [
        (Reason::NotInvariant, "assume_invariant()"),
        (Reason::KernelRejected, "trust(Trust::Measured)"),
        (Reason::SamplesTooOld, "interval(..)"),
    ] {
        let text = fallback_text(reason);
        let calls = format!(
            "Clock::builder().{setting}.start_global(), in place of tickline::start(), or .build() \
             for another clock"
        );
        assert!(text.contains(&calls), "{text}");
    }
}

/// Core's texts say the fact; a program that reads the OS clock wants to know what to change.
/// Symptom: a kernel's verdict against the counter ended the log's line, although a `Trust` permits
/// its use.
#[test]
fn a_fallback_says_what_the_program_can_do_about_its_reason() {
    for (reason, advice) in [
        (
            Reason::Denied,
            "PR_SET_TSC); the sandbox or parent that denies it must permit it before",
        ),
        (
            Reason::NotInvariant,
            "power states; in a virtual machine whose host's counter is invariant, \
             Clock::builder().assume_invariant()",
        ),
        (
            Reason::KernelRejected,
            "as a clocksource; where the kernel's cause (see its log) does not matter to the \
             program, Clock::builder().trust(Trust::Measured)",
        ),
        (
            Reason::KernelRejected,
            "permits its use, if a clock's thread with Probes::Full finds the CPUs' counters \
             synchronised; that comparison can't show drift",
        ),
        (
            Reason::KernelUsesOther,
            "another clocksource; Trust::Auto (the default) in place of Trust::Kernel permits its \
             use",
        ),
        (
            Reason::HypervisorPolicy,
            "about the counter; Trust::Auto (the default) in place of Trust::Kernel permits its \
             use",
        ),
        (
            Reason::KernelUnknown,
            "trusts the counter; Trust::Auto (the default) in place of Trust::Kernel permits its \
             use",
        ),
        (
            Reason::Untestable,
            "could not be compared; a clock with a thread and Probes::Full tries again",
        ),
        (
            Reason::Unsynchronised,
            "differ; a clock with a thread, Probes::Full and LinePerCpu::Auto",
        ),
        (
            Reason::Untested,
            "compared yet; a clock with a thread and Probes::Full (the default) compares them",
        ),
        (
            Reason::SamplesTooOld,
            "allows; choose a longer interval: Clock::builder().interval(..)",
        ),
        (
            Reason::NoLine,
            "there is no line: the thread can't reach this CPU, or its samples make no line",
        ),
        (
            Reason::DriverStopped,
            "or was stopped or killed; the counter serves this clock again when that thread goes on",
        ),
    ] {
        let text = fallback_text(reason);
        assert!(text.contains(advice), "{text}");
    }
    let text = ClockState::Fallback(Reason::NoCounter).to_string();
    assert!(text.ends_with(&Reason::NoCounter.to_string()), "{text}");
}

/// Symptom: a program with minimal probes, whose clock had a thread, was told that a clock with a
/// thread compares the counters.
#[test]
fn advice_that_needs_a_comparison_names_the_probes_that_permit_it() {
    for reason in [
        Reason::KernelRejected,
        Reason::KernelUsesOther,
        Reason::HypervisorPolicy,
        Reason::KernelUnknown,
        Reason::Untestable,
        Reason::Unsynchronised,
        Reason::Untested,
    ] {
        let text = fallback_text(reason);
        assert!(text.contains("Probes::Full"), "{text}");
    }
}

#[test]
fn counts_in_a_log_have_the_codes_of_their_events() {
    let counts = EventCounts::from_fn(|event| u64::from(event == Event::Expiry) * 7);
    let text = std::format!("{counts:?}");
    assert!(text.contains("\"expiry\": 7"), "{text}");
    assert_eq!(text.matches(": 0").count(), Event::ALL.len() - 1, "{text}");
}
