//! Tests of clocks that read a page: by pages that a [`Publisher`] serves, and by pages with a line
//! of the test's own.

use std::time::Duration;

use tickline_core::counter::Counter as _;
use tickline_observe::skip;

use super::*;
use crate::Publisher;
use crate::lease::memory::{LeaseLine, LeaseMemory as _, LeaseStore as _, SlotNumber, UnixOffset};
use crate::lease::{LeasePhase, Line, Slope};
use crate::page_file::LockedPageFile;

/// A folder that only this user may write to, with room for a page.
fn folder() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    (folder, page)
}

/// Runs `test` with the path of a page on which this process publishes a clock.
fn run_with_page(test: impl FnOnce(&Path, &mut Publisher)) {
    let (_folder, path) = folder();
    let clock = Clock::builder().build().unwrap();
    let mut publisher = Publisher::start(clock, &path).unwrap();
    for _ in 0..1_000 {
        if publisher.phase() != LeasePhase::Published {
            let next_in = publisher.maintain().unwrap();
            std::thread::sleep(next_in.min(Duration::from_millis(1)));
        }
    }
    test(&path, &mut publisher);
}

#[test]
fn rule_r8_a_forked_child_raises_its_high_water() {
    run_with_page(|path, publisher| {
        let reader = PageReader::open(path, Probes::Full).unwrap();
        let os_ns = reader.os.monotonic_ns();
        // ORDERING: Relaxed, one thread.
        let high_water_ns =
            || reader.process_high_water.ns() + reader.page_offset_ns.load(Ordering::Relaxed);
        assert!(high_water_ns() < os_ns);
        // As in a forked child. A reading by a line would leave the process's high-water mark as it
        // is.
        reader.process.clear();
        let reading = reader.monotonic();
        assert!(
            high_water_ns() >= os_ns,
            "{reading:?} after {os_ns}, {:?}",
            publisher.phase()
        );
        assert!(reader.process.is_attached());
    });
}

/// Checks the state of a forked child that can't use the page: `why`, unless the process may not
/// read the counter.
fn check_refused(probes: Probes, why: &'static str) {
    let (_folder, path) = folder();
    publish(&path, UnixOffset::NONE);
    let reader = PageReader::open(&path, probes).unwrap();
    reader.process.clear(); // as in a forked child
    reader.process.decide(Decision::Refused);
    let expected =
        admitted_counter().map_or_else(ClockState::Fallback, |_| ClockState::BackendFallback(why));
    assert_eq!(reader.state(), expected);
}

/// Symptom: the state stayed `Calibrating` for ever.
#[test]
fn a_forked_child_that_could_not_attach_says_so() {
    check_refused(
        Probes::Full,
        "this forked process could not attach to the page",
    );
}

#[test]
fn a_forked_child_with_minimal_probes_says_that_it_does_not_attach() {
    check_refused(
        Probes::Minimal,
        "with minimal probes a forked process does not attach to the page",
    );
}

/// Runs `test` with a reader as in a forked child, none of whose threads has attached yet. The
/// page's line is below the OS clock, so only the high-water mark keeps readings in order.
fn run_as_forked(test: impl FnOnce(&PageReader)) {
    let (_folder, path) = folder();
    publish_ahead_by(-AHEAD_NS, &path, UnixOffset::NONE);
    let reader = PageReader::open(&path, Probes::Full).unwrap();
    reader.process.clear();
    test(&reader);
}

/// Symptom: in a forked child a thread could not attach, for want of a file descriptor, and read
/// the OS clock. Another thread attached, and its reading by the page was below that.
#[test]
fn after_a_thread_could_not_attach_no_reading_of_the_child_steps_back() {
    run_as_forked(|reader| {
        let offset_ns = reader.page_offset_ns().unwrap(); // the other thread is here...
        reader.process.clear();
        reader.decide(None);
        let by_os = reader.monotonic();
        reader.decide(Some(offset_ns)); // ... and now at the end of its call
        let later = reader.monotonic();
        assert!(later.ns >= by_os.ns, "{later:?} after {by_os:?}");
    });
}

/// Symptom: the thread that could not attach ended the other thread's use of the page. Its reading
/// of the OS clock did not raise the mark.
#[test]
fn a_thread_that_cannot_attach_uses_the_page_to_which_another_has_attached() {
    run_as_forked(|reader| {
        let offset_ns = reader.page_offset_ns().unwrap();
        assert_eq!(reader.decide(None), offset_ns);
        assert_eq!(reader.page_offset_ns(), Some(offset_ns));
    });
}

#[test]
fn an_environment_that_says_off_switches_the_counter_off() {
    let counter = unless_switched_off(admitted_counter(), EnvironmentSwitch::Off);
    assert_eq!(counter.err(), Some(Reason::DisabledByEnvironment));
}

#[test]
fn every_other_environment_leaves_the_counter_as_it_is() {
    for switch in [
        EnvironmentSwitch::Unset,
        EnvironmentSwitch::On,
        EnvironmentSwitch::Unrecognised,
    ] {
        let counter = unless_switched_off(admitted_counter(), switch);
        assert_eq!(counter.err(), admitted_counter().err(), "{switch:?}");
    }
}

/// Otherwise a server would end up to half a second later than its leases.
#[test]
fn a_publisher_that_ends_checks_often_whether_its_leases_have_run_out() {
    run_with_page(|_, publisher| {
        publisher.end();
        while publisher.has_line() {
            let next_in = publisher.maintain().unwrap();
            assert!(next_in <= Duration::from_millis(10), "{next_in:?}");
            std::thread::sleep(next_in);
        }
    });
}

