//! Runs with leases of the real length. In an attack, actors have random delays. In the other runs
//! the kernel slews its clock, and no actor is late.

use tickline_page::lease::{Basis, ProcessHighWater, WriterConfig};

use super::{ACTORS, LeaseCounts, Pending, Script, Stops, WRITER, World};

/// The parameters of an attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// The seed of the random choices.
    pub seed: u64,
    /// Steps of all actors together.
    pub steps: u64,
    /// The faults of the machine.
    pub faults: Faults,
    /// The lines' upper bound above the middle of the bounds, ns. The OS clock is within 50 ns of
    /// the middle.
    pub bound_ns: i64,
    /// The steps at which the writer can be stopped.
    pub stops: Stops,
    /// Whether the readers' processes fork children.
    pub has_children: bool,
}

/// The faults of an attacked machine. In every attack, writers are also stalled, killed and
/// restarted, and gates close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Faults {
    /// No further faults.
    Stalls,
    /// Suspends in which the counter runs on and the OS clock does not.
    Suspends,
    /// The counter starts again near 0.
    Resets,
    /// The OS clock returns values from before the call, by up to 2 us.
    Stale,
    /// The kernel slews the OS clock, slowly and fast. A sample is up to half a second old.
    Slews,
    /// The OS clock runs on for up to 2 s and the counter does not, as when a VM is paused.
    Pauses,
}

/// A rate of the OS clock, and its duration.
#[derive(Debug, Clone, Copy)]
pub struct Slew {
    /// The kernel's correction, ppb.
    pub rate_ppb: i64,
    /// The duration, ns.
    pub for_ns: u64,
}

/// If a reader's delay is longer than this, ns, it may instead last until the writer goes on.
const LONG_NS: u64 = 10_000;

/// The longest suspend, or pause of a VM, ns. A choice, not a measurement: four leases
/// (`WriterConfig::new`).
const MAX_ASLEEP_NS: u64 = 2_000_000_000;

/// The longest delay of an actor, ns. A choice, not a measurement: three leases.
const MAX_DELAY_NS: u64 = 1_500_000_000;

/// The interval between samples of the clock of `tickline serve`, ns.
const SAMPLE_EVERY_NS: u64 = 500_000_000;

/// Half the width of the bounds, ns.
pub const WIDTH_NS: i64 = 50;

/// The time between two readings, and the time of a step, while no actor is late, ns.
const READ_EVERY_NS: u64 = 100_000;
const STEP_NS: u64 = 10;

/// The first slew begins this long after an iteration of the writer, ns, so that the writer notices
/// it as late as possible.
const LATE_NS: u64 = 1_000_000;

/// The readers of the two processes. The actors after them are the processes' children.
const FIRST_CHILD: usize = 5;

/// A writer, readers in two processes, and their children.
struct Run {
    world: &'static World,
    scripts: Vec<Option<Script>>,
    /// The time, and when each actor goes on, ns since the start. Faults of the counter do not
    /// change them.
    now_ns: u64,
    ready_ns: [u64; ACTORS],
    /// How often the counter has started again.
    resets: u32,
}

impl Run {
    fn new(world: &'static World, actors: usize) -> Self {
        let marks: &'static [ProcessHighWater; 2] = Box::leak(Box::default());
        let mut scripts = vec![Some(world.writer(WriterConfig::new(), u32::MAX))];
        scripts.extend((1..actors).map(|actor| {
            let mark = &marks[actor & 1];
            Some(if actor < FIRST_CHILD {
                world.reader(actor, u32::MAX, Some(mark))
            } else {
                world.children(actor, mark)
            })
        }));
        Self {
            world,
            scripts,
            now_ns: 0,
            ready_ns: [0; ACTORS],
            resets: 0,
        }
    }

    /// Resumes the actor that goes on next, and returns it. Restarts a writer that has ended.
    fn step(&mut self) -> Result<usize, String> {
        let next = (0..self.scripts.len())
            .min_by_key(|&actor| self.ready_ns[actor])
            .expect("actors");
        let pass_ns = self.ready_ns[next].saturating_sub(self.now_ns);
        self.world.pass(pass_ns);
        self.now_ns += pass_ns;
        match self.scripts[next].as_mut().map(Script::resume) {
            Some(true) => {}
            Some(false) => self.scripts[next] = None,
            None => self.scripts[next] = Some(self.world.writer(WriterConfig::new(), u32::MAX)),
        }
        self.world.violation.take().map_or(Ok(next), Err)
    }

