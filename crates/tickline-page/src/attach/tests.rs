//! Whether a page counts, and for whom it is claimed.

use super::*;
use crate::lease::testing::{AHEAD_NS, Scene};
use crate::lease::{Did, LeaseMemory, LeasePhase, Source};
use crate::{ClaimError, WritablePage};

const MACHINE: Machine =
    Machine { boot_id: [9; 16], time_namespace: 4_026_531_834, monotonic_offset_ns: Some(0) };

/// A page of this machine that serves a line.
fn served() -> &'static Scene {
    let scene = Scene::off();
    scene.page.claim(&Header::of(&MACHINE)).unwrap();
    scene.restart();
    scene.does(Did::Opened);
    scene
}

/// A reader in another time namespace has its own clock; what it learnt of the page's time stays.
#[test]
#[cfg_attr(target_arch = "x86", ignore = "no page counts where no counter is read")]
fn a_time_namespace_shifts_the_time() {
    const SHIFT_NS: i64 = 7_000_000_000;
    let (scene, private) = (served(), PrivateFloor::new());
    let machine = Machine { time_namespace: 5, monotonic_offset_ns: Some(SHIFT_NS), ..MACHINE };
    scene.os_jumps(SHIFT_NS);
    let attached = scene.page.attach(&machine).unwrap();
    assert_eq!(attached.shift_ns(), SHIFT_NS);
    attached.begin(&scene, &private);
    let by_line = attached.monotonic(&scene, &scene, &private);
    assert!(by_line.source == Source::Line && AHEAD_NS.contains(&(by_line.ns - scene.truth_ns())));
    // Past the lease: the OS clock of the namespace.
    scene.pass(600_000_000);
    let by_os = attached.monotonic(&scene, &scene, &private);
    assert!(by_os.source == Source::Os && by_os.ns > by_line.ns);
    // A child of a fork that is in no namespace of its own keeps the floor, not the shift.
    scene.os_jumps(-SHIFT_NS);
    let child = scene.page.attach(&MACHINE).unwrap().monotonic(&scene, &scene, &private);
    assert!(child.ns >= by_os.ns - SHIFT_NS && child.ns < by_os.ns);
    let unknown = Machine { monotonic_offset_ns: None, ..machine };
    let refusal = Refusal::OtherNamespace(MACHINE.time_namespace);
    assert_eq!(scene.page.attach(&unknown).unwrap_err(), refusal);
}

/// A page of the boot before is switched off before it gets the new header.
#[test]
#[cfg_attr(target_arch = "x86", ignore = "no page counts where no counter is read")]
fn a_page_of_another_boot_is_not_read_and_is_claimed_off() {
    let scene = served();
    let (page, word) = (&scene.page, scene.word());
    let next_boot = Machine { boot_id: [8; 16], ..MACHINE };
    let refusal = Refusal::OtherBoot { page: [9; 16], running: [8; 16] };
    assert_eq!(page.attach(&next_boot).unwrap_err(), refusal);
    page.claim(&Header::of(&MACHINE)).unwrap();
    assert_eq!(scene.word(), word, "this boot's page is left as it is");
    page.claim(&Header::of(&next_boot)).unwrap();
    let off = (LeasePhase::Off, word.generation() + 1);
    assert_eq!((scene.word().phase(), scene.word().generation()), off);
    let reading = page.attach(&next_boot).unwrap().monotonic(&scene, &scene, &PrivateFloor::new());
    assert_eq!(reading.source, Source::Os);
    let refusal = Refusal::OtherBoot { page: [8; 16], running: [9; 16] };
    assert_eq!(page.attach(&MACHINE).unwrap_err(), refusal);
}

/// Symptom: readers that had attached shifted the page's time by the namespace of the writer before.
#[test]
fn a_page_of_this_boot_is_not_claimed_by_another_namespace() {
    let page = &served().page;
    let (word, before) = (page.words().word(), page.header().unwrap());
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
