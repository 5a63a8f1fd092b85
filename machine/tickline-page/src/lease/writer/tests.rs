//! The rules of the writer, W1 to W10. A loom model has two writers at once. The simulator serves
//! pages for longer, also during long slews.

mod first_publication;

use core::cell::Cell;

use super::super::memory::UnixOffset;
use super::super::testing::{AHEAD_NS, Op, Scene, leak};
use super::super::{PageSource, ProcessHighWater};
use super::WriterAction::{Doubted, Ended, GaveUp, PublishedFirst, PublishedNext, SetUnix, Waited};
use super::*;

const LEASE: u64 = WriterConfig::new().lease_ns;

/// Symptom: with hpet, whose readings are up to 10 ns old, Unix time stepped back by more than the
/// lead when the leases ended.
#[test]
fn rule_w2_the_lead_is_above_what_the_os_clock_shows() {
    let lead_ns = |os_resolution_ns| {
        let scene = Scene::without_line();
        scene.writer().set_os_resolution_ns(os_resolution_ns);
        scene.does(PublishedFirst);
        let first = scene.last();
        scene.pass_until_current();
        scene.does(PublishedNext);
        [first.lead_ns, first.unix.lead_ns, scene.last().lead_ns]
    };
    for (coarse_ns, fine_ns) in lead_ns(280).into_iter().zip(lead_ns(1)) {
        // A line at the coarse resolution also starts one resolution higher.
        assert!(
            coarse_ns >= fine_ns + 279,
            "{coarse_ns} ns where it was {fine_ns}"
        );
    }
}

/// Runs iterations when they are due, for this time, and checks that readings don't step back.
/// Returns the actions.
fn run(scene: &'static Scene, for_ns: u64) -> Vec<WriterAction> {
    let end_ticks = scene.ticks.get() + for_ns;
    let mut actions = Vec::new();
    let mut last_ns = i64::MIN;
    while scene.ticks.get() < end_ticks {
        let WriterIteration { action, next_in_ns } = scene.iterate();
        actions.push(action);
        let now_ns = scene.now();
        assert!(
            now_ns >= last_ns,
            "{} ns back, {action:?}",
            last_ns - now_ns
        );
        last_ns = now_ns;
        scene.pass(next_in_ns.min(LEASE));
    }
    actions
}

#[test]
fn a_page_is_served_without_a_break() {
    let scene = Scene::without_line();
    let actions = run(scene, 20 * LEASE);
    assert_eq!(actions[0], PublishedFirst);
    let later = &actions[1..];
    assert!(
        later
            .iter()
            .all(|action| matches!(action, PublishedNext | Waited)),
        "{later:?}"
    );
    let successors = later.iter().filter(|action| **action == PublishedNext);
    assert!((19..=22).contains(&successors.count()), "{later:?}");
    assert_eq!(scene.source(), PageSource::Line);
    assert!(AHEAD_NS.contains(&scene.ahead_ns()));
}

/// A writer is stopped while it fills a slot. Meanwhile another writer takes the page over.
#[test]
fn rule_w1_a_second_writer_ends_the_first() {
    let scene = Scene::published();
    scene.pass_until_current();
    let mut first = scene.new_writer();
    let taken_over = leak(Cell::new(None));
    let take_over = move || {
        scene.os_jumps(1_000);
        scene.restart();
        scene.does(PublishedNext);
        taken_over.set(Some((scene.word(), scene.last())));
    };
    scene.once(|op| op == Op::Fill, take_over);
    let bounds = scene.bounds();
    let lost = scene.try_iterate(&mut first, &bounds);
    assert_eq!(lost, Err(PageChanged));
    let now = (scene.word(), scene.last());
    assert_eq!(
        taken_over.get(),
        Some(now),
        "nothing that it filled is in use"
    );
    let again = scene.try_iterate(&mut first, &scene.bounds());
    assert_eq!(again, Err(PageChanged));
}

