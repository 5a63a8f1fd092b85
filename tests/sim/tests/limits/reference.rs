//! How closely the clock follows its reference.

use core::ops::Range;

use tickline_core::shared::Event;
use tickline_core::state::WRAP_MASK;
use tickline_sim::Scenario;
use tickline_sim::named::{STEADY_PPB, ntp_slew, steady, unix_step, violent_slew};
use tickline_sim::scenario::{Clock, Driver, Fault, Machine};

use crate::run::runs;

const SECOND: u64 = 1_000_000_000;

/// A line within 5 ms, then 10 ns of error, and a bound of 15 ns once the kernel's dither is known
/// to be small. Until then its rate counts: 0.48 ppm for a sixteenth of the interval.
#[test]
fn a_steady_reference_is_followed_within_10_ns() {
    for run in runs(&steady()) {
        run.part_ms(..1_000)
            .error_at_most_ns(150)
            .slow_permille_in(0..=5);
        run.part_ms(1_000..)
            .error_at_most_ns(10)
            .bound_at_most_ns(25)
            .always_by_line();
        run.part_ms(10_000..).bound_at_most_ns(15);
    }
}

/// For the first 0.1 s a read of the reference takes a third of the later time. No later sample is
/// nearly as narrow as the first ones, so none shows the kernel's dither as clearly. The thread
/// still comes at its interval of 0.5 s, after 256 short ones. When only clear samples counted, it
/// came 32 times a second for as long as the clock kept the narrow sample: 300 s.
#[test]
fn samples_that_were_narrower_at_first_do_not_keep_intervals_short() {
    let steady = steady();
    let scenario = Scenario {
        machine: Machine {
            bracket_ns: 10,
            ..steady.machine
        },
        faults: vec![Fault::Bracket { ns: 30 }.at_ms(100)],
        ..steady
    };
    for run in runs(&scenario) {
        let settled = run.part_ms(10_000..);
        settled
            .iterations_per_second_at_most(2)
            .error_at_most_ns(10)
            .bounds_hold();
    }
}

/// When a slew of `named` begins and ends, ms.
const SLEW_MS: Range<u64> = 5_100..10_100;

/// Asserts that the error is what the change of rate makes until the next iteration, and is gone
/// 2 s later. A reading may meet a line while it is being replaced.
fn assert_slew_is_followed_within_an_interval(scenario: &Scenario, slew_ppb: u64) {
    const FOLLOWED_AFTER_MS: u64 = 2_001;
    let slewed_ns = slew_ppb * scenario.clock.interval_ns / SECOND;
    let changed_error_ns = slewed_ns.cast_signed() + 1_000;
    let followed_begin_ms = SLEW_MS.start + FOLLOWED_AFTER_MS;
    let followed_end_ms = SLEW_MS.end + FOLLOWED_AFTER_MS;
    for run in runs(scenario) {
        run.part_ms(..SLEW_MS.start).error_at_most_ns(10);
        run.part_ms(SLEW_MS.start..followed_begin_ms)
            .error_at_most_ns(changed_error_ns);
        run.part_ms(followed_begin_ms..SLEW_MS.end)
            .error_at_most_ns(10);
        run.part_ms(SLEW_MS.end..followed_end_ms)
            .error_at_most_ns(changed_error_ns);
        run.part_ms(followed_end_ms..).error_at_most_ns(10);
        run.part_ms(1_000..).slow_permille_in(0..=1);
    }
}

#[test]
fn a_slew_that_the_kernel_states_is_followed_within_an_interval() {
    assert_slew_is_followed_within_an_interval(&ntp_slew(), 500_000);
}

#[test]
fn a_violent_slew_is_followed_within_an_interval() {
    assert_slew_is_followed_within_an_interval(&violent_slew(), 100_000_000);
}

