//! Tests with simulated counters of all known kinds, and of random kinds.

use core::cell::{Cell, RefCell};

use fastrand::Rng;

use super::*;
use crate::testing::FnClock;

/// The number of parts in a raw tick. Time passes in parts.
const PARTS: u64 = 256;

/// A counter that moves by several ticks at once, that a hypervisor may scale, and that a program reads.
#[derive(Debug, Clone)]
struct Simulated {
    /// The resolution of the raw counter, raw ticks.
    resolution_ticks: u64,
    /// The hypervisor's factor for a raw tick.
    ratio: (u64, u64),
    /// The least time between two reads, and the largest random addition to it, parts.
    read_parts: u64,
    jitter_parts: u64,
    /// The time after a move for which the counter shows the move's first tick before it shows the
    /// last one, parts. Zen 5 under KVM does so: it moves by 26, seldom by 1 and 25.
    first_tick_parts: u64,
    /// One read in this many is interrupted; 0 for none.
    interrupted_every: u64,
    now_parts: Cell<u64>,
    reads: Cell<u64>,
    rng: RefCell<Rng>,
}

impl Simulated {
    /// A counter with this resolution, whose reads are `read_ticks` apart, and up to `jitter_ticks` more.
    fn new(resolution_ticks: u64, read_ticks: u64, jitter_ticks: u64) -> Self {
        Self {
            resolution_ticks,
            ratio: (1, 1),
            read_parts: read_ticks * PARTS,
            jitter_parts: jitter_ticks * PARTS,
            first_tick_parts: 0,
            interrupted_every: 0,
            now_parts: Cell::new(987_654_321 * PARTS),
            reads: Cell::new(0),
            rng: RefCell::new(Rng::with_seed(1)),
        }
    }
}

impl Counter for Simulated {
    fn now(&self) -> u64 {
        let mut passed = self.read_parts + self.rng.borrow_mut().u64(..=self.jitter_parts);
        self.reads.set(self.reads.get() + 1);
        if self.interrupted_every != 0 && self.reads.get().is_multiple_of(self.interrupted_every) {
            passed += self.rng.borrow_mut().u64(3_000..6_000) * PARTS;
        }
        self.now_parts.set(self.now_parts.get() + passed);
        let move_parts = self.resolution_ticks * PARTS;
        let moves = self.now_parts.get() / move_parts;
        let since = self.now_parts.get() % move_parts;
        let last = if self.first_tick_parts > since {
            0
        } else {
            (self.resolution_ticks - 1) * u64::from(self.first_tick_parts > 0)
        };
        let raw = moves * self.resolution_ticks + last;
        u64::try_from(u128::from(raw) * u128::from(self.ratio.0) / u128::from(self.ratio.1))
            .expect("a counter")
    }
    fn barrier(&self) {}
}

/// A factor of a hypervisor.
#[derive(Debug, Clone, Copy)]
struct Ratio {
    ticks: u64,
    raw_ticks: u64,
}

const UNSCALED: Ratio = Ratio {
    ticks: 1,
    raw_ticks: 1,
};

/// The time of a read: the least, and the largest random addition to it, ticks.
#[derive(Debug, Clone, Copy)]
struct ReadTime {
    least_ticks: u64,
    jitter_ticks: u64,
}

const fn read_time(least_ticks: u64, jitter_ticks: u64) -> ReadTime {
    ReadTime {
        least_ticks,
        jitter_ticks,
    }
}

/// A counter, and readers of it.
struct Case {
    counter: &'static str,
    /// The raw counter's resolution, raw ticks.
    resolution_ticks: u64,
    scaled_by: Ratio,
    read_times: &'static [ReadTime],
    expected_ticks: u64,
}

const SCALED_READ_TIMES: &[ReadTime] = &[
    read_time(23, 3),
    read_time(23, 25),
    read_time(38, 20),
    read_time(9, 2),
];