/// Each slot that the word names stays as it is, through successors, takeovers and changes of Unix
/// time.
#[test]
fn rule_w1_no_slot_in_use_is_filled() {
    let scene = Scene::without_line();
    for round in 0..12 {
        let (word, before) = (scene.word(), scene.lines());
        scene.on_step(move |op| {
            if matches!(op, Op::Swap(_)) && scene.word() == word {
                assert_eq!(scene.lines(), before, "a slot in use has changed");
            }
        });
        if round % 3 == 2 {
            scene.restart();
        }
        if round % 4 == 3 {
            scene.unix_jumps(-1_000_000);
        }
        let next_in_ns = scene.iterate().next_in_ns;
        scene.pass(next_in_ns);
    }
    assert!(scene.word().generation() > 8);
}

#[test]
fn rule_w2_a_successor_is_not_below_the_line_before() {
    let scene = Scene::published();
    scene.pass_until_current();
    // The OS clock turns out to be a millisecond behind.
    scene.os_jumps(-1_000_000);
    scene.does(PublishedNext);
    let [first, second] = *scene.lines() else {
        panic!("two lines")
    };
    assert_eq!(second.line.start_ticks, first.end_ticks);
    assert!(second.line.ns_at(first.end_ticks) >= first.line.ns_at(first.end_ticks - 1));
    assert!(second.lead_ns >= 1_000_000);
}

/// Symptom: a machine slept again and again for less than its leases. Readings were ahead by the
/// sum of all sleeps, and Unix readings by twice the last sleep.
#[test]
#[cfg_attr(
    miri,
    ignore = "other tests reach the same code, in less than half a minute"
)]
fn rule_w2_sleeps_do_not_add_up() {
    let scene = Scene::published_twice();
    let mut most_ahead_ns = 0;
    let mut last_ns = 0;
    let mut last_unix_ns = 0;
    let mut doubted = 0;
    for _ in 0..40 {
        let end_ticks = scene.ticks.get() + 200_000_000;
        while scene.ticks.get() < end_ticks {
            let WriterIteration { action, next_in_ns } = scene.iterate();
            doubted += u32::from(action == Doubted);
            let (now_ns, unix_ns) = (scene.now(), scene.read_unix().ns);
            assert!(
                now_ns >= last_ns && unix_ns >= last_unix_ns,
                "{unix_ns} after {last_unix_ns}"
            );
            last_ns = now_ns;
            last_unix_ns = unix_ns;
            most_ahead_ns = most_ahead_ns.max(scene.ahead_ns());
            assert!(
                scene.unix_ahead_ns() < 20_000_000,
                "Unix time is {} ns ahead",
                scene.unix_ahead_ns()
            );
            scene.pass(next_in_ns.min(10_000_000));
        }
        // The counter and Unix time run on, the OS clock does not.
        scene.pass(300_000_000);
        scene.os_jumps(-300_000_000);
        scene.unix_jumps(300_000_000);
    }
    assert!(doubted > 5, "{doubted}");
    assert!(
        (200_000_000..=1_000_100_000).contains(&most_ahead_ns),
        "{most_ahead_ns}"
    );
}

#[test]
fn rule_w2_a_successor_comes_no_later_than_m_before_the_end() {
    let scene = Scene::published();
    let last = scene.last();
    let notice_ns = WriterConfig::new().renewal_notice_ns;
    scene.ticks.set(last.end_ticks - notice_ns);
    let WriterIteration { action, next_in_ns } = scene.iterate();
    assert!(
        action == Waited && next_in_ns > notice_ns / 2,
        "until the end: {action:?} {next_in_ns}"
    );
    // The writer is stopped between the decision and the read before the swap.
    scene.ticks.set(last.end_ticks - notice_ns - 10_000);
    scene.once(|op| op == Op::Fill, || scene.pass(10_000));
    scene.does(Waited);
    // The counter is reset between the two.
    scene.ticks.set(last.end_ticks - LEASE / 2);
    scene.once(|op| op == Op::Fill, || scene.reset());
    scene.does(Waited);
    assert_eq!(scene.last(), last);
    scene.does(Ended);
}

