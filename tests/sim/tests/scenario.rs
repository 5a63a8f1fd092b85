//! Checks that no random scenario violates an invariant.

use tickline_sim::{Scenario, run};

/// The first seeds. `cargo xtask sim` runs more.
#[test]
fn no_random_scenario_violates_an_invariant() {
    for seed in 1..if cfg!(debug_assertions) { 30 } else { 200 } {
        let scenario = Scenario {
            max_steps: 20_000,
            ..Scenario::random(seed)
        };
        run(&scenario).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
    }
}
