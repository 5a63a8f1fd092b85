//! Rule W5: a first line.

use super::*;

/// Until it is ahead of the OS clock by at most 10 us; the line begins there.
#[test]
fn rule_w5_a_first_line_waits_for_the_high_water() {
    let scene = Scene::published();
    let last = scene.last();
    scene.ticks.set(last.end_ticks);
    scene.does(Ended);
    // A suspend: the OS clock is 0.3 s behind.
    scene.os_jumps(-300_000_000);
    scene.restart();
    let behind_ns = last.end_ns() - scene.truth_ns();
    let step = scene.step();
    assert!(step.action == Waited && step.next_in_ns.abs_diff(behind_ns.unsigned_abs()) < 1_000, "{step:?}");
    assert_eq!(scene.now(), last.end_ns());
    scene.pass(step.next_in_ns - 5_000);
    scene.does(PublishedFirst);
    assert!(scene.now() >= last.end_ns());
    assert!(scene.last().lead_ns < super::super::AHEAD_NS + AHEAD_NS.end);
}

/// A counterexample to a first publication as soon as a limited high-water mark is within 10 us. A
/// reader that gives up in the first publication had the OS clock plus the lead. The line began
/// below that value.
#[test]
fn rule_w5_a_first_line_after_a_reset_waits_for_the_end_of_the_leases() {
    let scene = Scene::published_twice();
    let end_ns = scene.last().end_ns();
    scene.reset();
    scene.does(Ended);
    // One that has published nothing yet, so that it waits for nothing else.
    scene.restart();
    let mut before_ns = scene.now();
    loop {
        let left_ns = (end_ns - scene.truth_ns()).unsigned_abs();
        let step = scene.step();
        if step.action == PublishedFirst {
            break;
        }
        assert!(step.action == Waited && step.next_in_ns.abs_diff(left_ns.min(LEASE)) < 1_000, "{step:?}");
        before_ns = scene.now();
        scene.pass(step.next_in_ns);
    }
    assert!(before_ns <= scene.now() && scene.last().line.at(scene.ticks.get()) >= end_ns);
}

/// Symptom: readings an hour ahead, and then still for an hour: the estimate was from before a
/// suspend in which the counter ran on.
#[test]
fn rule_w5_a_first_line_is_not_by_an_estimate_from_before_a_suspend() {
    for act in [|scene: &Scene| scene.os_jumps(-3_600_000_000_000), Scene::reset] {
        let scene = Scene::without_line();
        let estimate = scene.estimate();
        act(scene);
        let step = scene.step_by(&estimate);
        assert_eq!(step.action, GaveUp);
        assert!(scene.ahead_ns().abs() < 100, "by the OS clock");
        scene.pass(step.next_in_ns);
        scene.does(PublishedFirst);
        assert!(AHEAD_NS.contains(&scene.ahead_ns()), "by a new estimate");
    }
}

#[test]
fn rule_w5_a_first_line_is_above_all_that_was_returned_before_it() {
    // The OS clock is above its bounds, and asking it takes 100 us after it was read.
    let scene = Scene::without_line();
    let estimate = scene.estimate();
    scene.os_jumps(100_000);
    let (asked, returned_ns) = (leak(Cell::new(0)), leak(Cell::new(0)));
    scene.on_step(move |at| match at {
        // A reader that began before the first publication has asked the OS...
        At::Os => asked.set(asked.get() + 1),
        // ...and the writer is stopped between its two looks at the counter, after the OS.
        At::Counter if asked.get() == 2 => {
            asked.set(3);
            scene.pass(100_000);
            returned_ns.set(scene.truth_ns());
        }
        _ => {}
    });
    assert_eq!(scene.step_by(&estimate).action, PublishedFirst);
    assert!(returned_ns.get() > 0);
    assert!(scene.now() >= returned_ns.get(), "as old as the reading of the OS was, by the largest rate");
}

/// Symptom: readers on a CPU whose counter is a microsecond behind took a first line for a reset,
/// and returned OS clock plus lead.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand attempts, without unsafe code")]
fn rule_w5_a_first_line_counts_where_the_counter_is_behind() {
    let scene = Scene::published();
    let now_ns = scene.now();
    for behind in [100, 1_000, 4_000] {
        scene.ticks.update(|ticks| ticks - behind);
        let reading = scene.read(&ProcessHighWater::new());
        assert_eq!(reading.source, PageSource::Line, "{behind} behind");
        assert!(now_ns - reading.ns <= behind.cast_signed(), "no further behind than its counter");
        assert!(reading.ns >= scene.truth_ns(), "nor below the OS clock");
        scene.pass(behind);
    }
    let lead_ns = scene.last().lead_ns;
    assert!(lead_ns <= AHEAD_NS.end, "the margin adds nothing to the lead: {lead_ns}");
    // A reader in the first publication whose counter is behind the writer's waits as well.
    let (scene, waited) = (Scene::without_line(), leak(Cell::new(0)));
    let wait = || {
        scene.ticks.update(|ticks| ticks - 4_000);
        let before_ticks = scene.ticks.get();
        scene.now();
        waited.set(scene.ticks.get() - before_ticks);
    };
    scene.once(|at| matches!(at, At::Swapped(word) if word.phase() == LeasePhase::FirstPublication), wait);
    scene.does(GaveUp);
    assert!(waited.get() > 900_000, "the reader took all its time, {}", waited.get());
}

/// What a first publication may take: half of W between its two looks.
#[test]
fn rule_w5_a_first_publication_that_takes_too_long_comes_to_nothing() {
    const LONG: u64 = WriterConfig::DEFAULT.wait_ns / 2 + 1;
    type Act = fn(&Scene);
    let acts: [(At, Act); 3] = [
        // The OS takes long.
        (At::Os, |scene| scene.pass(LONG)),
        // The counter is set back by so little that the estimate does not show it.
        (At::Os, |scene| {
            scene.ticks.update(|ticks| ticks - 100_000);
            scene.os_jumps(100_000);
        }),
        // The line takes long.
        (At::Fill, |scene| scene.pass(LONG)),
    ];
    for (number, (wanted, act)) in acts.into_iter().enumerate() {
        let scene = Scene::without_line();
        let mut asked = 0;
        scene.on_step(move |at| {
            asked += u32::from(at == At::Os);
            if asked == 2 && at == wanted {
                act(scene);
            }
        });
        let begin_ns = scene.truth_ns();
        assert_eq!(scene.step().action, GaveUp, "{number}");
        assert_eq!(scene.word().phase(), LeasePhase::NoLine);
        assert!(scene.now() >= begin_ns);
        scene.on_step(|_| {});
        // At most one a second.
        scene.does(Waited);
        scene.pass(WriterConfig::DEFAULT.pause_ns);
        scene.does(PublishedFirst);
    }
}

#[test]
fn rule_w5_first_publications_that_fail_are_tried_less_and_less_often() {
    let scene = Scene::without_line();
    scene.on_step(move |at| {
        if at == At::Counter && scene.word().phase() == LeasePhase::FirstPublication {
            scene.pass(WriterConfig::DEFAULT.wait_ns);
        }
    });
    let (end_ticks, mut failed) = (scene.ticks.get() + 80 * LEASE, 0);
    while scene.ticks.get() < end_ticks {
        let step = scene.step();
        failed += u32::from(step.action == GaveUp);
        scene.pass(step.next_in_ns);
    }
    assert!((4..=7).contains(&failed), "{failed} in 40 s");
}