#[test]
fn rule_w2_a_successor_is_published_once_its_predecessor_is_current_everywhere() {
    let scene = Scene::published_twice();
    scene.ticks.set(scene.last().line.start_ticks + 1_000);
    // A reader whose counter is 1 us behind would take a successor now for a reset.
    scene.does(Waited);
    scene.pass(WriterConfig::new().cpu_difference_ns);
    scene.does(PublishedNext);
}

/// The rule holds for a successor and for a first line.
#[test]
fn rule_w3_after_a_late_swap_or_a_reset_the_line_is_doubted() {
    let acts: [fn(&Scene); 2] = [|scene| scene.pass(LEASE), Scene::reset];
    for (scene, act) in [Scene::published, Scene::without_line]
        .into_iter()
        .flat_map(|scene| acts.map(|act| (scene(), act)))
    {
        scene.pass_until_current();
        let is_line = |op| matches!(op, Op::Swap(word) if word.phase() == LeasePhase::Published);
        scene.once(is_line, move || act(scene));
        scene.does(Doubted);
        assert_eq!(scene.word().phase(), LeasePhase::Doubted);
        assert!(scene.ahead_ns() >= -100, "readers also ask the OS clock");
        assert!(
            matches!(scene.iterate().action, Waited | Ended),
            "no successor"
        );
    }
}

/// A counterexample to an end mark that the writer computes from its own read of the OS
/// clock. A reader reads the OS clock later than the writer, and returns the lead more.
#[test]
fn rule_w4_the_end_mark_after_a_reset_is_that_of_its_readers() {
    let scene = Scene::published_twice();
    let before_ns = scene.now();
    scene.reset();
    let meanwhile_ns = leak(Cell::new(0));
    let read = || {
        scene.pass(100);
        meanwhile_ns.set(scene.now());
    };
    scene.once(|op| matches!(op, Op::Swap(_)), read);
    scene.does(Ended);
    let readings = [before_ns, meanwhile_ns.get(), scene.now()];
    assert!(readings.is_sorted(), "{readings:?}");
    assert!(
        scene.ahead_ns() < AHEAD_NS.end,
        "the end of the leases is a second ahead"
    );
}

#[test]
fn rule_w6_a_closed_gate_lets_the_leases_run_out() {
    let scene = Scene::published_twice();
    let (word, last) = (scene.word(), scene.last());
    scene.basis.set(Some(Basis::Nothing));
    scene.ticks.set(last.line.start_ticks + 10_000);
    scene.does(Waited);
    assert_eq!((scene.word(), scene.source()), (word, PageSource::Line));
    scene.ticks.set(last.end_ticks);
    scene.does(Ended);
    scene.does(Waited);
    assert_eq!(scene.word().phase(), LeasePhase::NoLine);
    scene.pass(WriterConfig::new().first_publication_pause_ns);
    scene.basis.set(None);
    scene.does(PublishedFirst);
}

/// Also W6: a page is switched off at once. Symptom: systemd restarted a server, which published on
/// the page that had been switched off.
#[test]
fn rule_w7_a_page_that_was_switched_off_stays_so() {
    let scene = Scene::published_twice();
    scene.switch_off();
    assert_eq!(
        scene.try_iterate(&mut scene.writer(), &scene.bounds()),
        Err(PageChanged)
    );
    for _ in 0..2 {
        scene.restart();
        scene.does(Waited);
        assert!(scene.word().phase() == LeasePhase::Off && scene.word().stays_off());
        scene.on_step(|op| assert_ne!(op, Op::Counter));
        assert_eq!(scene.source(), PageSource::Os);
        scene.on_step(|_| {});
    }
    let word = scene.word();
    assert!(
        scene
            .cell()
            .try_swap(word, word.next(LeasePhase::Off, word.first(), None))
    );
    scene.restart();
    scene.does(PublishedFirst);
}

