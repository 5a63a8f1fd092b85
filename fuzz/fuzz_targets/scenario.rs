//! The simulated machine: a seed chooses machine and clock, the input what happens to them and
//! when. The simulator's invariants hold.
#![no_main]

use libfuzzer_sys::{arbitrary, fuzz_target};
use tickline_sim::scenario::{Fault, Sleep, Verdict, What};
use tickline_sim::{Scenario, run};

const MAX_STEPS: u64 = 10_000;
const MAX_FAULTS: usize = 12;

#[derive(Debug, arbitrary::Arbitrary)]
struct Input {
    seed: u16,
    faults: Vec<Event>,
}

/// Sizes are shares of the largest allowed, 2^-16 of it at the least.
#[derive(Debug, arbitrary::Arbitrary)]
struct Event {
    at: u16,
    kind: u8,
    /// What of its kind, or which CPU.
    which: u8,
    up: bool,
    size: u16,
    shift: u8,
}

fn fault(event: &Event, scenario: &Scenario) -> Fault {
    let share = |most: u64| most / 65_536 * u64::from(event.size) >> (event.shift % 32);
    let signed = |most: u64| {
        let value = i64::try_from(share(most)).expect("small");
        if event.up { value } else { -value }
    };
    let (second, interval_ns) = (1_000_000_000, scenario.clock.interval_ns);
    let (which, cpu) = (usize::from(event.which % 3), u32::from(event.which) % scenario.machine.cpus);
    let counter = [Sleep::Runs, Sleep::Stops, Sleep::Resets][which];
    let whats = [
        What::Rate { ppb: signed(100_000_000), announced: event.which & 1 != 0 },
        What::UnixStep { by_ns: signed(86_400 * second) },
        What::Jump { by_ns: share(600 * second) },
        What::Suspend { for_ns: share(600 * second), counter, reference_runs: event.up },
        What::CounterRate { ppb: signed(100_000_000) },
        What::Pause { cpu, for_ns: share(60 * second) },
        What::Smi { for_ns: share(second) },
        What::Offline { cpu },
        What::Online { cpu },
        What::Starve { for_ns: share(20 * interval_ns) },
        What::DriverDies,
        What::DriverStarts,
        What::Fork,
        What::GateCloses,
        What::GateOpens,
        What::JudgeAgain,
        What::Verdict { verdict: [Verdict::Open, Verdict::Passing, Verdict::Closed][which] },
        What::Bracket { ns: u64::from(event.size).clamp(10, 1_000) },
    ];
    let what = whats[usize::from(event.kind) % whats.len()];
    // Most of a run's steps are taken in its first hundred intervals.
    Fault { at_ns: 100 * interval_ns / 65_536 * u64::from(event.at), what }
}

fuzz_target!(|input: Input| {
    let mut scenario = Scenario { max_steps: MAX_STEPS, ..Scenario::random(input.seed.into()) };
    scenario.faults = input.faults.iter().take(MAX_FAULTS).map(|event| fault(event, &scenario)).collect();
    // A violation is a panic that the simulator catches; libFuzzer's hook would end the process
    // before that.
    std::panic::set_hook(Box::new(|_| {}));
    if let Err(violation) = run(&scenario) {
        eprintln!("{violation}\n{}", serde_json::to_string(&scenario).expect("no maps, no floats"));
        std::process::abort();
    }
});
