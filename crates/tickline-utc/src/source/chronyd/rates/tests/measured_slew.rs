//! The slew of the kernel's clock by measurement.

use super::*;

/// Symptom: a program called adjtime(3) with 100 us just before each second's end. Nothing was left
/// at any request, so a claim beside `chronyd -x` had the rate without the slew, and missed UTC by
/// up to 100 us after a second.
#[test]
fn a_slew_of_which_nothing_is_ever_left_counts_as_measured() {
    for slew_ppb in [500_000, 100_000, 1_000, -20_000, -500_000] {
        let mut machine = Machine::slewed_by(slew_ppb, 0);
        for ms in [0, 10, 1_000, 2_000] {
            let rates = machine.rates_ppb(ms, WITHOUT_FREQUENCY);
            assert!(have(rates, slew_ppb), "{slew_ppb} {ms} {rates:?}");
            assert!(rates.width() <= slew_ppb.abs(), "{slew_ppb} {ms} {rates:?}");
        }
    }
}

#[test]
fn a_slew_of_a_clock_that_is_steered_as_well_is_added() {
    let mut machine = Machine::slewed_by(100_000, 20_000);
    let reply = Reply {
        frequency_ppb: 30_000,
        correction_ns: 0,
        measurement: 1,
    };
    // (1 + 120 ppm) * (1 - 30 ppm).
    let rates = machine.rates_ppb(0, reply);
    assert!(have(rates, 89_996), "{rates:?}");
}

#[test]
fn before_a_slew_can_be_measured_each_slew_by_adjtime_counts() {
    let rates = Machine::new(0).rates_ppb(0, WITHOUT_FREQUENCY);
    assert!(have(rates, -500_000) && have(rates, 500_000), "{rates:?}");
    assert!(rates.width() < 1_001_000, "{rates:?}");
}

/// The error over 10 ms is 80 ppm.
#[test]
fn a_first_measurement_over_a_short_time_counts_with_its_error() {
    let mut machine = Machine::new(0);
    machine.slew_ppb = 100_000;
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    let rates = machine.rates_ppb(10, WITHOUT_FREQUENCY);
    assert!(have(rates, 100_000) && rates.max < 200_000, "{rates:?}");
    // The measurement goes on from the first poll.
    let rates = machine.rates_ppb(1_010, WITHOUT_FREQUENCY);
    assert!(have(rates, 100_000) && rates.max < 101_000, "{rates:?}");
}

#[test]
fn a_slew_that_has_ended_counts_no_more() {
    let mut machine = Machine::slewed_by(100_000, 0);
    let slewed_ns = machine.at(0).realtime_ns;
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.slew_ppb = 0;
    assert_eq!(machine.at(0).realtime_ns, slewed_ns);
    let rates = machine.rates_ppb(1_000, WITHOUT_FREQUENCY);
    assert_eq!(rates, Interval::at(0));
}

/// A poll of the machine after its clock was set by 200 us. In a second, this would look like a
/// slew by 200 ppm.
fn measure_after_set(machine: &mut Machine, ms: i64) -> Rates {
    let at = machine.at(ms);
    let now = KernelPoll {
        raw_ns: Interval::at(at.raw_ns),
        ahead_ns: Interval::at(at.realtime_ns - at.raw_ns + 200_000),
        stated_ppb: Interval::at(0),
    };
    let slew = machine.steering.slew.measure(now, valid_ns(0));
    slew.by_adjtime_ppb
}

#[test]
fn a_step_of_the_clock_is_no_slew() {
    let mut machine = Machine::slewed_by(-100_000, 0);
    machine.measure_slew(0);
    machine.steering.record_clock_set();
    for ms in [1_000, 2_000] {
        let slew_ppb = measure_after_set(&mut machine, ms);
        assert!(have(slew_ppb, -100_000), "{ms} {slew_ppb:?}");
        assert_eq!(slew_ppb.max, 0, "{ms}");
    }
}

/// That poll sees -100 ppm, and the step as 200 ppm more.
#[test]
fn a_step_that_is_known_after_the_poll_counts_as_a_slew_until_the_next_measurement() {
    let mut machine = Machine::slewed_by(-100_000, 0);
    machine.measure_slew(0);
    measure_after_set(&mut machine, 1_000);
    machine.steering.record_clock_set();
    let slew_ppb = measure_after_set(&mut machine, 1_001);
    assert!(have(slew_ppb, -100_000), "{slew_ppb:?}");
    assert!(slew_ppb.max < 101_000, "{slew_ppb:?}");
    let slew_ppb = measure_after_set(&mut machine, 2_001);
    assert!(have(slew_ppb, -100_000), "{slew_ppb:?}");
    assert_eq!(slew_ppb.max, 0);
}

