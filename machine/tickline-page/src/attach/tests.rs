//! Tests of whether a page counts.

use super::*;
use crate::lease::PageSource;
use crate::lease::testing::{AHEAD_NS, CONTEXT, Scene};
use crate::{Header, WritablePage};

/// `CLOCK_MONOTONIC` of another time namespace minus that of the page's, ns.
const OFFSET_NS: i64 = 7_000_000_000;

/// A process in that namespace.
const ELSEWHERE: BootContext = BootContext {
    time_namespace: 5,
    monotonic_offset_ns: Some(OFFSET_NS),
    ..CONTEXT
};

/// The scene for a process in that namespace, and the page that counts for it.
fn elsewhere(scene: &'static Scene) -> AttachedPage<'static> {
    scene.os_jumps(OFFSET_NS);
    scene.page.attach(&ELSEWHERE).unwrap()
}

/// The scene's OS clock, as a process in that namespace takes it to the page's time.
fn in_page_time<'scene>(scene: &'scene &'static Scene) -> InPageTime<'scene, &'static Scene> {
    InPageTime {
        os: scene,
        page_offset_ns: OFFSET_NS,
    }
}

#[test]
#[cfg_attr(
    target_arch = "x86",
    ignore = "no page counts on a target without a counter"
)]
fn a_reader_in_another_namespace_gets_the_time_of_its_own_by_the_line() {
    let scene = Scene::published();
    let process_high_water = ProcessHighWater::new();
    let attached = elsewhere(scene);
    assert_eq!(attached.page_offset_ns(), OFFSET_NS);
    attached.raise_to_os_clock(&scene, &process_high_water);
    let by_line = attached.monotonic(&scene, &scene, &process_high_water);
    assert_eq!(by_line.source, PageSource::Line);
    assert!(AHEAD_NS.contains(&(by_line.ns - scene.truth_ns())));
}

#[test]
#[cfg_attr(
    target_arch = "x86",
    ignore = "no page counts on a target without a counter"
)]
fn past_the_lease_a_reading_comes_from_the_os_clock_of_the_readers_namespace() {
    let scene = Scene::published();
    let process_high_water = ProcessHighWater::new();
    let attached = elsewhere(scene);
    let by_line = attached.monotonic(&scene, &scene, &process_high_water);
    scene.pass(600_000_000);
    let before_ns = scene.truth_ns();
    let by_os = attached.monotonic(&scene, &scene, &process_high_water);
    assert!(by_os.source == PageSource::Os && by_os.ns > by_line.ns);
    assert!((before_ns..=scene.truth_ns()).contains(&by_os.ns));
}

/// The high-water mark is in the page's time, so it stays right.
#[test]
#[cfg_attr(
    target_arch = "x86",
    ignore = "no page counts on a target without a counter"
)]
fn a_forked_child_in_the_pages_namespace_keeps_the_mark_but_not_the_offset() {
    let scene = Scene::published();
    let process_high_water = ProcessHighWater::new();
    let attached = elsewhere(scene);
    scene.pass(600_000_000);
    let parent = attached.monotonic(&scene, &scene, &process_high_water);
    scene.os_jumps(-OFFSET_NS);
    let attached = scene.page.attach(&CONTEXT).unwrap();
    let child = attached.monotonic(&scene, &scene, &process_high_water);
    assert!(child.ns >= parent.ns - OFFSET_NS && child.ns < parent.ns);
}

#[test]
#[cfg_attr(
    target_arch = "x86",
    ignore = "no page counts on a target without a counter"
)]
fn a_page_of_another_namespace_does_not_count_where_the_own_offset_is_unknown() {
    let unknown = BootContext {
        monotonic_offset_ns: None,
        ..ELSEWHERE
    };
    let error = AttachError::OtherNamespace {
        namespace: CONTEXT.time_namespace,
    };
    let scene = Scene::published();
    assert_eq!(scene.page.attach(&unknown).unwrap_err(), error);
}

