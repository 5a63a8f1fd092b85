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
    kind: Kind,
    size: u16,
    shift: u8,
}

#[derive(Debug, arbitrary::Arbitrary)]
enum Kind {
    Rate { up: bool, announced: bool },
    UnixStep { up: bool },
    Jump,
    Suspend { counter: u8, reference_runs: bool },
    CounterRate { up: bool },
    Pause { cpu: u8 },
    Smi,
    Offline { cpu: u8 },
    Online { cpu: u8 },
    Starve,
    DriverDies,
    DriverStarts,
    Fork,
    GateCloses,
    GateOpens,
    JudgeAgain,
    Verdict { which: u8 },
    Bracket,
}

fn fault(event: &Event, scenario: &Scenario) -> Fault {
    let share = |most: u64| most / 65_536 * u64::from(event.size) >> (event.shift % 32);
    let signed = |most: u64, up: bool| {
        let value = i64::try_from(share(most)).expect("small");
        if up { value } else { -value }
    };
    let (second, interval_ns) = (1_000_000_000, scenario.clock.interval_ns);
    let cpu = |cpu: u8| u32::from(cpu) % scenario.machine.cpus;
    let what = match event.kind {
        Kind::Rate { up, announced } => What::Rate { ppb: signed(100_000_000, up), announced },
        Kind::UnixStep { up } => What::UnixStep { by_ns: signed(86_400 * second, up) },
        Kind::Jump => What::Jump { by_ns: share(600 * second) },
        Kind::Suspend { counter, reference_runs } => What::Suspend {
            for_ns: share(600 * second),
            counter: [Sleep::Runs, Sleep::Stops, Sleep::Resets][usize::from(counter % 3)],
            reference_runs,
        },
        Kind::CounterRate { up } => What::CounterRate { ppb: signed(100_000_000, up) },
        Kind::Pause { cpu: which } => What::Pause { cpu: cpu(which), for_ns: share(60 * second) },
        Kind::Smi => What::Smi { for_ns: share(second) },
        Kind::Offline { cpu: which } => What::Offline { cpu: cpu(which) },
        Kind::Online { cpu: which } => What::Online { cpu: cpu(which) },
        Kind::Starve => What::Starve { for_ns: share(20 * interval_ns) },
        Kind::DriverDies => What::DriverDies,
        Kind::DriverStarts => What::DriverStarts,
        Kind::Fork => What::Fork,
        Kind::GateCloses => What::GateCloses,
        Kind::GateOpens => What::GateOpens,
        Kind::JudgeAgain => What::JudgeAgain,
        Kind::Verdict { which } => What::Verdict {
            verdict: [Verdict::Open, Verdict::Passing, Verdict::Closed][usize::from(which % 3)],
        },
        Kind::Bracket => What::Bracket { ns: u64::from(event.size).clamp(10, 1_000) },
    };
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
