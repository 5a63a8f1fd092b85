//! A program that calls adjtime(3) beside a chronyd that steers: the slew gets into chronyd's
//! frequency.

use super::*;

/// The reply of a chronyd that has measured, and sees no offset.
fn steady(frequency_ppb: i64, measurement: u64) -> Reply {
    Reply {
        frequency_ppb,
        correction_ns: 0,
        measurement,
    }
}

/// Symptom: beside chronyd, with a frequency of 30 ppm, a program called adjtime(3) with 100 us in
/// each second. UTC ran at 70 ppm, claims had at most 42 ppm, and readings missed UTC by up to 28
/// us after a second.
#[test]
fn a_slew_that_chronyd_has_in_its_frequency_counts() {
    for (frequency_ppb, slew_ppb) in [(30_000, 100_000), (300_000, 500_000), (-200_000, -50_000)] {
        let mut machine = Machine::slewed_by(slew_ppb, -frequency_ppb);
        for ms in [0, 1_000, 2_000] {
            let rates = machine.rates_ppb(ms, steady(frequency_ppb, 1));
            let utc_ppb = slew_ppb - frequency_ppb;
            assert!(have(rates, utc_ppb), "{slew_ppb} {ms} {rates:?}");
        }
    }
}

#[test]
fn a_slew_of_which_something_is_left_may_be_in_chronyds_frequency() {
    let mut machine = Machine::steered_by(-30_000);
    machine.adjtime_left_us = 400;
    let rates = machine.rates_ppb(0, steady(30_000, 1));
    assert_eq!(rates.max, 470_000);
}

/// A machine that has never been asked, where reading the clocks takes 600 ns. Over 12 ms, the
/// error of a rate is 101 ppm: more than the slew of 90 ppm, and less than half of the frequency.
fn machine_with_hidden_slew() -> Machine {
    Machine {
        slew_ppb: 90_000,
        width_ns: 600,
        ..Machine::new(-300_000)
    }
}

/// Symptom: 12 ms after the start, chronyd seemed to have shown that it steers without a slew. The
/// next poll came after a second, and readings missed UTC by up to 87 us until then.
#[test]
fn what_chronyd_shows_in_a_short_time_leaves_a_slew_possible() {
    let mut machine = machine_with_hidden_slew();
    for ms in [0, 4, 12] {
        let rates = machine.rates_ppb(ms, steady(300_000, 1));
        assert!(have(rates, -210_000), "{ms} {rates:?}");
    }
}

#[test]
fn a_slew_is_awaited_while_what_chronyd_has_shown_leaves_one_possible() {
    let mut machine = machine_with_hidden_slew();
    for ms in [0, 4, 12] {
        machine.rates_ppb(ms, steady(300_000, 1));
    }
    assert!(machine.steering.hidden_slew_ppb.is_some());
    assert_eq!(machine.steering.slew_awaited_since_ns(), Some(0));
}

/// Of a chronyd that steers without a slew beside it. The error of the slew is 2.7 ppm over 300 ms.
#[test]
fn what_chronyd_has_shown_gets_more_exact_with_time() {
    let mut machine = Machine::new(20_000);
    machine.rates_ppb(0, steers(0, 1));
    let soon = machine.rates_ppb(300, steers(300, 1));
    assert_eq!(soon, STEERED.widened_by(1_677));
    assert_eq!(machine.rates_ppb(1_000, steers(1_000, 1)), STEERED);
}

/// By polls a second apart, the error of the slew is 20 ppm.
#[test]
fn where_readings_are_slow_chronyds_measurement_shows_in_time_that_there_is_no_slew() {
    let mut machine = Machine {
        width_ns: 10_000,
        ..Machine::new(-300_000)
    };
    let rates = [0, 1_000, 2_000, 39_000, 40_000].map(|ms| {
        let reply = steady(300_000, 1);
        machine.rates_ppb(ms, reply)
    });
    assert!(rates[1].width() > 30_000, "{rates:?}");
    assert_eq!(rates[4], Interval::at(-300_000));
}

/// The measurement of the slew begins anew after a gap.
#[test]
fn a_slew_is_not_awaited_once_chronyd_has_shown_exactly_that_it_steers() {
    let mut machine = Machine::new(20_000);
    for ms in [0, 1_000, 5_000] {
        machine.rates_ppb(ms, steers(ms, 1));
    }
    assert_eq!(machine.steering.slew.new_since_ns(), Some(5_000_000_000));
    assert_eq!(machine.steering.slew_awaited_since_ns(), None);
}

