//! The switch between a common line and one for each CPU: the clock's thread enters or leaves the
//! mode, while a reader runs an iteration of the common line, and the program switches the
//! counter off.

use core::ptr::NonNull;
use std::sync::Arc;

use loom::cell::UnsafeCell;

use super::{Line, Scene, Seen, check, made, spawn};
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

/// A clock that may have lines for each CPU, which the threads of a model share.
#[derive(Clone)]
struct Switched {
    scene: Scene,
    keeper: Arc<Keeper>,
    mode: Arc<Mode<Table>>,
    control: Arc<TryLock<Control>>,
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

impl Switched {
    /// A clock with enough samples for a common line, and a table to be opened.
    fn new() -> Self {
        let (scene, control) = Scene::without_line();
        let mode = made(Mode::new());
        lend(&mode);
        Self { scene, keeper: made(Keeper::new()), mode, control: made(TryLock::new(control)) }
    }

    fn lines(&self) -> Lines<'_> {
        Lines(&self.mode, self.scene.line())
    }

    /// The holder of the clock's lock, if it is admitted, runs `action`.
    fn admitted<T>(&self, action: impl FnOnce(&mut Control) -> Option<T>) -> Option<T> {
        // SAFETY: one process, one token.
        let mut control = unsafe { self.control.try_lock(7) }?;
        let is_admitted = self.keeper.admit(true, || 0, &self.lines(), || Some(Conclusion::Open));
        if is_admitted { action(&mut control) } else { None }
    }

    /// A reader that drives the clock: publishes a common line, if that is the mode.
    fn serve(&self) -> Option<Iteration> {
        self.admitted(|control| {
            if self.mode.is_in_force() {
                return None;
            }
            self.scene.serve(control, &self.keeper)
        })
    }

    /// The clock's thread: opens the CPUs' lines.
    fn open_table(&self) -> Option<()> {
        if self.mode.set_in_force(true) {
            self.keeper.judge_again(&self.lines());
        }
        self.admitted(|_| {
            if !self.mode.open() {
                self.keeper.notice_closed();
                return None;
            }
            // Nobody publishes a common line any more, and the last one has ended.
            let state = self.scene.clock.cell.load();
            assert!(!state.is_published(), "a common line beside those of the CPUs: {state:?}");
            Some(())
        })
    }

    /// Which of the two would serve a reading: at most one.
    fn serves(&self) -> (bool, bool) {
        let serves = (self.scene.clock.cell.load().is_published(), self.mode.open_table().is_some());
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
        let gated = Switched::new();
        let noted = seen.clone();
        let reader = spawn(&gated, move |gated| note(&noted, "published", gated.serve().is_some()));
        note(seen, "opened", gated.open_table().is_some());
        reader.join().unwrap();
        gated.serves();
        assert_eq!(gated.open_table().or_else(|| gated.open_table()), Some(()));
        assert_eq!(gated.serves(), (false, true));
        assert_eq!(gated.serve(), None);
    });
}

/// The thread leaves the mode while a reader drives the clock, whose next line is a common one.
#[test]
fn the_mode_is_given_up_under_a_reader() {
    check(Some(3), &["published: false"], |seen| {
        let gated = Switched::new();
        gated.open_table().expect("nobody else is here");
        let noted = seen.clone();
        let reader = spawn(&gated, move |gated| note(&noted, "published", gated.serve().is_some()));
        assert!(gated.mode.set_in_force(false));
        gated.keeper.judge_again(&gated.lines());
        reader.join().unwrap();
        assert!(!gated.serves().1);
        gated.scene.time.pass(13_000);
        let last = gated.serve().or_else(|| gated.serve());
        assert!(matches!(last, Some(Iteration::Published | Iteration::Recovered)), "{last:?}");
        assert_eq!(gated.serves(), (true, false));
    });
}

/// When `disable()` has returned nobody finds the table, though it was just being opened.
#[test]
fn the_counter_is_switched_off_while_a_table_is_opened() {
    check(Some(4), &["opened: true", "opened: false", "open before"], |seen| {
        let gated = Switched::new();
        let noted = seen.clone();
        let switch = spawn(&gated, move |gated| {
            if gated.mode.open_table().is_some() {
                noted.note("open before");
            }
            gated.keeper.disable(&gated.lines());
            assert_eq!(gated.serves(), (false, false));
        });
        note(seen, "opened", gated.open_table().is_some());
        switch.join().unwrap();
        assert_eq!((gated.keeper.stage(), gated.serves()), (Stage::Disabled, (false, false)));
        assert_eq!(gated.open_table(), None);
        gated.keeper.enable();
        assert_eq!(gated.open_table(), Some(()));
    });
}

/// Off and on while a table is opened: it is open in the end.
#[test]
fn the_counter_is_switched_off_and_on_while_a_table_is_opened() {
    check(Some(3), &["late"], |seen| {
        let gated = Switched::new();
        let off = spawn(&gated, |gated| gated.keeper.disable(&gated.lines()));
        let on = spawn(&gated, |gated| {
            if gated.keeper.stage() == Stage::Disabled {
                gated.keeper.enable();
            }
        });
        gated.open_table();
        gated.open_table();
        off.join().unwrap();
        on.join().unwrap();
        if gated.keeper.stage() == Stage::Open && gated.mode.open_table().is_none() {
            seen.note("late");
        }
        let open = gated.open_table().or_else(|| gated.open_table()).is_some();
        assert_eq!(open, gated.keeper.stage() != Stage::Disabled);
        assert_eq!(gated.serves(), (false, open));
    });
}
