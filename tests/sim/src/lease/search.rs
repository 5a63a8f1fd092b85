//! An exhaustive search of a small machine, within bounds.
//!
//! The machine has a writer, its successor after a kill, and two readings. The second reading
//! begins when the first is complete, so that a step back can show between them. A *preemption* is
//! a move away from an actor that could go on: to another actor, to a later tick, or to a new
//! writer by a kill. The search takes all schedules without a preemption, then all with one, and so
//! on (the idea is from [CHESS]). Ticks that pass while the actor sleeps, or after it has ended,
//! cost nothing.
//!
//! Steps that do not depend on the time go before any tick. A tick between two such steps has the
//! same effect as a tick after both. For the same reason the OS clock jumps from the lower to the
//! upper end of its bound just before it is read. In a sleep, or in a first publication that lasts,
//! an actor would only repeat its last observation. Such an actor is blocked until the word or the
//! tick changes.
//!
//! Two states are the same if a hash of 64 bits agrees. It covers the page, the clocks, the
//! complete readings, and each actor's observations since it began.
//!
//! [CHESS]: M. Musuvathi and S. Qadeer, "Iterative context bounding for systematic testing of
//! multithreaded programs", PLDI 2007.

use std::cell::Cell;
use std::collections::HashSet;

use tickline_page::lease::WriterConfig;
use tickline_page::lease::memory::LeaseMemory;

use super::{LeaseCounts, Pending, Script, Stops, WRITER, World};

/// A machine small enough to be searched.
#[derive(Debug, Clone, Copy)]
pub struct SmallMachine {
    /// Whether a line has just been published at the start. Otherwise the page is off.
    pub is_published: bool,
    /// The length of a run, ticks.
    pub horizon_ticks: u64,
    /// The number of iterations of a writer.
    pub writer_iterations: u32,
    /// The number of times that the writer may be killed and started again.
    pub kills: u64,
    /// The lines' upper bound above the middle of the bounds, ns. A writer that keeps the rules
    /// uses 1, half the width of the bounds.
    pub bound_ns: i64,
    /// The steps at which the writer can be stopped.
    pub stops: Stops,
    /// The limit of preemptions in a schedule.
    pub max_preemptions: usize,
}

/// Lengths in ticks: a lease of four, a first publication of two.
const CONFIG: WriterConfig = {
    let mut config = WriterConfig::new();
    config.lease_ns = 4;
    config.renewal_notice_ns = 1;
    config.first_publication_wait_ns = 2;
    config.cpu_difference_ns = 0;
    config.first_publication_pause_ns = 0;
    config.os_resolution_ns = 0;
    config.counter_resolution_ticks = 0;
    config
};

/// Half the width of the bounds, ns. The OS clock begins at the lower bound, and may jump to
/// the upper one at any moment.
const WIDTH_NS: i64 = 1;

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchReport {
    /// The events of all runs together. Events that runs have in common count once.
    pub counts: LeaseCounts,
    /// The first step back, with the schedule that leads to it. `None` if the search has taken
    /// every schedule within the bounds.
    pub violation: Option<String>,
}

const READER: usize = 1;

/// A move of the search: an actor goes on after some ticks, or the writer is killed.
#[derive(Debug, Clone, Copy)]
enum Move {
    Resume {
        actor: usize,
        ticks: u64,
        /// Whether the OS clock jumps to its upper bound first.
        rises: bool,
    },
    Kill,
}

/// A possible move.
#[derive(Debug, Clone, Copy)]
struct Choice {
    chosen: Move,
    /// The number of its preemptions.
    cost: usize,
}

/// A run of the machine.
struct Run {
    world: &'static World,
    small: SmallMachine,
    scripts: [Option<Script>; 2],
    /// The actor that made the last step.
    current: usize,
    kills: u64,
    begin_ticks: u64,
}

impl Run {
    fn begin(world: &'static World, small: &SmallMachine) -> Self {
        world.reset();
        let scripts = [
            Some(world.writer(CONFIG, small.writer_iterations)),
            Some(world.reader(READER, 2, None)),
        ];
        let begin_ticks = world.ticks.get();
        let mut run = Self {
            world,
            small: *small,
            scripts,
            current: WRITER,
            kills: 0,
            begin_ticks,
        };
        if small.is_published {
            while world.counts.borrow().published_first == 0 {
                run.apply(Move::Resume {
                    actor: WRITER,
                    ticks: 0,
                    rises: false,
                });
            }
        }
        run
    }

    /// Whether an actor could go on at a tick.
    fn is_ready(&self, actor: usize, ticks: u64) -> bool {
        self.scripts[actor].is_some()
            && match self.world.pending[actor].get() {
                Pending::Sleep(until_ticks) => until_ticks <= ticks,
                Pending::Spin(word, at_ticks) => {
                    (word, at_ticks) != (self.world.memory.word().to_bits(), ticks)
                }
                Pending::Memory | Pending::Swap | Pending::Counter | Pending::Os => true,
            }
    }