/// Symptom: two writers filled one bank. One writer had started, and was stopped before it filled a
/// slot. The other writer started from the same word.
#[test]
fn rule_w7_two_writers_that_start_from_one_word_have_two_banks() {
    let scene = Scene::published_twice();
    let before = scene.lines();
    let mut first = scene.new_writer();
    scene.restart();
    assert_eq!(scene.lines(), before, "the same state");
    let slots = |writer: &Writer| [writer.free_slots().0, writer.free_slots().1];
    let second = slots(&scene.writer());
    assert!(slots(&first).iter().all(|slot| !second.contains(slot)));
    scene.pass(LEASE);
    assert_eq!(
        scene.try_iterate(&mut first, &scene.bounds()),
        Err(PageChanged)
    );
    let before_ns = scene.now();
    scene.does(PublishedNext);
    assert!(
        scene.now() >= before_ns && scene.source() == PageSource::Line,
        "it goes on with the leases"
    );
    // The second writer starts between the first one's load of the word and its exchange.
    let mut is_first = true;
    scene.on_step(move |op| {
        assert_ne!(op, Op::Fill, "the loser fills no slot");
        if matches!(op, Op::Swap(_)) && core::mem::take(&mut is_first) {
            scene.restart();
        }
    });
    assert_eq!(
        Writer::start(scene, WriterConfig::new()).map(|_| ()),
        Err(PageChanged)
    );
}

/// The writer was dead for longer than the leases.
#[test]
fn rule_w7_a_writer_that_comes_after_the_leases_begins_anew() {
    let scene = Scene::published_twice();
    scene.pass(3 * LEASE);
    let before_ns = scene.now();
    scene.restart();
    scene.does(Ended);
    scene.does(PublishedFirst);
    assert!(scene.now() >= before_ns);
    assert_eq!(scene.source(), PageSource::Line);
}

#[test]
fn rule_w7_a_first_publication_that_is_found_is_over() {
    let scene = Scene::off();
    let mut first = scene.new_writer();
    let stopped = leak(Cell::new(None));
    let kill = move || {
        // The first writer is killed or stopped here, and the next one starts. If the first was
        // only stopped, it goes on below.
        scene.restart();
        assert_eq!(scene.word().phase(), LeasePhase::NoLine);
        stopped.set(Some(scene.word()));
    };
    scene.once(
        |op| matches!(op, Op::Swapped(word) if word.phase() == LeasePhase::FirstPublication),
        kill,
    );
    assert_eq!(
        scene.try_iterate(&mut first, &scene.bounds()),
        Err(PageChanged)
    );
    assert_eq!(stopped.get(), Some(scene.word()));
}

/// Rule W8: after the clock is set, the lines stay as they are, in other slots.
#[test]
fn rule_w8_unix_time_is_changed_and_nothing_else() {
    let scene = Scene::published_twice();
    let without_unix = || -> Vec<_> {
        scene
            .lines()
            .iter()
            .map(|line| LeaseLine {
                unix: UnixOffset::NONE,
                ..*line
            })
            .collect()
    };
    let before = without_unix();
    scene.does(Waited);
    scene.unix_jumps(3_600_000_000_000);
    scene.does(SetUnix);
    assert_eq!(without_unix(), before);
    assert!(AHEAD_NS.contains(&scene.unix_ahead_ns()));
    scene.does(Waited);
}

/// The OS clock runs on while the counter does not, in the lease of either line.
#[test]
fn rule_w9_a_line_that_the_os_clock_has_left_behind_is_doubted() {
    for is_second in [false, true] {
        let doubted = |ran_on_ns: i64| {
            let scene = Scene::published_twice();
            if is_second {
                // The writer is late.
                scene.raise_second(5_000_000);
                scene.pass(700_000_000);
            }
            let line_ns = scene.now();
            scene.os_jumps(line_ns - scene.truth_ns() + AHEAD_NS.end / 4 + ran_on_ns);
            (scene.iterate().action == Doubted, scene.ahead_ns() >= -100)
        };
        assert!(!doubted(990_000).0, "an NTP daemon may do as much");
        assert_eq!(
            doubted(1_010_000),
            (true, true),
            "readers also ask the OS clock"
        );
    }
}