    /// Kills the writer, closes the page, or makes the clocks do what `faults` says; in most steps
    /// nothing. The chances are a choice: each happens many times in an attack.
    fn inject(&mut self, faults: Faults, rng: &mut fastrand::Rng) {
        match rng.u32(..20_000) {
            0..=3 => {
                self.world.counts.borrow_mut().killed += 1;
                self.scripts[WRITER] = None;
            }
            4..=6 => self.world.closing.set(Some(Basis::Nothing)),
            7..=8 => self.world.closing.set(Some(Basis::Doubt)),
            9..=40 => self.world.closing.set(None),
            41..=46 if faults == Faults::Suspends => {
                let asleep = rng.u64(1..MAX_ASLEEP_NS);
                self.world.ticks.set(self.world.ticks.get() + asleep);
                self.world
                    .base_ns
                    .set(self.world.base_ns.get() - asleep.cast_signed());
            }
            41..=46 if faults == Faults::Pauses => {
                let paused = rng.u64(1..MAX_ASLEEP_NS);
                self.world
                    .base_ns
                    .set(self.world.base_ns.get() + paused.cast_signed());
            }
            41..=46 if faults == Faults::Slews => {
                let max_ppb = *rng.choice(&[0, 500_000, 80_000_000]).expect("three");
                self.world.rate_ppb.set(rng.i64(-max_ppb..=max_ppb));
            }
            41..=42 if faults == Faults::Resets && self.resets < 3 => {
                self.resets += 1;
                // Each reset goes so far below the last one that the counter does not come back to
                // an earlier line while the word names it. After a fourth reset, to 17 ms, it does
                // so within 2 s, which is an exception of the promise (machine/docs/lease.md).
                let ticks = 1_u64 << (44 - 4 * self.resets - 4);
                self.world
                    .base_ns
                    .set(self.world.base_ns.get() + (self.world.ticks.get() - ticks).cast_signed());
                self.world.ticks.set(ticks);
            }
            _ => {}
        }
    }
}

/// Runs an attack.
///
/// # Errors
///
/// The first step back.
///
/// # Panics
///
/// Without memory for a stack.
pub fn attack(attack: &Attack) -> Result<LeaseCounts, String> {
    let world = World::new(WIDTH_NS, attack.bound_ns, attack.stops, !attack.seed);
    match attack.faults {
        Faults::Stale => world.stale_ns.set(2_000),
        Faults::Slews => world.sample_every_ns.set(SAMPLE_EVERY_NS),
        _ => {}
    }
    world.is_os_below_lines.set(
        attack.bound_ns >= WIDTH_NS && !matches!(attack.faults, Faults::Slews | Faults::Pauses),
    );
    let mut rng = fastrand::Rng::with_seed(attack.seed);
    let actors = if attack.has_children {
        ACTORS
    } else {
        FIRST_CHILD
    };
    let mut run = Run::new(world, actors);
    for _ in 0..attack.steps {
        let next = run.step()?;
        run.inject(attack.faults, &mut rng);
        let delay_ns = delay(&mut rng, next, world.pending[next].get());
        run.ready_ns[next] = run.now_ns + delay_ns;
        if next != WRITER && delay_ns > LONG_NS && rng.bool() {
            // A reader just before the writer's next iteration is most likely to find a step back.
            let early_ns = rng.u64(..2_000);
            run.ready_ns[next] = run.ready_ns[WRITER]
                .saturating_sub(early_ns)
                .max(run.now_ns + 1);
        }
    }
    Ok(*world.counts.borrow())
}

/// The time until an actor makes its next step, `pending`, ns: usually a few ns, and sometimes up
/// to [`MAX_DELAY_NS`]. Long delays are more frequent before a writer's swap. The chances are a
/// choice, not a measurement.
fn delay(rng: &mut fastrand::Rng, actor: usize, pending: Pending) -> u64 {
    match rng.u32(..1_000) {
        0..=99 if actor == WRITER && pending == Pending::Swap => rng.u64(..MAX_DELAY_NS),
        0 => rng.u64(..MAX_DELAY_NS),
        1..=3 => rng.u64(..100_000_000),
        4..=9 => rng.u64(..2_000_000),
        10..=29 => rng.u64(..20_000),
        30..=99 if actor == WRITER => rng.u64(..50_000_000),
        _ => rng.u64(1..60),
    }
}

/// Serves a page for five leases, and then lets the kernel make `slews`, one after the other, while
/// no actor is late. Returns the events since the first slew.
///
/// # Errors
///
/// The first step back.
///
/// # Panics
///
/// Without memory for a stack.
pub fn run_slews(slews: &[Slew]) -> Result<LeaseCounts, String> {
    let world = World::new(WIDTH_NS, WIDTH_NS, Stops::NotBeforeTheSwap, 0);
    world.sample_every_ns.set(SAMPLE_EVERY_NS);
    let mut run = Run::new(world, 2);
    let before = [Slew {
        rate_ppb: 0,
        for_ns: 5 * WriterConfig::new().lease_ns + LATE_NS,
    }];
    for (number, slew) in before.iter().chain(slews).enumerate() {
        if number == before.len() {
            *world.counts.borrow_mut() = LeaseCounts::default();
        }
        world.rate_ppb.set(slew.rate_ppb);
        let end_ns = run.now_ns + slew.for_ns;
        while run.now_ns < end_ns {
            let readings = |counts: &LeaseCounts| counts.by_line + counts.by_os;
            let before = readings(&world.counts.borrow());
            let next = run.step()?;
            let wait_ns = match world.pending[next].get() {
                Pending::Sleep(ticks) => ticks.saturating_sub(world.ticks.get()),
                _ if readings(&world.counts.borrow()) != before => READ_EVERY_NS,
                _ => 0,
            };
            run.ready_ns[next] = run.now_ns + wait_ns.max(STEP_NS);
        }
    }
    Ok(*world.counts.borrow())
}
