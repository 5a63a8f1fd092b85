//! Tests of which samples are incidents, and of what is said about them.

use tickline::{Clock, Driver, Reason};
use tickline_observe::skip;

use super::*;
use crate::measurement::readings::PairReads;

const CLOSED: ClockState = ClockState::Fallback(Reason::DisabledByProgram);

/// A clock's status with a counter of 2.5 GHz and open gates.
fn status() -> Status {
    let clock = Clock::builder()
        .driver(Driver::Manual)
        .build()
        .expect("a clock");
    let mut status = clock.status();
    (status.state, status.frequency_hz, status.max_drift_ppb) =
        (ClockState::Fast, Some(2_500_000_000), Some(500));
    status
}

/// criterion has stored no benchmark.
fn no_name(_: &[f64]) -> Option<String> {
    None
}

fn with(status: &Status, change: impl FnOnce(&mut Status)) -> Status {
    let mut status = status.clone();
    change(&mut status);
    status
}

fn observations(status: &Status) -> Observations {
    let scale = Scale {
        rate: Rate::of(status).expect("a rate"),
        ..Scale::WALL
    };
    Observations::new(scale, status.events)
}

#[test]
fn the_rate_is_the_clocks_while_its_gates_are_open() {
    let open = status();
    let mut observations = observations(&open);
    let first = observations.scale.rate;
    assert!((first.ns_per_tick - 0.4).abs() < 1e-12, "{first:?}");
    assert!((first.uncertainty_ppb - 500.2).abs() < 1e-6, "{first:?}");
    let faster = with(&open, |status| status.frequency_hz = Some(5_000_000_000));
    observations.count(
        &Elapsed::default(),
        &with(&faster, |status| status.state = CLOSED),
    );
    assert_eq!(
        observations.scale.rate, first,
        "a rate behind a closed gate"
    );
    observations.count(&Elapsed::default(), &faster);
    assert!(
        (observations.scale.rate.ns_per_tick - 0.2).abs() < 1e-12,
        "{observations:?}"
    );
}

/// Symptom: after a change of rate, samples with the old rate were not reported. After a gate
/// had closed, the counter that the clock did not trust timed all samples, and only one of them
/// was reported.
#[test]
fn every_sample_counts_while_the_clock_does_not_trust_the_counter() {
    let open = status();
    let vague = with(&open, |status| status.max_drift_ppb = Some(800_000));
    let closed = with(&open, |status| status.state = CLOSED);
    let mut observations = observations(&open);
    // The sample after `closed` began while the gate was closed.
    for (status, untrusted) in [
        (&open, 0),
        (&vague, 1),
        (&vague, 2),
        (&open, 2),
        (&closed, 3),
        (&closed, 4),
        (&open, 5),
        (&open, 5),
    ] {
        let trust = observations.count(&Elapsed::default(), status);
        observations.add_time(1, 10.5, trust);
        assert_eq!(observations.untrusted(), untrusted, "{observations:?}");
    }
    let text = observations.incidents(&open.events, no_name).to_string();
    let known = "5 of 8 samples can't be trusted, because the counter's rate was not known, or ";
    assert_eq!(
        text,
        format!("{known}{CLOSED}; repeat these benchmarks: {UNNAMED}")
    );
}

/// Symptom: "3 of 300 samples can't be trusted: repeat the benchmark", and nothing said which.
#[test]
fn each_benchmark_with_an_untrusted_sample_is_named_once() {
    let open = status();
    let mut observations = observations(&open);
    // Two benchers of a: a warm-up that converts samples, and its samples.
    for (bencher, ns, trust) in [
        (1, 1.5, SampleTrust::Untrusted),
        (2, 2.5, SampleTrust::Trusted),
        (2, 1.5, SampleTrust::Untrusted),
        (3, 3.5, SampleTrust::Trusted),
        (4, 4.5, SampleTrust::Untrusted),
        (4, 4.5, SampleTrust::Trusted),
        (5, 5.5, SampleTrust::Trusted),
    ] {
        observations.add_time(bencher, ns, trust);
    }
    let name = |times_ns: &[f64]| match times_ns {
        [.., 1.5] => Some("group/a".to_owned()),
        [4.5, 4.5] => Some("c".to_owned()),
        _ => None,
    };
    let incidents = observations.incidents(&open.events, name);
    assert_eq!(incidents.untrusted_benchmarks, ["group/a", "c"]);
}

