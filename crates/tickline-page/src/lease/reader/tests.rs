//! The rules of readers, R1 to R10, each broken at its weakest moment.

use super::super::testing::{At, Scene, UNIX_NS, WIDTH_NS};
use super::super::{Closing, Config, Did, Estimate, LeaseStore, SLOT_WORDS, Writer};
use super::*;

/// What a line may be above the OS clock, ns.
const MOST_AHEAD_NS: i64 = 4 * WIDTH_NS;

#[test]
fn a_line_is_read_without_the_os() {
    let (scene, _) = Scene::live();
    scene.on_step(|at| assert_ne!(at, At::Os));
    let reading = scene.read(&PrivateFloor::new());
    assert_eq!(reading.source, Source::Line);
    assert!((0..MOST_AHEAD_NS).contains(&(reading.ns - scene.truth_ns())), "{reading:?}");
    assert!((0..MOST_AHEAD_NS).contains(&(scene.unix() - scene.truth_ns() - UNIX_NS)));
}

/// The slots change while they are read: what was read does not count.
#[test]
fn rule_r1_a_reading_counts_only_if_the_word_is_the_same() {
    let (scene, mut writer) = Scene::live();
    let mut fields = 0;
    scene.on_step(move |at| {
        fields += u32::from(at == At::Field);
        if fields == 2 && at == At::Field {
            // The line was taken over, and its slot holds something else now.
            let slot = writer.word().first();
            writer.switch_off(&scene.memory).unwrap();
            scene.memory.fill(slot, &[u64::MAX / 3; SLOT_WORDS]);
        }
    });
    let reading = scene.read(&PrivateFloor::new());
    assert_eq!(reading.source, Source::Os);
    assert!(reading.ns.abs_diff(scene.truth_ns()) < 100, "{reading:?}");
}

/// The second try of a reading keeps the rules of the first: R1, R8, R9 after a word that changed.
#[test]
fn rule_r1_the_second_try_has_the_rules_of_the_first() {
    // The word changes at the first try, and names the same lines with another Unix offset.
    let changed = |coarse: bool| {
        let (scene, mut writer) = Scene::live_twice();
        scene.has_coarse.set(coarse);
        scene.unix_ns.set(UNIX_NS + 1_000_000);
        let set = move || {
            assert_eq!(scene.step(&mut writer).did, Did::SetUnix);
            // Once more, which the writer does not know yet.
            scene.unix_ns.set(UNIX_NS + 21_000_000);
        };
        scene.once(|at| at == At::SecondLook, set);
        scene
    };
    let scene = changed(false);
    let private = PrivateFloor::new();
    let floor_ns = scene.truth_ns() + 1_000_000;
    private.raise(floor_ns);
    assert_eq!(scene.read(&private), Reading { ns: floor_ns, source: Source::Line }, "R8");
    let scene = changed(true);
    assert_eq!(Some(scene.unix()), (&scene).coarse_realtime_ns(), "R9");
    // R1, twice.
    let (scene, mut writer) = Scene::live_twice();
    scene.unix_ns.set(UNIX_NS + 1_000_000);
    let mut seconds = 0;
    scene.on_step(move |at| {
        seconds += u32::from(at == At::SecondLook);
        if at == At::SecondLook && seconds == 1 {
            assert_eq!(scene.step(&mut writer).did, Did::SetUnix);
        } else if at == At::SecondLook && seconds == 2 {
            writer.switch_off(&scene.memory).unwrap();
        }
    });
    assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Os, "R1");
    // A reading at the second of two changes is by a line still: 64 words, not one or two.
    let (scene, mut writer) = Scene::live_twice();
    let mut seconds = 0;
    scene.on_step(move |at| {
        seconds += u32::from(at == At::SecondLook);
        if at == At::SecondLook && seconds < 60 {
            scene.unix_ns.set(scene.unix_ns.get() + 1_000_000);
            assert_eq!(scene.step(&mut writer).did, Did::SetUnix);
        }
    });
    assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Line, "R1: 64 words");
    // Words that change without end are no lines.
    let (scene, mut writer) = Scene::live_twice();
    scene.on_step(move |at| {
        if at == At::SecondLook {
            scene.unix_ns.set(scene.unix_ns.get() + 1_000_000);
            assert_eq!(scene.step(&mut writer).did, Did::SetUnix);
        }
    });
    assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Os, "R1: no more words");
}

