//! Leases: order between processes, whatever happens to the writer.
//!
//! The promise has two halves. The order holds if lines are at or above the OS clock, whatever the
//! writer's delays. And it holds wherever the OS clock is, if the writer is in time. Searches and
//! attacks test each half by itself. If neither condition holds, a search must find a step back:
//! otherwise the other tests would prove nothing.

#![expect(
    clippy::print_stdout,
    reason = "what was searched, and the schedules that were found"
)]

use tickline_sim::lease::{
    Attack, Faults, LeaseCounts, SearchReport, Slew, SmallMachine, Stops, WIDTH_NS, attack,
    run_slews, search,
};

/// A page that is off, and one first publication.
const FIRST: SmallMachine = SmallMachine {
    is_published: false,
    horizon_ticks: 4,
    writer_iterations: 1,
    kills: 0,
    bound_ns: 1,
    stops: Stops::Anywhere,
    max_preemptions: 2,
};

/// A published line and one successor.
const SUCCESSOR: SmallMachine = SmallMachine {
    is_published: true,
    horizon_ticks: 8,
    writer_iterations: 2,
    max_preemptions: 3,
    ..FIRST
};

/// A published line, its end, and a first publication.
const END: SmallMachine = SmallMachine {
    writer_iterations: 4,
    max_preemptions: 2,
    ..SUCCESSOR
};

/// A writer that is killed anywhere, and its successor.
const KILLED: SmallMachine = SmallMachine {
    kills: 1,
    writer_iterations: 3,
    ..END
};

/// Bounds that are too low. The OS clock can be above them by 1 ns, or by the width of the lines.
const ABOVE: [i64; 2] = [0, -1];

fn print_search(name: &str, small: &SmallMachine) -> SearchReport {
    let found = search(small);
    println!(
        "{name}, bound {}, {:?}: {:?}",
        small.bound_ns, small.stops, found.counts
    );
    if let Some(violation) = &found.violation {
        println!("    {violation}");
    }
    found
}

/// Searches all machines completely, and finds no step back.
fn assert_all_keep_the_order(bound_ns: i64, stops: Stops, more_preemptions: usize) {
    let mut sum = LeaseCounts::default();
    for (name, small) in [
        ("first line", FIRST),
        ("successor", SUCCESSOR),
        ("end", END),
        ("killed", KILLED),
    ] {
        let max_preemptions = small.max_preemptions + more_preemptions;
        let found = print_search(
            name,
            &SmallMachine {
                bound_ns,
                stops,
                max_preemptions,
                ..small
            },
        );
        assert_eq!(found.violation, None, "{name}");
        sum.add(&found.counts);
    }
    let least = [
        sum.by_line,
        sum.by_os,
        sum.published_next,
        sum.gave_up,
        sum.doubted,
        sum.ended,
        sum.killed,
    ];
    assert!(least.iter().all(|count| *count > 100), "{sum:?}");
}

#[test]
fn lines_at_the_upper_bound_keep_the_order_under_any_delay() {
    assert_all_keep_the_order(1, Stops::Anywhere, 0);
}

/// Searches both halves with one more preemption, 58 million states.
#[test]
#[ignore = "takes two minutes in a release build: a step of `cargo xtask ci nightly`"]
fn one_more_preemption_keeps_the_order() {
    assert_all_keep_the_order(1, Stops::Anywhere, 1);
    for bound_ns in ABOVE {
        assert_all_keep_the_order(bound_ns, Stops::NotBeforeTheSwap, 1);
    }
}

#[test]
fn a_writer_in_time_keeps_the_order_wherever_the_os_clock_is() {
    assert_all_keep_the_order(-1, Stops::NotBeforeTheSwap, 0);
}

/// The writer is stopped between its read of the counter and its swap. Meanwhile the old line ends,
/// and a reader gets the OS clock. After the swap another reader gets the successor, which is
/// lower. A first publication has the same fault.
#[test]
fn a_line_below_the_os_clock_that_comes_too_late_is_found() {
    for (name, small, second) in [
        ("successor", SUCCESSOR, "Some("),
        ("first line", FIRST, "None"),
    ] {
        for bound_ns in ABOVE {
            let found = print_search(name, &SmallMachine { bound_ns, ..small });
            let violation = found.violation.expect("a step back");
            let published = format!("Published {second}");
            assert!(
                violation.contains("by Line after") && violation.contains(&published),
                "{violation}"
            );
        }
    }
}

/// The number of steps in each attack, and of attacks for each kind of fault.
const STEPS: u64 = 200_000;
const ATTACKS: u64 = 12;

/// A bound so far below the OS clock, ns, that readings a few steps apart show a step back.
const BELOW_NS: i64 = -10_000;

/// The attack of which the others differ.
const ATTACK: Attack = Attack {
    seed: 0,
    steps: STEPS,
    faults: Faults::Stalls,
    bound_ns: WIDTH_NS,
    stops: Stops::Anywhere,
    has_children: false,
};

