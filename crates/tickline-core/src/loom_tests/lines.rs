//! Models of the CPUs' lines: one thread makes them, another one finds them, and the program
//! switches the counter off meanwhile. A third model is of the figures that a status shows.

use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::keeper::{KeptClock, judge_without_line};
use super::{OPEN, check, new_shared, spawn};
use crate::cell::StateCell;
use crate::gate::keeper::{Keeper, LineKind, Stage};
use crate::shared::{AtomicFigures, LineFigures};

/// A keeper, and a cell in place of the CPUs' lines. Loom reports a thread that reads the cell
/// without synchronisation with its writer.
#[derive(Clone)]
struct Table(Arc<(Keeper, UnsafeCell<u64>)>);

const CONTENT: u64 = 7;

/// A thread that finds lines for the CPUs finds them complete, even if another thread than their
/// maker has judged the gates.
#[test]
fn the_lines_are_made_before_they_are_found() {
    check(None, &["none", "common", "for each CPU"], |seen| {
        let table = Table(Arc::new((Keeper::new(), UnsafeCell::new(0))));
        drop(format!("{:?}", table.0.0));
        let maker = spawn(&table, |Table(table)| {
            // SAFETY: other threads read the cell only after they have seen the lines set; loom
            // checks that.
            table.1.with_mut(|content| unsafe { *content = CONTENT });
            table.0.set_line_kind(LineKind::PerCpu);
        });
        let reader = spawn(&table, move |Table(table)| {
            match table.0.usable_line_kind() {
                // SAFETY: no thread writes the cell any more; loom checks that.
                Some(LineKind::PerCpu) => {
                    assert_eq!(table.1.with(|content| unsafe { *content }), CONTENT);
                    seen.saw("for each CPU");
                }
                Some(LineKind::Common) => seen.saw("common"),
                None => seen.saw("none"),
            }
        });
        judge_without_line(&table.0.0, || OPEN);
        maker.join().unwrap();
        reader.join().unwrap();
    });
}

/// A status that shows a frequency shows no figure from before the first line.
#[test]
fn a_frequency_comes_with_the_other_figures() {
    check(None, &["none", "all"], |seen| {
        let figures = new_shared(AtomicFigures::new());
        let line = LineFigures {
            frequency_hz: 1,
            max_drift_ppb: 2,
            interval_ns: 3,
            offset_ns: 4,
            is_disrupted: true,
        };
        let writer = spawn(&figures, move |figures| figures.store(&line));
        let found = figures.load().last_line;
        seen.saw(if found.is_none() { "none" } else { "all" });
        assert!(found.is_none() || found == Some(line));
        writer.join().unwrap();
    });
}

impl KeptClock {
    /// Changes to the CPUs' lines, as the clock's thread does.
    fn calibrate_cpus(&self) -> Option<()> {
        self.keeper.set_line_kind(LineKind::PerCpu);
        self.run_if_admitted(|_, kind| {
            assert_eq!(kind, LineKind::PerCpu, "no other thread sets them");
            // No thread publishes a common line any more, and the last one has ended.
            let state = self.scene.clock.cell().load();
            assert!(
                !state.is_published(),
                "a common line beside those of the CPUs: {state:?}"
            );
            Some(())
        })
    }

    /// Whether the common line and the CPUs' lines serve readings: at most one of the two may.
    fn serves(&self) -> (bool, bool) {
        let per_cpu = self.keeper.usable_line_kind() == Some(LineKind::PerCpu);
        let serves = (self.scene.clock.cell().load().is_published(), per_cpu);
        assert_ne!(serves, (true, true));
        serves
    }
}

/// After `disable()` has returned, no thread uses the CPUs' lines, although a change to them was
/// under way.
#[test]
fn no_thread_uses_the_cpus_lines_of_a_counter_that_is_switched_off() {
    check(
        Some(4),
        &["admitted: true", "admitted: false", "in use before"],
        |seen| {
            let judged = KeptClock::new();
            let switch = spawn(&judged, move |judged| {
                if judged.serves().1 {
                    seen.saw("in use before");
                }
                judged.disable();
                assert_eq!(judged.serves(), (false, false));
            });
            seen.saw(format!("admitted: {}", judged.calibrate_cpus().is_some()));
            switch.join().unwrap();
            assert_eq!(
                (judged.keeper.stage(), judged.serves()),
                (Stage::Disabled, (false, false))
            );
            assert_eq!(judged.calibrate_cpus(), None);
            judged.keeper.enable();
            assert_eq!(judged.calibrate_cpus(), Some(()));
        },
    );
}
