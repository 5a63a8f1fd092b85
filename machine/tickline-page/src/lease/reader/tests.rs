//! The rules of readers, R1 to R10. Each test attacks its rule at the weakest moment.
//! `tests/processes/` checks that a reading of any bytes ends; loom models check that none mixes
//! two lines.

use super::super::WriterAction::{Doubted, Ended, PublishedFirst, SetUnix, Waited};
use super::super::memory::{LeaseStore, SLOT_WORDS};
use super::super::testing::{AHEAD_NS, Op, Scene, UNIX_NS};
use super::super::{Basis, OsBounds};
use super::*;

/// A published page. Before each second load of the word up to the given number, the server
/// publishes the same lines with another Unix offset. Unix time then changes again by
/// `unknown_ns`, which the server does not know.
fn scene_of_changes(changes: u32, unknown_ns: i64) -> &'static Scene {
    let scene = Scene::published_twice();
    let change = move |number| {
        if number <= changes {
            scene.unix_jumps(1_000_000);
            scene.does(SetUnix);
            scene.unix_jumps(unknown_ns);
        }
    };
    scene.each(|op| op == Op::SecondLoad, change);
    scene
}

/// Lines count until the word has changed 64 times.
#[test]
fn rule_r1_a_reading_starts_again_until_the_word_has_changed_too_often() {
    for (changes, source) in [
        (1, PageSource::Line),
        (59, PageSource::Line),
        (u32::MAX, PageSource::Os),
    ] {
        let scene = scene_of_changes(changes, 0);
        assert_eq!(scene.source(), source, "{changes} words");
    }
}

#[test]
fn rule_r8_a_later_attempt_is_not_below_what_the_process_has_read() {
    let scene = scene_of_changes(1, 0);
    let process_high_water = ProcessHighWater::new();
    process_high_water.raise(scene.truth_ns() + 1_000_000);
    let expected = PageReading {
        ns: process_high_water.ns(),
        source: PageSource::Line,
    };
    assert_eq!(scene.read(&process_high_water), expected);
}

#[test]
fn rule_r9_a_later_attempt_is_not_below_the_kernels_coarse_time() {
    let scene = scene_of_changes(1, 20_000_000);
    scene.has_coarse.set(true);
    assert_eq!(Some(scene.read_unix().ns), (&scene).coarse_unix_ns());
}

/// A reader without a line reads an OS clock above its bounds. Meanwhile the first line begins.
#[test]
fn rule_r1_a_reading_of_the_os_counts_only_if_the_word_is_the_same() {
    let scene = Scene::without_line();
    let open = move || {
        scene.does(PublishedFirst);
        // The OS clock jumps to a microsecond above the line.
        scene.os_jumps(1_000);
    };
    scene.once(|op| op == Op::Os, open);
    let before_ns = scene.now();
    assert!(scene.now() >= before_ns);
}

/// The reading by only the first line; `None` where that line does not suffice.
fn by_first_line(scene: &'static Scene, process_high_water: &ProcessHighWater) -> Option<i64> {
    read_first_line(scene.cell(), &scene, process_high_water)
}

#[test]
fn rule_r2_each_line_counts_while_it_is_valid() {
    let scene = Scene::published_twice();
    let process_high_water = ProcessHighWater::new();
    scene.raise_second(1_000);
    let [first, second] = *scene.lines() else {
        panic!("two lines")
    };
    assert_eq!(first.end_ticks, second.line.start_ticks);
    for (ticks, line) in [
        (first.line.start_ticks, first),
        (first.end_ticks - 1, first),
        (first.end_ticks, second),
        (second.end_ticks - 1, second),
    ] {
        scene.counter_finds(ticks);
        let ns = line.line.ns_at(ticks);
        assert_eq!(
            scene.read(&process_high_water),
            PageReading {
                ns,
                source: PageSource::Line
            },
            "at {ticks}"
        );
        assert_eq!(
            by_first_line(scene, &process_high_water),
            (line == first).then_some(ns),
            "at {ticks}"
        );
    }
    for before in [1, 1 << 63] {
        scene.counter_finds(first.line.start_ticks.wrapping_sub(before));
        assert_eq!(
            by_first_line(scene, &process_high_water),
            None,
            "{before} before"
        );
    }
}

#[test]
fn rule_r3_past_the_leases_the_end_of_the_last_line_is_the_mark() {
    let scene = Scene::published_twice();
    let last = scene.last();
    scene.ticks.set(last.end_ticks - 11);
    let before_ns = scene.now();
    // The OS clock stood still, as in a suspend in which the counter runs on.
    scene.os_jumps(-400_000_000);
    let reading = scene.read(&ProcessHighWater::new());
    assert_eq!(
        reading,
        PageReading {
            ns: last.end_ns(),
            source: PageSource::Os
        }
    );
    assert!(reading.ns >= before_ns);
    scene.pass(500_000_000);
    assert!(
        scene.ahead_ns().abs() < 100,
        "the OS clock has passed the mark"
    );
}

