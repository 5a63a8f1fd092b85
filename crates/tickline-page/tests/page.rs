//! A page as its writer and its readers see it.

mod common;

use std::cell::Cell;

use common::{Case, Output};
use tickline_page::lease::{Config, Did, Estimate, LeaseMemory, LeasePhase, Line, Slope, Writer};
use tickline_page::{
    ClaimError, Counter, Header, Machine, OsClock, PrivateFloor, Refusal, Source, Timescale, WritablePage,
};

const MACHINE: Machine =
    Machine { boot_id: [9; 16], time_namespace: 4_026_531_834, monotonic_offset_ns: Some(0) };

/// A counter of 1 GHz, and an OS clock that is the counter, in a time namespace.
struct Clocks {
    ticks: Cell<u64>,
    ahead_ns: i64,
}

impl Counter for Clocks {
    fn now(&self) -> u64 {
        self.ticks.set(self.ticks.get() + 10);
        self.ticks.get()
    }
    fn now_ordered(&self) -> u64 {
        self.now()
    }
    fn barrier(&self) {}
}

impl OsClock for Clocks {
    fn monotonic_ns(&self) -> i64 {
        self.now().cast_signed() + self.ahead_ns
    }
    fn realtime_ns(&self) -> i64 {
        self.now().cast_signed() + 1_000_000_000
    }
    fn pause(&self) {}
}

fn estimate(clocks: &Clocks) -> Estimate {
    let ticks = clocks.ticks.get();
    let slope = Slope::from_hz(1_000_000_000).expect("a rate within the limits");
    let line = |ns: i64| Line { start_ticks: ticks, base_ns: ticks.cast_signed() + ns, slope };
    Estimate { lower: line(-50), upper: line(50), unix_ns: Some((999_999_990, 1_000_000_010)) }
}

fn served(clocks: &Clocks) -> WritablePage {
    let page = WritablePage::new();
    page.claim(&Header::of(&MACHINE)).expect("nobody else has it");
    let mut writer = Writer::start(page.words(), Config::DEFAULT).expect("no other writer");
    let step = writer.step(page.words(), clocks, clocks, Some(&estimate(clocks))).expect("no other writer");
    assert_eq!(step.did, Did::Opened);
    page
}

#[test]
fn a_page_serves_both_clocks() {
    let clocks = Clocks { ticks: Cell::new(1 << 40), ahead_ns: 0 };
    let page = served(&clocks);
    let attached = page.attach(&MACHINE).unwrap();
    let private = PrivateFloor::new();
    attached.begin(&clocks, &private);
    let reading = attached.monotonic(&clocks, &clocks, &private);
    assert_eq!(reading.source, Source::Line);
    assert!((0..300).contains(&(reading.ns - clocks.ticks.get().cast_signed())));
    let reading = attached.unix(&clocks, &clocks, &private);
    assert_eq!(reading.source, Source::Line);
    assert!((0..300).contains(&(reading.ns - clocks.ticks.get().cast_signed() - 1_000_000_000)));
}

/// A reader in another time namespace has its own clock; what it learnt of the page's time stays.
#[test]
fn a_time_namespace_shifts_the_time() {
    let clocks = Clocks { ticks: Cell::new(1 << 40), ahead_ns: 0 };
    let page = served(&clocks);
    let inside = Clocks { ticks: Cell::new(clocks.ticks.get()), ahead_ns: 7_000_000_000 };
    let machine = Machine { time_namespace: 5, monotonic_offset_ns: Some(7_000_000_000), ..MACHINE };
    let attached = page.attach(&machine).unwrap();
    assert_eq!(attached.shift_ns(), 7_000_000_000);
    let private = PrivateFloor::new();
    attached.begin(&inside, &private);
    let by_line = attached.monotonic(&inside, &inside, &private);
    assert_eq!(by_line.source, Source::Line);
    assert!((0..300).contains(&(by_line.ns - inside.ticks.get().cast_signed() - 7_000_000_000)));
    // Past the lease: the OS clock of the namespace.
    inside.ticks.set(inside.ticks.get() + 600_000_000);
    let by_os = attached.monotonic(&inside, &inside, &private);
    assert!(by_os.source == Source::Os && by_os.ns > by_line.ns);
    // A child of a fork that is in no namespace of its own keeps the floor, not the shift.
    let child = page.attach(&MACHINE).unwrap();
    let reading = child.monotonic(&clocks, &clocks, &private);
    assert!(reading.ns >= by_os.ns - 7_000_000_000 && reading.ns < 1 << 41);
    let unknown = Machine { monotonic_offset_ns: None, ..machine };
    assert_eq!(page.attach(&unknown).unwrap_err(), Refusal::OtherNamespace(MACHINE.time_namespace));
}

