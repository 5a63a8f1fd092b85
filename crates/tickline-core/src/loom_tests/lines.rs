//! The switch between a common line and one for each CPU: the clock's thread goes over to one of
//! them, while a reader runs an iteration of the common line, and the program switches the counter
//! off.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::gate::{Judged, NoLine};
use super::{Seen, check, spawn};
use crate::cell::StateCell;
use crate::control::Outcome;
use crate::gate::keeper::{GateKeeper, Lines, Stage};

/// Stands for the CPUs' lines; loom reports a thread that reads them without having seen them made.
#[derive(Clone)]
struct Table(Arc<(GateKeeper, UnsafeCell<u64>)>);

const CONTENT: u64 = 7;

/// A thread that finds lines for the CPUs finds them complete, even if another thread than the one
/// that made them has judged the gates.
#[test]
fn the_lines_are_made_before_they_are_found() {
    check(None, &["none", "common", "for each CPU"], |seen| {
        let table = Table(Arc::new((GateKeeper::new(), UnsafeCell::new(0))));
        drop(format!("{:?}", table.0.0));
        let maker = spawn(&table, |Table(table)| {
            // SAFETY: read by those who have seen the lines set; loom checks that.
            table.1.with_mut(|content| unsafe { *content = CONTENT });
            table.0.set_lines(Lines::PerCpu);
        });
        let noted = seen.clone();
        let reader = spawn(&table, move |Table(table)| match table.0.lines() {
            // SAFETY: not written any more; loom checks that.
            Some(Lines::PerCpu) => {
                assert_eq!(table.1.with(|content| unsafe { *content }), CONTENT);
                noted.note("for each CPU");
            }
            Some(Lines::Common) => noted.note("common"),
            None => noted.note("none"),
        });
        table.0.0.judge_if_due(|| 0, &NoLine, |_| Some(Ok(())));
        maker.join().unwrap();
        reader.join().unwrap();
    });
}

impl Judged {
    /// The clock's thread: goes over to the CPUs' lines.
    fn calibrate_cpus(&self) -> Option<()> {
        self.keeper.set_lines(Lines::PerCpu);
        self.admitted(|_, lines| {
            assert_eq!(lines, Lines::PerCpu, "nobody else sets them");
            // Nobody publishes a common line any more, and the last one has ended.
            let state = self.scene.clock.cell.load();
            assert!(!state.is_published(), "a common line beside those of the CPUs: {state:?}");
            Some(())
        })
    }

    /// Which of the two would serve a reading: at most one.
    fn serves(&self) -> (bool, bool) {
        let per_cpu = self.keeper.lines() == Some(Lines::PerCpu);
        let serves = (self.scene.clock.cell.load().is_published(), per_cpu);
        assert_ne!(serves, (true, true));
        serves
    }
}

fn note(seen: &Seen, what: &str, happened: bool) {
    seen.note(format!("{what}: {happened}"));
}

/// The thread goes over to the CPUs' lines while a reader publishes a common line.
#[test]
fn the_cpus_lines_are_taken_up_under_a_reader() {
    let wanted = ["taken up: true", "taken up: false", "published: true", "published: false"];
    check(Some(3), &wanted, |seen| {
        let gated = Judged::new();
        let noted = seen.clone();
        let reader = spawn(&gated, move |gated| note(&noted, "published", gated.serve().is_some()));
        note(seen, "taken up", gated.calibrate_cpus().is_some());
        reader.join().unwrap();
        gated.serves();
        assert_eq!(gated.calibrate_cpus(), Some(()));
        assert_eq!(gated.serves(), (false, true));
        assert_eq!(gated.serve(), None);
    });
}

/// A reader publishes a common line, and is the one that then judges for the CPUs' lines. The
/// thread that has set them may be stopped, or missing in a forked child.
#[test]
fn a_common_line_ends_before_the_cpus_lines_are_found() {
    check(Some(3), &["a common line when the others are set"], |seen| {
        let gated = Judged::new();
        let noted = seen.clone();
        let reader = spawn(&gated, move |gated| {
            gated.serve();
            let is_published = gated.scene.clock.cell.load().is_published();
            if is_published && gated.keeper.stage() == Stage::Unjudged {
                noted.note("a common line when the others are set");
            }
            gated.serve();
            gated.serves();
        });
        gated.keeper.set_lines(Lines::PerCpu);
        reader.join().unwrap();
        gated.serves();
    });
}

/// The thread goes back to the common line while a reader drives the clock, and publishes one.
#[test]
fn the_cpus_lines_are_given_up_under_a_reader() {
    check(Some(3), &["published: true", "published: false"], |seen| {
        let gated = Judged::new();
        gated.calibrate_cpus().expect("nobody else is here");
        let noted = seen.clone();
        let reader = spawn(&gated, move |gated| note(&noted, "published", gated.serve().is_some()));
        gated.keeper.set_lines(Lines::Common);
        reader.join().unwrap();
        assert!(!gated.serves().1);
        gated.scene.time.pass(13_000);
        let last = gated.serve().or_else(|| gated.serve());
        assert!(matches!(last, Some(Outcome::Published | Outcome::Recovered)), "{last:?}");
        assert_eq!(gated.serves(), (true, false));
    });
}

/// When `disable()` has returned nobody uses the CPUs' lines, though they were just being taken up.
#[test]
fn the_counter_is_switched_off_while_the_cpus_lines_are_taken_up() {
    check(Some(4), &["taken up: true", "taken up: false", "in use before"], |seen| {
        let gated = Judged::new();
        let noted = seen.clone();
        let switch = spawn(&gated, move |gated| {
            if gated.serves().1 {
                noted.note("in use before");
            }
            gated.keeper.disable(&gated.scene);
            assert_eq!(gated.serves(), (false, false));
        });
        note(seen, "taken up", gated.calibrate_cpus().is_some());
        switch.join().unwrap();
        assert_eq!((gated.keeper.stage(), gated.serves()), (Stage::Disabled, (false, false)));
        assert_eq!(gated.calibrate_cpus(), None);
        gated.keeper.enable();
        assert_eq!(gated.calibrate_cpus(), Some(()));
    });
}

/// Off and on while the CPUs' lines are taken up: they are in use in the end.
#[test]
fn the_counter_is_switched_off_and_on_while_the_cpus_lines_are_taken_up() {
    check(Some(3), &["on", "still off"], |seen| {
        let gated = Judged::new();
        let off = spawn(&gated, |gated| gated.keeper.disable(&gated.scene));
        let on = spawn(&gated, |gated| {
            if gated.keeper.stage() == Stage::Disabled {
                gated.keeper.enable();
            }
        });
        gated.calibrate_cpus();
        gated.calibrate_cpus();
        off.join().unwrap();
        on.join().unwrap();
        let in_use = gated.calibrate_cpus().is_some();
        seen.note(if in_use { "on" } else { "still off" });
        assert_eq!(in_use, gated.keeper.stage() != Stage::Disabled);
        assert_eq!(gated.serves(), (false, in_use));
    });
}
