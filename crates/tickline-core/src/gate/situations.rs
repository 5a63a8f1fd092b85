//! Whole machines: `situations.toml`.

use super::tests::{healthy, judged};
use super::{Clocksource, Cost, Facts, Hypervisor, Trust, first_closed};
use crate::compare::{Comparison, Difference, Pair};
use toml::{Table, Value};

const IN_STEP: Comparison = Comparison::Synchronised { cpus: 8 };

/// "Measured 66930 cycles TSC warp between CPUs, turning off TSC clock": from a kernel's log.
const WARPED: Comparison = Comparison::Unsynchronised(Pair {
    here: 0,
    there: 1,
    difference: Difference { least_ticks: 66_930, most_ticks: 67_400 },
});

fn facts(machine: &Table, trust: Trust, comparison: Comparison) -> Facts {
    let text = |key, usual| machine.get(key).and_then(Value::as_str).unwrap_or(usual);
    let counter = Clocksource::from_name(text("counter", "tsc").as_bytes());
    let cost = |place| {
        let costs = machine.get("costs_ps").and_then(|costs| costs[place].as_integer());
        costs.unwrap_or([9_000, 25_000][place]).cast_unsigned()
    };
    let signature = text("hypervisor", "").as_bytes().try_into();
    Facts {
        trust,
        comparison,
        hypervisor: signature.map_or(Hypervisor::None, Hypervisor::from_signature),
        // Architectures but x86 demand it, so nobody asks there.
        invariant: Some(machine.get("invariant") != Some(&false.into()))
            .filter(|_| counter == Clocksource::Tsc),
        clocksource: Clocksource::from_name(format!("{}\n", text("current", "tsc")).as_bytes()),
        counters_clocksource: counter,
        available: counter.is_accepted(format!("{} \n", text("available", "tsc hpet acpi_pm")).as_bytes()),
        cost: Some(Cost { counter_ps: cost(0), os_ps: cost(1), os_unix_ps: cost(1) }),
        ..healthy()
    }
}

#[test]
fn every_situation_leads_to_its_verdicts() {
    let table: Table = include_str!("situations.toml").parse().unwrap();
    let machines = table["machine"].as_array().unwrap();
    assert!(machines.len() > 20);
    for machine in machines.iter().map(|machine| machine.as_table().unwrap()) {
        for (key, trust) in [("kernel", Trust::Kernel), ("auto", Trust::Auto), ("measured", Trust::Measured)]
        {
            let reason = |comparison| first_closed(judged(&facts(machine, trust, comparison)));
            let says = |comparison| reason(comparison).map_or("open", |reason| reason.code());
            let expected = machine.get(key).map(|words| words.as_array().unwrap().as_slice());
            let expected = expected.map_or(["open", "open"], |words| {
                [0, words.len() - 1].map(|place| words[place].as_str().unwrap())
            });
            let after = match (machine.get("warped"), machine.get("comparable")) {
                (None, None) => IN_STEP,
                (Some(_), _) => WARPED,
                (None, Some(_)) => Comparison::Impossible,
            };
            let story = format!("{:?}, {trust:?}", machine["name"]);
            assert_eq!([Comparison::Pending, after].map(says), expected, "{story}");
            // A comparison that cannot be made opens nothing.
            let (pending, impossible) = (reason(Comparison::Pending), reason(Comparison::Impossible));
            assert_eq!(pending.is_some(), impossible.is_some(), "{story}");
            // There is nothing from which a single CPU could differ.
            assert_eq!(reason(Comparison::Single), reason(IN_STEP), "{story}");
        }
    }
}