    /// All possible moves.
    fn moves(&self) -> Vec<Choice> {
        let now_ticks = self.world.ticks.get();
        let goes_on = self.is_ready(self.current, now_ticks);
        let left_ticks = self.begin_ticks + self.small.horizon_ticks - now_ticks;
        let mut moves = Vec::new();
        // The current actor comes first, so that the search follows it.
        for actor in [self.current, 1 - self.current] {
            let pending = self.world.pending[actor].get();
            let is_current = goes_on && actor == self.current;
            let sees_time = !is_current || !matches!(pending, Pending::Memory | Pending::Swap);
            for ticks in 0..=if sees_time { left_ticks } else { 0 } {
                if !self.is_ready(actor, now_ticks + ticks) {
                    continue;
                }
                let cost = usize::from(goes_on && (!is_current || ticks > 0));
                let may_rise = pending == Pending::Os && self.world.off_ns.get() < WIDTH_NS;
                let rises: &[bool] = if may_rise { &[false, true] } else { &[false] };
                moves.extend(rises.iter().map(|&rises| Choice {
                    chosen: Move::Resume {
                        actor,
                        ticks,
                        rises,
                    },
                    cost,
                }));
            }
        }
        if self.kills < self.small.kills && self.scripts[WRITER].is_some() {
            moves.push(Choice {
                chosen: Move::Kill,
                cost: 1,
            });
        }
        moves
    }

    fn apply(&mut self, chosen: Move) {
        match chosen {
            Move::Resume {
                actor,
                ticks,
                rises,
            } => {
                self.current = actor;
                self.world.ticks.set(self.world.ticks.get() + ticks);
                if rises {
                    self.world.off_ns.set(WIDTH_NS);
                }
                let script = self.scripts[actor].as_mut().expect("it is ready");
                if !script.resume() {
                    self.scripts[actor] = None;
                    self.world.observed[actor].set(0);
                }
            }
            Move::Kill => {
                self.kills += 1;
                self.world.counts.borrow_mut().killed += 1;
                self.scripts[WRITER] = None;
                self.scripts[WRITER] =
                    Some(self.world.writer(CONFIG, self.small.writer_iterations));
                self.world.observed[WRITER].set(self.kills);
                self.world.pending[WRITER].set(Pending::Memory);
            }
        }
    }

    fn hash(&self) -> u64 {
        let ends = [
            self.scripts[WRITER].is_none(),
            self.scripts[READER].is_none(),
        ];
        self.world.hash((self.kills, self.current, ends))
    }
}

/// Searches the schedules of a small machine, those with few preemptions first.
///
/// # Panics
///
/// Without memory for a stack.
#[must_use]
pub fn search(small: &SmallMachine) -> SearchReport {
    let world = World::new(WIDTH_NS, small.bound_ns, small.stops, 0);
    let mut visited = HashSet::new();
    let mut total = LeaseCounts::default();
    // The paths still to follow, for each number of preemptions.
    let mut open: Vec<Vec<Vec<u8>>> = vec![Vec::new(); small.max_preemptions + 1];
    open[0].push(Vec::new());
    for preemptions in 0..=small.max_preemptions {
        while let Some(mut path) = open[preemptions].pop() {
            let mut run = Run::begin(world, small);
            for &choice in &path {
                let chosen = run.moves()[usize::from(choice)].chosen;
                run.apply(chosen);
            }
            while world.violation.borrow().is_none() && run.scripts[READER].is_some() {
                if !visited.insert(run.hash()) {
                    break;
                }
                let moves = run.moves();
                let mut next = None;
                for (choice, &Choice { chosen, cost }) in moves.iter().enumerate() {
                    let choice = u8::try_from(choice).expect("few moves");
                    if cost == 0 && next.is_none() {
                        next = Some((choice, chosen));
                    } else if let Some(paths) = open.get_mut(preemptions + cost) {
                        paths.push(path.iter().copied().chain([choice]).collect());
                    }
                }
                let Some((choice, chosen)) = next else { break };
                path.push(choice);
                run.apply(chosen);
            }
            total.add(&world.counts.borrow());
            total.states = visited.len() as u64;
            drop(run);
            if let Some(violation) = world.violation.take() {
                let violation = Some(format!("{violation}\n{}", schedule(world, small, &path)));
                return SearchReport {
                    counts: total,
                    violation,
                };
            }
        }
    }
    SearchReport {
        counts: total,
        violation: None,
    }
}

/// Prints a path, one move a line: `*` marks a preemption, then come the pending steps of the
/// writer and the reader, and the page's phase.
fn schedule(world: &'static World, small: &SmallMachine, path: &[u8]) -> String {
    let mut run = Run::begin(world, small);
    let mut moves = String::new();
    for &choice in path {
        let Choice { chosen, cost } = run.moves()[usize::from(choice)];
        let pending = world.pending.each_ref().map(Cell::get);
        let phase = world.memory.word().phase();
        moves += &format!(
            "{} {chosen:?} {:?} {phase:?}\n",
            if cost > 0 { "*" } else { " " },
            &pending[..2]
        );
        run.apply(chosen);
    }
    world.violation.take();
    moves
}