#[test]
fn an_attach_error_states_what_the_header_has() {
    let header = Header::new(&CONTEXT).unwrap();
    for (header, error, text) in [
        (
            Header {
                version: 2,
                ..header
            },
            AttachError::OtherVersion { version: 2 },
            "the page has layout 2, not 1: use programs and a server of one release",
        ),
        (
            Header {
                size: 100,
                ..header
            },
            AttachError::OtherSize { bytes: 100 },
            "the page says 100 bytes, not 4096: use programs and a server of one release",
        ),
        (
            Header {
                counter_id: 77,
                ..header
            },
            AttachError::OtherCounter { counter_id: 77 },
            if COUNTER_ID == 0 {
                "this target has no counter that a page can be for"
            } else {
                "the page is for an unknown counter (id 77), and this target has "
            },
        ),
        (
            Header {
                boot_id: [8; 16],
                ..header
            },
            AttachError::OtherBoot {
                page: [8; 16],
                running: [9; 16],
            },
            "the page is of boot 08080808080808080808080808080808, and this is boot 09090909090909090909090909090909: a server of this boot replaces it",
        ),
    ] {
        assert_eq!(
            WritablePage::new(&header).attach(&CONTEXT).unwrap_err(),
            error
        );
        assert!(error.to_string().starts_with(text), "{error}");
    }
}

/// Unix time is the same in every time namespace.
#[test]
fn a_reader_in_another_namespace_gets_the_coarse_unix_time() {
    let scene = Scene::published();
    scene.has_coarse.set(true);
    let coarse_ns = in_page_time(&scene).coarse_unix_ns();
    assert!(coarse_ns.is_some());
    assert_eq!(coarse_ns, (&scene).coarse_unix_ns());
}

#[test]
fn a_reader_in_another_namespace_gets_the_unix_time() {
    let scene = Scene::published();
    let before_ns = (&scene).unix_ns();
    let passed_ns = in_page_time(&scene).unix_ns() - before_ns;
    assert!((0..1_000).contains(&passed_ns), "{passed_ns} ns");
}

#[test]
fn a_reader_in_another_namespace_pauses() {
    let scene = Scene::published();
    in_page_time(&scene).pause();
    assert_eq!(scene.pauses.get(), 1);
}

/// A page of another time namespace has an offset.
#[test]
#[cfg_attr(
    target_arch = "x86",
    ignore = "no page counts on a target without a counter"
)]
fn a_reading_by_the_first_line_is_the_usual_reading() {
    let scene = Scene::published();
    let attached = scene.page.attach(&CONTEXT).unwrap();
    let marks = [ProcessHighWater::new(), ProcessHighWater::new()];
    let by_line = attached.monotonic_by_line(&scene, &marks[0]).unwrap();
    let usual = attached.monotonic(&scene, &scene, &marks[1]);
    assert!(usual.ns.abs_diff(by_line) < 1_000, "{by_line} {usual:?}");
}

#[test]
fn each_counter_of_a_page_has_a_name() {
    let names = [1, 2, 3, 4].map(counter_name);
    let known = ["x86-64's TSC", "aarch64's cntvct_el0", "riscv64's time"];
    assert_eq!(names[..3], known);
    assert_eq!(names[3], "an unknown counter");
}

/// Symptom of a time that is not shifted back: that of the page's namespace.
#[test]
#[cfg_attr(
    target_arch = "x86",
    ignore = "no page counts on a target without a counter"
)]
fn a_forked_child_of_another_namespace_gets_the_time_of_its_own() {
    let scene = Scene::without_line();
    let process_high_water = ProcessHighWater::new();
    let attached = elsewhere(scene);
    let before_ns = scene.truth_ns();
    let attachment = Attachment::default();
    let child = attached.monotonic_of_forked(&scene, &scene, &process_high_water, &attachment);
    assert!((before_ns..=scene.truth_ns()).contains(&child.ns));
}
