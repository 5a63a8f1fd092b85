//! A kernel that slews its clock, under leases of the real length. Nobody is late.

use corosensei::CoroutineResult;
use tickline_page::lease::Config;

use super::attack::{SAMPLE_EVERY_NS, WIDTH_NS};
use super::{Pending, Script, Seen, Stops, WRITER, World, kill};

/// A rate of the OS clock, and for how long it has that.
#[derive(Debug, Clone, Copy)]
pub struct Slew {
    /// The kernel's correction, ppb.
    pub rate_ppb: i64,
    /// For how long, ns.
    pub for_ns: u64,
}

/// Time between two readings, ns.
const READ_EVERY_NS: u64 = 100_000;

/// The first slew begins this long after a step of the writer, ns: it is noticed as late as can be.
const LATE_NS: u64 = 1_000_000;

/// What a step of an actor takes, ns.
const STEP_NS: u64 = 10;

/// What becomes of a page that was served for five leases, and then meets `slews`, one after the other.
/// What was seen is that from their beginning on.
///
/// # Errors
///
/// The first step back.
///
/// # Panics
///
/// Without memory for a stack.
pub fn slewed(slews: &[Slew]) -> Result<Seen, String> {
    let world = World::new(WIDTH_NS, WIDTH_NS, Stops::BeforeTheLook, 0);
    world.off_ns.set(0);
    world.sample_every_ns.set(SAMPLE_EVERY_NS);
    let mut scripts: [Option<Script>; 2] =
        [Some(world.writer(Config::DEFAULT, u32::MAX)), Some(world.reader(1, u32::MAX, None))];
    // Nobody looks while a page is opened for the first time.
    let before = [Slew { rate_ppb: 0, for_ns: 5 * Config::DEFAULT.lease_ns + LATE_NS }];
    let mut read_ticks = world.ticks.get();
    for (number, slew) in before.iter().chain(slews).enumerate() {
        if number == before.len() {
            world.seen.set(Seen::default());
        }
        world.rate_ppb.set(slew.rate_ppb);
        let end_ticks = world.ticks.get() + slew.for_ns;
        while world.ticks.get() < end_ticks {
            let now_ticks = world.ticks.get();
            let writer_ticks = match world.pending[WRITER].get() {
                Pending::Sleep(ticks) => ticks,
                _ => now_ticks,
            };
            let next = usize::from(read_ticks < writer_ticks);
            world.pass(writer_ticks.min(read_ticks).saturating_sub(now_ticks).max(STEP_NS));
            let readings = |seen: Seen| seen.by_line + seen.by_os;
            let before = readings(world.seen.get());
            let script = scripts[next].as_mut().expect("it goes on");
            if let CoroutineResult::Return(()) = script.resume(()) {
                return Err("an actor has ended".to_owned());
            }
            if next != WRITER {
                let is_complete = readings(world.seen.get()) != before;
                read_ticks = world.ticks.get() + if is_complete { READ_EVERY_NS } else { STEP_NS };
            }
            if let Some(violation) = world.violation.borrow_mut().take() {
                return Err(violation);
            }
        }
    }
    scripts.iter_mut().for_each(kill);
    Ok(world.seen.get())
}
