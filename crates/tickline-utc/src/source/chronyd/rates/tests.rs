use super::*;
use crate::claim_maker::tests::{BY_CHRONYD, assert_claims, at_ms};
use crate::claim_maker::{ClaimMaker, valid_ns};
use crate::moment::Moment;
use crate::source::{ChronydSource, SourceAnswer};

/// A machine whose oscillator runs at the rate of UTC. The kernel's clock is steered by
/// `kernel_ppb`.
struct Machine {
    steering: Steering,
    kernel_ppb: i64,
    /// The rate that the kernel's clock has beside that, but does not state.
    slew_ppb: i64,
    /// What adjtime(3) has still to remove, us.
    adjtime_left_us: i64,
    /// The error of a reading of the clocks, ns. Over a second, the error of a measured slew is
    /// less than a report allows for.
    width_ns: i64,
    /// The interval of the clock, ns.
    interval_ns: u64,
}

/// What chronyd answers.
#[derive(Clone, Copy)]
struct Reply {
    frequency_ppb: i64,
    correction_ns: i64,
    measurement: u64,
}

impl Machine {
    /// A machine that has been asked before, so that a slew is known.
    fn steered_by(kernel_ppb: i64) -> Self {
        Self::slewed_by(0, kernel_ppb)
    }

    /// A machine as by [`steered_by`](Self::steered_by), whose clock is slewed beside that.
    fn slewed_by(slew_ppb: i64, kernel_ppb: i64) -> Self {
        let mut machine = Self {
            slew_ppb,
            ..Self::new(kernel_ppb)
        };
        machine.measure_slew(-2_000);
        machine.measure_slew(-1_000);
        machine
    }

    /// A machine that has never been asked.
    fn new(kernel_ppb: i64) -> Self {
        Self {
            steering: Steering::default(),
            kernel_ppb,
            slew_ppb: 0,
            adjtime_left_us: 0,
            width_ns: 400,
            interval_ns: 0,
        }
    }

    fn measure_slew(&mut self, ms: i64) -> Rates {
        let at = self.at(ms);
        let now = KernelPoll {
            raw_ns: Interval::between(at.raw_ns, at.raw_ns + at.width_ns),
            ahead_ns: Interval::around(at.realtime_ns - at.raw_ns, at.width_ns),
            stated_ppb: Interval::at(self.kernel_ppb + self.steering.tick_adjustment_ppb),
        };
        self.steering.slew.measure(now, valid_ns(self.interval_ns))
    }

    fn at(&self, ms: i64) -> Moment {
        let at = at_ms(ms);
        let rate_ppb = self.kernel_ppb + self.steering.tick_adjustment_ppb + self.slew_ppb;
        let steered_ns = ms * rate_ppb / 1_000;
        Moment {
            realtime_ns: at.realtime_ns + steered_ns,
            width_ns: self.width_ns,
            ..at
        }
    }

    /// The rates by chronyd's reply at this time.
    fn rates_ppb(&mut self, ms: i64, reply: Reply) -> Rates {
        let at = self.at(ms);
        let tracking = Tracking {
            frequency_ppb: reply.frequency_ppb,
            correction_ns: reply.correction_ns,
            measurement: reply.measurement,
            ..tracking()
        };
        let kernel = KernelSteering {
            rate_ppb: self.kernel_ppb,
            adjtime_left_us: self.adjtime_left_us,
        };
        let max_gap_ns = valid_ns(self.interval_ns);
        self.steering
            .rates_ppb(&tracking, Some(kernel), [&at, &at], max_gap_ns)
    }
}

fn tracking() -> Tracking {
    Tracking {
        reference: [10, 0, 0, 1],
        is_clock: false,
        stratum: 1,
        leap_status: 0,
        updated_s: 0,
        correction_ns: 0,
        frequency_ppb: 0,
        skew_ppb: 0,
        frequency_error_ppb: 0,
        delay_ns: 0,
        dispersion_ns: 0,
        measurement: 0,
    }
}

/// A chronyd that steers by -30 ppm, and slews by 50 ppm: its own clock runs at -30 ppm.
fn steers(ms: i64, measurement: u64) -> Reply {
    Reply {
        frequency_ppb: 30_000,
        correction_ns: -ms * 50,
        measurement,
    }
}

/// The rates that count if chronyd steers so, and if another does.
const STEERED: Rates = Interval::at(-30_000);
const HULL: Rates = Interval::between(-30_000, -10_001);

/// Symptom: `chronyd -x` found that a clock, steered by another program, runs as UTC does, and
/// claims had the rate of the oscillator: 100 ppm too little.
#[test]
fn before_chronyd_has_shown_that_it_steers_both_rates_count() {
    for (kernel_ppb, frequency_ppb, expected) in [
        (100_000, 0, Interval::between(0, 100_000)),
        (-400_000, 0, Interval::between(-400_000, 0)),
        (100_000, 70_000, Interval::between(-70_000, 29_993)),
        // Nobody steers.
        (0, 70_000, Interval::at(-70_000)),
        // By chance the other program steers as chronyd would.
        (15_000, -15_000, Interval::between(15_000, 30_000)),
    ] {
        let reply = Reply {
            frequency_ppb,
            correction_ns: 0,
            measurement: 1,
        };
        let rates = Machine::steered_by(kernel_ppb).rates_ppb(0, reply);
        assert_eq!(rates, expected, "{kernel_ppb} {frequency_ppb}");
    }
}

