//! The rates of UTC by chronyd's replies, on a machine whose oscillator runs as UTC does.

use super::*;
use crate::claim_maker::tests::{BY_CHRONYD, DISRUPTED, assert_claims, at_ms};
use crate::claim_maker::{ClaimMaker, valid_ns};
use crate::moment::Moment;
use crate::source::{ChronydSource, SourceAnswer};

mod measured_slew;
mod slew_beside_chronyd;

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
        let max_gap_ns = valid_ns(self.interval_ns);
        self.steering.slew.measure(now, max_gap_ns).by_adjtime_ppb
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

/// A machine where something was left of what adjtime(3) had to remove at 0 ms, and nothing is
/// since.
fn machine_after_adjtime() -> Machine {
    let mut machine = Machine::steered_by(0);
    machine.adjtime_left_us = 400;
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.adjtime_left_us = 0;
    machine
}

/// Symptom: polls were 4 ms apart. From the second one on at which nothing was left, claims had
/// nothing of the slew, which went on for up to two seconds.
#[test]
fn a_slew_by_adjtime_counts_until_its_second_has_ended() {
    let mut machine = machine_after_adjtime();
    for ms in [4, 12, 1_000, 2_000] {
        let rates = machine.rates_ppb(ms, WITHOUT_FREQUENCY);
        assert_eq!(rates, Interval::between(0, 500_000), "{ms}");
    }
    let after = machine.rates_ppb(3_000, WITHOUT_FREQUENCY);
    assert_eq!(after, Interval::at(0));
}

/// Two seconds of a clock that is slower by a fifth.
#[test]
fn two_seconds_of_a_slow_clock_are_longer() {
    let lasts_ms = ADJTIME_LASTS_NS / 1_000_000;
    assert_eq!(lasts_ms, 2_500);
    for (ms, slew_ppb) in [(lasts_ms, 500_000), (lasts_ms + 1, 0)] {
        let rates = machine_after_adjtime().rates_ppb(ms, WITHOUT_FREQUENCY);
        assert_eq!(rates.max, slew_ppb, "{ms}");
    }
}

/// A call of adjtime(3) replaces what is left, and the present second's slew goes on.
#[test]
fn a_slew_by_adjtime_counts_in_both_directions_after_a_call_in_the_other_one() {
    let mut machine = Machine::steered_by(0);
    machine.adjtime_left_us = 400;
    machine.rates_ppb(0, WITHOUT_FREQUENCY);
    machine.adjtime_left_us = -300;
    machine.rates_ppb(600, WITHOUT_FREQUENCY);
    machine.adjtime_left_us = 0;
    let rates = machine.rates_ppb(1_500, WITHOUT_FREQUENCY);
    assert_eq!(rates, Interval::around(0, 500_000));
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

/// Symptom: where a filter denied adjtimex(2), a clock that was steered by 400 ppm and slewed by
/// another 400 ppm ran beyond each rate of a claim.
#[test]
fn a_kernel_that_does_not_say_may_steer_and_slew_by_as_much_as_it_can() {
    let mut steering = Steering::default();
    let at = at_ms(0);
    let rates = steering.rates_ppb(&tracking(), None, [&at, &at], valid_ns(0));
    assert_eq!(rates, Interval::around(0, 500_000 + 500_000));
}

#[test]
fn a_kernel_that_does_not_say_may_have_an_adjustment_that_it_hides() {
    let mut steering = Steering::new(300_000);
    let at = at_ms(0);
    let rates = steering.rates_ppb(&tracking(), None, [&at, &at], valid_ns(0));
    assert_eq!(rates, Interval::between(-700_000, 1_300_000));
}

/// By a frequency of 1 %, all rates of a steered clock are 990 ppm apart: less than the 1,000 ppm
/// from which on a rate is not known.
#[test]
fn a_clock_that_was_set_is_not_believed_where_the_kernel_does_not_say_its_rate() {
    let mut maker = ClaimMaker::default();
    maker.sources.chronyd.steering = Some(Steering::default());
    let tracking = Tracking {
        frequency_ppb: 10_000_000,
        ..tracking()
    };
    for (ms, expected) in [(0, BY_CHRONYD), (1_000, BY_CHRONYD), (2_000, DISRUPTED)] {
        if expected == DISRUPTED {
            maker.record_clock_set();
        }
        let at = Moment {
            realtime_ns: at_ms(ms).realtime_ns - ms * 10_000,
            ..at_ms(ms)
        };
        let chronyd = &mut maker.sources.chronyd;
        let report = chronyd.report(&tracking, 0, None, [&at, &at], valid_ns(0));
        assert_claims(&mut maker, &[(at, report, expected)]);
    }
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