/// A reader without a line asks the OS, whose clock is above its bounds. Meanwhile a line begins.
#[test]
fn rule_r1_a_reading_of_the_os_counts_only_if_the_word_is_the_same() {
    let scene = Scene::new();
    let mut writer = Writer::start(scene, Config::DEFAULT).unwrap();
    let mut asked = 0;
    scene.on_step(move |at| {
        asked += u32::from(at == At::Os);
        if at == At::Os && asked == 1 {
            assert_eq!(scene.step(&mut writer).did, Did::Opened);
            // Now it jumps ahead of the line, by a microsecond.
            scene.os_ns.set(scene.os_ns.get() + 1_000);
        }
    });
    let before_ns = scene.now();
    assert!(scene.now() >= before_ns);
}

#[test]
fn rule_r2_each_line_counts_in_its_window() {
    let (scene, _) = Scene::live_twice();
    let word = scene.memory.word();
    let (first, second) = (
        LeaseLine::load(&scene.memory, word.first()),
        LeaseLine::load(&scene.memory, word.second().unwrap()),
    );
    assert_eq!(first.end_ticks, second.line.start_ticks);
    // Make them tell: the second is a microsecond above.
    let raised = LeaseLine {
        line: super::super::Line { base_ns: second.line.base_ns + 1_000, ..second.line },
        ..second
    };
    scene.memory.fill(word.second().unwrap(), &raised.to_words());
    for (ticks, line) in [
        (first.line.start_ticks, &first),
        (first.end_ticks - 1, &first),
        (first.end_ticks, &raised),
        (second.end_ticks - 1, &raised),
    ] {
        // Each read of the counter finds this tick.
        scene.on_step(move |at| {
            if at == At::Counter {
                scene.ticks.set(ticks - 10);
            }
        });
        let reading = scene.read(&PrivateFloor::new());
        assert_eq!((reading.ns, reading.source), (line.line.at(ticks), Source::Line), "at {ticks}");
    }
}

#[test]
fn rule_r3_past_the_leases_the_last_line_is_the_floor() {
    let (scene, _) = Scene::live_twice();
    let last = scene.last();
    scene.ticks.set(last.end_ticks - 11);
    let before_ns = scene.now();
    // The OS clock stood still meanwhile, as in a suspend in which the counter runs on.
    scene.os_ns.set(scene.os_ns.get() - 400_000_000);
    let reading = scene.read(&PrivateFloor::new());
    assert_eq!(reading, Reading { ns: last.end_ns(), source: Source::Os });
    assert!(reading.ns >= before_ns);
    scene.pass(500_000_000);
    assert!(scene.now().abs_diff(scene.truth_ns()) < 100, "the floor is passed");
}

#[test]
fn rule_r4_after_a_reset_readings_go_on_from_where_they_were() {
    let (scene, _) = Scene::live_twice();
    scene.pass(700_000);
    let before_ns = scene.now();
    let end_ns = scene.last().end_ns();
    scene.reset();
    let after_ns = scene.now();
    assert!(after_ns >= before_ns);
    assert!(after_ns - scene.truth_ns() <= MOST_AHEAD_NS, "not the end of the leases, {end_ns}");
    let floor_ns = scene.last().floor().ns;
    scene.os_ns.set(scene.os_ns.get() + (floor_ns - scene.truth_ns()) - 30);
    assert_eq!(scene.now(), floor_ns, "not above the last line's end by the lead alone");
}