#[test]
fn rule_r4_after_a_reset_readings_go_on_from_where_they_were() {
    let scene = Scene::published_twice();
    scene.pass(700_000);
    let (before_ns, end_ns) = (scene.now(), scene.last().end_ns());
    scene.reset();
    assert!(scene.now() >= before_ns);
    assert!(
        scene.ahead_ns() <= AHEAD_NS.end,
        "not the end of the leases, {end_ns}"
    );
    scene.os_jumps(end_ns - scene.truth_ns() - 30);
    assert_eq!(
        scene.now(),
        end_ns,
        "not above the last line's end by the lead alone"
    );
}

#[test]
fn rule_r5_in_doubt_a_reading_is_the_larger_of_line_and_os() {
    let scene = Scene::published_twice();
    scene.basis.set(Some(Basis::Doubt));
    scene.does(Doubted);
    // W6: the page stays doubted.
    scene.basis.set(Some(Basis::Nothing));
    scene.does(Waited);
    assert_eq!(by_first_line(scene, &ProcessHighWater::new()), None);
    assert!(scene.ahead_ns() >= 0, "the line is above the OS clock");
    scene.os_jumps(1_000_000);
    assert_eq!(scene.source(), PageSource::Os);
    assert!(scene.ahead_ns().abs() < 100);
    scene.os_jumps(-2_000_000);
    assert!(scene.ahead_ns() > 900_000, "the OS clock is below the line");
    // If the word changes after the read of the OS clock, the reader asks again.
    scene.once(|op| op == Op::SecondLoad, || scene.switch_off());
    assert!(scene.ahead_ns().abs() < 100);
}

/// Also W4: the end of the leases that have run out is the end mark.
#[test]
fn rule_r6_without_a_line_the_counter_is_not_touched() {
    let scene = Scene::published();
    let last = scene.last();
    scene.ticks.set(last.end_ticks);
    scene.does(Ended);
    assert_eq!(scene.word().phase(), LeasePhase::NoLine);
    scene.os_jumps(-5_000);
    scene.on_step(|op| assert_ne!(op, Op::Counter));
    assert_eq!(
        EndMark::load(scene.cell(), scene.word().first()),
        last.end_mark()
    );
    assert_eq!(scene.now(), last.end_ns());
    scene.switch_off();
    assert!(scene.ahead_ns().abs() < 100);
    assert_eq!(by_first_line(scene, &ProcessHighWater::new()), None);
}

/// Begins a first publication that never ends.
fn begin(scene: &Scene, deadline_in_ticks: i64, wait_ticks: u64) -> EndMark {
    let deadline_ticks = scene.ticks.get().wrapping_add_signed(deadline_in_ticks);
    let end_mark = EndMark {
        ns: scene.truth_ns(),
        lead_ns: i64::MAX,
        deadline_ticks,
        wait_ticks,
        ..EndMark::NONE
    };
    scene.put(LeasePhase::FirstPublication, &end_mark.to_words());
    end_mark
}

/// A writer is stopped in a first publication: readers wait for at most W, by several limits.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand attempts, without unsafe code")]
fn rule_r7_no_reader_waits_long_for_a_first_publication() {
    let waited = |scene: &'static Scene, deadline_in_ticks, wait_ticks| {
        let end_mark = begin(scene, deadline_in_ticks, wait_ticks);
        let (begin_ticks, reading) = (scene.ticks.get(), scene.read(&ProcessHighWater::new()));
        assert!(reading.source == PageSource::Os && reading.ns >= end_mark.ns);
        scene.ticks.get() - begin_ticks
    };
    const MS: i64 = 1_000_000;
    for (deadline_in_ticks, expected, why) in [
        (MS, 999_000..1_002_000, "until the deadline"),
        (-1, 0..100, "the deadline has passed"),
        (11 * MS, 0..100, "the counter was reset"),
    ] {
        let ticks = waited(Scene::off(), deadline_in_ticks, 1_000_000);
        assert!(expected.contains(&ticks), "{why}: {ticks}");
    }
    let scene = Scene::off();
    scene.counter_finds(1 << 40);
    waited(scene, MS, 1_000_000);
    assert_eq!(
        scene.counter_reads.get(),
        MAX_STILL_ATTEMPTS,
        "the counter stands still"
    );
    assert!(scene.pauses.get() <= 9, "{}", scene.pauses.get());
    // No writer makes a first publication this long.
    let scene = Scene::off();
    waited(scene, 1 << 60, 1 << 62);
    assert_eq!(
        (scene.counter_reads.get(), scene.pauses.get()),
        (MAX_ATTEMPTS, 11)
    );
}