/// Symptom: after the clock was set, the slew before the last measurement counted, and readings
/// missed UTC by a slew that had begun since.
#[test]
fn a_slew_that_began_shortly_before_a_step_counts_after_it() {
    let mut machine = Machine::steered_by(0);
    machine.measure_slew(0);
    machine.slew_ppb = 100_000;
    machine.measure_slew(1_000);
    machine.steering.record_clock_set();
    let slew_ppb = measure_after_set(&mut machine, 1_001);
    assert!(have(slew_ppb, 100_000), "{slew_ppb:?}");
}

#[test]
fn a_maker_says_that_a_step_is_no_slew() {
    let mut machine = Machine::slewed_by(-100_000, 0);
    machine.measure_slew(0);
    let mut maker = ClaimMaker::default();
    maker.sources.chronyd.steering = Some(core::mem::take(&mut machine.steering));
    maker.record_clock_set();
    machine.steering = maker.sources.chronyd.steering.unwrap();
    let slew_ppb = measure_after_set(&mut machine, 1_000);
    assert!(have(slew_ppb, -100_000), "{slew_ppb:?}");
    assert_eq!(slew_ppb.max, 0);
}

/// The report of the maker's chronyd, all of whose replies are about one measurement.
fn report_at(maker: &mut ClaimMaker, ms: i64) -> SourceAnswer {
    let at = at_ms(ms);
    let kernel = KernelSteering {
        rate_ppb: 0,
        adjtime_left_us: 0,
    };
    let chronyd = &mut maker.sources.chronyd;
    chronyd.report(&tracking(), 0, Some(kernel), [&at, &at], valid_ns(0))
}

/// Symptom: a clock set or a resume in the first second made readings fail until chronyd measured
/// again, after up to 1,024 s: the unknown slew counted as an unknown rate.
#[test]
fn a_clock_that_was_set_before_the_slew_is_known_is_believed_if_the_last_claim_agrees() {
    let mut maker = ClaimMaker::default();
    maker.sources.chronyd.steering = Some(Steering::default());
    for ms in [0, 4] {
        let report = report_at(&mut maker, ms);
        assert_claims(&mut maker, &[(at_ms(ms), report, BY_CHRONYD)]);
    }
    maker.record_clock_set();
    let report = report_at(&mut maker, 5);
    assert!(report.unwrap().rates_ppb.width() > 2 * MAX_FREQUENCY_PPB);
    assert_claims(&mut maker, &[(at_ms(5), report, BY_CHRONYD)]);
}

/// Symptom: after an hour without answers, the mean slew of that hour counted, and readings missed
/// UTC by a slew that had begun in the last minute.
#[test]
fn after_a_gap_each_slew_by_adjtime_counts() {
    let mut machine = Machine::steered_by(0);
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    let rates = machine.rates_ppb(3_600_000, WITHOUT_FREQUENCY);
    assert!(have(rates, -500_000) && have(rates, 500_000), "{rates:?}");
}

#[test]
fn after_a_gap_behind_a_step_each_slew_by_adjtime_counts() {
    let mut machine = Machine::steered_by(0);
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.steering.record_clock_set();
    let rates = machine.rates_ppb(3_600_000, WITHOUT_FREQUENCY);
    assert!(have(rates, -500_000) && have(rates, 500_000), "{rates:?}");
}

#[test]
fn a_reply_that_is_lost_is_no_gap() {
    for (interval_ns, period_ms) in [(0, 1_000), (10_000_000_000, 10_000)] {
        let mut machine = Machine {
            interval_ns,
            ..Machine::new(0)
        };
        machine.rates_ppb(0, WITHOUT_FREQUENCY);
        machine.rates_ppb(period_ms, WITHOUT_FREQUENCY);
        machine.steering.forget();
        let rates = machine.rates_ppb(3 * period_ms, WITHOUT_FREQUENCY);
        assert_eq!(rates, Interval::at(0), "{period_ms}");
    }
}

/// The kernel may have had any rate meanwhile.
#[test]
fn a_kernel_that_does_not_say_its_rate_ends_the_measurement() {
    let mut machine = Machine::steered_by(0);
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    let at = machine.at(1_000);
    let moments = [&at, &at];
    machine
        .steering
        .rates_ppb(&tracking(), None, moments, valid_ns(0));
    let rates = machine.rates_ppb(2_000, WITHOUT_FREQUENCY);
    assert!(have(rates, -500_000) && have(rates, 500_000), "{rates:?}");
}