#[test]
fn rule_r5_in_doubt_a_reading_is_the_larger_of_line_and_os() {
    let (scene, mut writer) = Scene::live_twice();
    writer.close(Closing::InDoubt);
    assert_eq!(scene.step(&mut writer).did, Did::Doubted);
    assert!(scene.now() >= scene.truth_ns(), "the line is above the OS clock");
    scene.os_ns.set(scene.os_ns.get() + 1_000_000);
    let reading = scene.read(&PrivateFloor::new());
    assert!(reading.source == Source::Os && reading.ns.abs_diff(scene.truth_ns()) < 100, "{reading:?}");
    scene.os_ns.set(scene.os_ns.get() - 2_000_000);
    assert!(scene.now() > scene.truth_ns() + 900_000, "the OS clock is below the line");
    // Asked, then the word changes: asked again.
    scene.once(|at| at == At::SecondLook, move || writer.switch_off(&scene.memory).unwrap());
    assert!(scene.now().abs_diff(scene.truth_ns()) < 100);
}

#[test]
fn rule_r6_without_a_line_the_counter_is_not_touched() {
    let (scene, mut writer) = Scene::live();
    let last = scene.last();
    scene.ticks.set(last.end_ticks);
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
    assert_eq!(writer.word().phase(), LeasePhase::Cold);
    scene.os_ns.set(scene.os_ns.get() - 5_000);
    scene.on_step(|at| assert_ne!(at, At::Counter));
    assert_eq!(scene.now(), last.end_ns());
    writer.switch_off(&scene.memory).unwrap();
    assert!(scene.now().abs_diff(scene.truth_ns()) < 100);
}

/// An opening whose writer was stopped: readers wait for W at most, by whichever limit is first.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand looks, without unsafe code")]
fn rule_r7_nobody_waits_long_for_an_opening() {
    let floor = |scene: &'static Scene, change: fn(&mut Floor)| {
        let ticks = scene.ticks.get();
        let mut floor = Floor {
            ns: scene.truth_ns(),
            lead_ns: i64::MAX,
            deadline_ticks: ticks + 1_000_000,
            wait_ticks: 1_000_000,
            ..Floor::NONE
        };
        change(&mut floor);
        let slot = super::super::SlotNumber::from_low_bits(0);
        scene.memory.fill(slot, &floor.to_words());
        let word = scene.memory.word();
        assert!(scene.memory.swap(word, word.next(LeasePhase::Opening, slot, None)));
        let begin_ticks = scene.ticks.get();
        let reading = scene.read(&PrivateFloor::new());
        assert!(reading.source == Source::Os && reading.ns >= floor.ns);
        scene.ticks.get() - begin_ticks
    };
    let waited = floor(Scene::new(), |_| {});
    assert!((999_000..1_002_000).contains(&waited), "until the deadline: {waited}");
    let waited = floor(Scene::new(), |floor| floor.deadline_ticks -= 1_000_001);
    assert!(waited < 100, "the deadline has passed: {waited}");
    let waited = floor(Scene::new(), |floor| floor.deadline_ticks += 10_000_000);
    assert!(waited < 100, "the counter was reset: {waited}");
    let scene = Scene::new();
    scene.on_step(move |at| {
        // The counter stands still.
        if at == At::Counter {
            scene.ticks.set((1 << 40) - 10);
        }
    });
    floor(scene, |_| {});
    assert_eq!(scene.counter_reads.get(), MAX_STILL_LOOKS);
    assert!(scene.pauses.get() <= 9, "{}", scene.pauses.get());
    // An opening of any length, which no writer makes, on a busy CPU.
    let scene = Scene::new();
    floor(scene, |floor| {
        (floor.deadline_ticks, floor.wait_ticks) = (floor.deadline_ticks + (1 << 60), 1 << 62);
    });
    assert_eq!((scene.counter_reads.get(), scene.pauses.get()), (MAX_LOOKS, 11));
}

