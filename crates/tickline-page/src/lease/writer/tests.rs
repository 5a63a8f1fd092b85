//! The rules of the writer, W1 to W10.

mod opening;

use super::super::testing::{At, Scene, UNIX_NS, WIDTH_NS, leak};
use super::super::{Field, LeaseMemory, LeaseWords, Line, PrivateFloor, Source, UnixShift};
use super::*;

const LEASE: u64 = Config::DEFAULT.lease_ns;

fn phase(scene: &Scene) -> LeasePhase {
    scene.memory.word().phase()
}

fn new_writer(scene: &Scene) -> Writer {
    Writer::start(&scene.memory, Config::DEFAULT).unwrap()
}

/// Steps, each when it is due, for so long; how often each thing was done.
fn run(scene: &'static Scene, writer: &mut Writer, ns: u64) -> Vec<Did> {
    let end_ticks = scene.ticks.get() + ns;
    let (mut did, mut last_ns) = (Vec::new(), i64::MIN);
    while scene.ticks.get() < end_ticks {
        let step = scene.step(writer);
        did.push(step.did);
        let now_ns = scene.now();
        assert!(now_ns >= last_ns, "{now_ns} after {last_ns}, {:?}", step.did);
        last_ns = now_ns;
        scene.pass(step.next_in_ns.min(LEASE));
    }
    did
}

#[test]
fn a_page_is_served_without_a_break() {
    let scene = Scene::new();
    let did = run(scene, &mut new_writer(scene), 20 * LEASE);
    assert_eq!(did[0], Did::Opened);
    assert!(did[1..].iter().all(|did| matches!(did, Did::Succeeded | Did::Waited)), "{did:?}");
    assert!((19..=22).contains(&did.iter().filter(|did| **did == Did::Succeeded).count()));
    let reading = scene.read(&PrivateFloor::new());
    assert!(reading.source == Source::Line && (0..4 * WIDTH_NS).contains(&(reading.ns - scene.truth_ns())));
}

/// A writer that was stopped while it decided, and another that has the page since.
#[test]
fn rule_w1_a_second_writer_ends_the_first() {
    let (scene, mut first) = Scene::live();
    scene.pass(6_000);
    let taken_over = leak(core::cell::Cell::new(None));
    scene.once(
        |at| at == At::Fill,
        move || {
            scene.os_ns.set(scene.os_ns.get() + 1_000);
            let mut second = new_writer(scene);
            assert_eq!(scene.step(&mut second).did, Did::Succeeded);
            taken_over.set(Some((second.word(), scene.last())));
        },
    );
    let estimate = scene.estimate();
    assert_eq!(first.step(scene, &scene, &scene, Some(&estimate)), Err(Lost));
    let (word, line) = taken_over.get().expect("taken over");
    assert_eq!((scene.memory.word(), scene.last()), (word, line), "nothing that it filled is in use");
    assert_eq!(first.step(scene, &scene, &scene, Some(&scene.estimate())), Err(Lost));
    assert_eq!(first.switch_off(&scene.memory), Err(Lost));
}

/// Symptom: with hpet, whose readings are up to 10 ns old, Unix time stepped back by more than the
/// lead when the leases ended.
#[test]
fn rule_w2_the_lead_is_above_what_the_os_clock_shows() {
    let lead_ns = |resolution_ns| {
        let scene = Scene::new();
        let config = Config { resolution_ns, ..Config::DEFAULT };
        let mut writer = Writer::start(&scene.memory, config).unwrap();
        assert_eq!(scene.step(&mut writer).did, Did::Opened);
        let first = scene.last();
        scene.pass(6_000);
        assert_eq!(scene.step(&mut writer).did, Did::Succeeded);
        [first.lead_ns, first.unix.lead_ns, scene.last().lead_ns]
    };
    let fine = lead_ns(1);
    for (coarse_ns, fine_ns) in lead_ns(280).into_iter().zip(fine) {
        // The line starts a resolution higher, as well.
        assert!(coarse_ns >= fine_ns + 279, "{coarse_ns} ns where it was {fine_ns}");
    }
}

