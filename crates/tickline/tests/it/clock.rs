//! The public calls of clocks, on any machine.

use std::time::Duration;

use crate::common::{in_child, read_in_order, read_until, until, until_fast};
use tickline::{
    Clock, ClockState, Driver, EnvironmentSwitch, ErrorKind, Event, LinePerCpu, Probes, Reason,
};

/// The gate stays closed until the next judgement. Calls for only Unix time lead to one, too.
#[test]
fn disabling_takes_effect_at_once_and_can_be_undone() {
    let clock = Clock::builder().driver(Driver::Reader).start().unwrap();
    if until_fast(&clock).is_none() {
        return;
    }
    let disabled = ClockState::Fallback(Reason::DisabledByProgram);
    let mut last_ns = clock.now_ordered().as_nanos();
    clock.disable();
    assert_eq!(clock.status().state, disabled);
    assert!(
        !clock.reading().is_from_counter(),
        "a reading of a disabled clock"
    );
    for _ in 0..100 {
        read_in_order(&clock, &mut last_ns);
        std::hint::black_box(clock.unix_now());
    }
    assert_eq!(
        clock.status().state,
        disabled,
        "reading must not open the gate"
    );
    clock.enable();
    read_until(&clock, Clock::unix_now, |status| {
        status.state == ClockState::Fast
    });
    read_in_order(&clock, &mut last_ns);
    let events = clock.status().events;
    assert_eq!(
        (events.get(Event::GateClosed), events.get(Event::GateOpened)),
        (1, 1)
    );
}

type Read = fn(&Clock) -> u64;

/// Every way to read a clock, as nanoseconds; the names are for messages.
const READINGS: [(&str, Read); 8] = [
    ("now", |clock| clock.now().as_nanos()),
    ("now_ordered", |clock| clock.now_ordered().as_nanos()),
    ("recent", |clock| clock.recent().as_nanos()),
    ("reading", |clock| clock.reading().time().as_nanos()),
    ("unix_now", |clock| clock.unix_now().as_nanos()),
    ("unix_reading", |clock| {
        clock.unix_reading().time().as_nanos()
    }),
    ("unix_anchor", |clock| {
        let anchor = clock.unix_anchor();
        anchor.to_unix(clock.now()).as_nanos()
    }),
    ("std_anchor", |clock| {
        let anchor = clock.std_anchor();
        let now = clock.now();
        anchor.to_instant(anchor.to_std(now)).as_nanos()
    }),
];

/// Asserts that each reading lies between two calls of the OS clock of its timescale, as far as the
/// two clocks may be apart.
fn assert_each_reading_follows_the_os_clock(clock: &Clock, when: &str) {
    const APART: Duration = Duration::from_secs(2);
    // A manual clock that nobody maintains reads the OS clock.
    let manual = Clock::builder()
        .driver(Driver::Manual)
        .start()
        .expect("a clock");
    for (name, read) in READINGS {
        let is_unix = name.starts_with("unix");
        let os_clock = || {
            if is_unix {
                let since_epoch = std::time::SystemTime::UNIX_EPOCH.elapsed();
                since_epoch.expect("a time after 1970")
            } else {
                Duration::from_nanos(manual.now_ordered().as_nanos())
            }
        };
        let (before, time, after) = (os_clock(), read(clock), os_clock());
        let time = Duration::from_nanos(time);
        assert!(
            before.saturating_sub(APART) <= time && time <= after + APART,
            "{name} {when}: {time:?} is not between {before:?} and {after:?}"
        );
    }
}

#[test]
fn each_reading_works_with_the_counter_and_after_disable() {
    let clock = Clock::builder().driver(Driver::Reader).start().unwrap();
    if until_fast(&clock).is_some() {
        assert_each_reading_follows_the_os_clock(&clock, "with the counter");
    }
    clock.disable();
    assert_each_reading_follows_the_os_clock(&clock, "after disable()");
    assert_eq!(
        clock.status().state,
        ClockState::Fallback(Reason::DisabledByProgram)
    );
}

