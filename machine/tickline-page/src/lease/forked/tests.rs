//! Rule R11, reading by reading. The simulator checks the order of the readings of many processes.

use super::super::testing::Scene;
use super::*;

const MILLISECOND_NS: i64 = 1_000_000;

/// A forked child of a process that has returned times up to `mark_ns`.
struct Child {
    scene: &'static Scene,
    process_high_water: ProcessHighWater,
    attachment: Attachment,
}

impl Child {
    fn of(scene: &'static Scene, mark_ns: i64) -> Self {
        let child = Self {
            scene,
            process_high_water: ProcessHighWater::new(),
            attachment: Attachment::default(),
        };
        child.process_high_water.raise(mark_ns);
        child
    }

    fn read(&self) -> PageReading {
        let (scene, mark) = (self.scene, &self.process_high_water);
        read_forked(scene, &scene, &scene, mark, &self.attachment)
    }

    /// Reads, and checks that the reading is that of the OS clock.
    #[track_caller]
    fn assert_reads_the_os_clock(&self) {
        let before_ns = self.scene.truth_ns();
        let PageReading { ns, source } = self.read();
        assert_eq!(source, PageSource::Os);
        let os_ns = before_ns..=self.scene.truth_ns();
        assert!(os_ns.contains(&ns), "{ns} in {os_ns:?}");
    }
}

/// A page whose line is above the OS clock of a child by about `ahead_ns`.
fn scene_ahead(ahead_ns: i64) -> &'static Scene {
    let scene = Scene::published();
    scene.pass_until_current();
    scene.os_jumps(-ahead_ns);
    scene
}

#[test]
fn rule_r11_without_a_line_a_child_reads_the_os_clock() {
    let child = Child::of(Scene::without_line(), 0);
    child.assert_reads_the_os_clock();
    assert!(!child.attachment.is_attached());
}

#[test]
fn rule_r11_a_child_that_finds_a_near_line_attaches() {
    for ahead_ns in [-1, 0, 11] {
        let child = Child::of(scene_ahead(ahead_ns * MILLISECOND_NS), 0);
        assert_eq!(child.read().source, PageSource::Line, "{ahead_ns} ms");
        assert!(child.attachment.is_attached(), "{ahead_ns} ms");
    }
}

/// Rule R8: the process may have read the OS clock until then.
#[test]
fn rule_r11_a_child_that_attaches_raises_its_mark_to_the_os_clock() {
    let child = Child::of(scene_ahead(-MILLISECOND_NS), 0);
    let os_ns = child.scene.truth_ns();
    assert!(child.read().ns >= os_ns);
    assert!(child.process_high_water.ns() >= os_ns);
}

#[test]
fn rule_r11_a_child_that_finds_a_far_line_does_not_attach() {
    for ahead_ns in [-3, 13, 1_900, 2_100] {
        let child = Child::of(scene_ahead(ahead_ns * MILLISECOND_NS), 0);
        assert_eq!(child.read().source, PageSource::Os, "{ahead_ns} ms");
        assert!(!child.attachment.is_attached(), "{ahead_ns} ms");
    }
}

#[test]
fn rule_r11_a_line_below_the_os_clock_does_not_count() {
    Child::of(scene_ahead(-3 * MILLISECOND_NS), 0).assert_reads_the_os_clock();
}

#[test]
fn rule_r11_a_line_less_than_2_s_above_the_os_clock_is_followed() {
    for ahead_ns in [13, 1_900] {
        let child = Child::of(scene_ahead(ahead_ns * MILLISECOND_NS), 0);
        let line_ns = child.scene.now();
        assert!(child.read().ns >= line_ns, "{ahead_ns} ms");
    }
}

/// Past the leases the page has a mark, and no line to attach to.
#[test]
fn rule_r11_a_mark_of_the_page_little_above_the_os_clock_is_followed() {
    let scene = Scene::published_twice();
    let last = scene.last();
    scene.ticks.set(last.end_ticks + 1);
    scene.os_jumps(last.end_ns() - 5 * MILLISECOND_NS - scene.truth_ns());
    let reading = Child::of(scene, 0).read();
    assert_eq!(
        (reading.source, reading.ns),
        (PageSource::Os, last.end_ns())
    );
}

#[test]
fn rule_r11_a_line_2_s_above_the_os_clock_is_of_another_namespace() {
    Child::of(scene_ahead(OTHER_NAMESPACE_NS), 0).assert_reads_the_os_clock();
}

#[test]
fn rule_r11_a_line_above_the_os_clock_is_followed_for_2_s() {
    let attachment = Attachment::default();
    let limit_ns = 1_000 + OTHER_NAMESPACE_NS;
    for (page_ns, followed_ns) in [
        (1_000, 1_000),
        (limit_ns, limit_ns),
        (limit_ns + 1, limit_ns),
        (900, 900),
    ] {
        assert_eq!(attachment.limited_ns(page_ns), followed_ns);
    }
}

/// The child follows the line to the limit that its first reading has set.
#[test]
fn rule_r11_a_child_that_follows_a_line_keeps_to_its_limit() {
    let child = Child::of(scene_ahead(100 * MILLISECOND_NS), 0);
    let line_ns = child.scene.now();
    child.attachment.limited_ns(line_ns - OTHER_NAMESPACE_NS);
    assert_eq!(child.read().ns, line_ns);
}

/// Its parent has returned the mark.
#[test]
fn rule_r11_a_child_is_not_below_a_mark_less_than_2_s_above_the_os_clock() {
    let scene = Scene::without_line();
    let mark_ns = scene.truth_ns() + OTHER_NAMESPACE_NS - MILLISECOND_NS;
    assert_eq!(Child::of(scene, mark_ns).read().ns, mark_ns);
}

/// The parent was in another namespace.
#[test]
fn rule_r11_a_mark_that_is_further_above_the_os_clock_does_not_count() {
    let scene = Scene::without_line();
    let mark_ns = scene.truth_ns() + OTHER_NAMESPACE_NS + MILLISECOND_NS;
    Child::of(scene, mark_ns).assert_reads_the_os_clock();
}

/// The other thread has read the OS clock earlier, so its mark may be below this reading.
#[test]
fn rule_r11_a_thread_raises_the_mark_if_another_thread_attaches() {
    let child = Child::of(scene_ahead(-3 * MILLISECOND_NS), 0);
    child.attachment.raise_to(ATTACHING);
    assert_eq!(child.read().ns, child.process_high_water.ns());
}

#[test]
fn rule_r11_a_reading_by_a_far_line_leaves_the_mark() {
    let child = Child::of(scene_ahead(-3 * MILLISECOND_NS), 0);
    _ = child.read();
    assert_eq!(child.process_high_water.ns(), 0);
}

#[test]
fn a_process_is_attached_once_it_is_set_so() {
    let attachment = Attachment::default();
    assert!(!attachment.is_attached());
    attachment.set_attached();
    assert!(attachment.is_attached());
}

#[test]
fn a_clock_that_keeps_its_last_value_has_the_same_unix_time() {
    let scene = Scene::published();
    let last = LastValue {
        os: &scene,
        ns: Cell::new(0),
    };
    let before_ns = (&scene).unix_ns();
    let unix_ns = last.unix_ns();
    assert!((before_ns..=(&scene).unix_ns()).contains(&unix_ns));
}