/// A counterexample to one time limit for all openings: a reader that had waited for an opening that
/// came to nothing gave up at once in the next, and the OS clock was above the line that followed.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand looks, without unsafe code")]
fn rule_r7_each_opening_is_waited_for_by_itself() {
    let scene = Scene::new();
    let open = move || {
        let word = scene.memory.word();
        let (deadline_ticks, wait_ticks) = (scene.ticks.get() + 1_000_000, 1_000_000);
        let slot = super::super::SlotNumber::from_low_bits(word.generation());
        scene.memory.fill(slot, &Floor { deadline_ticks, wait_ticks, ..Floor::NONE }.to_words());
        assert!(scene.memory.swap(word, word.next(LeasePhase::Opening, slot, None)));
    };
    open();
    let (begin_ticks, mut openings) = (scene.ticks.get(), 1);
    scene.on_step(move |at| {
        if at == At::Counter {
            scene.pass(90);
        }
        if at == At::FirstLook && openings < 3 && scene.ticks.get() > begin_ticks + openings * 900_000 {
            openings += 1;
            open();
        }
    });
    assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Os);
    let waited = scene.ticks.get() - begin_ticks;
    assert!((2_799_000..2_802_000).contains(&waited), "until the last deadline: {waited}");
}

#[test]
fn rule_r8_a_process_is_never_below_what_it_had_from_the_os() {
    let (scene, _) = Scene::live();
    let private = PrivateFloor::new();
    // It has used the OS clock until now, which is above its bounds.
    scene.os_ns.set(scene.os_ns.get() + 10_000);
    let os_ns = (&scene).monotonic_ns();
    attach(&scene, &private);
    assert!(scene.read(&private).ns >= os_ns);
    assert!(scene.now() < os_ns, "the line alone is below");
    // Its own fallback.
    let (private, last) = (PrivateFloor::new(), scene.last());
    scene.ticks.set(last.end_ticks);
    let fallback = scene.read(&private);
    assert_eq!(fallback.source, Source::Os);
    scene.ticks.set(last.end_ticks - 1_000);
    assert_eq!(scene.read(&private), Reading { ns: fallback.ns, source: Source::Line });
    // A forked child has a copy.
    let child = PrivateFloor::new();
    child.raise(private.ns());
    assert_eq!(scene.read(&child).ns, fallback.ns);
    private.raise(0);
    assert_eq!(private.ns(), fallback.ns, "it never falls");
}

#[test]
fn rule_r9_unix_time_is_never_below_the_kernels_last_tick() {
    let (scene, _) = Scene::live();
    scene.has_coarse.set(true);
    scene.unix_ns.set(UNIX_NS + 20_000_000);
    let reading = read(scene, &scene, &scene, &PrivateFloor::new(), Timescale::Unix);
    assert_eq!(reading.source, Source::Line, "a maximum, not a condition");
    assert_eq!(Some(reading.ns), (&scene).coarse_realtime_ns());
}

/// What a reader at once has of the first line is what a reader with all means has of it; the rest is
/// left to that.
#[test]
fn the_first_line_alone_is_enough_in_its_window() {
    let (scene, mut writer) = Scene::live_twice();
    let at_once = |private| read_first_line(&scene.memory, &scene, private);
    let private = PrivateFloor::new();
    let first = LeaseLine::load(&scene.memory, scene.memory.word().first());
    for (ticks, is_enough) in [
        (first.line.start_ticks - 1, false),
        (first.line.start_ticks, true),
        (first.end_ticks - 1, true),
        (first.end_ticks, false),
        (first.line.start_ticks.wrapping_sub(1 << 63), false),
    ] {
        scene.ticks.set(ticks.wrapping_sub(10));
        let expected = is_enough.then(|| first.line.at(ticks));
        assert_eq!(at_once(&private), expected, "at {ticks}");
    }
    scene.ticks.set(first.line.start_ticks);
    let floor_ns = first.end_ns();
    private.raise(floor_ns);
    assert_eq!(at_once(&private), Some(floor_ns), "R8");
    // R5, and R6 for a page that is off.
    writer.close(Closing::InDoubt);
    assert_eq!(scene.step(&mut writer).did, Did::Doubted);
    assert_eq!(at_once(&private), None);
    writer.switch_off(&scene.memory).unwrap();
    scene.on_step(|at| assert_ne!(at, At::Counter));
    assert_eq!(at_once(&private), None);
}