#[test]
fn only_maintain_drives_a_manual_clock() {
    let clock = Clock::builder().driver(Driver::Manual).start().unwrap();
    for _ in 0..10_000 {
        std::hint::black_box(clock.now());
    }
    assert!(
        !clock.status().is_judged,
        "readers must not drive a manual clock"
    );
    clock.disable();
    (0..5).for_each(|_| _ = clock.maintain());
    assert_eq!(
        clock.status().state,
        ClockState::Fallback(Reason::DisabledByProgram),
        "disabled before it had begun"
    );
    clock.enable();
    until(&clock, || {
        std::thread::sleep(clock.maintain().min(Duration::from_millis(1)));
        clock.status().state != ClockState::Calibrating
    });
    assert_eq!(clock.status().driver, Driver::Manual);
}

#[test]
fn errors_name_a_bad_setting_its_value_and_its_limits() {
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
        let error = setting(Clock::builder()).start().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::OutOfRange);
        assert!(error.to_string().contains(expected), "{error}");
        assert_eq!(
            setting(Clock::builder()).start_global().unwrap_err().kind(),
            ErrorKind::OutOfRange
        );
    }
    for error in [
        Clock::builder()
            .driver(Driver::Reader)
            .line_per_cpu(LinePerCpu::On)
            .start()
            .unwrap_err(),
        Clock::builder()
            .driver(Driver::Manual)
            .recent_every(Duration::from_millis(1))
            .start()
            .unwrap_err(),
        Clock::builder()
            .driver(Driver::Reader)
            .start_global()
            .unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::IncompatibleSettings, "{error}");
        assert!(
            error.to_string().contains(" needs Driver::Thread, not "),
            "{error}"
        );
    }
    let error = Clock::builder()
        .probes(Probes::Minimal)
        .line_per_cpu(LinePerCpu::On)
        .start()
        .unwrap_err();
    assert_eq!(
        (error.kind(), &*error.to_string()),
        (
            ErrorKind::IncompatibleSettings,
            "line_per_cpu needs Probes::Full, not Minimal"
        )
    );
}

/// `off` takes effect; another value is reported and ignored. The first reading, without any start,
/// finds the variable in an environment that is larger than its buffer.
#[test]
fn the_environment_switches_the_counter_off() {
    let filler: Vec<(String, String)> = (0..200)
        .map(|number| (format!("A_TICKLINE_{number}"), "TICKLINE=on".repeat(7)))
        .collect();
    for value in ["off", "of"] {
        let mut environment: Vec<_> = filler
            .iter()
            .map(|(name, value)| (&**name, &**value))
            .collect();
        environment.push(("TICKLINE", value));
        in_child(&environment, || {
            for _ in 0..1_000 {
                std::hint::black_box(tickline::now_ns());
            }
            let is_off = std::env::var("TICKLINE").as_deref() == Ok("off");
            let status = Clock::global().status();
            let expected = if is_off {
                EnvironmentSwitch::Off
            } else {
                EnvironmentSwitch::Unrecognised
            };
            assert_eq!(status.environment, expected);
            assert_eq!(
                status.state == ClockState::Fallback(Reason::DisabledByEnvironment),
                is_off,
                "{status:?}"
            );
        });
    }
}

/// The settings of `start_global` reach a control loop that readers had made before.
#[test]
fn start_global_sets_the_interval() {
    in_child(&[], || {
        let clock = Clock::global();
        if until_fast(clock).is_none() {
            return;
        }
        let _guard = Clock::builder()
            .interval(Duration::from_millis(5))
            .start_global()
            .unwrap();
        // A younger clock reaches a longer interval. With that setting, the global clock would,
        // too.
        let younger = Clock::builder().start().unwrap();
        until(&younger, || {
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
