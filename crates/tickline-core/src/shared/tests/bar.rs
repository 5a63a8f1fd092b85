//! Tests of barring and unbarring a clock.

use super::*;

/// Rule 3: a thread that unbars a clock does not wait for a thread that was stopped while it barred
/// the clock.
#[test]
fn rule_3_a_clock_that_is_half_barred_can_be_unbarred() {
    let (_, clock, mut control) = steady_clock();
    clock.swap_to(LineState::barred);
    assert_eq!(clock.iterate(&mut control).outcome, Outcome::Barred);
    assert_eq!(
        clock.cell().load().phase(),
        Phase::NoLine,
        "the iteration leaves no replacement unfinished"
    );
    assert!(clock.cell().load().is_barred() && clock.unbar_clock());
    clock.make_steady(&mut control);

    clock.swap_to(LineState::barred);
    assert!(
        clock.unbar_clock(),
        "no other thread finishes the replacement"
    );
    assert!(!clock.cell().load().is_barred());
}

/// Rule 8: a thread bars the clock during a writer's iteration. The writer does not bring the line
/// back, neither by a replacement nor by a first publication.
#[test]
fn rule_8_a_late_writer_does_not_unbar_a_clock() {
    type Stop = fn(Step) -> bool;
    let stops: [(&str, Stop); 3] = [
        ("announcement", is_replacing),
        ("publication", is_publish),
        ("first publication", is_publish),
    ];
    for (name, stop) in stops {
        let (_, clock, mut control) = steady_clock();
        if name == "first publication" {
            clock.end_line();
        }
        let bar = move || clock.bar_clock();
        let (has_barred, _) = clock.interrupted(&mut control, stop, bar);
        assert!(has_barred && clock.by_line().is_none(), "{name}");
        let state = clock.cell().load();
        assert!(
            state.is_barred() && state.phase() == Phase::NoLine,
            "{name}"
        );
        assert_eq!(clock.iterate(&mut control).outcome, Outcome::Barred);
    }
}

#[test]
fn to_bar_says_whether_the_clock_was_open() {
    let (_, clock, _) = steady_clock();
    assert_eq!([(); 2].map(|()| clock.bar_clock()), [true, false]);
}

#[test]
fn to_unbar_says_whether_the_clock_was_barred() {
    let (_, clock, _) = steady_clock();
    assert!(!clock.unbar_clock());
    clock.bar_clock();
    assert_eq!([(); 2].map(|()| clock.unbar_clock()), [true, false]);
}

#[test]
fn only_a_change_of_the_bar_is_an_event() {
    let (_, clock, _) = steady_clock();
    clock.unbar_clock();
    for _ in 0..2 {
        clock.bar_clock();
    }
    for _ in 0..2 {
        clock.unbar_clock();
    }
    let readings = clock.readings();
    let counts = [Event::GateClosed, Event::GateOpened].map(|event| readings.event_count(event));
    assert_eq!(counts, [1, 1]);
}
