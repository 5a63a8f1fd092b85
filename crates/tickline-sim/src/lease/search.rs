//! An exhaustive search of a small machine, within bounds.
//!
//! A writer, its successor after a kill, and two readings, the second of which begins when the
//! first is complete: a step back is between two such. A *preemption* is a move away from an actor
//! that could go on: to another actor, to a later tick, or to a new writer by a kill. The search
//! takes all schedules without a preemption, then all with one, and so on ([CHESS] has the idea).
//! Ticks that pass while the actor sleeps, or has ended, cost nothing.
//!
//! Steps that do not depend on the time go before any tick: a tick between two of them is the same
//! as one behind both. The OS clock jumps from the lower to the upper end of its bound just before
//! it is read, for the same reason. An actor that would only find again what it has found (a sleep,
//! a first publication that lasts) is blocked until the word or the tick is another.
//!
//! States are told apart by a hash of 64 bits of the page, the clocks, what is complete, and what
//! each actor has observed since it began.
//!
//! [CHESS]: M. Musuvathi and S. Qadeer, "Iterative context bounding for systematic testing of
//! multithreaded programs", PLDI 2007.

use std::cell::Cell;
use std::collections::HashSet;

use tickline_page::protocol::{Config, LeaseMemory};

use super::{Pending, Script, Seen, Stops, WRITER, World};

/// A machine small enough to be searched.
#[derive(Debug, Clone, Copy)]
pub struct Small {
    /// Whether a line is published at first, and nothing came between. Otherwise the page is off.
    pub is_published: bool,
    /// The last tick, from the start.
    pub horizon_ticks: u64,
    /// Steps of a writer, and how often it may be killed and started again.
    pub writer_steps: u32,
    /// See [`writer_steps`](Self::writer_steps).
    pub kills: u64,
    /// The lines' upper bound above the middle of the estimate, ns: its half-width of 1, if the
    /// rules are kept.
    pub bound_ns: i64,
    /// Where the writer can be stopped.
    pub stops: Stops,
    /// The most preemptions of a schedule.
    pub most_preemptions: usize,
}

/// Lengths in ticks: a lease of four, a first publication of two.
const CONFIG: Config = Config {
    lease_ns: 4,
    margin_ns: 1,
    wait_ns: 2,
    skew_ns: 0,
    pause_ns: 0,
    resolution_ns: 0,
    counter_ticks: 0,
};

/// Half the width of an estimate, ns: the OS clock begins at the lower end, and may jump to the
/// upper one at any moment.
const WIDTH_NS: i64 = 1;

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SearchReport {
    /// What happened in all runs together; runs share their beginnings.
    pub seen: Seen,
    /// The first step back, with the schedule that leads to it; without one, every schedule within
    /// the bounds was taken.
    pub violation: Option<String>,
}

const READER: usize = 1;

/// An actor goes on, after ticks have passed, or ends.
#[derive(Debug, Clone, Copy)]
enum Move {
    Resume { actor: usize, ticks: u64, rises: bool },
    Kill,
}

/// A run of the machine.
struct Run {
    world: &'static World,
    small: Small,
    scripts: [Option<Script>; 2],
    /// The actor that went on last.
    current: usize,
    kills: u64,
    begin_ticks: u64,
}

