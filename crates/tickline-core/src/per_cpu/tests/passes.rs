//! Whole passes of the thread over many CPUs.

use super::*;

/// What a move to another CPU takes, ns: most of the 80 us of a later calibration.
const MOVE_NS: u64 = 75_000;

/// The lateness of a wait, ns: the kernel's slack for timers, and the wake-up.
const LATE_NS: u64 = 80_000;

/// The end of each test, ns of simulated time.
const END_NS: i64 = 30_000_000_000;

/// A thread that passes over the CPUs of a machine.
struct Passes {
    board: Board,
    clocks: Vec<SharedClock<HookedCell>>,
    calibrations: Vec<CpuControl>,
    interval_ns: u64,
}

impl Passes {
    fn new(cpus: usize, interval_ns: u64) -> Self {
        let machine = Machine::new();
        let pass = Pass::begin(RESOLUTIONS, interval_ns, machine);
        Self {
            board: Board {
                machine,
                on: Cell::new(0),
                plain_read: PlainRead::One,
            },
            clocks: (0..cpus)
                .map(|_| SharedClock::new(HookedCell::new(machine)))
                .collect(),
            calibrations: (0..cpus).map(|_| CpuControl::new(&pass)).collect(),
            interval_ns,
        }
    }

    /// One pass, and the wait until the next one. Returns whether each CPU had a line for the fast
    /// path when the thread came to it.
    fn run(&mut self) -> bool {
        let machine = self.board.machine;
        let pass = Pass::begin(RESOLUTIONS, self.interval_ns, machine);
        let mut has_lines = true;
        let mut next_ns = machine.truth_ns() + self.interval_ns.cast_signed();
        for (cpu, (calibration, clock)) in (0..).zip(self.calibrations.iter_mut().zip(&self.clocks))
        {
            self.board.on.set(cpu);
            has_lines &= clock
                .readings()
                .read_ns(&PastRead(self.board.now_ordered().unwrap().ticks))
                .is_some();
            if calibration.is_ready(machine.truth_ns()) {
                machine.pass(MOVE_NS);
                calibration.begin(&pass);
                loop {
                    match calibration.iterate(clock, cpu, &self.board, machine).stay {
                        Stay::Again => {}
                        Stay::Wait { ns } => machine.pass(ns + LATE_NS),
                        Stay::Leave => break,
                    }
                }
            }
            next_ns = next_ns.min(calibration.due_ns());
        }
        machine.pass((next_ns - machine.truth_ns()).max(50_000).cast_unsigned());
        has_lines
    }

    /// The time until three passes in a row have found a line on every CPU, ns; `None` if none have
    /// by the end.
    fn settled_after_ns(&mut self) -> Option<i64> {
        let start_ns = self.board.machine.truth_ns();
        let mut in_a_row = 0;
        while in_a_row < 3 {
            let now_ns = self.board.machine.truth_ns() - start_ns;
            if now_ns > END_NS {
                return None;
            }
            in_a_row = if self.run() { in_a_row + 1 } else { 0 };
        }
        Some(self.board.machine.truth_ns() - start_ns)
    }
}

/// Symptom: a first pass waited on each CPU, and took longer than 4 intervals. By then the first
/// control loop had to forget its samples, so the next pass did the same, and so on for ever.
#[test]
fn lines_settle_on_16_cpus_at_an_interval_of_10_ms() {
    let settled_ns = Passes::new(16, 10_000_000).settled_after_ns();
    assert!(settled_ns.is_some(), "no pass found a line on each CPU");
}

/// The same, with the default interval.
#[test]
fn lines_settle_on_1000_cpus() {
    let settled_ns = Passes::new(1_000, INTERVAL_NS).settled_after_ns();
    assert!(settled_ns.is_some(), "no pass found a line on each CPU");
}