/// A page of the boot before is switched off before it gets the new header.
#[test]
fn a_page_of_another_boot_is_not_read_and_is_claimed_off() {
    let clocks = Clocks { ticks: Cell::new(1 << 40), ahead_ns: 0 };
    let page = served(&clocks);
    let word = page.words().word();
    let next_boot = Machine { boot_id: [8; 16], ..MACHINE };
    assert_eq!(page.attach(&next_boot).unwrap_err(), Refusal::OtherBoot);
    page.claim(&Header::of(&MACHINE)).unwrap();
    assert_eq!(page.words().word(), word, "this boot's page is left as it is");
    page.claim(&Header::of(&next_boot)).unwrap();
    assert_eq!(page.words().word().phase(), LeasePhase::Off);
    assert_eq!(page.words().word().generation(), word.generation() + 1);
    let reading = page.attach(&next_boot).unwrap().monotonic(&clocks, &clocks, &PrivateFloor::new());
    assert_eq!(reading.source, Source::Os);
    assert_eq!(page.attach(&MACHINE).unwrap_err(), Refusal::OtherBoot);
}

/// Symptom: readers that had attached shifted the page's time by the namespace of the writer before.
#[test]
fn a_page_of_this_boot_is_not_claimed_by_another_namespace() {
    let clocks = Clocks { ticks: Cell::new(1 << 40), ahead_ns: 0 };
    let page = served(&clocks);
    let (word, before) = (page.words().word(), page.header().expect("it was claimed"));
    for machine in
        [Machine { time_namespace: 5, ..MACHINE }, Machine { monotonic_offset_ns: Some(7), ..MACHINE }]
    {
        let refused = page.claim(&Header::of(&machine)).unwrap_err();
        assert_eq!(refused, ClaimError::InUse(before));
        assert!(refused.to_string().contains("time namespace 4026531834, offset 0 ns"), "{refused}");
        assert_eq!((page.words().word(), page.header()), (word, Some(before)));
    }
}

#[test]
fn refusals_say_what_was_found() {
    assert_eq!(WritablePage::new().attach(&MACHINE).unwrap_err(), Refusal::NotAPage);
    let header = Header::of(&MACHINE);
    for (header, refusal, text) in [
        (Header { version: 2, ..header }, Refusal::Version(2), "the page has layout 2, not 1"),
        (Header { size: 100, ..header }, Refusal::Size(100), "the page says 100 bytes, not 4096"),
        (Header { counter: 77, ..header }, Refusal::OtherCounter(77), "the page is for counter 77"),
    ] {
        let page = WritablePage::new();
        page.claim(&header).unwrap();
        assert_eq!(page.attach(&MACHINE).unwrap_err(), refusal);
        assert!(refusal.to_string().starts_with(text), "{refusal}");
    }
}

/// Whatever a page holds: a reading ends, waits no longer than it may, and one that asked the OS is
/// not below it.
#[test]
fn any_bytes_are_read_to_an_end() {
    let (cases, mut by_os) = (if cfg!(miri) { 50 } else { 20_000 }, 0);
    for seed in 0..cases {
        let case = Case::random(seed);
        let Output { refusal, ns, shift_ns, source, pauses, counter_reads, os_reads, .. } = case.run();
        assert!(pauses <= 11 && counter_reads <= (1 << 17) + 64 && os_reads <= 65);
        assert!(refusal == 0 || counter_reads + os_reads == 0, "a page that does not count was read");
        if source == Output::OS {
            // In the page's time, in which readings are compared; Unix time is not shifted.
            let shift_ns = if case.timescale == Timescale::Monotonic { shift_ns } else { 0 };
            let last = usize::try_from(os_reads - 1).expect("small") % case.os.len();
            let (ns, os_ns) = (ns.wrapping_sub(shift_ns), case.os[last].wrapping_sub(shift_ns));
            assert!(ns >= os_ns, "{ns} is below the OS clock, {os_ns}, in case {seed}");
            by_os += 1;
        }
    }
    assert!(by_os > cases / 10, "{by_os} of {cases} cases asked the OS clock");
}

/// Symptom: half of the boot id of one claim and half of the next: a claim that began and ended
/// between a reader's two looks left the magic as it was.
#[test]
fn a_header_is_never_a_mixture() {
    let header = |boot: u8| {
        let monotonic_offset_ns = Some(i64::from(boot));
        Header::of(&Machine { boot_id: [boot; 16], time_namespace: boot.into(), monotonic_offset_ns })
    };
    let page = WritablePage::new();
    let boots = [1, 2, 3].map(header);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for turn in 0..if cfg!(miri) { 3 } else { 3_000 } {
                page.claim(&boots[turn % 3]).expect("one writer");
            }
        });
        let mut last = None;
        let start = std::time::Instant::now();
        while last != Some(boots[2]) && start.elapsed().as_secs() < 10 {
            last = page.header();
            assert!(last.is_none_or(|found| boots.contains(&found)), "{last:?}");
            std::thread::yield_now();
        }
    });
}