/// No slot that the word names is filled, whoever filled it.
#[test]
fn rule_w1_no_slot_in_use_is_filled() {
    let scene = Scene::new();
    let mut writer = new_writer(scene);
    for round in 0..12 {
        let word = writer.word();
        let before: Vec<LeaseLine> = [Some(word.first()), word.second()]
            .into_iter()
            .flatten()
            .map(|slot| LeaseLine::load(&scene.memory, slot))
            .collect();
        scene.on_step(move |at| {
            if let At::Swap(_) = at {
                let now = [Some(word.first()), word.second()].into_iter().flatten();
                let same = now.zip(&before).all(|(slot, line)| LeaseLine::load(&scene.memory, slot) == *line);
                assert!(scene.memory.word() != word || same, "a slot in use has changed");
            }
        });
        if round % 3 == 2 {
            writer = new_writer(scene);
        }
        if round % 4 == 3 {
            scene.unix_ns.set(scene.unix_ns.get() - 1_000_000);
        }
        let step = scene.step(&mut writer);
        scene.pass(step.next_in_ns);
    }
    assert!(writer.word().generation() > 8);
}

#[test]
fn rule_w2_a_successor_is_not_below_the_line_before() {
    let (scene, mut writer) = Scene::live();
    let first = scene.last();
    scene.pass(6_000);
    // The OS clock turns out to be a millisecond behind.
    scene.os_ns.set(scene.os_ns.get() - 1_000_000);
    assert_eq!(scene.step(&mut writer).did, Did::Succeeded);
    let second = scene.last();
    assert_eq!(second.line.start_ticks, first.end_ticks);
    assert!(second.line.at(first.end_ticks) >= first.line.at(first.end_ticks - 1));
    assert!(second.lead_ns >= 1_000_000);
}

/// Symptom: a machine that slept again and again for less than its leases was ahead by all sleeps
/// together, and Unix time by the last of them twice.
#[test]
fn rule_w2_sleeps_do_not_add_up() {
    let (scene, mut writer) = Scene::live_twice();
    let (mut most_ahead_ns, mut last_ns, mut last_unix_ns) = (0, 0, 0);
    let mut doubted = 0;
    for _ in 0..40 {
        let end_ticks = scene.ticks.get() + 200_000_000;
        while scene.ticks.get() < end_ticks {
            let step = scene.step(&mut writer);
            doubted += u32::from(step.did == Did::Doubted);
            let (now_ns, unix_ns) = (scene.now(), scene.unix());
            assert!(now_ns >= last_ns && unix_ns >= last_unix_ns, "{unix_ns} after {last_unix_ns}");
            (last_ns, last_unix_ns) = (now_ns, unix_ns);
            most_ahead_ns = most_ahead_ns.max(now_ns - scene.truth_ns());
            let unix_ahead_ns = unix_ns - scene.truth_ns() - scene.unix_ns.get();
            assert!(unix_ahead_ns < 20_000_000, "Unix time is {unix_ahead_ns} ns ahead");
            scene.pass(step.next_in_ns.min(10_000_000));
        }
        // The counter and Unix time run on, the OS clock does not.
        scene.ticks.set(scene.ticks.get() + 300_000_000);
        scene.os_ns.set(scene.os_ns.get() - 300_000_000);
        scene.unix_ns.set(scene.unix_ns.get() + 300_000_000);
    }
    assert!(doubted > 5, "{doubted}");
    assert!((200_000_000..=1_000_100_000).contains(&most_ahead_ns), "{most_ahead_ns}");
}

#[test]
fn rule_w2_a_successor_comes_no_later_than_m_before_the_end() {
    let (scene, mut writer) = Scene::live();
    let last = scene.last();
    scene.ticks.set(last.end_ticks - Config::DEFAULT.margin_ns);
    let step = scene.step(&mut writer);
    assert_eq!(step.did, Did::Waited);
    assert!(step.next_in_ns > Config::DEFAULT.margin_ns / 2, "until the end: {step:?}");
    // Stopped between the decision and the look.
    scene.ticks.set(last.end_ticks - Config::DEFAULT.margin_ns - 10_000);
    scene.once(|at| at == At::Fill, || scene.pass(10_000));
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
    // The counter was reset between the two.
    scene.ticks.set(last.end_ticks - LEASE / 2);
    scene.once(|at| at == At::Fill, || scene.reset());
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
    assert_eq!(scene.last(), last);
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
}

