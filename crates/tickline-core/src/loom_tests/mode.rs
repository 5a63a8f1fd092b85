//! The switch between a common line and one for each CPU: the clock's thread enters or leaves the
//! mode, while a reader runs an iteration of the common line, and the program switches the
//! counter off.

use core::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::gate::{Line, TICKS};
use super::order::without_line;
use super::{Clock, Seen, Time, check, made, spawn};
use crate::cell::StateCell;
use crate::control::{Control, Iteration};
use crate::gate::keeper::{Conclusion, Gated, Keeper, Stage};
use crate::per_cpu::mode::Mode;
use crate::try_lock::TryLock;

/// Stands for the CPUs' lines; loom reports a thread that reads its content without having seen
/// it made.
struct Table(UnsafeCell<u64>);

// SAFETY: written before it is lent; loom checks that.
unsafe impl Sync for Table {}

impl core::fmt::Debug for Table {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Table")
    }
}

const CONTENT: u64 = 7;

fn lend(mode: &Mode<Table>) {
    let table = Box::leak(Box::new(Table(UnsafeCell::new(0))));
    // SAFETY: nobody else has it.
    table.0.with_mut(|content| unsafe { *content = CONTENT });
    // SAFETY: leaked.
    unsafe { mode.lend(NonNull::from(table)) }.expect("the only one");
}

fn content(table: &Table) -> u64 {
    // SAFETY: not written any more; loom checks that.
    table.0.with(|content| unsafe { *content })
}

/// A thread that finds a table finds it complete, whether it was just lent, or opened by another
/// thread than the one that made it.
#[test]
fn a_table_is_made_before_it_is_found() {
    check(None, &["none", "lent", "open", "closed again"], |seen| {
        let mode = made(Mode::<Table>::new());
        let noted = seen.clone();
        let maker = spawn(&mode, |mode| lend(mode));
        let reader = spawn(&mode, move |mode| {
            let lent = mode.table().map(content);
            let open = mode.open_table().map(content);
            assert!(lent.is_none_or(|content| content == CONTENT));
            assert!(open.is_none_or(|content| content == CONTENT));
            noted.note(match (lent, open) {
                (_, Some(_)) => "open",
                (Some(_), None) => "lent",
                (None, None) => "none",
            });
        });
        if mode.open() {
            mode.close();
            seen.note("closed again");
        }
        maker.join().unwrap();
        reader.join().unwrap();
    });
}

/// What the threads of a model share.
#[derive(Clone)]
struct Scene {
    keeper: Arc<Keeper>,
    mode: Arc<Mode<Table>>,
    clock: Arc<Clock>,
    control: Arc<TryLock<Control>>,
    time: Arc<Time>,
}

/// Both kinds of lines, behind one gate.
struct Lines<'a>(&'a Mode<Table>, Line<'a>);

impl Gated for Lines<'_> {
    fn close(&self) {
        self.0.gate();
        self.1.close();
    }

    fn open(&self) {
        self.0.ungate();
        self.1.open();
    }
}

impl Scene {
    /// A clock with enough samples for a common line, and a table to be opened.
    fn new() -> Self {
        let (clock, control, time) = without_line();
        let mode = made(Mode::new());
        lend(&mode);
        Self { keeper: made(Keeper::new()), mode, clock, control: made(TryLock::new(control)), time }
    }

    fn lines(&self) -> Lines<'_> {
        Lines(&self.mode, Line { clock: &self.clock, view: self.time.view(TICKS) })
    }

    /// The holder of the clock's lock, if it is admitted, runs `action`.
    fn admitted<T>(&self, action: impl FnOnce(&mut Control, &Lines<'_>) -> Option<T>) -> Option<T> {
        // SAFETY: one process, one token.
        let mut control = unsafe { self.control.try_lock(7) }?;
        let lines = self.lines();
        if self.keeper.admit(true, || 0, &lines, || Some(Conclusion::Open)) {
            action(&mut control, &lines)
        } else {
            None
        }
    }

    /// A reader that drives the clock: publishes a common line, if that is the mode.
    fn serve(&self) -> Option<Iteration> {
        self.admitted(|control, lines| {
            if self.mode.is_in_force() {
                return None;
            }
            let view = &lines.1.view;
            let iteration = control.maintain(&self.clock, view, view).iteration;
            if iteration == Iteration::GateClosed && self.keeper.notice_closed() {
                None
            } else {
                Some(iteration)
            }
        })
    }

    /// The clock's thread: opens the CPUs' lines.
    fn open_table(&self) -> Option<()> {
        if self.mode.set_in_force(true) {
            self.keeper.judge_again(&self.lines());
        }
        self.admitted(|_, _| {
            if !self.mode.open() {
                self.keeper.notice_closed();
                return None;
            }
            // Nobody publishes a common line any more, and the last one has ended.
            let state = self.clock.cell.load();
            assert!(!state.is_published(), "a common line beside those of the CPUs: {state:?}");
            Some(())
        })
    }

    /// Which of the two would serve a reading: at most one.
    fn serves(&self) -> (bool, bool) {
        let serves = (self.clock.cell.load().is_published(), self.mode.open_table().is_some());
        assert_ne!(serves, (true, true));
        serves
    }
}

