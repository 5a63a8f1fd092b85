//! Rule W5: a first line.

use super::*;

#[test]
fn rule_w5_a_first_line_waits_for_the_floor() {
    let (scene, mut writer) = Scene::live();
    let last = scene.last();
    scene.ticks.set(last.end_ticks);
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
    // A suspend: the OS clock is 0.3 s behind.
    scene.os_ns.set(scene.os_ns.get() - 300_000_000);
    let mut writer = new_writer(scene);
    let behind_ns = last.end_ns() - scene.truth_ns();
    let step = scene.step(&mut writer);
    assert_eq!(step.did, Did::Waited);
    assert!(step.next_in_ns.abs_diff(behind_ns.unsigned_abs()) < 1_000);
    assert_eq!(scene.now(), last.end_ns());
    scene.pass(step.next_in_ns);
    assert_eq!(scene.step(&mut writer).did, Did::Opened);
    assert!(scene.last().lead_ns < AHEAD_NS + 4 * WIDTH_NS);
}

/// A counterexample to an opening as soon as a limited floor is within 10 us: a reader that gives up
/// in the opening had the OS clock plus the lead, and the line began below that.
#[test]
fn rule_w5_a_first_line_after_a_reset_waits_for_the_end_of_the_leases() {
    let (scene, mut writer) = Scene::live_twice();
    let end_ns = scene.last().end_ns();
    scene.reset();
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
    // One that has opened nothing yet, so that it waits for nothing else.
    let mut writer = new_writer(scene);
    let mut before_ns = scene.now();
    loop {
        let left_ns = (end_ns - scene.truth_ns()).unsigned_abs();
        let step = scene.step(&mut writer);
        if step.did == Did::Opened {
            break;
        }
        assert_eq!(step.did, Did::Waited);
        assert!(step.next_in_ns.abs_diff(left_ns.min(LEASE)) < 1_000);
        before_ns = scene.now();
        scene.pass(step.next_in_ns);
    }
    assert!(before_ns <= scene.now() && scene.last().line.at(scene.ticks.get()) >= end_ns);
}

/// Symptom: readings an hour ahead, and then still for an hour: the estimate was from before a
/// suspend in which the counter ran on.
#[test]
fn rule_w5_a_first_line_is_not_by_an_estimate_from_before_a_suspend() {
    for (suspended_ns, is_reset) in [(3_600 * 1_000_000_000, false), (0, true)] {
        let scene = Scene::new();
        let mut writer = new_writer(scene);
        let estimate = scene.estimate();
        scene.os_ns.set(scene.os_ns.get() - suspended_ns);
        if is_reset {
            scene.reset();
        }
        let step = writer.step(scene, &scene, &scene, Some(&estimate)).unwrap();
        assert_eq!(step.did, Did::GaveUp, "{suspended_ns}");
        let truth_ns = scene.truth_ns();
        assert!((0..1_000).contains(&(scene.now() - truth_ns)), "by the OS clock");
        scene.pass(step.next_in_ns);
        assert_eq!(scene.step(&mut writer).did, Did::Opened, "by a new estimate");
        assert!((0..4 * WIDTH_NS).contains(&(scene.now() - scene.truth_ns())));
    }
}

#[test]
fn rule_w5_a_first_line_is_above_whatever_was_returned_before_it() {
    // The OS clock is above its bounds, and asking it takes 100 us after it was read.
    let scene = Scene::new();
    let mut writer = new_writer(scene);
    let estimate = scene.estimate();
    scene.os_ns.set(scene.os_ns.get() + 100_000);
    let asked = leak(core::cell::Cell::new(0));
    let returned_ns = leak(core::cell::Cell::new(0));
    scene.on_step(move |at| match at {
        // A reader that began before the opening has asked the OS...
        At::Os => asked.set(asked.get() + 1),
        // ...and the writer is stopped between its two looks at the counter, after the OS.
        At::Counter if asked.get() == 2 => {
            asked.set(3);
            scene.pass(100_000);
            returned_ns.set(scene.truth_ns());
        }
        _ => {}
    });
    assert_eq!(writer.step(scene, &scene, &scene, Some(&estimate)).unwrap().did, Did::Opened);
    assert!(returned_ns.get() > 0);
    assert!(scene.now() >= returned_ns.get(), "as old as the reading of the OS was, by the largest rate");
}