/// The rates by the first reply of a `chronyd -x` that sees no frequency, while adjtime(3) has this
/// to remove.
fn rates_while_adjtime_removes(left_us: i64) -> Rates {
    let mut machine = Machine::steered_by(0);
    machine.adjtime_left_us = left_us;
    machine.rates_ppb(0, WITHOUT_FREQUENCY)
}

const WITHOUT_FREQUENCY: Reply = Reply {
    frequency_ppb: 0,
    correction_ns: 0,
    measurement: 1,
};

/// Symptom: while adjtime(3) slewed the clock that `chronyd -x` measured, a claim had the rate
/// without the slew, and missed UTC by up to 500 us after a second.
#[test]
fn a_slew_by_adjtime_counts_in_its_direction() {
    assert_eq!(
        rates_while_adjtime_removes(1),
        Interval::between(0, 500_000)
    );
    assert_eq!(
        rates_while_adjtime_removes(-9_000),
        Interval::between(-500_000, 0)
    );
}

#[test]
fn a_slew_by_adjtime_counts_once_more_after_nothing_is_left() {
    let mut machine = Machine::steered_by(0);
    machine.adjtime_left_us = 400;
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.adjtime_left_us = 0;
    let last_second = machine.rates_ppb(1_000, WITHOUT_FREQUENCY);
    assert_eq!(last_second, Interval::between(0, 500_000));
    let after = machine.rates_ppb(2_000, WITHOUT_FREQUENCY);
    assert_eq!(after, Interval::at(0));
}

#[test]
fn two_replies_about_one_measurement_show_that_chronyd_steers() {
    let mut machine = Machine::steered_by(20_000);
    assert_eq!(machine.rates_ppb(0, steers(0, 1)), HULL);
    // In 10 ms the clocks can't be read well enough.
    assert_eq!(machine.rates_ppb(10, steers(10, 1)), HULL);
    assert_eq!(machine.rates_ppb(1_000, steers(1_000, 1)), STEERED);
    assert_eq!(machine.rates_ppb(2_000, steers(2_000, 2)), STEERED);
}

#[test]
fn chronyd_does_not_show_that_it_steers_when_another_does() {
    let mut machine = Machine::steered_by(100_000);
    let reply = Reply {
        frequency_ppb: 0,
        correction_ns: 0,
        measurement: 1,
    };
    for ms in [0, 1_000, 2_000] {
        assert_eq!(
            machine.rates_ppb(ms, reply),
            Interval::between(0, 100_000),
            "{ms}"
        );
    }
}

#[test]
fn a_chronyd_that_may_have_been_started_anew_has_shown_nothing() {
    let shown = || {
        let mut machine = Machine::steered_by(20_000);
        machine.rates_ppb(0, steers(0, 1));
        assert_eq!(machine.rates_ppb(1_000, steers(1_000, 1)), STEERED);
        machine
    };
    let mut late = shown();
    assert_eq!(late.rates_ppb(4_100, steers(4_100, 2)), HULL);
    // It measures so seldom.
    let mut repeated = shown();
    assert_eq!(repeated.rates_ppb(4_100, steers(4_100, 1)), STEERED);
    let mut silent = shown();
    silent.steering.forget();
    assert_eq!(silent.rates_ppb(2_000, steers(2_000, 2)), HULL);
}

#[test]
fn a_chronyd_cannot_have_been_started_anew_in_3_s() {
    let mut machine = Machine {
        width_ns: 0,
        ..Machine::steered_by(20_000)
    };
    machine.rates_ppb(0, steers(0, 1));
    assert_eq!(machine.rates_ppb(1_000, steers(1_000, 1)), STEERED);
    assert_eq!(machine.rates_ppb(4_000, steers(4_000, 2)), STEERED);
}

#[test]
fn a_chronyd_that_does_not_answer_has_shown_nothing() {
    let mut machine = Machine::steered_by(20_000);
    machine.rates_ppb(0, steers(0, 1));
    assert_eq!(machine.rates_ppb(1_000, steers(1_000, 1)), STEERED);
    let mut chronyd = ChronydSource {
        steering: Some(core::mem::take(&mut machine.steering)),
        ..ChronydSource::default()
    };
    chronyd.forget();
    machine.steering = chronyd.steering.unwrap();
    assert_eq!(machine.rates_ppb(2_000, steers(2_000, 2)), HULL);
}