/// Symptom: chronyd had shown that it steers, and measured each second. A slew by 100 ppm began
/// then, and claims had nothing of it.
#[test]
fn a_slew_that_begins_after_chronyd_has_shown_that_it_steers_counts() {
    let mut machine = Machine::steered_by(-30_000);
    machine.rates_ppb(0, steady(30_000, 1));
    assert_eq!(machine.rates_ppb(1_000, steady(30_000, 1)), STEERED);
    // 100 us in the second from 1,000 ms on: 50 ppm since 0 ms.
    machine.slew_ppb = 50_000;
    let rates = machine.rates_ppb(2_000, steady(30_000, 2));
    assert!(have(rates, 70_000), "{rates:?}");
    assert_eq!(rates.min, STEERED.min);
}

/// From 2,000 ms on chronyd has the slew in its frequency, and steers by 100 ppm more, so that the
/// clock runs as it did before the slew. Symptom: the slew was not certain by that measurement, and
/// readings missed UTC by up to 90 us after a second.
#[test]
fn a_slew_for_which_chronyd_makes_up_counts() {
    let mut machine = Machine::steered_by(-30_000);
    for ms in [0, 1_000] {
        machine.rates_ppb(ms, steady(30_000, 1));
    }
    // -100 ppm from 1,000 ms on: -50 ppm since 0 ms.
    machine.slew_ppb = -50_000;
    machine.rates_ppb(2_000, steady(30_000, 2));
    machine.kernel_ppb = 70_000;
    // The clock has lost 190 us since 0 ms.
    machine.slew_ppb = -133_333;
    let rates = machine.rates_ppb(3_000, steady(-70_000, 3));
    assert!(have(rates, -30_000), "{rates:?}");
}

/// Symptom: at a poll at which the kernel did not say its rate, a slew counted no more, although it
/// was known before.
#[test]
fn while_the_kernel_says_nothing_each_slew_counts_beside_a_chronyd_that_steers() {
    let mut machine = Machine::steered_by(-30_000);
    for ms in [0, 1_000] {
        machine.rates_ppb(ms, steady(30_000, 1));
    }
    let at = machine.at(2_000);
    let tracking = Tracking {
        frequency_ppb: 30_000,
        measurement: 2,
        ..tracking()
    };
    let moments = [&at, &at];
    let rates = machine
        .steering
        .rates_ppb(&tracking, None, moments, valid_ns(0));
    assert!(have(rates, -530_000) && have(rates, 470_000), "{rates:?}");
}

/// Symptom: a step between them made up for a slew, so that chronyd seemed to steer without one.
#[test]
fn two_replies_with_a_set_of_the_clock_between_them_show_nothing() {
    let mut machine = Machine::steered_by(20_000);
    machine.rates_ppb(0, steers(0, 1));
    machine.steering.record_clock_set();
    assert_eq!(machine.rates_ppb(1_000, steers(1_000, 1)), HULL);
    assert_eq!(machine.rates_ppb(2_000, steers(2_000, 1)), STEERED);
}

/// chronyd's frequency is 30 ppm: without a slew, the rates are from -60 to -30 ppm.
#[test]
fn the_width_for_a_slew_is_what_the_rates_are_wider_by() {
    let mut machine = Machine::new(-30_000);
    let rates = machine.rates_ppb(0, steady(30_000, 1));
    assert!(rates.width() > 2 * MAX_FREQUENCY_PPB, "{rates:?}");
    assert_eq!(rates.width() - machine.steering.slew_width_ppb(), 30_000);
}

/// The kernel is steered by -100 ppm and slewed by 100 ppm, so that chronyd's clock runs as if
/// chronyd steered.
#[test]
fn a_slew_that_hides_the_steering_does_not_show_that_chronyd_steers() {
    let mut machine = Machine::slewed_by(100_000, -100_000);
    let reply = |ms: i64| Reply {
        frequency_ppb: 30_000,
        correction_ns: -ms * 30,
        measurement: 1,
    };
    machine.rates_ppb(0, reply(0));
    let rates = machine.rates_ppb(1_000, reply(1_000));
    assert!(rates.min <= -129_000, "{rates:?}");
}