#[test]
fn rule_w2_a_successor_is_published_once_its_predecessor_is_current_everywhere() {
    let (scene, mut writer) = Scene::live_twice();
    let second = scene.last();
    scene.ticks.set(second.line.start_ticks + 1_000);
    // A CPU whose counter is 1 us behind would take it for a reset.
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
    scene.pass(Config::DEFAULT.skew_ns);
    assert_eq!(scene.step(&mut writer).did, Did::Succeeded);
}

/// The writer was stopped between its look and its swap, beyond M, and the OS clock ran ahead.
#[test]
fn rule_w3_a_line_that_came_too_late_is_in_doubt() {
    let (scene, mut writer) = Scene::live();
    let first = scene.last();
    scene.pass(6_000);
    scene.once(
        |at| matches!(at, At::Swap(_)),
        move || {
            scene.ticks.set(first.end_ticks + 10);
            scene.os_ns.set(scene.os_ns.get() + 1_000_000);
            let os_ns = scene.now();
            assert!(os_ns >= scene.truth_ns() - 100);
        },
    );
    assert_eq!(scene.step(&mut writer).did, Did::Doubted);
    assert_eq!(phase(scene), LeasePhase::Unsure);
    assert!(scene.now() >= scene.truth_ns() - 100, "not the line, which is 1 ms below");
    let did = run(scene, &mut writer, 4 * LEASE);
    assert_eq!(did[..2], [Did::Waited, Did::Ended], "no successor");
    assert!(did.contains(&Did::Opened), "{did:?}");
}

#[test]
fn rule_w3_a_counter_that_was_reset_meanwhile_is_in_doubt() {
    let (scene, mut writer) = Scene::live();
    scene.pass(6_000);
    scene.once(|at| matches!(at, At::Swap(_)), || scene.reset());
    assert_eq!(scene.step(&mut writer).did, Did::Doubted);
}

#[test]
fn rule_w3_a_first_line_that_came_too_late_is_in_doubt() {
    for is_reset in [0, 1] {
        let scene = Scene::new();
        let mut writer = new_writer(scene);
        scene.on_step(move |at| match at {
            At::Swap(word) if word.phase() == LeasePhase::Live && is_reset == 1 => scene.reset(),
            At::Swap(word) if word.phase() == LeasePhase::Live => scene.pass(1_000_000),
            _ => {}
        });
        assert_eq!(scene.step(&mut writer).did, Did::Doubted);
    }
}

#[test]
fn rule_w4_leases_that_have_run_out_leave_their_end_as_a_floor() {
    let (scene, mut writer) = Scene::live_twice();
    let last = scene.last();
    scene.ticks.set(last.end_ticks - 1);
    scene.os_ns.set(scene.os_ns.get() - 50_000_000);
    let before_ns = scene.now();
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
    assert_eq!(Floor::load(&scene.memory, scene.memory.word().first()), last.floor());
    assert!(scene.now() >= before_ns && scene.now() == last.end_ns());
}

/// A counterexample to a floor that the writer computes from its own reading of the OS clock: a
/// reader asks the OS after the writer did, and is ahead of it by the lead.
#[test]
fn rule_w4_the_floor_after_a_reset_is_that_of_its_readers() {
    let (scene, mut writer) = Scene::live_twice();
    let before_ns = scene.now();
    scene.reset();
    let seen = leak(core::cell::Cell::new(0));
    scene.once(
        |at| matches!(at, At::Swap(_)),
        move || {
            scene.pass(100);
            seen.set(scene.now());
        },
    );
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
    let after_ns = scene.now();
    assert!(before_ns <= seen.get() && seen.get() <= after_ns, "{before_ns}, {}, {after_ns}", seen.get());
    assert!(after_ns - scene.truth_ns() < 4 * WIDTH_NS, "the end of the leases is a second ahead");
}

