//! The lines of the CPUs, which another thread than the one that made them may find, and which the
//! program switches off.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::gate::{Judged, NoLine};
use super::{check, made, spawn};
use crate::cell::StateCell;
use crate::gate::keeper::{GateKeeper, Lines, Stage};
use crate::shared::{AtomicFigures, Figures};

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

/// A status that shows a frequency shows no figure from before the first line.
#[test]
fn a_frequency_comes_with_the_other_figures() {
    check(None, &["none", "all"], |seen| {
        let figures = made(AtomicFigures::new());
        let line = Figures {
            frequency_hz: Some(1),
            max_drift_ppb: 2,
            interval_ns: 3,
            offset_ns: 4,
            ..figures.load()
        };
        let writer = spawn(&figures, move |figures| figures.store(&line));
        match figures.load() {
            found if found.frequency_hz.is_none() => seen.note("none"),
            found => {
                assert_eq!(found, line);
                seen.note("all");
            }
        }
        writer.join().unwrap();
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
        seen.note(format!("taken up: {}", gated.calibrate_cpus().is_some()));
        switch.join().unwrap();
        assert_eq!((gated.keeper.stage(), gated.serves()), (Stage::Disabled, (false, false)));
        assert_eq!(gated.calibrate_cpus(), None);
        gated.keeper.enable();
        assert_eq!(gated.calibrate_cpus(), Some(()));
    });
}