/// A counterexample to one time limit for all first publications. A reader had waited for a first
/// publication that failed. In the next one the reader gave up at once, and the OS clock was above
/// the line that followed.
#[test]
#[cfg_attr(miri, ignore = "a hundred thousand attempts, without unsafe code")]
fn rule_r7_each_first_publication_has_its_own_time_limit() {
    let scene = Scene::off();
    begin(scene, 1_000_000, 1_000_000);
    let begin_ticks = scene.ticks.get();
    let mut begun = 1;
    scene.on_step(move |op| match op {
        Op::Counter => scene.pass(90),
        Op::FirstLoad if begun < 3 && scene.ticks.get() > begin_ticks + begun * 900_000 => {
            begun += 1;
            begin(scene, 1_000_000, 1_000_000);
        }
        _ => {}
    });
    assert_eq!(scene.source(), PageSource::Os);
    let waited = scene.ticks.get() - begin_ticks;
    assert!(
        (2_799_000..2_802_000).contains(&waited),
        "until the last deadline: {waited}"
    );
}

#[test]
fn rule_r8_a_process_is_never_below_its_readings_of_the_os_clock() {
    let scene = Scene::published();
    let process_high_water = ProcessHighWater::new();
    // The process has used the OS clock until now, which is above its bounds.
    scene.os_jumps(10_000);
    let os_ns = (&scene).monotonic_ns();
    process_high_water.raise(os_ns);
    assert!(scene.read(&process_high_water).ns >= os_ns);
    assert!(scene.now() < os_ns, "the line alone is below");
    // A reading past the leases raises the mark, too.
    let process_high_water = ProcessHighWater::new();
    let last = scene.last();
    scene.ticks.set(last.end_ticks);
    let fallback = scene.read(&process_high_water);
    assert_eq!(fallback.source, PageSource::Os);
    scene.ticks.set(last.end_ticks - 1_000);
    assert_eq!(
        scene.read(&process_high_water),
        PageReading {
            ns: fallback.ns,
            source: PageSource::Line
        }
    );
    assert_eq!(by_first_line(scene, &process_high_water), Some(fallback.ns));
    process_high_water.raise(0);
    assert_eq!(process_high_water.ns(), fallback.ns, "the mark never falls");
}

#[test]
fn rule_r9_unix_time_is_never_below_the_kernels_last_tick() {
    let scene = Scene::published();
    scene.has_coarse.set(true);
    scene.unix_jumps(20_000_000);
    let ns = (&scene).coarse_unix_ns().unwrap();
    assert_eq!(
        scene.read_unix(),
        PageReading {
            ns,
            source: PageSource::Line
        },
        "a maximum, not a condition"
    );
}

#[test]
fn rule_r10_unix_time_that_was_set_is_seen_before_the_writer_knows() {
    let scene = Scene::published();
    scene.has_coarse.set(true);
    for change_ns in [-3_600_000_000_000, 3_600_000_000_000] {
        scene.unix_ns.set(UNIX_NS + change_ns);
        let off_ns = scene.unix_ahead_ns();
        assert!(off_ns.abs() <= 4_000_000, "within a tick: {off_ns}");
    }
}

/// A line without a Unix offset gives only the monotonic time.
#[test]
fn a_line_without_a_unix_offset_leaves_unix_time_to_the_os() {
    let scene = Scene::published_twice();
    assert_eq!(
        scene
            .iterate_by(&OsBounds {
                unix_offset: None,
                ..scene.bounds()
            })
            .action,
        SetUnix
    );
    assert_eq!(
        (scene.read_unix().source, scene.source()),
        (PageSource::Os, PageSource::Line)
    );
}

#[test]
fn a_line_is_read_without_the_os() {
    let scene = Scene::published();
    scene.on_step(|op| assert_ne!(op, Op::Os));
    assert_eq!(scene.source(), PageSource::Line);
    assert!(AHEAD_NS.contains(&scene.ahead_ns()));
    assert!(AHEAD_NS.contains(&scene.unix_ahead_ns()));
}

/// The page is switched off while a reader loads a slot, and the slot gets other words.
#[test]
fn rule_r1_a_slot_that_changes_while_it_is_read_does_not_count() {
    let scene = Scene::published();
    let slot = scene.word().first();
    let change = move |number| {
        if number == 2 {
            scene.switch_off();
            scene.cell().fill(slot, &[u64::MAX / 3; SLOT_WORDS]);
        }
    };
    scene.each(|op| op == Op::Field, change);
    let reading = scene.read(&ProcessHighWater::new());
    assert_eq!(reading.source, PageSource::Os);
    assert!(reading.ns.abs_diff(scene.truth_ns()) < 100, "{reading:?}");
}