fn note(seen: &Seen, what: &str, happened: bool) {
    seen.note(format!("{what}: {happened}"));
}

/// The thread enters the mode while a reader publishes a common line.
#[test]
fn the_mode_is_taken_up_under_a_reader() {
    let wanted = ["opened: true", "opened: false", "published: true", "published: false"];
    check(Some(3), &wanted, |seen| {
        let scene = Scene::new();
        let noted = seen.clone();
        let reader = spawn(&scene, move |scene| note(&noted, "published", scene.serve().is_some()));
        note(seen, "opened", scene.open_table().is_some());
        reader.join().unwrap();
        scene.serves();
        assert_eq!(scene.open_table().or_else(|| scene.open_table()), Some(()));
        assert_eq!(scene.serves(), (false, true));
        assert_eq!(scene.serve(), None);
    });
}

/// The thread leaves the mode while a reader drives the clock, whose next line is a common one.
#[test]
fn the_mode_is_given_up_under_a_reader() {
    check(Some(3), &["published: false"], |seen| {
        let scene = Scene::new();
        scene.open_table().expect("nobody else is here");
        let noted = seen.clone();
        let reader = spawn(&scene, move |scene| note(&noted, "published", scene.serve().is_some()));
        assert!(scene.mode.set_in_force(false));
        scene.keeper.judge_again(&scene.lines());
        reader.join().unwrap();
        assert!(!scene.serves().1);
        scene.time.pass(13_000);
        let last = scene.serve().or_else(|| scene.serve());
        assert!(matches!(last, Some(Iteration::Published | Iteration::Recovered)), "{last:?}");
        assert_eq!(scene.serves(), (true, false));
    });
}

/// When `disable()` has returned nobody finds the table, though it was just being opened.
#[test]
fn the_counter_is_switched_off_while_a_table_is_opened() {
    check(Some(4), &["opened: true", "opened: false", "open before"], |seen| {
        let scene = Scene::new();
        let noted = seen.clone();
        let switch = spawn(&scene, move |scene| {
            if scene.mode.open_table().is_some() {
                noted.note("open before");
            }
            scene.keeper.disable(&scene.lines());
            assert_eq!(scene.serves(), (false, false));
        });
        note(seen, "opened", scene.open_table().is_some());
        switch.join().unwrap();
        assert_eq!((scene.keeper.stage(), scene.serves()), (Stage::Disabled, (false, false)));
        assert_eq!(scene.open_table(), None);
        scene.keeper.enable();
        assert_eq!(scene.open_table(), Some(()));
    });
}

/// Off and on while a table is opened: it is open in the end.
#[test]
fn the_counter_is_switched_off_and_on_while_a_table_is_opened() {
    check(Some(3), &["late"], |seen| {
        let scene = Scene::new();
        let off = spawn(&scene, |scene| scene.keeper.disable(&scene.lines()));
        let on = spawn(&scene, |scene| {
            if scene.keeper.stage() == Stage::Disabled {
                scene.keeper.enable();
            }
        });
        scene.open_table();
        scene.open_table();
        off.join().unwrap();
        on.join().unwrap();
        if scene.keeper.stage() == Stage::Open && scene.mode.open_table().is_none() {
            seen.note("late");
        }
        let open = scene.open_table().or_else(|| scene.open_table()).is_some();
        assert_eq!(open, scene.keeper.stage() != Stage::Disabled);
        assert_eq!(scene.serves(), (false, open));
    });
}
