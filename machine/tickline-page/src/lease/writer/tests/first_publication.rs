//! Rule W5: a first line.

use super::*;

/// The writer waits until the mark is at most [`MAX_MARK_AHEAD_NS`] above the OS clock. The line
/// begins there.
#[test]
fn rule_w5_a_first_line_waits_for_the_end_mark() {
    let scene = Scene::published();
    let last = scene.last();
    scene.ticks.set(last.end_ticks);
    scene.does(Ended);
    // After a suspend, the OS clock is 0.3 s behind.
    scene.os_jumps(-300_000_000);
    scene.restart();
    let behind_ns = last.end_ns() - scene.truth_ns();
    let WriterIteration { action, next_in_ns } = scene.iterate();
    assert!(
        action == Waited && next_in_ns.abs_diff(behind_ns.unsigned_abs()) < 1_000,
        "{next_in_ns}"
    );
    assert_eq!(scene.now(), last.end_ns());
    scene.pass(next_in_ns - MAX_MARK_AHEAD_NS.unsigned_abs() / 2);
    scene.does(PublishedFirst);
    assert!(scene.now() >= last.end_ns());
    assert!(scene.last().lead_ns < MAX_MARK_AHEAD_NS + AHEAD_NS.end);
}

/// Whether a writer waits before a first line at the time 0, ns. The last first publication allows
/// the next one from `not_before_ns` on.
fn waits_before_first(mark_ns: i64, not_before_ns: i64) -> bool {
    let scene = Scene::without_line();
    let end_mark = EndMark {
        ns: mark_ns,
        lead_ns: 2 * MAX_MARK_AHEAD_NS,
        ..EndMark::NONE
    };
    scene.writer().not_before_ns = not_before_ns;
    scene.writer().wait_before_first(0, &end_mark).is_some()
}

#[test]
fn rule_w5_a_mark_that_is_just_as_far_ahead_as_it_may_be_delays_no_first_line() {
    assert!(!waits_before_first(MAX_MARK_AHEAD_NS, i64::MIN));
}

#[test]
fn rule_w5_a_mark_that_is_further_ahead_than_it_may_be_delays_a_first_line() {
    assert!(waits_before_first(MAX_MARK_AHEAD_NS + 1, i64::MIN));
}

#[test]
fn rule_w5_a_first_line_is_not_delayed_beyond_the_pause() {
    assert!(!waits_before_first(i64::MIN, 0));
}

/// A counterexample to a first publication while the lead limits the end mark. A reader that
/// gave up in the first publication returned OS clock + lead, and the line began below that value.
#[test]
fn rule_w5_a_first_line_after_a_reset_waits_for_the_end_of_the_leases() {
    let scene = Scene::published_twice();
    let end_ns = scene.last().end_ns();
    scene.reset();
    scene.does(Ended);
    // A new writer has made no first publication, so it waits only for the mark.
    scene.restart();
    let mut before_ns = scene.now();
    loop {
        let left_ns = (end_ns - scene.truth_ns()).unsigned_abs();
        let WriterIteration { action, next_in_ns } = scene.iterate();
        if action == PublishedFirst {
            break;
        }
        assert!(
            action == Waited && next_in_ns.abs_diff(left_ns.min(LEASE)) < 1_000,
            "{next_in_ns}"
        );
        before_ns = scene.now();
        scene.pass(next_in_ns);
    }
    assert!(before_ns <= scene.now() && scene.last().line.ns_at(scene.ticks.get()) >= end_ns);
}

/// Symptom: readings were an hour ahead, and then stood still for an hour. Cause: the bounds were
/// from before a suspend in which the counter ran on.
#[test]
fn rule_w5_a_first_line_does_not_use_bounds_from_before_a_suspend() {
    for act in [
        |scene: &Scene| scene.os_jumps(-3_600_000_000_000),
        Scene::reset,
    ] {
        let scene = Scene::without_line();
        let bounds = scene.bounds();
        act(scene);
        let WriterIteration { action, next_in_ns } = scene.iterate_by(&bounds);
        assert_eq!(action, GaveUp);
        assert!(
            scene.ahead_ns().abs() < 100,
            "the readings come from the OS clock"
        );
        scene.pass(next_in_ns);
        scene.does(PublishedFirst);
        assert!(
            AHEAD_NS.contains(&scene.ahead_ns()),
            "the line uses new bounds"
        );
    }
}