#[test]
fn rule_w5_a_first_line_is_not_below_the_floor() {
    let (scene, mut writer) = Scene::live();
    let last = scene.last();
    scene.ticks.set(last.end_ticks);
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
    scene.pass(1_000_000_000);
    scene.os_ns.set(scene.os_ns.get() - 1_000_005_000);
    let mut writer = new_writer(scene);
    let before_ns = scene.now();
    assert_eq!(before_ns, last.end_ns(), "still ahead, by 5 us");
    assert_eq!(scene.step(&mut writer).did, Did::Opened);
    assert!(scene.now() >= before_ns);
}

/// Symptom: readers on a CPU whose counter is a microsecond behind took a first line for a reset, and
/// returned OS clock plus lead.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand looks, without unsafe code")]
fn rule_w5_a_first_line_counts_where_the_counter_is_behind() {
    let (scene, _) = Scene::live();
    let line = scene.last();
    let now_ns = scene.now();
    for behind in [100, 1_000, 4_000] {
        scene.ticks.set(scene.ticks.get() - behind);
        let reading = scene.read(&PrivateFloor::new());
        assert_eq!(reading.source, Source::Line, "{behind} behind");
        assert!(now_ns - reading.ns <= behind.cast_signed(), "no further behind than its counter");
        assert!(reading.ns >= scene.truth_ns(), "nor below the OS clock");
        scene.pass(behind);
    }
    assert!(line.lead_ns <= 4 * WIDTH_NS, "the margin adds nothing to the lead: {}", line.lead_ns);
    // A reader in the opening whose counter is behind the writer's waits as well.
    let scene = Scene::new();
    let mut writer = new_writer(scene);
    let waited = leak(core::cell::Cell::new(0));
    scene.once(
        |at| matches!(at, At::Swapped(word) if word.phase() == LeasePhase::Opening),
        move || {
            scene.ticks.set(scene.ticks.get() - 4_000);
            let before_ticks = scene.ticks.get();
            scene.now();
            waited.set(scene.ticks.get() - before_ticks);
        },
    );
    assert_eq!(scene.step(&mut writer).did, Did::GaveUp, "the reader took all its time");
    assert!(waited.get() > 900_000, "{}", waited.get());
}

/// What an opening may take: half of W between its two looks.
#[test]
fn rule_w5_an_opening_that_takes_too_long_comes_to_nothing() {
    let wait = Config::DEFAULT.wait_ns;
    for act in [0, 1, 2] {
        let scene = Scene::new();
        let mut writer = new_writer(scene);
        let mut asked = 0;
        scene.on_step(move |at| {
            asked += u32::from(at == At::Os);
            match (act, at) {
                // The OS takes long.
                (0, At::Os) if asked == 2 => scene.pass(wait / 2 + 1),
                // The counter is set back by so little that the estimate does not show it.
                (1, At::Os) if asked == 2 => {
                    scene.ticks.set(scene.ticks.get() - 100_000);
                    scene.os_ns.set(scene.os_ns.get() + 100_000);
                }
                // The line takes long.
                (2, At::Fill) if asked == 2 => scene.pass(wait / 2 + 1),
                _ => {}
            }
        });
        let begin_ns = scene.truth_ns();
        let step = scene.step(&mut writer);
        assert_eq!(step.did, Did::GaveUp, "{act}");
        assert_eq!(phase(scene), LeasePhase::Cold);
        assert!(scene.now() >= begin_ns);
        scene.on_step(|_| {});
        assert_eq!(scene.step(&mut writer).did, Did::Waited, "at most one a second");
        scene.pass(Config::DEFAULT.pause_ns);
        assert_eq!(scene.step(&mut writer).did, Did::Opened);
    }
}

#[test]
fn rule_w5_openings_that_fail_are_tried_less_and_less_often() {
    let scene = Scene::new();
    let mut writer = new_writer(scene);
    scene.on_step(move |at| {
        if at == At::Counter && phase(scene) == LeasePhase::Opening {
            scene.pass(Config::DEFAULT.wait_ns);
        }
    });
    let did = run(scene, &mut writer, 40 * NS_PER_S);
    let failed = did.iter().filter(|did| **did == Did::GaveUp).count();
    assert!((4..=7).contains(&failed), "{failed} in 40 s");
}