/// An interval of two rates is widened by 1, and its ends change their signs.
#[test]
fn a_rate_beyond_the_range_is_not_at_its_end() {
    assert_eq!(
        [i128::MIN, i128::MAX].map(to_ppb),
        [i64::MIN + 1, i64::MAX - 1]
    );
}

#[test]
fn a_chronyd_whose_clock_does_not_run_as_it_says_does_not_steer() {
    let mut machine = Machine::steered_by(20_000);
    machine.rates_ppb(0, steers(0, 1));
    assert_eq!(machine.rates_ppb(1_000, steers(1_000, 1)), STEERED);
    // Its clock has lost another 50 us.
    assert_eq!(machine.rates_ppb(2_000, steers(3_000, 1)), HULL);
}

#[test]
fn a_compensation_for_the_temperature_counts_also_in_a_slew() {
    // 2 ppm, which the reply leaves out.
    let mut machine = Machine::steered_by(-28_000);
    let reply = |measurement| Reply {
        frequency_ppb: 30_000,
        correction_ns: 0,
        measurement,
    };
    machine.rates_ppb(0, reply(1));
    let quiet = machine.rates_ppb(1, reply(1));
    assert!(quiet.min <= -30_000 && quiet.max >= -28_000, "{quiet:?}");
    machine.kernel_ppb = -28_000 - 80_000_000;
    let slewing = machine.rates_ppb(2, reply(2));
    assert!(
        slewing.min <= -30_000 && slewing.max >= -28_000,
        "{slewing:?}"
    );
}

#[test]
fn an_adjustment_that_the_kernel_hides_raises_each_rate() {
    let mut machine = Machine::new(-30_000);
    machine.steering = Steering::new(100_000);
    machine.measure_slew(-2_000);
    machine.measure_slew(-1_000);
    // The kernel's rate is 70 ppm, so that of UTC may be 70 or, by `-x`, 40 ppm.
    let reply = Reply {
        frequency_ppb: 30_000,
        correction_ns: 0,
        measurement: 1,
    };
    assert_eq!(
        machine.rates_ppb(0, reply),
        Interval::between(39_997, 70_000)
    );
}

#[test]
fn a_kernel_that_does_not_say_may_steer_by_as_much_as_ntp() {
    let mut steering = Steering::default();
    let at = at_ms(0);
    let rates = steering.rates_ppb(&tracking(), None, [&at, &at], valid_ns(0));
    assert_eq!(rates, Interval::around(0, 500_000));
}

#[test]
fn a_gain_beyond_all_rates_counts_as_the_greatest() {
    let rates = mean_rates_ppb(Interval::at(1), Interval::at(i64::MAX));
    assert_eq!(rates, Some(Interval::between(i64::MAX - 1, i64::MAX)));
}

/// Whether a claim with these rates, widened by what each report allows for, has this one.
fn have(rates: Rates, rate_ppb: i64) -> bool {
    rates.widened_by(TICK_PPB).overlaps(Interval::at(rate_ppb))
}

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
    machine.steering.slew.measure(now, valid_ns(0))
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
    let is_awaited = [0, 4, 12, 28, 60, 124, 252, 508, 1_508].map(|ms| {
        machine.rates_ppb(ms, WITHOUT_FREQUENCY);
        machine.steering.awaits_slew()
    });
    let expected = [true, true, true, true, true, true, true, false, false];
    assert_eq!(is_awaited, expected);
}

#[test]
fn a_slew_is_not_awaited_once_chronyd_has_shown_that_it_steers() {
    let mut machine = Machine::new(20_000);
    machine.rates_ppb(0, steers(0, 1));
    assert!(machine.steering.awaits_slew());
    assert_eq!(machine.rates_ppb(300, steers(300, 1)), STEERED);
    assert!(!machine.steering.awaits_slew());
}

#[test]
fn a_slew_is_not_awaited_where_the_kernel_does_not_say_its_rate() {
    let mut steering = Steering::default();
    let at = at_ms(0);
    steering.rates_ppb(&tracking(), None, [&at, &at], valid_ns(0));
    assert!(!steering.awaits_slew());
}

#[test]
fn a_change_of_rate_that_adjtime_cannot_make_leaves_the_last_slew() {
    let mut machine = Machine::slewed_by(-100_000, 0);
    let last = machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.slew_ppb = 700_000;
    let rates = machine.rates_ppb(1_000, WITHOUT_FREQUENCY);
    assert_eq!(rates, last);
}

/// The kernel states 0, and later -100 ppm. Its clock has lost 50 us: it had either rate for half a
/// second, or one of them and a slew.
#[test]
fn a_rate_that_the_kernel_has_changed_is_no_slew_beyond_the_change() {
    let mut machine = Machine::steered_by(0);
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.kernel_ppb = -100_000;
    machine.slew_ppb = 50_000;
    let rates = machine.rates_ppb(1_000, WITHOUT_FREQUENCY);
    assert!(have(rates, -150_000), "{rates:?}");
    assert!(rates.min >= -151_000 && rates.max <= 0, "{rates:?}");
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
