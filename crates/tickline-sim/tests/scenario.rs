//! Checks that scenarios can be stored and read again, and that none violates an invariant.

use tickline_sim::{Scenario, run};

/// The first seeds. `cargo xtask sim` runs more.
#[test]
fn scenarios_can_be_written_down_and_none_violates_an_invariant() {
    for seed in 1..if cfg!(debug_assertions) { 30 } else { 200 } {
        let scenario = Scenario { max_steps: 20_000, ..Scenario::random(seed) };
        let written = serde_json::to_string(&scenario).expect("no maps, no floats");
        assert_eq!(serde_json::from_str::<Scenario>(&written).expect("what was written"), scenario);
        run(&scenario).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}