/// The times of all benchmarks of a long run would take memory for nothing.
#[test]
fn only_the_present_times_and_those_with_untrusted_samples_are_kept() {
    let mut observations = observations(&status());
    for bencher in 1..=100 {
        let trust = if bencher == 7 {
            SampleTrust::Untrusted
        } else {
            SampleTrust::Trusted
        };
        observations.add_time(bencher, 1.5, trust);
    }
    let kept: Vec<u64> = observations
        .benchers
        .iter()
        .map(|one| one.bencher)
        .collect();
    assert_eq!(kept, [7, 100]);
}

#[test]
fn samples_with_a_moved_pair_count_once() {
    let open = status();
    let mut observations = observations(&open);
    let pair = |start_ticks, end_ticks, cpus| {
        Elapsed::from_pair(PairReads {
            start_ticks,
            end_ticks,
            cpus,
        })
    };
    let twice = pair(0, 10, Some((0, 1))) + pair(10, 20, Some((1, 0)));
    for sample in [twice, pair(0, 10, None), pair(10, 0, None)] {
        observations.count(&sample, &open);
    }
    assert_eq!(
        observations.incidents(&open.events, no_name).to_string(),
        "1 of 3 samples contain a move of the thread to another CPU; to avoid that, bind it to one\n\
         1 of 3 samples are too short, because the counter stepped back: the results can't be trusted"
    );
}

fn lost(waited_ns: u64, other_ns: u64, unsure_ns: u64) -> LostTime {
    LostTime {
        waited_ns,
        other_ns,
        unsure_ns,
    }
}

#[test]
fn what_was_subtracted_is_said_with_its_cause_and_its_samples() {
    let open = status();
    let mut observations = observations(&open);
    for lost in [
        LostTime::default(),
        lost(1_500_000, 0, 40),
        lost(2_000_000, 30_000, 40),
    ] {
        observations.count(&Elapsed::default(), &open);
        observations.count_lost(&lost, 1e6);
    }
    assert_eq!(
        observations.incidents(&open.events, no_name).to_string(),
        "2 of 3 samples lost the CPU, and this time was subtracted: 3.500 ms of waiting for a CPU (in 2), \
         0.030 ms of the hypervisor, interrupts or a CPU quota (in 1)"
    );
}

/// Symptom: "194 of 600 samples lost the CPU", of which 100 were by another clock, so that nothing
/// could be subtracted from them.
#[test]
fn samples_by_another_clock_are_not_among_those_of_the_counter() {
    let open = status();
    let mut observations = observations(&open);
    for sample in [
        Elapsed::default(),
        Elapsed::from(Duration::from_nanos(70)),
        Elapsed::default(),
    ] {
        observations.count(&sample, &open);
    }
    observations.count_lost(&lost(1_500_000, 0, 40), 1e6);
    let text = observations.incidents(&open.events, no_name).to_string();
    assert!(text.starts_with("1 of 2 samples lost the CPU"), "{text}");
}

/// Symptom: nothing was subtracted from the samples of a routine with `.into()`, and nothing said
/// that.
#[test]
fn a_line_says_how_many_samples_are_by_another_clock() {
    let open = status();
    let mut observations = observations(&open);
    for us in [3, 5] {
        observations.count(&Elapsed::from(Duration::from_micros(us)), &open);
    }
    assert_eq!(
        observations.incidents(&open.events, no_name).to_string(),
        "2 samples are by another clock (`iter_custom` with `.into()`): nothing was subtracted; see `CounterTime`"
    );
}

#[test]
fn a_sample_by_another_clock_needs_no_trust_in_the_counter() {
    let open = status();
    let closed = with(&open, |status| status.state = CLOSED);
    let mut observations = observations(&open);
    let trust = observations.count(&Elapsed::from(Duration::from_nanos(70)), &closed);
    assert_eq!((trust, observations.untrusted()), (SampleTrust::Trusted, 0));
    assert_eq!(observations.incidents.fallback_state, None);
}