#[test]
fn rule_w6_a_closed_gate_lets_the_leases_run_out() {
    let (scene, mut writer) = Scene::live_twice();
    let (word, last) = (writer.word(), scene.last());
    writer.close(Closing::AfterLeases);
    scene.ticks.set(last.line.start_ticks + 10_000);
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
    assert_eq!(scene.memory.word(), word);
    assert!(scene.read(&PrivateFloor::new()).source == Source::Line);
    scene.ticks.set(last.end_ticks);
    assert_eq!(scene.step(&mut writer).did, Did::Ended);
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
    assert_eq!(phase(scene), LeasePhase::Cold);
    scene.pass(NS_PER_S);
    writer.open();
    assert_eq!(scene.step(&mut writer).did, Did::Opened);
}

#[test]
fn rule_w6_in_doubt_readers_ask_the_os_from_then_on() {
    let (scene, mut writer) = Scene::live_twice();
    writer.close(Closing::InDoubt);
    writer.close(Closing::AfterLeases);
    assert_eq!(scene.step(&mut writer).did, Did::Doubted, "a doubt stays");
    assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Os);
}

#[test]
fn rule_w6_off_is_at_once_and_for_good() {
    let (scene, mut writer) = Scene::live_twice();
    writer.switch_off(&scene.memory).unwrap();
    scene.on_step(|at| assert_ne!(at, At::Counter));
    assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Os);
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
    assert_eq!(phase(scene), LeasePhase::Off);
    scene.on_step(|_| {});
    let mut writer = new_writer(scene);
    assert_eq!(scene.step(&mut writer).did, Did::Opened);
}

/// Symptom: a server that found garbage in its page slept for years, and could not be told to end.
#[test]
fn a_writer_sleeps_no_longer_than_a_lease() {
    let scene = Scene::new();
    let word = new_writer(scene).word();
    let far = Floor { ns: i64::MAX >> 1, lead_ns: i64::MAX >> 1, ..Floor::NONE };
    let slot = SlotNumber::of_bank(word.bank())[1];
    scene.memory.fill(slot, &far.to_words());
    assert!(scene.memory.swap(word, word.next(LeasePhase::Cold, slot, None)));
    let step = scene.step(&mut new_writer(scene));
    assert_eq!((step.did, step.next_in_ns), (Did::Waited, LEASE));
}

/// Symptom: systemd started a server again, and it opened the page that had been switched off.
#[test]
fn rule_w7_a_page_that_was_switched_off_stays_so() {
    let (scene, mut writer) = Scene::live_twice();
    let word = scene.memory.word();
    assert!(scene.memory.swap(word, word.next(LeasePhase::Off, word.first(), Some(word.first()))));
    assert_eq!(writer.step(scene, &scene, &scene, None), Err(Lost));
    for _ in 0..2 {
        let mut writer = new_writer(scene);
        assert_eq!(scene.step(&mut writer).did, Did::Waited);
        assert_eq!((phase(scene), scene.memory.word().stays_off()), (LeasePhase::Off, true));
        assert_eq!(scene.read(&PrivateFloor::new()).source, Source::Os);
    }
    let word = scene.memory.word();
    assert!(scene.memory.swap(word, word.next(LeasePhase::Off, word.first(), None)));
    assert_eq!(scene.step(&mut new_writer(scene)).did, Did::Opened);
}

/// Symptom: a writer that had started and was stopped before it filled a slot, and another that
/// started from the same word, both filled one bank.
#[test]
fn rule_w7_two_writers_that_start_from_one_word_have_two_banks() {
    let (scene, _) = Scene::live_twice();
    let word = scene.memory.word();
    let mut first = new_writer(scene);
    let mut second = new_writer(scene);
    let named = [Some(word.first()), word.second()];
    assert_eq!([Some(second.word().first()), second.word().second()], named, "the same state");
    let slots = |writer: &Writer| [writer.free_slots().0, writer.free_slots().1];
    assert!(slots(&first).iter().all(|slot| !slots(&second).contains(slot)));
    scene.pass(LEASE);
    assert_eq!(first.step(scene, &scene, &scene, Some(&scene.estimate())), Err(Lost));
    assert_eq!(scene.step(&mut second).did, Did::Succeeded);
    // At once: the second starts between the first's look at the word and its exchange.
    let (scene, _) = Scene::live_twice();
    let mut is_first = true;
    scene.on_step(move |at| {
        assert_ne!(at, At::Fill, "the loser fills no slot");
        if matches!(at, At::Swap(_)) && core::mem::take(&mut is_first) {
            new_writer(scene);
        }
    });
    assert_eq!(Writer::start(scene, Config::DEFAULT).map(|_| ()), Err(Lost));
}