/// Monotonic time does not move. Unix time is followed as soon as the kernel has woken the thread:
/// before the next point of a track, 5 ms later.
#[test]
fn a_step_of_unix_time_is_followed_at_once() {
    for run in runs(&unix_step()) {
        run.part_ms(..).error_at_most_ns(15);
        run.part_ms(..5_100).unix_error_at_most_ns(100);
        run.part_ms(5_105..).unix_error_at_most_ns(100);
    }
}

/// Steps of Unix time that the width of a sample may hide. The simulator checks the bound of the
/// offset at each reading with bounds. Symptom: it was too small.
#[test]
fn the_bound_of_unix_time_holds_after_small_steps() {
    let step =
        |number: i64| Fault::UnixStep { by_ns: 5 * number }.at_ms(5_100 * number.unsigned_abs());
    let scenario = Scenario {
        faults: (1..10).map(step).collect(),
        reads_regularly: true,
        ..steady()
    };
    for run in runs(&scenario) {
        run.part_ms(..).unix_error_at_most_ns(100);
    }
}

/// The clock steps to the reference, and forgets what it knew: the bounds are again those of a
/// clock that has just started.
#[test]
fn a_jump_ahead_is_a_new_start() {
    let jump = Fault::Jump { by_ns: 200_000_000 };
    let scenario = Scenario {
        faults: vec![jump.at_ms(5_100)],
        ..steady()
    };
    for run in runs(&scenario) {
        run.part_ms(6_200..).error_at_most_ns(150);
        run.part_ms(7_200..)
            .error_at_most_ns(10)
            .bound_at_most_ns(25)
            .always_by_line();
    }
}

/// The reference is a device that takes 1.4 us to answer, and 60 us from 2.1 s to 4.1 s, while
/// other CPUs ask it, too. A sample takes 2 ms then. The line goes on, but for the time until the
/// limit for a sample's age has followed, and for readers that meet a line while it is being
/// replaced. When the quickest iteration ever set that limit, there was no line for longer than the
/// simulator allows.
#[test]
fn a_contended_device_is_still_followed() {
    let steady = steady();
    let scenario = Scenario {
        duration_ns: 6 * SECOND,
        think_ns: 1_000_000,
        machine: Machine {
            bracket_ns: 1_400,
            same_counter: false,
            resolution_ns: 10,
            ..steady.machine
        },
        clock: Clock {
            interval_ns: 10_000_000,
            ..steady.clock
        },
        faults: vec![
            Fault::Bracket { ns: 60_000 }.at_ms(2_100),
            Fault::Bracket { ns: 1_400 }.at_ms(4_100),
        ],
        ..steady
    };
    for run in runs(&scenario) {
        run.part_ms(1_000..)
            .error_at_most_ns(1_400)
            .slow_permille_in(0..=10);
    }
}

/// A counter of 8 MHz becomes slower than a line allows, by 5 % from 5.1 s to 10.1 s: the last line
/// ends, and the OS clock serves. There is a line again when the counter is fast enough.
#[test]
fn a_counter_that_becomes_too_slow_leaves_the_time_to_the_os_clock() {
    let steady = steady();
    let scenario = Scenario {
        machine: Machine {
            counter_hz: 8_000_000,
            ..steady.machine
        },
        faults: vec![
            Fault::CounterRate { ppb: -50_000_000 }.at_ms(5_100),
            Fault::CounterRate { ppb: 52_000_000 }.at_ms(10_100),
        ],
        ..steady
    };
    for run in runs(&scenario) {
        run.part_ms(1_000..5_000).always_by_line();
        run.part_ms(8_000..10_000).never_by_line();
        run.part_ms(12_000..).always_by_line();
    }
}

/// A machine whose counter is at `ticks` after 10 s.
fn passing_at_10_s(ticks: u64) -> Scenario {
    let steady = steady();
    Scenario {
        machine: Machine {
            counter_origin: ticks.wrapping_sub(10 * steady.machine.counter_hz),
            ..steady.machine
        },
        ..steady
    }
}