const CASES: [Case; 9] = [
    Case {
        counter: "Intel Xeon, family 6, model 207, under KVM",
        resolution_ticks: 2,
        scaled_by: UNSCALED,
        read_times: &[
            read_time(22, 4),
            read_time(24, 8),
            read_time(20, 20),
            read_time(24, 40),
        ],
        expected_ticks: 2,
    },
    Case {
        counter: "the same, whose reads take a constant 23 ticks and show 22 and 24",
        resolution_ticks: 2,
        scaled_by: UNSCALED,
        read_times: &[read_time(23, 0)],
        expected_ticks: 2,
    },
    Case {
        counter: "1 tick",
        resolution_ticks: 1,
        scaled_by: UNSCALED,
        read_times: &[
            read_time(22, 4),
            read_time(20, 8),
            read_time(20, 20),
            read_time(24, 40),
            read_time(60, 30),
        ],
        expected_ticks: 1,
    },
    Case {
        counter: "AMD Zen 5",
        resolution_ticks: 26,
        scaled_by: UNSCALED,
        read_times: &[
            read_time(3, 0),
            read_time(9, 1),
            read_time(13, 5),
            read_time(23, 20),
            read_time(26, 0),
            read_time(38, 1),
            read_time(70, 5),
        ],
        expected_ticks: 26,
    },
    Case {
        counter: "the same, where all reads take two moves",
        resolution_ticks: 26,
        scaled_by: UNSCALED,
        read_times: &[read_time(52, 0), read_time(52, 1)],
        expected_ticks: 52,
    },
    Case {
        counter: "24 MHz, scaled to 1 GHz: moves by 41 and 42 ticks",
        resolution_ticks: 1,
        scaled_by: Ratio {
            ticks: 125,
            raw_ticks: 3,
        },
        read_times: SCALED_READ_TIMES,
        expected_ticks: 42,
    },
    Case {
        counter: "scaled from 2.6 to 2.5 GHz",
        resolution_ticks: 26,
        scaled_by: Ratio {
            ticks: 25,
            raw_ticks: 26,
        },
        read_times: SCALED_READ_TIMES,
        expected_ticks: 25,
    },
    Case {
        counter: "scaled to 2.449 GHz: the larger",
        resolution_ticks: 26,
        scaled_by: Ratio {
            ticks: 2_449,
            raw_ticks: 2_600,
        },
        read_times: SCALED_READ_TIMES,
        expected_ticks: 25,
    },
    Case {
        counter: "26 scaled to 39",
        resolution_ticks: 26,
        scaled_by: Ratio {
            ticks: 3,
            raw_ticks: 2,
        },
        read_times: SCALED_READ_TIMES,
        expected_ticks: 39,
    },
];

impl Case {
    /// The counter, as each reader reads it.
    fn machines(&self) -> impl Iterator<Item = Simulated> {
        let Ratio { ticks, raw_ticks } = self.scaled_by;
        let parts = move |read_ticks: u64| read_ticks * raw_ticks * PARTS / ticks;
        self.read_times.iter().map(move |time| Simulated {
            ratio: (ticks, raw_ticks),
            read_parts: parts(time.least_ticks),
            jitter_parts: parts(time.jitter_ticks),
            ..Simulated::new(self.resolution_ticks, 0, 0)
        })
    }
}

#[test]
fn a_resolution_is_found_whatever_a_read_takes() {
    for case in &CASES {
        for machine in case.machines() {
            assert_eq!(
                resolution_ticks(&machine),
                case.expected_ticks,
                "{}: {machine:?}",
                case.counter
            );
        }
    }
}

/// The first judgement waits for a measurement.
#[test]
fn a_measurement_takes_1_100_reads_at_most() {
    for machine in CASES.iter().flat_map(Case::machines) {
        _ = resolution_ticks(&machine);
        assert!(machine.reads.get() <= 1_100, "{machine:?}");
    }
}

/// As of a counter of 24 MHz.
#[test]
fn a_tick_is_found_where_reads_are_faster_than_a_tick() {
    for read_parts in [3, 64, 200, 300] {
        let machine = Simulated {
            read_parts,
            jitter_parts: read_parts / 4,
            ..Simulated::new(1, 0, 0)
        };
        assert_eq!(resolution_ticks(&machine), 1, "{machine:?}");
    }
}

#[test]
fn interrupts_change_no_resolution() {
    for (true_ticks, read_ticks) in [(1, 20), (2, 20), (26, 23), (26, 12)] {
        let machine = Simulated {
            interrupted_every: 31,
            ..Simulated::new(true_ticks, read_ticks, 9)
        };
        assert_eq!(resolution_ticks(&machine), true_ticks, "{machine:?}");
    }
}

#[test]
fn odd_moves_are_told_from_the_resolution() {
    let growing: Vec<_> = (1_000..1_200).collect();
    let cases: [(&[u64], u64, &str); 6] = [
        (
            &[26, 26, 1, 25],
            26,
            "the first tick of a move belongs to the move",
        ),
        (&[26, 1, 25, 52, 1, 25, 1, 51], 26, "the same"),
        (
            &[26, 26, 25, 1],
            26,
            "the last tick of a move is shown late",
        ),
        (
            &[1, 2, 2, 2, 2],
            1,
            "a counter that moves by 2 can't make a difference of 1",
        ),
        (
            &[26, 26, 26, 26, 30, 26, 26, 26, 26, 26],
            4,
            "a counter that moves by 4.3 can make all of these",
        ),
        (&growing, 1_064, "no two are alike: the median"),
    ];
    for (moves, expected, why) in cases {
        let at = Cell::new((0, 0));
        let counter = FnClock(|| {
            let (index, ticks) = at.get();
            at.set((index + 1, ticks + moves[index % moves.len()]));
            at.get().1
        });
        assert_eq!(resolution_ticks(&counter), expected, "{moves:?}: {why}");
    }
}

/// Counters down to about 15 kHz are supported. They stand still for thousands of reads.
#[test]
fn a_slow_counter_is_waited_for() {
    let slow = Simulated {
        read_parts: 1,
        ..Simulated::new(10, 0, 0)
    };
    assert_eq!(resolution_ticks(&slow), 10);
}

