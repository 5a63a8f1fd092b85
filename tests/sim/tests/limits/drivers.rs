//! Threads and readers that drive the clock.

use tickline_sim::Scenario;
use tickline_sim::named::{STEADY_PPB, steady};
use tickline_sim::scenario::{Chance, Clock, Decision, Driver, Fault};

use crate::run::runs;

const SECOND: u64 = 1_000_000_000;

/// Once the last line is no longer valid, after four intervals, the reference serves. When a driver
/// starts, there is a line again.
#[test]
fn a_clock_without_a_driver_leaves_the_time_to_the_reference() {
    let scenario = Scenario {
        duration_ns: 12 * SECOND,
        faults: vec![
            Fault::DriverDies.at_ms(5_000),
            Fault::DriverStarts.at_ms(10_000),
        ],
        ..steady()
    };
    for run in runs(&scenario) {
        run.part_ms(1_000..5_000).always_by_line();
        run.part_ms(8_000..10_000).never_by_line();
        run.part_ms(11_000..).always_by_line();
    }
}

#[test]
fn a_counter_stays_switched_off_until_it_is_switched_on() {
    let scenario = Scenario {
        faults: vec![Fault::Disable.at_ms(12_000), Fault::Enable.at_ms(15_000)],
        ..steady()
    };
    for run in runs(&scenario) {
        run.part_ms(1_000..12_000).always_by_line();
        run.part_ms(13_000..15_000).never_by_line();
        run.part_ms(16_000..).always_by_line();
    }
}

/// The driver has died and started before the counter is switched off.
#[test]
fn a_new_driver_obeys_the_switch() {
    let scenario = Scenario {
        faults: vec![
            Fault::DriverDies.at_ms(5_000),
            Fault::DriverStarts.at_ms(10_000),
            Fault::Disable.at_ms(12_000),
            Fault::Enable.at_ms(15_000),
        ],
        ..steady()
    };
    for run in runs(&scenario) {
        run.part_ms(11_000..12_000).always_by_line();
        run.part_ms(13_000..15_000).never_by_line();
        run.part_ms(16_000..).always_by_line();
    }
}

/// The thread does not run from 5.1 s to 15.1 s, in which the rate changes by 100 ppm. What was
/// known before is void, so no line rests on it, and lines are short at first.
#[test]
fn a_starved_thread_begins_anew() {
    let for_ns = 10 * SECOND;
    let rate = Fault::Rate {
        ppb: STEADY_PPB + 100_000,
        announced: false,
    };
    let scenario = Scenario {
        faults: vec![Fault::Starve { for_ns }.at_ms(5_100), rate.at_ms(14_100)],
        ..steady()
    };
    for run in runs(&scenario) {
        run.part_ms(8_000..15_000).never_by_line();
        run.part_ms(15_200..).error_at_most_ns(150).always_by_line();
    }
}

/// Scenarios in which readers drive the clock.
fn driven_by_readers() -> Scenario {
    let steady = steady();
    Scenario {
        clock: Clock {
            driver: Driver::Reader,
            ..steady.clock
        },
        ..steady
    }
}

#[test]
fn readers_drive_the_clock_as_well_as_a_thread_does() {
    let scenario = Scenario {
        duration_ns: 8 * SECOND,
        think_ns: 10_000_000,
        ..driven_by_readers()
    };
    for run in runs(&scenario) {
        run.part_ms(1_000..)
            .error_at_most_ns(30)
            .slow_permille_in(0..=20);
        let counts = run.counts();
        assert!(counts.calm_offset_ns <= 30, "{counts:?}");
        assert!(counts.by_line > 4_000, "{counts:?}");
    }
}

/// A reader that reads this often, on average, in each interval.
fn a_reader_that_calls(think_ns: u64) -> Scenario {
    Scenario {
        readers: 1,
        think_ns,
        reads_regularly: true,
        ..driven_by_readers()
    }
}

/// Readers run iterations only if they read at least this often in an interval. It equals the
/// private constant of this name in `driver/reader_schedule.rs` of core: if that one is twice or
/// half as large, one of the next two tests fails.
const CALLS_PER_INTERVAL: u64 = 256;

/// Nearly all readings then come from a line.
#[test]
fn a_reader_that_calls_often_enough_drives_the_clock() {
    let think_ns = steady().clock.interval_ns / CALLS_PER_INTERVAL;
    for run in runs(&a_reader_that_calls(think_ns)) {
        let counts = run.counts();
        assert!(counts.iterations > 30, "{counts:?}");
        assert!(counts.by_line >= 10_000, "{counts:?}");
        assert!(counts.by_reference <= 100, "{counts:?}");
    }
}

/// Half as often: no reading comes from a line, and none costs more than the OS clock.
#[test]
fn a_reader_that_calls_too_seldom_runs_no_iteration() {
    let think_ns = 2 * steady().clock.interval_ns / CALLS_PER_INTERVAL + 1_000;
    for run in runs(&a_reader_that_calls(think_ns)) {
        let counts = run.counts();
        assert_eq!((counts.iterations, counts.by_line), (0, 0));
        assert!(counts.by_reference > 1_000, "{counts:?}");
    }
}

/// Whatever threads ask of the keeper at the same time, also during a judgement: a clock that is
/// switched on, and against which no fact speaks, has a line in the end. The run itself checks that
/// few iterations in a row find the clock barred.
#[test]
fn a_clock_that_nothing_keeps_barred_is_unbarred() {
    let steady = steady();
    let acts = [
        Fault::Disable,
        Fault::Enable,
        Fault::Enable,
        Fault::JudgeAgain,
    ];
    let mut rng = fastrand::Rng::with_seed(1);
    let mut faults: Vec<_> = (0..200)
        .map(|_| acts[rng.usize(..acts.len())].at_ms(rng.u64(100..4_000)))
        .collect();
    let decision = |decision| Fault::Decision { decision };
    faults.push(decision(Decision::Passing).at_ms(1_000));
    faults.push(decision(Decision::Open).at_ms(2_000));
    faults.push(Fault::Enable.at_ms(4_500));
    let scenario = Scenario {
        duration_ns: 8 * SECOND,
        clock: Clock {
            interval_ns: 100_000_000,
            ..steady.clock
        },
        chance: Chance {
            preempt_one_in: 300,
            preempt_ns: 1_000_000,
            ..steady.chance
        },
        faults,
        ..steady
    };
    for run in runs(&scenario) {
        run.part_ms(5_500..).slow_permille_in(0..=100);
    }
}
