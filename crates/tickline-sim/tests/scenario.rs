//! What a scenario is: a value that can be written down, and whose ranges are checked. The program
//! runs random ones (`cargo xtask sim`), and the fuzz target `scenario` others.

use tickline_sim::named::named;
use tickline_sim::scenario::Driver;
use tickline_sim::{Scenario, run};

/// Any seed; `cargo xtask sim` runs more of them.
#[test]
fn scenarios_can_be_written_down_and_none_violates_an_invariant() {
    for seed in 1..if cfg!(debug_assertions) { 30 } else { 200 } {
        let scenario = Scenario { max_steps: 20_000, ..Scenario::random(seed) };
        let written = serde_json::to_string(&scenario).expect("no maps, no floats");
        assert_eq!(serde_json::from_str::<Scenario>(&written).expect("what was written"), scenario);
        run(&scenario).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}

#[test]
fn values_out_of_range_are_named() {
    let mut scenario = named("a line for each CPU", 1);
    assert_eq!(scenario.check(), Ok(()));
    scenario.clock.driver = Driver::Readers;
    assert_eq!(scenario.check(), Err("per_cpu is for clocks that a thread drives".to_owned()));
    scenario.machine.cpus = 9;
    assert_eq!(scenario.check(), Err("cpus is 9, which is not between 1 and 8".to_owned()));
    assert_eq!(run(&scenario).expect_err("out of range").step, 0);
}
