//! Models for loom, which checks interleavings of a few threads over the cell, and every value that
//! the orderings let an atomic load return. The interleavings are those with at most 2 to 5
//! preemptions, or all: see [`check`]. With more, these models would take minutes.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p tickline-core --lib --release --target-dir target/loom
//! loom_tests`
//!
//! - `state`: the state of targets that have no atomic of 128 bits;
//! - `cell`: the cell and the lock, without time;
//! - `order`: the rules of order of `DESIGN.md`, with the real readers and the real control loop;
//! - `again`: states that recur, with the real readers;
//! - `keeper`: threads that switch the counter off and on, ask for a judgement, and judge;
//! - `lines`: the lines of the CPUs.
//!
//! In all but `state` an exact model of a 128-bit atomic holds a clock's state
//! (`state/modelled.rs`).
//!
//! # What loom can't see
//!
//! The models of leases, in `machine/tickline-page/src/lease/loom_tests.rs`, have the same limits:
//!
//! - a counter that the CPU reads early or late. A read of the modelled time sees all effects from
//!   before an earlier read returned, so fences, barriers, [`MEETING_MARGIN_NS`] and plain
//!   `read_ns` are not tested. For the same reason an ordering that only the counter needs could be
//!   weakened unnoticed (its comment says "No test sees");
//! - the machine code of a clock's state. `state/modelled.rs` has the documented orderings of the
//!   instructions. A test of `state` checks on hardware whether a processor splits a load;
//! - most of the executions with more preemptions than a model's `check` allows: 2 to 5, or any
//!   number where it says `None`;
//! - load buffering: relaxed loads that return later stores;
//! - `SeqCst`, which loom treats as `AcqRel` (its README, "Unsupported features"). No modelled
//!   access needs it. Three fences have it: the one in `counter/extended.rs` binds only the
//!   compiler, those in `lease/cell.rs` and `lease/use_stage.rs` are for reads of the counter and
//!   the OS clock (see the first item);
//! - the atomicity of an exchange: loom allows a plain store between an exchange and the store
//!   whose value it has read;
//! - every point at which a thread could be stopped between a load of an atomic and a swap of the
//!   same atomic. loom 0.7 compares a step only with the last step on its object, which is that
//!   load. So `gate::keeper` swaps without a load. `state/portable.rs` needs the load; there loom
//!   finds these points by the accesses to the pairs. In `lease/use_stage.rs` an exchange that
//!   fails stands for a later load;
//! - more than three threads; stalls of seconds and resets of the counter (the simulated steps of
//!   `testing.rs` have those); bursts of 32 brackets, which are 1 here; `fork`.

mod again;
mod cell;
mod harness;
mod keeper;
mod lines;
mod order;
mod state;

use std::sync::Arc;

use crate::cell::LineCell;
use crate::control::{Config, Control, Iteration, Outcome};
use crate::counter::Counter;
use crate::discipline::MEETING_MARGIN_NS;
use crate::gate::keeper::Decision;
use crate::reference::Reference;
use crate::shared::SharedClock;
use crate::shared::{Access, REPLACING_NS};
use crate::testing::{CONFIG, RESOLUTIONS};
use harness::{Coverage, Time, View, check, new_shared, spawn};

pub(crate) type Clock = SharedClock<LineCell>;

/// The time of a writer's read of the counter, ticks. A reader's read takes longer than
/// [`MEETING_MARGIN_NS`], and longer than the reader waits for a replacement. So the next read
/// distinguishes different lines, and no reader spins.
const WRITER_TICKS: u64 = 100;
const READER_TICKS: u64 = MEETING_MARGIN_NS + 2 * REPLACING_NS;

/// A clock and its time, which the threads of a model share.
#[derive(Clone)]
struct Scene {
    clock: Arc<Clock>,
    time: Arc<Time>,
}

impl Scene {
    /// A clock after iterations, of which the last one has the outcome `wanted`. Readings in
    /// between must not decrease.
    fn after(wanted: Outcome) -> (Self, Control) {
        let clock = new_shared(SharedClock::new(LineCell::new()));
        let time = new_shared(Time::new(1 << 40, 0));
        let config = Config {
            interval_ns: 1_000_000,
            ..CONFIG
        };
        let mut control = Control::new(RESOLUTIONS, config);
        let scene = Self { clock, time };
        let mut last = i64::MIN;
        for _ in 0..10 {
            let iteration = scene.iterate(&mut control);
            let now = reading(&scene.clock, &scene.time.view(10));
            assert!(now >= last, "{now} after {last}");
            last = now;
            if iteration.outcome == wanted {
                return (scene, control);
            }
            scene.time.pass(iteration.next_in_ns);
        }
        panic!("no iteration was {wanted:?}");
    }

    /// A clock whose line is 30 us ahead of the reference, so that the next one has half its slope.
    fn with_line() -> (Self, Control) {
        let (scene, control) = Self::after(Outcome::Published);
        scene.time.pass(20_000);
        scene.time.suspend(30_000);
        (scene, control)
    }

    /// A clock with a long line that is ahead of the reference by less than 1 % of its window, so
    /// that the reference still vouches for the line past the window.
    fn with_long_line() -> (Self, Control) {
        let (scene, mut control) = Self::after(Outcome::Published);
        for _ in 0..20 {
            let next_in_ns = scene.iterate(&mut control).next_in_ns;
            if next_in_ns >= control.config.interval_ns {
                scene.time.suspend(30_000);
                return (scene, control);
            }
            scene.time.pass(next_in_ns);
        }
        panic!("the lines do not grow");
    }

    /// A clock without a line, with enough samples for one: it was barred and unbarred, and the
    /// high-water mark's margin has passed.
    fn without_line() -> (Self, Control) {
        let (scene, control) = Self::after(Outcome::PublishedFirst);
        scene.bar();
        scene.unbar();
        scene.time.pass(13_000);
        (scene, control)
    }

    /// Runs an iteration of the writer.
    fn iterate(&self, control: &mut Control) -> Iteration {
        let view = self.time.view(WRITER_TICKS);
        control.iterate(&self.clock, &view, &view)
    }

    fn bar(&self) {
        let view = self.time.view(WRITER_TICKS);
        self.clock.bar(&view, &view);
    }

    fn unbar(&self) {
        let view = self.time.view(WRITER_TICKS);
        self.clock.unbar(&view, &view);
    }

    /// Calls `act` with access to the common line.
    fn with_access<T>(
        &self,
        act: impl FnOnce(&Access<'_, LineCell, View<'_>, View<'_>>) -> T,
    ) -> T {
        let view = self.time.view(WRITER_TICKS);
        act(&Access {
            shared: &self.clock,
            counter: &view,
            reference: &view,
        })
    }
}

/// Every gate is open. The models keep their samples, because no driver settles the judgement.
const OPEN: Decision = Decision::Open {
    resolutions: RESOLUTIONS,
    serves_unix_time: true,
};

/// An ordered reading, as the crate `tickline` makes it.
fn reading(clock: &Clock, view: &View<'_>) -> i64 {
    clock.readings().now_ordered_ns(view, view)
}
