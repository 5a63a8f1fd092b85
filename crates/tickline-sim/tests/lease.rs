//! Leases: order between processes, whatever happens to the writer.

use tickline_sim::lease::{Attack, Faults, Small, WIDTH_NS, attack, search};

/// Steps of each attack, and their number for each kind of fault.
const STEPS: u64 = 200_000;
const ATTACKS: u64 = 12;

/// The first 400,000 states; all of them are too many for a test.
#[test]
fn orders_of_the_steps_of_a_small_machine_keep_the_order() {
    let found = search(&Small::DEFAULT);
    println!("{found:?}");
    assert_eq!(found.violation, None);
    let seen = found.seen;
    assert!(seen.states > 100_000 && seen.opened > 0 && seen.succeeded > 0 && seen.doubted > 0, "{seen:?}");
    assert!(
        seen.by_line > 0 && seen.by_os > 0 && seen.gave_up > 0 && seen.ended > 0 && seen.killed > 0,
        "{seen:?}"
    );
}

#[test]
fn attacked_writers_keep_the_order() {
    for faults in [Faults::Stalls, Faults::Suspends, Faults::Resets, Faults::Stale] {
        let mut total = (0, 0, 0, 0, 0);
        for seed in 0..ATTACKS {
            let seen = attack(&Attack { seed, steps: STEPS, faults, edge_ns: WIDTH_NS })
                .unwrap_or_else(|violation| panic!("{faults:?}, seed {seed}: {violation}"));
            total.0 += seen.by_line;
            total.1 += seen.by_os;
            total.2 += seen.succeeded;
            total.3 += seen.doubted + seen.gave_up;
            total.4 += seen.killed;
        }
        println!(
            "{faults:?}: by line {}, by OS {}, successors {}, late {}, killed {}",
            total.0, total.1, total.2, total.3, total.4
        );
        assert!(
            total.0 > 10_000 && total.1 > 10_000 && total.2 > 100 && total.3 > 10 && total.4 > 100,
            "{total:?}"
        );
    }
}