#[test]
fn a_counter_that_stands_still_is_given_up() {
    let stuck = Simulated::new(1, 0, 0);
    assert_eq!(resolution_ticks(&stuck), 0);
    assert!(stuck.reads.get() <= 20_001, "{} reads", stuck.reads.get());
}

/// The number of random machines, which are the same each time.
const MACHINES: u64 = 3_000;

/// An underestimated resolution would break bounds.
#[test]
fn a_coarse_resolution_is_never_taken_for_a_smaller_one() {
    for seed in 0..MACHINES {
        let mut rng = Rng::with_seed(seed);
        let mut up_to = |bound| rng.u64(..bound);
        let true_ticks = 8 + up_to(192);
        // Only an unscaled counter shows its first tick by itself.
        let is_scaled = up_to(2) == 0;
        let ratio = if is_scaled {
            ((500 + up_to(1_500)).max(8_000 / true_ticks), 1_000)
        } else {
            (1, 1)
        };
        let first_tick_parts = if is_scaled {
            0
        } else {
            up_to(true_ticks * PARTS / 16)
        };
        // Reads that keep time with the first ticks may show anything; the waits prevent
        // that.
        let read_percent = 1 + up_to(400);
        let jitter_percent = up_to(200).max(if is_scaled { 0 } else { 20 });
        let interval_reads = (16 + up_to(100)) * (1 + 100 / read_percent);
        let interrupted_every = if up_to(2) == 0 { interval_reads } else { 0 };
        let machine = Simulated {
            ratio,
            first_tick_parts,
            read_parts: true_ticks * PARTS * read_percent / 100,
            jitter_parts: true_ticks * PARTS * jitter_percent / 100,
            interrupted_every,
            rng: RefCell::new(Rng::with_seed(up_to(u64::MAX))),
            ..Simulated::new(true_ticks, 0, 0)
        };
        let found = resolution_ticks(&machine);
        let largest = (true_ticks * ratio.0).div_ceil(ratio.1);
        // Of moves by 24.01 ticks, one in a hundred is 25.
        assert!(found >= largest - 1, "seed {seed}: {found} {machine:?}");
    }
}

#[test]
fn a_whole_resolution_is_found_where_reads_take_various_times() {
    for seed in 0..MACHINES {
        let mut rng = Rng::with_seed(seed);
        let mut up_to = |bound| rng.u64(..bound);
        let true_ticks = 1 + up_to(60);
        let read_ticks = 1 + up_to(100);
        let jitter_ticks = (2 * true_ticks).max(10) * (100 + up_to(100)) / 100;
        let rng = RefCell::new(Rng::with_seed(up_to(u64::MAX)));
        let machine = Simulated {
            rng,
            ..Simulated::new(true_ticks, read_ticks, jitter_ticks)
        };
        let found = resolution_ticks(&machine);
        // Five or more moves by 11 look like six by 9.
        let most = if read_ticks >= 5 * true_ticks {
            true_ticks + true_ticks / 4 + 1
        } else {
            true_ticks
        };
        assert!(
            (true_ticks..=most).contains(&found),
            "seed {seed}: {found} {machine:?}"
        );
    }
}

/// The resolution that four differences of each of these sizes show.
fn resolution_of(differences: &[u64]) -> Option<u64> {
    shown_resolution_ticks(
        &mut differences
            .iter()
            .flat_map(|ticks| [*ticks; 4])
            .collect::<Vec<_>>(),
    )
}

#[test]
fn a_distance_that_is_one_tick_less_was_rounded_down() {
    assert_eq!(resolution_of(&[12, 23]), Some(12));
}

#[test]
fn a_distance_that_is_two_ticks_less_is_the_resolution_of_a_fast_counter() {
    assert_eq!(resolution_of(&[12, 22]), Some(10));
}

/// From 16 ticks on, a factor of the hypervisor may make it two.
#[test]
fn a_distance_that_is_two_ticks_less_than_a_coarse_resolution_was_rounded_down() {
    assert_eq!(resolution_of(&[15, 28]), Some(13));
    assert_eq!(resolution_of(&[16, 30]), Some(16));
}

#[test]
fn a_distance_that_is_three_ticks_less_than_a_coarse_one_is_the_resolution() {
    assert_eq!(resolution_of(&[16, 29]), Some(13));
}

#[test]
fn rounding_explains_neighbours_from_four_ticks_on() {
    assert_eq!(resolution_of(&[3, 4]), Some(1));
    assert_eq!(resolution_of(&[4, 5]), Some(5));
}

/// `sort` replaces std's for its size alone.
#[test]
fn differences_are_sorted_as_by_std() {
    let mut rng = Rng::with_seed(1);
    for length in 0..=127 {
        let mut values: Vec<u64> = (0..length).map(|_| rng.u64(..40)).collect();
        let mut expected = values.clone();
        expected.sort_unstable();
        sort(&mut values);
        assert_eq!(values, expected);
    }
}