/// How far a test's line begins above the OS clock, ns: further than the clock advances in a test.
const AHEAD_NS: i64 = 3_600_000_000_000;

/// Publishes a line that counts for a long time, with this offset of Unix time.
fn publish(path: &Path, unix: UnixOffset) {
    publish_ahead_by(AHEAD_NS, path, unix);
}

/// Publishes a line that begins `ahead_ns` above the OS clock.
fn publish_ahead_by(ahead_ns: i64, path: &Path, unix: UnixOffset) {
    let writer = LockedPageFile::create(path).unwrap();
    let counter = admitted_counter();
    let os_ns = PageOs::new(Probes::Full, counter.err()).monotonic_ns();
    let start_ticks = counter.map_or(0, |counter| counter.now_ordered());
    let line = LeaseLine {
        line: Line {
            start_ticks,
            base_ns: os_ns + ahead_ns,
            slope: Slope::from_hz(1_000_000_000).unwrap(),
        },
        end_ticks: start_ticks.wrapping_add(1 << 44),
        lead_ns: 0,
        unix,
    };
    let (slot, word) = (SlotNumber::from_low_bits(0), writer.word());
    writer.fill(slot, &line.to_words());
    assert!(writer.try_swap(word, word.next(LeasePhase::Published, slot, None)));
}

/// Symptom: a reading of Unix time said that the counter had served it, because the page has a line
/// for monotonic time.
#[test]
fn a_reading_says_whether_the_counter_served_it() {
    let (_folder, path) = folder();
    publish(&path, UnixOffset::NONE);
    let clock = crate::open(&path).unwrap();
    let by_counter = (
        clock.reading().is_from_counter(),
        clock.unix_reading().is_from_counter(),
    );
    // Without a usable counter the OS clock serves both.
    assert_eq!(by_counter, (admitted_counter().is_ok(), false));
}

#[test]
fn a_disabled_clock_reads_the_os_clock_in_order_and_says_why() {
    let (_folder, path) = folder();
    publish(&path, UnixOffset::NONE);
    let clock = crate::open(&path).unwrap();
    let before = clock.now();
    clock.disable();
    let status = clock.status();
    let expected = admitted_counter()
        .err()
        .unwrap_or(Reason::DisabledByProgram);
    assert_eq!(status.state, ClockState::Fallback(expected));
    assert_eq!(status.reason(), Some(expected));
    assert!(!clock.reading().is_from_counter() && clock.now() >= before);
    clock.enable();
    assert_eq!(
        clock.reading().is_from_counter(),
        admitted_counter().is_ok()
    );
}

/// Another CPU may have read the counter later than the call that disables, or have a counter that
/// is ahead.
#[test]
fn a_disabled_clock_is_a_margin_above_earlier_readings_by_the_page() {
    let (_folder, path) = folder();
    publish(&path, UnixOffset::NONE);
    let reader = PageReader::open(&path, Probes::Full).unwrap();
    if reader.read_page().is_none() {
        return skip("this process may not read the counter");
    }
    let before = reader.monotonic();
    reader.disable();
    let after = reader.monotonic();
    assert!(after.ns >= before.ns + MEETING_MARGIN_NS.cast_signed());
}

/// Symptom: a reading stepped back by the page's lead. Another thread enables the clock between the
/// last two steps of a call of `disable`.
#[test]
fn readings_are_in_order_if_a_clock_is_enabled_while_it_is_being_disabled() {
    let (_folder, path) = folder();
    publish(&path, UnixOffset::NONE);
    let reader = PageReader::open(&path, Probes::Full).unwrap();
    let ending = reader.stage.begin_disable().unwrap();
    reader.raise_above_earlier_readings();
    reader.enable();
    // Readings up to the mark are in order whatever the call does.
    let mark = reader.monotonic();
    let mut by_page = mark;
    while by_page.ns == mark.ns {
        by_page = reader.monotonic();
    }
    reader.stage.finish_disable(ending);
    let later = reader.monotonic();
    assert!(later.ns >= by_page.ns, "{later:?} after {by_page:?}");
}

/// Without a line, the readings are those of the OS clock.
#[test]
fn a_page_without_a_line_gives_the_times_of_the_os() {
    let (_folder, path) = folder();
    let _writer = LockedPageFile::create(&path).unwrap();
    let clock = crate::open(&path).unwrap();
    let os = PageOs::new(Probes::Full, admitted_counter().err());
    let (before_ns, now, after_ns) = (os.monotonic_ns(), clock.now(), os.monotonic_ns());
    assert!((before_ns..=after_ns).contains(&now.as_nanos().cast_signed()));
    let (before_ns, now, after_ns) = (os.unix_ns(), clock.unix_now(), os.unix_ns());
    assert!((before_ns..=after_ns).contains(&now.as_nanos().cast_signed()));
}

#[test]
fn a_negative_time_is_0() {
    assert_eq!(saturating_unsigned(-1), 0);
    assert_eq!(saturating_unsigned(7), 7);
}

#[test]
fn errno_is_restored_by_a_drop() {
    set_errno(Errno(7));
    let preserved = PreserveErrno(errno());
    set_errno(Errno(9));
    drop(preserved);
    assert_eq!(errno(), Errno(7));
}
