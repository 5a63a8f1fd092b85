//! A panic because of an argument has the place of the caller's call. The panic hook is the whole
//! process's, so these tests have a process of their own.

use std::cell::Cell;
use std::panic;
use std::sync::Once;

use tickline_tracing::histogram::{Histograms, Measure};

thread_local! {
    /// Whether this thread's last panic was in this file.
    static IS_HERE: Cell<Option<bool>> = const { Cell::new(None) };
}

/// Asserts that `call` panics, and that this file is the place.
fn assert_panics_here(call: impl FnOnce() + panic::UnwindSafe) {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let place = panic.location();
            IS_HERE.set(place.map(|place| place.file() == file!()));
            before(panic);
        }));
    });
    assert!(panic::catch_unwind(call).is_err());
    assert_eq!(IS_HERE.get(), Some(true));
}

#[test]
fn a_wrong_name_of_a_metric_panics_at_the_call() {
    assert_panics_here(|| _ = Histograms::new(Measure::Total).to_prometheus("1"));
}

#[test]
fn a_wrong_label_panics_at_the_call() {
    assert_panics_here(|| _ = Histograms::builder(Measure::Total).labels([""]));
}