/// Past the leases, Unix time has an end mark, too.
#[test]
fn rule_r3_unix_time_is_ordered_at_the_end_of_a_lease() {
    let scene = Scene::published();
    scene.ticks.set(scene.last().end_ticks - 11);
    let before = scene.read_unix();
    let after = scene.read_unix();
    assert_eq!(
        (before.source, after.source),
        (PageSource::Line, PageSource::Os)
    );
    assert!(after.ns >= before.ns);
}

/// The mark does not hold back a clock that was set back, by 1 ms.
#[test]
fn rule_r3_unix_time_that_was_set_back_is_followed_past_the_leases() {
    let scene = Scene::published();
    scene.ticks.set(scene.last().end_ticks);
    scene.unix_jumps(-1_000_000);
    assert!(scene.unix_ahead_ns().abs() < 100);
}

/// A page whose content is nonsense may take a reader the time of a first publication, not longer.
#[test]
#[cfg_attr(miri, ignore = "a reading may wait for 500,000 reads of the counter")]
fn a_reading_of_any_content_ends_in_time() {
    let mut random = fastrand::Rng::with_seed(3);
    for _ in 0..300 {
        let scene = Scene::off();
        for slot in 0..8 {
            let words = core::array::from_fn(|_| random.u64(..));
            scene.cell().fill(SlotNumber::from_low_bits(slot), &words);
        }
        let word = LeaseWord::from_bits(random.u64(..));
        assert!(scene.cell().try_swap(LeaseWord::default(), word));
        let begin_ticks = scene.ticks.get();
        _ = (scene.now(), scene.read_unix());
        let took_ticks = scene.ticks.get() - begin_ticks;
        assert!(took_ticks < 5_000_000, "{took_ticks} for {word:?}");
    }
}

/// An operating system without a coarse clock.
struct WithoutCoarse;

impl Reference for WithoutCoarse {
    fn monotonic_ns(&self) -> i64 {
        1
    }
    fn unix_ns(&self) -> i64 {
        2
    }
}

impl ReaderOs for WithoutCoarse {
    fn pause(&self) {}
}

#[test]
fn a_system_has_no_coarse_unix_time_unless_it_says_so() {
    assert_eq!(WithoutCoarse.coarse_unix_ns(), None);
}

/// Which ticks a reader waits at, if its first publication has this deadline and longest wait.
fn waits_at(ticks: u64, deadline_ticks: u64, wait: &mut WaitForFirstLine) -> bool {
    let end_mark = EndMark {
        deadline_ticks,
        wait_ticks: 10,
        ..EndMark::NONE
    };
    wait.count_and_keep_waiting(LeaseWord::from_bits(2), ticks, &end_mark)
}

#[test]
fn rule_r7_a_reader_waits_before_the_deadline_by_at_most_the_longest_wait() {
    let waits = |ticks| {
        let mut wait = WaitForFirstLine::NEW;
        waits_at(ticks, 100, &mut wait)
    };
    assert_eq!(
        [89, 90, 99, 100, 101].map(waits),
        [false, true, true, false, false]
    );
}

#[test]
fn rule_r7_a_later_deadline_does_not_prolong_the_wait() {
    let mut wait = WaitForFirstLine::NEW;
    assert!(waits_at(90, 100, &mut wait));
    assert!(waits_at(100, 110, &mut wait), "the longest wait");
    assert!(!waits_at(101, 110, &mut wait));
}

#[test]
fn rule_r7_a_counter_that_stands_still_ends_the_wait() {
    let mut wait = WaitForFirstLine::NEW;
    for _ in 1..MAX_STILL_ATTEMPTS {
        assert!(waits_at(95, 100, &mut wait));
    }
    assert!(!waits_at(95, 100, &mut wait));
}

#[test]
fn rule_r7_an_attempt_at_another_tick_is_not_still() {
    let mut wait = WaitForFirstLine::NEW;
    for _ in 1..MAX_STILL_ATTEMPTS {
        waits_at(95, 100, &mut wait);
    }
    assert!(waits_at(96, 100, &mut wait));
    assert_eq!(wait.still_attempts, 1);
}

#[test]
fn rule_r7_the_number_of_attempts_is_limited() {
    let last = |attempts| {
        let mut wait = WaitForFirstLine {
            attempts,
            ..WaitForFirstLine::NEW
        };
        waits_at(95, 100, &mut wait)
    };
    assert!(last(MAX_ATTEMPTS - 2));
    assert!(!last(MAX_ATTEMPTS - 1));
}