/// The first samples after a slew do not show the rate. Symptom: a line was 9.6 ms ahead, and was
/// doubted at once. A change of the clocksource in the meantime had the same effect, because it
/// began with a new writer.
#[test]
fn rule_w10_a_slew_is_over_when_the_rate_is_known() {
    let scene = Scene::without_line();
    let action = |rate_ppb, open_ppm: u64| {
        scene.kernel_rate_ppb.set(Some(rate_ppb));
        let OsBounds {
            lower,
            upper,
            unix_offset,
        } = scene.bounds();
        let bits = upper.slope.bits;
        let upper = Line {
            slope: Slope {
                bits: bits + bits / 1_000_000 * 2 * open_ppm,
            },
            ..upper
        };
        scene
            .iterate_by(&OsBounds {
                lower,
                upper,
                unix_offset,
            })
            .action
    };
    assert_eq!(
        action(80_000_000, 0),
        Waited,
        "a server starts during a slew"
    );
    assert_eq!(action(0, 80_000), Waited);
    scene.writer().set_os_resolution_ns(280);
    assert_eq!(action(0, 1_001), Waited);
    assert_eq!(action(0, 999), PublishedFirst);
    // The sum of an NTP daemon's rate and adjtime(3)'s rate is not a fast slew.
    assert_eq!(
        (action(-1_000_000, 0), action(1_000_000, 0)),
        (PublishedNext, Waited)
    );
    assert_eq!(action(1_000_001, 0), Doubted);
}

/// A writer can take over any memory. Symptom: a server that found garbage in its page slept for
/// years, and did not react to a request to end.
#[test]
fn a_writer_takes_over_any_content_of_a_page() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..if cfg!(miri) { 10 } else { 500 } {
        let scene = Scene::off();
        for slot in 0..8 {
            let words = core::array::from_fn(|_| random.u64(..));
            scene.cell().fill(SlotNumber::from_low_bits(slot), &words);
        }
        assert!(
            scene
                .cell()
                .try_swap(LeaseWord::default(), LeaseWord::from_bits(random.u64(..)))
        );
        scene.restart();
        for _ in 0..6 {
            let WriterIteration { action, next_in_ns } = scene.iterate();
            assert!(
                action != Waited || next_in_ns <= LEASE,
                "{action:?} {next_in_ns}"
            );
            scene.pass(next_in_ns.min(LEASE));
        }
    }
}

/// `tickline serve` says so.
#[test]
fn rule_w10_a_writer_says_that_it_waits_for_a_slew() {
    let scene = Scene::without_line();
    scene.kernel_rate_ppb.set(Some(80_000_000));
    scene.does(Waited);
    assert!(scene.writer().waits_for_slew());
}

#[test]
fn rule_w10_a_rate_that_is_not_known_is_no_slew() {
    let scene = Scene::without_line();
    scene.kernel_rate_ppb.set(None);
    scene.does(PublishedFirst);
}

#[test]
fn rule_w10_a_writer_does_not_wait_without_a_slew() {
    let scene = Scene::without_line();
    scene.does(PublishedFirst);
    assert!(!scene.writer().waits_for_slew());
}

/// Rule W2. A line that is above the upper bound by exactly the limit still has a successor.
#[test]
fn rule_w2_the_limit_of_an_excess_is_ten_milliseconds() {
    let action_at_excess = |excess_ns| {
        let scene = Scene::published();
        scene.pass_until_current();
        let (bounds, last) = (scene.bounds(), scene.last());
        let lowered_ns = excess_ns - bounds.above_upper_ns(&last);
        let lowered = |line: Line| Line {
            base_ns: line.base_ns - lowered_ns,
            ..line
        };
        let lowered_bounds = OsBounds {
            lower: lowered(bounds.lower),
            upper: lowered(bounds.upper),
            ..bounds
        };
        scene.iterate_by(&lowered_bounds).action
    };
    assert_eq!(action_at_excess(10_000_000), PublishedNext);
    assert_eq!(action_at_excess(10_000_001), Doubted);
}