impl Run {
    fn begin(world: &'static World, small: &Small) -> Self {
        world.reset();
        let scripts = [Some(world.writer(CONFIG, small.writer_steps)), Some(world.reader(READER, 2, None))];
        let begin_ticks = world.ticks.get();
        let mut run = Self { world, small: *small, scripts, current: WRITER, kills: 0, begin_ticks };
        if small.is_published {
            while world.seen.get().published_first == 0 {
                run.apply(Move::Resume { actor: WRITER, ticks: 0, rises: false });
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

    /// All that can be done, each with its preemptions.
    fn moves(&self) -> Vec<(Move, usize)> {
        let now_ticks = self.world.ticks.get();
        let goes_on = self.is_ready(self.current, now_ticks);
        let left_ticks = self.begin_ticks + self.small.horizon_ticks - now_ticks;
        let mut moves = Vec::new();
        // The current one first: it is what the search follows.
        for actor in [self.current, 1 - self.current] {
            let pending = self.world.pending[actor].get();
            let is_current = goes_on && actor == self.current;
            let sees_time = !is_current || !matches!(pending, Pending::Memory | Pending::Swap);
            for ticks in 0..=if sees_time { left_ticks } else { 0 } {
                if !self.is_ready(actor, now_ticks + ticks) {
                    continue;
                }
                let cost = usize::from(goes_on && (!is_current || ticks > 0));
                moves.push((Move::Resume { actor, ticks, rises: false }, cost));
                if pending == Pending::Os && self.world.off_ns.get() < WIDTH_NS {
                    moves.push((Move::Resume { actor, ticks, rises: true }, cost));
                }
            }
        }
        if self.kills < self.small.kills && self.scripts[WRITER].is_some() {
            moves.push((Move::Kill, 1));
        }
        moves
    }

    fn apply(&mut self, chosen: Move) {
        match chosen {
            Move::Resume { actor, ticks, rises } => {
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
                self.world.count(|seen| seen.killed += 1);
                self.scripts[WRITER] = None;
                self.scripts[WRITER] = Some(self.world.writer(CONFIG, self.small.writer_steps));
                self.world.observed[WRITER].set(self.kills);
                self.world.pending[WRITER].set(Pending::Memory);
            }
        }
    }

    fn hash(&self) -> u64 {
        let ends = [self.scripts[WRITER].is_none(), self.scripts[READER].is_none()];
        self.world.hash((self.kills, self.current, ends))
    }
}

/// Searches the schedules of a small machine, those with few preemptions first.
///
/// # Panics
///
/// Without memory for a stack.
#[must_use]
pub fn search(small: &Small) -> SearchReport {
    let world = World::new(WIDTH_NS, small.bound_ns, small.stops, 0);
    let mut visited = HashSet::new();
    let mut total = Seen::default();
    // For each number of preemptions, the moves that lead to what was not yet followed.
    let mut open: Vec<Vec<Vec<u8>>> = vec![Vec::new(); small.most_preemptions + 1];
    open[0].push(Vec::new());
    for preemptions in 0..=small.most_preemptions {
        while let Some(mut path) = open[preemptions].pop() {
            let mut run = Run::begin(world, small);
            for &choice in &path {
                let (chosen, _) = run.moves()[usize::from(choice)];
                run.apply(chosen);
            }
            while world.violation.borrow().is_none() && run.scripts[READER].is_some() {
                if !visited.insert(run.hash()) {
                    break;
                }
                let moves = run.moves();
                let mut next = None;
                for (choice, &(chosen, cost)) in moves.iter().enumerate() {
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
            total.add(&world.seen.get());
            total.states = visited.len() as u64;
            drop(run);
            if let Some(violation) = world.violation.take() {
                let violation = Some(format!("{violation}\n{}", schedule(world, small, &path)));
                return SearchReport { seen: total, violation };
            }
        }
    }
    SearchReport { seen: total, violation: None }
}

/// A path: a move a line, `*` before a preemption, what the writer and the reader would do, and the
/// page's phase.
fn schedule(world: &'static World, small: &Small, path: &[u8]) -> String {
    let mut run = Run::begin(world, small);
    let mut moves = String::new();
    for &choice in path {
        let (chosen, cost) = run.moves()[usize::from(choice)];
        let (pending, phase) = (world.pending.each_ref().map(Cell::get), world.memory.word().phase());
        moves += &format!("{} {chosen:?} {:?} {phase:?}\n", if cost > 0 { "*" } else { " " }, &pending[..2]);
        run.apply(chosen);
    }
    world.violation.take();
    moves
}
