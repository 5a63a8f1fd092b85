//! An exhaustive search of a small machine.

use std::collections::HashSet;

use corosensei::CoroutineResult;
use tickline_core::unstable::lease::Config;

use super::{Script, Seen, WRITER, World, add, kill};

/// A machine small enough to be searched.
#[derive(Debug, Clone, Copy)]
pub struct Small {
    /// Lengths in ticks.
    pub config: Config,
    /// The last tick, from the start.
    pub horizon_ticks: u64,
    /// Readers, each in a process of its own, with one reading.
    pub readers: usize,
    /// Steps of a writer, and how often it may be killed and started again.
    pub writer_steps: u32,
    /// See [`writer_steps`](Self::writer_steps).
    pub kills: u64,
    /// Half the width of an estimate, ns: the OS clock begins at the lower end, and may jump to the
    /// upper one at any moment.
    pub width_ns: i64,
    /// The lines' edge above the middle of the estimate, ns: the width, if the rules are kept.
    pub edge_ns: i64,
    /// Where the search stops, states.
    pub most_states: usize,
}

impl Small {
    /// A lease of four ticks.
    pub const DEFAULT: Self = Self {
        config: Config {
            lease_ns: 4,
            margin_ns: 1,
            wait_ns: 4,
            skew_ns: 0,
            pause_ns: 0,
            resolution_ns: 0,
            counter_ticks: 0,
        },
        horizon_ticks: 10,
        readers: 2,
        writer_steps: 4,
        kills: 1,
        width_ns: 1,
        edge_ns: 1,
        most_states: 400_000,
    };
}

/// What a search has found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// What happened in all runs together; runs share their beginnings.
    pub seen: Seen,
    /// Whether there was nothing left to search.
    pub is_complete: bool,
    /// The first step back.
    pub violation: Option<String>,
}

#[derive(Debug, Clone, Copy)]
enum Move {
    Resume(usize),
    Pass,
    Rise,
    Kill,
}

/// Searches all orders of the steps of a small machine, any delay of any step included.
///
/// # Panics
///
/// Without memory for a stack.
#[must_use]
pub fn search(small: &Small) -> Found {
    let mut visited = HashSet::new();
    let mut path: Vec<(usize, usize)> = Vec::new();
    let mut total = Seen::default();
    let world = World::new(small.width_ns, small.edge_ns, 0);
    loop {
        world.reset();
        let mut scripts: Vec<Option<Script>> = vec![Some(world.writer(small.config, small.writer_steps))];
        scripts.extend((1..=small.readers).map(|actor| Some(world.reader(actor, 1, None))));
        let (begin_ticks, mut kills, mut depth) = (world.ticks.get(), 0, 0);
        loop {
            let mut moves: Vec<Move> =
                (0..scripts.len()).filter(|&actor| scripts[actor].is_some()).map(Move::Resume).collect();
            if (1..scripts.len()).all(|actor| scripts[actor].is_none()) {
                break; // no reading is left that could be out of order
            }
            if world.ticks.get() - begin_ticks < small.horizon_ticks {
                moves.push(Move::Pass);
            }
            if world.off_ns.get() < small.width_ns {
                moves.push(Move::Rise);
            }
            if kills < small.kills && scripts[WRITER].is_some() {
                moves.push(Move::Kill);
            }
            if depth == path.len() {
                if !visited.insert(world.hash(kills)) {
                    break;
                }
                path.push((0, moves.len()));
            }
            match moves[path[depth].0] {
                Move::Resume(actor) => {
                    let script = scripts[actor].as_mut().expect("it can go on");
                    if let CoroutineResult::Return(()) = script.resume(()) {
                        kill(&mut scripts[actor]);
                        world.observed[actor].set(0);
                    }
                }
                Move::Pass => world.ticks.set(world.ticks.get() + 1),
                Move::Rise => world.off_ns.set(small.width_ns),
                Move::Kill => {
                    kills += 1;
                    world.count(|seen| seen.killed += 1);
                    kill(&mut scripts[WRITER]);
                    scripts[WRITER] = Some(world.writer(small.config, small.writer_steps));
                    world.observed[WRITER].set(kills);
                }
            }
            depth += 1;
            if world.violation.borrow().is_some() {
                break;
            }
        }
        for script in &mut scripts {
            kill(script);
        }
        add(&mut total, &world.seen.get());
        total.states = visited.len() as u64;
        let violation = world.violation.borrow().clone();
        if violation.is_some() || visited.len() >= small.most_states {
            return Found { seen: total, is_complete: false, violation };
        }
        path.truncate(depth);
        while let Some((choice, options)) = path.last_mut() {
            *choice += 1;
            if *choice < *options {
                break;
            }
            path.pop();
        }
        if path.is_empty() {
            return Found { seen: total, is_complete: true, violation: None };
        }
    }
}