#[test]
fn rule_w5_a_first_line_is_above_all_that_was_returned_before_it() {
    // The OS clock is above its bounds, and the writer is stopped for 100 us after it has read it.
    let scene = Scene::without_line();
    let bounds = scene.bounds();
    scene.os_jumps(100_000);
    let (asked, returned_ns) = (leak(Cell::new(0)), leak(Cell::new(0)));
    scene.on_step(move |op| match op {
        // The writer reads the OS clock first before the first publication, then within it.
        Op::Os => asked.set(asked.get() + 1),
        // After the second read, the writer is stopped. Meanwhile a reader that began before the
        // first publication returns the OS clock.
        Op::Counter if asked.get() == 2 => {
            asked.set(3);
            scene.pass(100_000);
            returned_ns.set(scene.truth_ns());
        }
        _ => {}
    });
    assert_eq!(scene.iterate_by(&bounds).action, PublishedFirst);
    assert!(returned_ns.get() > 0);
    assert!(
        scene.now() >= returned_ns.get(),
        "the line allows for the age of the writer's read"
    );
}

/// Symptom: readers on a CPU whose counter is a microsecond behind took a first line for a reset,
/// and returned OS clock plus lead.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand attempts, without unsafe code")]
fn rule_w5_a_first_line_counts_where_the_counter_is_behind() {
    let scene = Scene::published();
    let now_ns = scene.now();
    // A little less than the difference that the promise allows.
    let most_behind = WriterConfig::new().cpu_difference_ns - 1_000;
    for behind in [100, 1_000, most_behind] {
        scene.ticks.update(|ticks| ticks - behind);
        let reading = scene.read(&ProcessHighWater::new());
        assert_eq!(reading.source, PageSource::Line, "{behind} behind");
        assert!(
            now_ns - reading.ns <= behind.cast_signed(),
            "no further behind than its counter"
        );
        assert!(reading.ns >= scene.truth_ns(), "nor below the OS clock");
        scene.pass(behind);
    }
    let lead_ns = scene.last().lead_ns;
    assert!(
        lead_ns <= AHEAD_NS.end,
        "the margin adds nothing to the lead: {lead_ns}"
    );
    // A reader whose counter is behind the writer's also waits in a first publication.
    let scene = Scene::without_line();
    let waited = leak(Cell::new(0));
    let wait = move || {
        scene.ticks.update(|ticks| ticks - most_behind);
        let before_ticks = scene.ticks.get();
        scene.now();
        waited.set(scene.ticks.get() - before_ticks);
    };
    scene.once(
        |op| matches!(op, Op::Swapped(word) if word.phase() == LeasePhase::FirstPublication),
        wait,
    );
    scene.does(GaveUp);
    assert!(
        waited.get() > 900_000,
        "the reader took all its time, {}",
        waited.get()
    );
}

/// A first publication may last for half of W, from its beginning to the read before the swap.
#[test]
fn rule_w5_a_first_publication_that_takes_too_long_fails() {
    const LONG: u64 = WriterConfig::new().first_publication_wait_ns / 2 + 1;
    type Act = fn(&Scene);
    let acts: [(Op, Act); 3] = [
        // The read of the OS clock takes long.
        (Op::Os, |scene| scene.pass(LONG)),
        // The counter is set back by so little that the bounds stay consistent.
        (Op::Os, |scene| {
            scene.ticks.update(|ticks| ticks - 100_000);
            scene.os_jumps(100_000);
        }),
        // The store of the line takes long.
        (Op::Fill, |scene| scene.pass(LONG)),
    ];
    for (number, (wanted, act)) in acts.into_iter().enumerate() {
        let scene = Scene::without_line();
        let mut asked = 0;
        scene.on_step(move |op| {
            asked += u32::from(op == Op::Os);
            if asked == 2 && op == wanted {
                act(scene);
            }
        });
        let begin_ns = scene.truth_ns();
        assert_eq!(scene.iterate().action, GaveUp, "{number}");
        assert_eq!(scene.word().phase(), LeasePhase::NoLine);
        assert!(scene.now() >= begin_ns);
        scene.on_step(|_| {});
        // A writer makes at most one first publication a second.
        scene.does(Waited);
        scene.pass(WriterConfig::new().first_publication_pause_ns);
        scene.does(PublishedFirst);
    }
}

#[test]
fn rule_w5_a_writer_tries_less_often_after_each_failed_first_publication() {
    let scene = Scene::without_line();
    scene.on_step(move |op| {
        if op == Op::Counter && scene.word().phase() == LeasePhase::FirstPublication {
            scene.pass(WriterConfig::new().first_publication_wait_ns);
        }
    });
    let end_ticks = scene.ticks.get() + 80 * LEASE;
    let mut failed = 0;
    while scene.ticks.get() < end_ticks {
        let WriterIteration { action, next_in_ns } = scene.iterate();
        failed += u32::from(action == GaveUp);
        scene.pass(next_in_ns);
    }
    assert!((4..=7).contains(&failed), "{failed} in 40 s");
}