#[test]
fn a_slew_is_awaited_until_it_was_measured_over_half_a_second() {
    let mut machine = Machine::new(0);
    let awaited_since_ns = [0, 4, 12, 28, 60, 124, 252, 508, 1_508].map(|ms| {
        machine.rates_ppb(ms, WITHOUT_FREQUENCY);
        machine.steering.slew_awaited_since_ns()
    });
    assert_eq!(awaited_since_ns[..7], [Some(0); 7]);
    assert_eq!(awaited_since_ns[7..], [None; 2]);
}

#[test]
fn a_slew_is_not_awaited_where_the_kernel_does_not_say_its_rate() {
    let mut steering = Steering::default();
    let at = at_ms(0);
    steering.rates_ppb(&tracking(), None, [&at, &at], valid_ns(0));
    assert_eq!(steering.slew_awaited_since_ns(), None);
}

/// A new base each half second would begin a row of polls anew.
#[test]
fn a_slew_that_is_never_measured_is_awaited_since_the_first_poll() {
    let mut machine = Machine::new(0);
    machine.slew_ppb = 5_000_000;
    for ms in [0, 508, 1_016, 2_016] {
        machine.rates_ppb(ms, WITHOUT_FREQUENCY);
        assert_eq!(machine.steering.slew_awaited_since_ns(), Some(0), "{ms}");
    }
}

/// What a kernel from before commit f5807b0606da states for -40 ppm and an offset of -100 us with a
/// constant of 6, if nobody knows of its fault (`offset_from_timex_ns`).
const WRONG_PPB: i64 = 16_802_615;

/// Symptom: under busybox' ntpd and Linux 5.10 the kernel stated +1.7 %, and no claim had the true
/// rate of -40.4 ppm.
#[test]
fn a_rate_that_no_slew_explains_counts_in_case_the_kernel_states_a_wrong_one() {
    let mut machine = Machine::slewed_by(-40_392 - WRONG_PPB, WRONG_PPB);
    let rates = machine.rates_ppb(0, WITHOUT_FREQUENCY);
    assert!(have(rates, -40_392), "{rates:?}");
}

/// The machine at 1,000 ms, since 0 ms with a rate of 700 ppm that adjtime(3) can't make, and the
/// rates at 0 and at 1,000 ms.
fn machine_with_unexplained_rate() -> (Machine, [Rates; 2]) {
    let mut machine = Machine::slewed_by(-100_000, 0);
    let last = machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.slew_ppb = 700_000;
    let rates = machine.rates_ppb(1_000, WITHOUT_FREQUENCY);
    (machine, [last, rates])
}

#[test]
fn a_rate_that_no_slew_explains_counts_beside_the_last_slew() {
    let (_, [last, rates]) = machine_with_unexplained_rate();
    assert!(have(rates, 700_000), "{rates:?}");
    assert_eq!(rates.min, last.min);
}

/// From 1,000 ms on it is slewed by -100 ppm again: 600 us since 0 ms.
#[test]
fn a_rate_that_no_slew_explains_counts_for_one_claim() {
    let (mut machine, [last, _]) = machine_with_unexplained_rate();
    machine.slew_ppb = 300_000;
    assert_eq!(machine.rates_ppb(2_000, WITHOUT_FREQUENCY), last);
}

/// A source with such a rate does not know it.
#[test]
fn a_rate_that_no_slew_explains_is_not_in_the_width_for_a_slew() {
    let (machine, [last, rates]) = machine_with_unexplained_rate();
    assert!(rates.width() > 700_000, "{rates:?}");
    assert_eq!(machine.steering.slew_width_ppb(), last.width());
}

/// A step that the thread is not told of.
#[test]
fn a_rate_that_only_a_step_makes_leaves_the_last_slew() {
    let mut machine = Machine::slewed_by(-100_000, 0);
    let last = machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.slew_ppb = MAX_RATE_PPB + 50_000_000;
    let rates = machine.rates_ppb(1_000, WITHOUT_FREQUENCY);
    assert_eq!(rates, last);
}

/// The kernel states 0, and later -100 ppm. Its clock has lost 50 us: it had either rate for half a
/// second, or one of them and a slew of up to 50 ppm. That slew may also be in chronyd's frequency.
#[test]
fn a_rate_that_the_kernel_has_changed_is_no_slew_beyond_the_change() {
    let mut machine = Machine::steered_by(0);
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.kernel_ppb = -100_000;
    machine.slew_ppb = 50_000;
    let rates = machine.rates_ppb(1_000, WITHOUT_FREQUENCY);
    assert!(have(rates, -150_000), "{rates:?}");
    assert!(rates.min >= -151_000 && rates.max <= 50_000, "{rates:?}");
}