#[test]
fn rule_w7_a_restarted_writer_goes_on_with_the_leases() {
    let (scene, _) = Scene::live_twice();
    let last = scene.last();
    for _ in 0..5 {
        scene.pass(LEASE);
        let (before_ns, mut writer) = (scene.now(), new_writer(scene));
        assert_eq!(scene.step(&mut writer).did, Did::Succeeded);
        assert!(scene.now() >= before_ns && scene.read(&PrivateFloor::new()).source == Source::Line);
    }
    assert!(scene.ticks.get() > last.end_ticks);
    // Dead for longer than the leases.
    scene.pass(3 * LEASE);
    let before_ns = scene.now();
    let mut writer = new_writer(scene);
    assert_eq!((scene.step(&mut writer).did, scene.step(&mut writer).did), (Did::Ended, Did::Opened));
    assert!(scene.now() >= before_ns);
}

#[test]
fn rule_w7_an_opening_that_is_found_is_over() {
    let scene = Scene::new();
    let stopped = leak(core::cell::Cell::new(None));
    let mut first = new_writer(scene);
    scene.once(
        |at| matches!(at, At::Swapped(word) if word.phase() == LeasePhase::Opening),
        move || {
            // Killed here; the next one starts. Or not killed: it goes on.
            let second = new_writer(scene);
            assert_eq!(phase(scene), LeasePhase::Cold);
            stopped.set(Some(second.word()));
        },
    );
    assert_eq!(first.step(scene, &scene, &scene, Some(&scene.estimate())), Err(Lost));
    assert_eq!(stopped.get(), Some(scene.memory.word()));
}

/// Rule W8: somebody sets the clock. The lines stay as they are, in other slots.
#[test]
fn rule_w8_unix_time_is_changed_and_nothing_else() {
    let (scene, mut writer) = Scene::live_twice();
    let lines = || {
        let word = scene.memory.word();
        [Some(word.first()), word.second()].map(|slot| slot.map(|slot| LeaseLine::load(&scene.memory, slot)))
    };
    let before = lines();
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
    scene.unix_ns.set(UNIX_NS + 3_600_000_000_000);
    assert_eq!(scene.step(&mut writer).did, Did::SetUnix);
    let plain = |lines: [Option<LeaseLine>; 2]| {
        lines.map(|line| line.map(|line| LeaseLine { unix: UnixShift::NONE, ..line }))
    };
    assert_eq!(plain(lines()), plain(before));
    let off_ns = scene.unix() - scene.truth_ns() - scene.unix_ns.get();
    assert!((0..4 * WIDTH_NS).contains(&off_ns), "{off_ns}");
    assert_eq!(scene.step(&mut writer).did, Did::Waited);
}

/// Symptom: Unix time stepped back by 9 us, though nobody had set the clock: a better sample had
/// narrowed what the offset could be.
#[test]
fn rule_w8_narrower_samples_do_not_set_unix_time_back() {
    let (scene, mut writer) = Scene::live_twice();
    let unix =
        |least, most| Estimate { unix_ns: Some((UNIX_NS + least, UNIX_NS + most)), ..scene.estimate() };
    let mut step = |estimate| writer.step(scene, &scene, &scene, Some(&estimate)).unwrap().did;
    assert_eq!(step(unix(0, 10_000)), Did::SetUnix, "a worse sample");
    let before_ns = scene.unix();
    assert_eq!(step(unix(900, 1_000)), Did::Waited);
    assert!(scene.unix() >= before_ns);
    assert_eq!(step(unix(-5_000, -3_000)), Did::SetUnix, "below all that it may have been");
    assert!(scene.unix() < before_ns);
}

