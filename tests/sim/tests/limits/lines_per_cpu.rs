//! A line for each of three CPUs, whose counters are up to 39 us apart.

use tickline_sim::Scenario;
use tickline_sim::named::steady;
use tickline_sim::scenario::{Chance, Clock, Fault, Machine};

use crate::run::runs;

fn three_cpus() -> Scenario {
    let steady = steady();
    Scenario {
        readers: 4,
        machine: Machine {
            cpus: 3,
            cpu_difference_ticks: 100_000,
            same_counter: false,
            ..steady.machine
        },
        clock: Clock {
            per_cpu: true,
            ..steady.clock
        },
        ..steady
    }
}

/// A reading by another CPU's counter would be off by microseconds. A first line starts half a
/// bracket ahead, 15 ns (rule 7), which is removed over the window of 4 intervals.
#[test]
fn each_cpu_has_the_error_and_the_bounds_of_a_clock_with_one_line() {
    for run in runs(&three_cpus()) {
        let all = run.part_ms(1_000..);
        all.error_at_most_ns(15)
            .bound_at_most_ns(30)
            .slow_permille_in(0..=1);
        run.part_ms(10_000..).bound_at_most_ns(20);
    }
}

/// Threads are preempted and moved. CPU 1 is offline from 8.1 s to 12.1 s, CPU 2 stands still for
/// 0.3 s at 16.1 s.
fn with_cpus_that_come_and_go() -> Scenario {
    let usual = three_cpus();
    Scenario {
        chance: Chance {
            preempt_one_in: 300,
            preempt_ns: 1_000_000,
            ..usual.chance
        },
        faults: vec![
            Fault::Offline { cpu: 1 }.at_ms(8_100),
            Fault::Online { cpu: 1 }.at_ms(12_100),
            Fault::Pause {
                cpu: 2,
                for_ns: 300_000_000,
            }
            .at_ms(16_100),
        ],
        ..usual
    }
}

/// Lines are as exact as without that. Bounds are wider after each first publication, because the
/// first lines rest on few samples.
#[test]
fn lines_stay_exact_while_cpus_come_and_go() {
    for run in runs(&with_cpus_that_come_and_go()) {
        run.part_ms(1_000..)
            .line_error_at_most_ns(15)
            .bound_at_most_ns(200)
            .bounds_hold();
        let counts = run.counts();
        assert!(counts.lost > 0, "calibrations fail: {counts:?}");
        assert!(counts.bounds_checked > 5_000, "{counts:?}");
    }
}

#[test]
fn a_cpu_that_has_come_back_has_a_line_again() {
    for run in runs(&with_cpus_that_come_and_go()) {
        run.part_ms(13_000..).slow_permille_in(0..=900);
    }
}
