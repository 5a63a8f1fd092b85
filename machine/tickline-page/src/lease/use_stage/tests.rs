//! Interleavings at exact steps: what happens between the two steps of a call that disables is
//! another thread's, or a signal handler's. The models in `lease/loom_tests.rs` have all of them.

use super::*;

/// Begins to disable the page.
fn begin(stage: &UseStage) -> Ending {
    stage.begin_disable().expect("a page that is not disabled")
}

fn disabled() -> UseStage {
    let stage = UseStage::new();
    stage.finish_disable(begin(&stage));
    stage
}

#[test]
fn a_page_is_disabled_once_a_call_has_returned() {
    let stage = UseStage::new();
    let ending = begin(&stage);
    assert!(stage.allows_page());
    stage.finish_disable(ending);
    assert!(!stage.allows_page());
}

#[test]
fn only_readings_of_a_page_that_ends_or_has_ended_raise_the_mark() {
    let stage = UseStage::new();
    assert!(!stage.must_raise());
    let ending = begin(&stage);
    assert!(stage.must_raise());
    stage.finish_disable(ending);
    assert!(stage.must_raise());
    stage.enable();
    assert!(!stage.must_raise());
}

/// Symptom: readings used the counter after a call of `disable` had returned, while another call
/// ran.
#[test]
fn another_call_does_not_use_a_page_that_is_disabled() {
    let stage = disabled();
    assert!(stage.begin_disable().is_none());
    assert!(!stage.allows_page());
}

#[test]
fn a_call_ends_what_a_stopped_or_interrupted_call_has_begun() {
    let stage = UseStage::new();
    let stopped = begin(&stage);
    stage.finish_disable(begin(&stage));
    assert!(!stage.allows_page());
    stage.finish_disable(stopped);
    assert!(!stage.allows_page());
}

/// Symptom: a reading stepped back by the page's lead, because the mark was older than the readings
/// after `enable`.
#[test]
fn a_call_does_not_disable_a_page_that_was_enabled_meanwhile() {
    let stage = UseStage::new();
    let ending = begin(&stage);
    stage.enable();
    stage.finish_disable(ending);
    assert!(stage.allows_page());
}

#[test]
fn a_call_does_not_end_what_a_later_call_has_begun_after_an_enable() {
    let stage = UseStage::new();
    let ending = begin(&stage);
    stage.enable();
    let later = begin(&stage);
    stage.finish_disable(ending);
    assert!(
        stage.allows_page(),
        "the later call has not raised the mark"
    );
    stage.finish_disable(later);
    assert!(!stage.allows_page());
}

#[test]
fn a_disabled_page_can_be_enabled() {
    let stage = disabled();
    stage.enable();
    assert!(stage.allows_page());
}

#[test]
fn enabling_an_enabled_page_changes_nothing() {
    let stage = UseStage::new();
    // ORDERING: Relaxed, because this test has one thread.
    let before = stage.0.load(Ordering::Relaxed);
    stage.enable();
    // ORDERING: Relaxed, because this test has one thread.
    assert_eq!(stage.0.load(Ordering::Relaxed), before);
}