#[test]
fn a_cause_for_which_nothing_was_subtracted_is_not_named() {
    let mut observations = observations(&status());
    observations.count_lost(&lost(0, 1_000_000, 0), 1e6);
    let incidents = observations.incidents.to_string();
    assert!(
        !incidents.contains("waiting") && incidents.contains("1.000 ms of the hypervisor"),
        "{incidents}"
    );
}

#[test]
fn a_sample_of_which_a_hundredth_is_unsure_counts_as_uncertain() {
    let open = status();
    let mut observations = observations(&open);
    for (lost, uncertain) in [
        (lost(0, 0, 9_999), 0),
        (lost(0, 0, 10_000), 1),
        (lost(500, 0, 10_000), 2),
    ] {
        observations.count(&Elapsed::default(), &open);
        observations.count_lost(&lost, 1e6);
        assert_eq!(
            observations.incidents.uncertain_samples, uncertain,
            "{lost:?}"
        );
    }
    let text = observations.incidents(&open.events, no_name).to_string();
    assert!(
        text.contains("\n2 of 3 samples may contain 1 % or more of others' time"),
        "{text}"
    );
}

#[test]
fn a_sample_of_which_nothing_is_left_counts_as_uncertain() {
    let mut observations = observations(&status());
    observations.count_lost(&lost(1_000, 0, 0), 0.0);
    assert_eq!(observations.incidents.uncertain_samples, 1);
}

#[test]
fn nothing_is_said_without_an_incident_or_without_a_sample() {
    let quiet = Incidents {
        samples: 7,
        ..Incidents::default()
    };
    let unused = Incidents {
        events: vec![(Event::GateClosed, 1)],
        ..Incidents::default()
    };
    assert_eq!(
        [quiet, unused].map(|incidents| incidents.to_string()),
        ["", ""]
    );
}

#[test]
fn only_the_clocks_events_since_the_start_are_incidents() {
    let clock = Clock::builder()
        .driver(Driver::Manual)
        .build()
        .expect("a clock");
    let close = || {
        clock.enable();
        clock.maintain(); // opens the gates that the facts allow
        clock.disable();
        clock.status().events
    };
    let (start, now) = (close(), close());
    let closed = |events: &EventCounts| events.get(Event::GateClosed);
    if closed(&start) == 0 || closed(&now) == closed(&start) {
        return skip("the counter does not serve here, so no gate closes");
    }
    let observations = Observations::new(Scale::WALL, start);
    assert_eq!(observations.incidents(&start, no_name).events, []);
    assert_eq!(
        observations.incidents(&now, no_name).events,
        [(Event::GateClosed, closed(&now) - closed(&start))]
    );
}

#[test]
fn the_cost_of_a_pair_is_measured_again_when_it_is_old_and_no_gate_is_closed() {
    let open = status();
    let mut observations = observations(&open);
    let measured = |observations: &mut Observations| {
        observations.scale.cost_ticks = 0.0;
        observations.renew_cost(|| 7.0);
        observations.scale.cost_ticks
    };
    assert_eq!(measured(&mut observations), 0.0, "it is new");
    let Some(old) = Instant::now().checked_sub(COST_LASTS) else {
        return skip("the system has just started");
    };
    observations.cost_measured = old;
    observations.state = CLOSED;
    assert_eq!(measured(&mut observations), 0.0, "the counter may be wrong");
    observations.state = ClockState::Fast;
    assert_eq!(measured(&mut observations), 7.0);
    assert_eq!(measured(&mut observations), 0.0, "it is new again");
}

#[test]
fn a_sample_counts_as_corrected_only_if_time_was() {
    let mut observed = observations(&status());
    let unsure = LostTime {
        unsure_ns: 10,
        ..LostTime::default()
    };
    observed.count_lost(&unsure, 1e9);
    assert_eq!(observed.incidents.corrected_samples, 0);
    let waited = LostTime {
        waited_ns: 10,
        ..LostTime::default()
    };
    observed.count_lost(&waited, 1e9);
    assert_eq!(observed.incidents.corrected_samples, 1);
}