/// Lines become short before the wrap, and none reaches across it.
#[test]
fn a_counter_that_wraps_has_no_line_across_the_wrap() {
    for run in runs(&passing_at_10_s(0)) {
        let limits = run.part_ms(1_000..);
        limits
            .error_at_most_ns(20)
            .bound_at_most_ns(30)
            .slow_permille_in(0..=3);
        run.part_ms(12_000..).always_by_line();
    }
}

/// The same where the shift by 7 wraps the ticks, at 2^57.
#[test]
fn shifted_ticks_that_wrap_have_no_line_across_the_wrap() {
    for run in runs(&passing_at_10_s(WRAP_MASK + 1)) {
        let limits = run.part_ms(1_000..);
        limits
            .error_at_most_ns(20)
            .bound_at_most_ns(30)
            .slow_permille_in(0..=3);
        run.part_ms(12_000..).always_by_line();
    }
}

/// A change of rate by this much, of which the kernel says nothing, and the run's end.
fn unannounced(change_ppb: i64, at_ms: u64, duration_ms: u64) -> Scenario {
    let rate = Fault::Rate {
        ppb: STEADY_PPB + change_ppb,
        announced: false,
    };
    Scenario {
        duration_ns: duration_ms * 1_000_000,
        faults: vec![rate.at_ms(at_ms)],
        ..steady()
    }
}

/// 1 us of error, found within two intervals.
#[test]
fn an_unannounced_change_of_rate_is_found_within_two_intervals() {
    for (change_ppb, at_ms) in [
        (1_000, 8_000),
        (-1_000, 8_100),
        (1_000, 8_250),
        (-1_000, 8_400),
    ] {
        for run in runs(&unannounced(change_ppb, at_ms, at_ms + 1_000)) {
            run.part_ms(..).error_at_most_ns(1_000);
            assert!(run.event_count(Event::BoundViolation) > 0, "at {at_ms} ms");
        }
    }
}

#[test]
fn an_unannounced_change_of_rate_is_followed() {
    for run in runs(&unannounced(1_000, 8_000, 20_000)) {
        run.part_ms(..).error_at_most_ns(1_000);
        run.part_ms(10_000..).error_at_most_ns(10);
    }
}

/// Bounds rest on a maximum drift that is learnt, so some may be wrong, but not many. When the
/// maximum drift was halved as long as no sample was wholly outside the bounds, 1 in 21 was wrong.
#[test]
fn a_rate_that_wanders_makes_few_bounds_wrong() {
    let steady = steady();
    let scenario = Scenario {
        duration_ns: 60 * SECOND,
        machine: Machine {
            wander_ppb: 10,
            ..steady.machine
        },
        ..steady
    };
    for run in runs(&scenario) {
        run.part_ms(20_000..).wrong_at_most_permille(10);
    }
}

/// A kernel that keeps to its line by switching between two rates at its ticks, which come 1 to 100
/// ms apart.
fn dithering(dither_ppb: i64, bracket_ns: u64, driver: Driver) -> Scenario {
    let steady = steady();
    Scenario {
        think_ns: 10_000_000,
        machine: Machine {
            dither_ppb,
            bracket_ns,
            ..steady.machine
        },
        clock: Clock {
            driver,
            ..steady.clock
        },
        ..steady
    }
}

/// No bound is wrong, from the first one on. When the maximum drift was learnt down to 10 ppb
/// without regard to dither, 1 in 20 bounds was wrong.
#[test]
fn dither_makes_no_bound_wrong() {
    for (dither_ppb, bracket_ns) in [(240, 20), (240, 80), (200, 30), (80, 30), (80, 80)] {
        for run in runs(&dithering(dither_ppb, bracket_ns, Driver::Thread)) {
            run.part_ms(..).bounds_hold();
        }
    }
}

#[test]
fn dither_makes_no_bound_wrong_where_readers_drive() {
    for bracket_ns in [20, 80] {
        for run in runs(&dithering(200, bracket_ns, Driver::Reader)) {
            run.part_ms(..).bounds_hold();
        }
    }
}