#[test]
fn rule_r10_unix_time_that_was_set_is_seen_before_the_writer_knows() {
    let (scene, mut writer) = Scene::live();
    scene.has_coarse.set(true);
    for change_ns in [-3_600_000_000_000, 3_600_000_000_000] {
        scene.unix_ns.set(UNIX_NS + change_ns);
        let off_ns = scene.unix() - scene.truth_ns() - scene.unix_ns.get();
        assert!(off_ns.abs() <= 4_000_000, "within a tick: {off_ns}");
    }
    // By too little for that: once the writer has taken a sample.
    scene.unix_ns.set(UNIX_NS - 1_000_000);
    scene.has_coarse.set(false);
    assert_eq!(scene.step(&mut writer).did, Did::SetUnix);
    let off_ns = scene.unix() - scene.truth_ns() - scene.unix_ns.get();
    assert!((0..MOST_AHEAD_NS).contains(&off_ns), "{off_ns}");
}

/// Past the leases, Unix time has a floor too, unless the clock was set back.
#[test]
fn unix_time_is_ordered_at_the_end_of_a_lease() {
    let (scene, _) = Scene::live();
    let last = scene.last();
    scene.ticks.set(last.end_ticks - 11);
    let before_ns = scene.unix();
    assert!(scene.unix() >= before_ns);
    scene.unix_ns.set(UNIX_NS - 1_000_000);
    assert!(scene.unix().abs_diff(scene.truth_ns() + UNIX_NS - 1_000_000) < 100, "set back by 1 ms");
}

/// A line may leave Unix time to the OS.
#[test]
fn unix_time_by_the_os_is_that() {
    let (scene, mut writer) = Scene::live_twice();
    let estimate = Estimate { unix_ns: None, ..scene.estimate() };
    let step = writer.step(scene, &scene, &scene, Some(&estimate)).unwrap();
    assert_eq!(step.did, Did::SetUnix);
    let reading = read(scene, &scene, &scene, &PrivateFloor::new(), Timescale::Unix);
    assert_eq!(reading.source, Source::Os);
    assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Line);
}

/// Whatever the page holds, and however often it changes, a reading ends.
#[test]
fn any_page_is_read() {
    let scene = Scene::new();
    let mut bits = 3_u64;
    let mut next = move || {
        bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        bits ^ (bits >> 29)
    };
    for _ in 0..if cfg!(miri) { 10 } else { 300 } {
        for slot in 0..8 {
            scene
                .memory
                .fill(super::super::SlotNumber::from_low_bits(slot), &core::array::from_fn(|_| next()));
        }
        let word = LeaseWord::from_bits(next());
        assert!(scene.memory.swap(scene.memory.word(), word));
        // A page that is nonsense may take a reader 1 ms, not longer.
        let begin_ticks = scene.ticks.get();
        scene.now();
        scene.unix();
        assert!(scene.ticks.get() - begin_ticks < 5_000_000);
    }
    let scene = Scene::new();
    scene.on_step(move |at| {
        if at == At::SecondLook {
            let word = scene.memory.word();
            let slot = word.first();
            assert!(scene.memory.swap(word, word.next(LeasePhase::Cold, slot, None)));
        }
    });
    assert!(scene.now().abs_diff(scene.truth_ns()) < 10_000, "the word changed at each look");
}
