//! Any scenario, not only those of [`Scenario::random`]; a failing one is reduced.

use proptest::prelude::*;
use tickline_sim::scenario::{Chance, Clock, Driver, Fault, Machine, Sleep, Verdict, What};
use tickline_sim::{Scenario, named, run};

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

prop_compose! {
    fn machine()(
        cpus in 1..=4_u32,
        counter_hz in prop_oneof![8_000_000..=100_000_000_u64, SECOND..=6 * SECOND],
        counter_step in prop_oneof![Just(1_u64), 1..=100_u64],
        counter_origin in prop_oneof![Just(0_u64), Just(u64::MAX - SECOND), any::<u64>()],
        same_counter in any::<bool>(),
        (quantum_ns, skew_ticks, stale_ns) in
            (1..=300_u64, prop_oneof![Just(0_u64), 0..=5_000_u64], prop_oneof![Just(0_u64), 0..=2_000_u64]),
        reference_origin_ns in 0..=1_i64 << 55,
        rate_ppb in -500_000..=500_000_i64,
        dither_ppb in prop_oneof![Just(0_i64), 0..=240_i64],
        wander_ppb in prop_oneof![Just(0_i64), 0..=50_i64],
        (bracket_ns, hides_suspends) in (10..=1_000_u64, any::<bool>()),
    ) -> Machine {
        // A counter of some MHz does not move in steps of 100 as well.
        let counter_step = if counter_hz < SECOND { 1 } else { counter_step };
        Machine {
            cpus, counter_hz, counter_step, counter_origin, same_counter, reference_origin_ns, rate_ppb, dither_ppb,
            wander_ppb, bracket_ns, hides_suspends,
            quantum_ns: if same_counter { 1 } else { quantum_ns },
            skew_ticks: if same_counter { 0 } else { skew_ticks },
            stale_ns: if same_counter { 0 } else { stale_ns },
        }
    }
}

fn what(cpus: u32, interval_ns: u64) -> impl Strategy<Value = What> {
    let short_ns = 0..=100 * interval_ns;
    let counter = prop_oneof![Just(Sleep::Runs), Just(Sleep::Stops), Just(Sleep::Resets)];
    prop_oneof![
        (-226_000_000..=226_000_000_i64, any::<bool>())
            .prop_map(|(ppb, announced)| What::Rate { ppb, announced }),
        (-3_600_000_000_000..=3_600_000_000_000_i64).prop_map(|by_ns| What::UnixStep { by_ns }),
        short_ns.clone().prop_map(|by_ns| What::Jump { by_ns }),
        (short_ns.clone(), counter, any::<bool>())
            .prop_map(|(for_ns, counter, reference_runs)| What::Suspend { for_ns, counter, reference_runs }),
        (-10_000_000..=10_000_000_i64).prop_map(|ppb| What::CounterRate { ppb }),
        (10..=1_000_u64).prop_map(|ns| What::Bracket { ns }),
        (0..cpus, 0..=20 * SECOND).prop_map(|(cpu, for_ns)| What::Pause { cpu, for_ns }),
        (0..=100 * MS).prop_map(|for_ns| What::Smi { for_ns }),
        (0..cpus).prop_map(|cpu| What::Offline { cpu }),
        (0..cpus).prop_map(|cpu| What::Online { cpu }),
        short_ns.prop_map(|for_ns| What::Starve { for_ns }),
        Just(What::DriverDies),
        Just(What::DriverStarts),
        Just(What::Fork),
        Just(What::GateCloses),
        Just(What::GateOpens),
        Just(What::JudgeAgain),
        prop_oneof![Just(Verdict::Open), Just(Verdict::Passing), Just(Verdict::Closed)]
            .prop_map(|verdict| What::Verdict { verdict }),
    ]
}

fn chance() -> impl Strategy<Value = Chance> {
    let one_in = prop_oneof![Just(0_u64), 10..=1_000_u64];
    (one_in, 0..=20 * MS, prop_oneof![Just(0_u64), 2_000..=20_000_u64], 0..=4_000_u64).prop_map(
        |(preempt_one_in, preempt_ns, stall_one_in, out_of_order_ns)| Chance {
            preempt_one_in,
            preempt_ns,
            stall_one_in,
            stall_ns: 15 * SECOND,
            out_of_order_ns,
        },
    )
}

fn clock() -> impl Strategy<Value = Clock> {
    let driver = prop_oneof![Just(Driver::Thread), Just(Driver::Readers)];
    (MS..=2 * SECOND, driver, any::<bool>()).prop_map(|(interval_ns, driver, per_cpu)| Clock {
        interval_ns,
        driver,
        per_cpu: per_cpu && driver == Driver::Thread,
        gate_ns: 0,
        uncounted: false,
    })
}

fn scenario() -> impl Strategy<Value = Scenario> {
    (machine(), clock()).prop_flat_map(|(mut machine, clock)| {
        if clock.per_cpu {
            machine.skew_ticks *= 20;
        }
        let duration_ns = 500 * clock.interval_ns;
        let fault = (0..=duration_ns, what(machine.cpus, clock.interval_ns))
            .prop_map(|(at_ns, what)| Fault { at_ns, what });
        let think_ns = 1_000..=2 * clock.interval_ns;
        (any::<u64>(), 1..=4_u32, think_ns, chance(), prop::collection::vec(fault, 0..8)).prop_map(
            move |(seed, readers, think_ns, chance, faults)| Scenario {
                seed,
                max_steps: 20_000,
                duration_ns,
                machine: machine.clone(),
                clock: clock.clone(),
                readers,
                think_ns,
                even: seed % 4 == 0,
                chance,
                faults,
            },
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn no_scenario_violates_an_invariant(scenario in scenario()) {
        let written = serde_json::to_string(&scenario).expect("no maps, no floats");
        let read: Scenario = serde_json::from_str(&written).expect("what was written");
        prop_assert_eq!(&read, &scenario);
        run(&scenario).map_err(|violation| TestCaseError::fail(format!("{violation}\n{written}")))?;
    }
}

#[test]
fn values_out_of_range_are_named() {
    let mut scenario = Scenario::random(1);
    scenario.machine.cpus = 9;
    assert_eq!(scenario.check(), Err("cpus is 9, which is not between 1 and 8".to_owned()));
    assert_eq!(run(&scenario).expect_err("out of range").step, 0);
}

/// Scenarios that were written down before there were lines for each CPU.
#[test]
fn older_scenarios_can_be_read() {
    let scenario = named::steady(1);
    let written = serde_json::to_string(&scenario).expect("no maps, no floats");
    let older = written.replace(",\"per_cpu\":false", "");
    assert_ne!(older, written);
    assert_eq!(serde_json::from_str::<Scenario>(&older).expect("as before"), scenario);
}

#[test]
fn a_line_for_each_cpu_needs_the_thread() {
    let mut scenario = named::per_cpu(1);
    assert_eq!(scenario.check(), Ok(()));
    scenario.clock.driver = Driver::Readers;
    assert_eq!(scenario.check(), Err("per_cpu is for clocks that a thread drives".to_owned()));
}