/// Attacks with each kind of fault. Returns the events of all of them.
fn attacks_keep_the_order(base: &Attack, all_faults: &[Faults]) -> LeaseCounts {
    let mut sum = LeaseCounts::default();
    for &faults in all_faults {
        let mut total = LeaseCounts::default();
        for seed in 0..ATTACKS {
            let counts = attack(&Attack {
                seed,
                faults,
                ..*base
            })
            .unwrap_or_else(|violation| panic!("{faults:?}, seed {seed}: {violation}"));
            total.add(&counts);
        }
        println!("{faults:?}: {total:?}");
        let late = total.doubted + total.gave_up;
        assert!(
            total.by_line > 10_000 && total.by_os > 10_000,
            "{faults:?}: {total:?}"
        );
        assert!(
            total.published_next > 100 && late > 10 && total.killed > 100,
            "{faults:?}: {total:?}"
        );
        sum.add(&total);
    }
    sum
}

/// The kinds of faults after which lines are at or above the OS clock.
const LINES_ABOVE: [Faults; 4] = [
    Faults::Stalls,
    Faults::Suspends,
    Faults::Resets,
    Faults::Stale,
];

#[test]
fn attacked_writers_keep_the_order() {
    attacks_keep_the_order(&ATTACK, &LINES_ABOVE);
}

/// The test leaves out `Faults::Stale`: with an unordered OS clock, the first publication's own
/// reading of the OS clock is too low.
#[test]
fn attacked_writers_in_time_keep_the_order_wherever_the_os_clock_is() {
    let in_time = Attack {
        stops: Stops::NotBeforeTheSwap,
        ..ATTACK
    };
    let below = Attack {
        bound_ns: BELOW_NS,
        ..in_time
    };
    attacks_keep_the_order(&below, &[Faults::Stalls, Faults::Suspends, Faults::Resets]);
    attacks_keep_the_order(&in_time, &[Faults::Pauses, Faults::Slews]);
}

/// Symptom: a forked child was below its parent by the lead whenever the page's first line was not
/// in use: in the second lease, while a line was doubted, and after the last lease.
#[test]
fn rule_r11_forked_children_keep_the_order_whatever_the_page_serves() {
    let with_children = Attack {
        has_children: true,
        ..ATTACK
    };
    let mut sum = attacks_keep_the_order(&with_children, &LINES_ABOVE);
    let in_time = Attack {
        stops: Stops::NotBeforeTheSwap,
        ..with_children
    };
    sum.add(&attacks_keep_the_order(
        &in_time,
        &[Faults::Pauses, Faults::Slews],
    ));
    let below = Attack {
        bound_ns: BELOW_NS,
        ..in_time
    };
    sum.add(&attacks_keep_the_order(&below, &LINES_ABOVE[..3]));
    assert!(sum.forked > 100_000, "{sum:?}");
    assert!(sum.by_unattached > 100_000, "{sum:?}");
}

/// A slew with a rate in ppm, which lasts for a number of leases.
const fn slew(rate_ppm: i64, leases: u64) -> Slew {
    Slew {
        rate_ppb: rate_ppm * 1_000,
        for_ns: leases * 500_000_000,
    }
}

/// Rule W10. Symptom: with chronyd's 8 % (`maxslewrate`) a line was published and doubted at each
/// change of the rate. Readers that took their time from it were ahead and behind in turn, by tens
/// of ms.
#[test]
fn a_fast_slew_is_one_doubt_and_one_first_publication() {
    for rates in [
        [80_000, 30_000, 60_000, 5_000],
        [-80_000, -30_000, -60_000, -5_000],
        [50_000, -50_000, 2_000, 80_000],
    ] {
        let slews: Vec<_> = rates
            .iter()
            .map(|rate| slew(*rate, 8))
            .chain([slew(20, 10)])
            .collect();
        let found = run_slews(&slews).expect("order");
        println!("{rates:?} ppm: {found:?}");
        assert_eq!(
            (found.doubted, found.ended, found.published_first),
            (1, 1, 1),
            "{rates:?}: {found:?}"
        );
    }
}

/// Checks the errors that `machine/docs/lease.md` states for the slews of NTP daemons, which use
/// adjtime(3) or change the frequency.
#[test]
fn a_slow_slew_leaves_a_line_published_and_within_its_bounds() {
    let slews = [500, -500, 500, -500].map(|rate| slew(rate, 7));
    let found = run_slews(&slews).expect("order");
    println!("{found:?}");
    assert_eq!(
        (found.doubted, found.ended, found.published_first),
        (0, 0, 0),
        "{found:?}"
    );
    // The lower limits show that a slew has had an effect.
    assert!((500_000..1_510_000).contains(&found.ahead_ns), "{found:?}");
    assert!((300_000..1_500_000).contains(&found.behind_ns), "{found:?}");
}

#[test]
fn attacks_find_late_writers_below_the_os_clock() {
    let broken = |seed| {
        let below = Attack {
            seed,
            bound_ns: BELOW_NS,
            ..ATTACK
        };
        attack(&below).is_err()
    };
    let found = (0..ATTACKS).filter(|seed| broken(*seed)).count();
    println!("{found} of {ATTACKS} attacks found a step back");
    assert!(found > 0);
}