/// The OS clock ran on, and the counter did not: in either line's window.
#[test]
fn rule_w9_a_line_that_the_os_clock_has_left_behind_is_doubted() {
    for is_second in [false, true] {
        let doubted = |ran_on_ns: i64| {
            let (scene, mut writer) = Scene::live_twice();
            if is_second {
                // Make them tell: the second is 5 ms above. The writer is late.
                let slot = scene.memory.word().second().unwrap();
                let second = LeaseLine::load(&scene.memory, slot);
                let line = Line { base_ns: second.line.base_ns + 5_000_000, ..second.line };
                scene.memory.fill(slot, &LeaseLine { line, ..second }.to_words());
                scene.pass(700_000_000);
            }
            let line_ns = scene.read(&PrivateFloor::new()).ns;
            let lower_ns = scene.truth_ns() - WIDTH_NS;
            scene.os_ns.set(scene.os_ns.get() + (line_ns - lower_ns) + ran_on_ns);
            let did = scene.step(&mut writer).did;
            (did == Did::Doubted, scene.now() >= scene.truth_ns() - 100)
        };
        assert!(!doubted(990_000).0, "as much as NTP may do");
        assert_eq!(doubted(1_010_000), (true, true), "readers ask the OS clock");
    }
}

/// Symptom: with chronyd's 8 % a page went live and unsure at each change of the rate.
#[test]
fn rule_w10_a_fast_slew_is_one_doubt_and_one_opening() {
    let scene = Scene::new();
    let mut writer = new_writer(scene);
    let mut did = run(scene, &mut writer, 4 * LEASE);
    // Down, up, and slowly at last; each for four leases.
    for rate_ppb in [-80_000_000, 80_000_000, 2_000_000, 1_000_000] {
        writer.note_slew(rate_ppb);
        for _ in 0..4 {
            did.extend(run(scene, &mut writer, LEASE));
            scene.os_ns.set(scene.os_ns.get() + rate_ppb / 2);
        }
    }
    let count = |wanted| did.iter().filter(|did| **did == wanted).count();
    assert_eq!((count(Did::Doubted), count(Did::Ended), count(Did::Opened)), (1, 1, 2), "{did:?}");
    assert_eq!(phase(scene), LeasePhase::Live);
}

/// A sample after a slew does not know the rate. Symptom: a line 9.6 ms ahead, which was doubted at once.
#[test]
fn rule_w10_a_slew_is_over_when_the_rate_is_known() {
    let scene = Scene::new();
    let mut writer = new_writer(scene);
    let mut step = |rate_ppb, open_ppm: u64| {
        writer.note_slew(rate_ppb);
        let Estimate { lower, upper, unix_ns } = scene.estimate();
        let bits = upper.slope.to_bits();
        let upper = Line { slope: Slope::from_bits(bits + bits / 1_000_000 * 2 * open_ppm), ..upper };
        writer.step(scene, &scene, &scene, Some(&Estimate { lower, upper, unix_ns })).unwrap().did
    };
    assert_eq!(step(80_000_000, 0), Did::Waited, "as a server that starts in a slew");
    assert_eq!(step(0, 80_000), Did::Waited);
    assert_eq!(step(0, 1_001), Did::Waited);
    assert_eq!(step(0, 999), Did::Opened);
}

/// The rates of an NTP daemon, and adjtime(3) besides, leave the page as it is.
#[test]
fn rule_w10_a_slow_slew_leaves_the_page_live() {
    let (scene, mut writer) = Scene::live_twice();
    for rate_ppb in [1_000_000, -1_000_000, 500_000] {
        writer.note_slew(rate_ppb);
        let did = run(scene, &mut writer, 2 * LEASE);
        assert!(did.iter().all(|did| matches!(did, Did::Succeeded | Did::Waited)), "{did:?}");
    }
}

/// A page in zeroed memory is off, and any memory can be taken over.
#[test]
fn any_page_is_taken_over() {
    let mut bits = 5_u64;
    for _ in 0..if cfg!(miri) { 10 } else { 500 } {
        let scene = Scene::new();
        let mut next = || {
            bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            bits ^ (bits >> 31)
        };
        for slot in 0..8 {
            scene.memory.fill(SlotNumber::from_low_bits(slot), &core::array::from_fn(|_| next()));
        }
        assert!(scene.memory.swap(LeaseWord::default(), LeaseWord::from_bits(next())));
        let mut writer = new_writer(scene);
        for _ in 0..6 {
            let step = scene.step(&mut writer);
            scene.pass(step.next_in_ns.min(LEASE));
        }
    }
    let memory = LeaseWords::new();
    assert_eq!(memory.field(SlotNumber::from_low_bits(9), Field::Start), 0);
}
