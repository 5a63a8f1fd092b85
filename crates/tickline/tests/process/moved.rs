//! A hypervisor moves the machine: a file stands for its VMClock, and the disruption marker
//! changes. A process maps one VMClock, so each test needs a process.

use std::ffi::CString;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use tickline::backend::{OsClock, Reference as _, VmClockMapping};
use tickline::{Clock, ClockState, Event};
use tickline_observe::wait_until;

use crate::common::wait_until_fast;

// Tests: the functions of these names.
in_processes! { run_in_child:
    a_moved_machine_is_disrupted_and_recovers,
    a_file_that_is_no_vmclock_is_not_mapped,
    an_empty_file_is_not_mapped,
    a_pipe_is_not_waited_for,
}

const PATIENCE: Duration = Duration::from_secs(20);

/// The magic number, its place, and that of the marker (`struct vmclock_abi` of Linux).
const MAGIC: u32 = 0x4B4C_4356;
const MAGIC_AT: u64 = 0;
const MARKER_AT: u64 = 16;

/// A file of one page, without a name.
fn page() -> (File, CString) {
    let path = std::env::temp_dir().join(format!("tickline-moved-{}", std::process::id()));
    let file = File::create(&path).unwrap();
    file.set_len(4_096).unwrap();
    (
        file,
        CString::new(path.into_os_string().into_encoded_bytes()).unwrap(),
    )
}

fn remove(device: &CString) {
    std::fs::remove_file(device.to_str().unwrap()).unwrap();
}

fn a_moved_machine_is_disrupted_and_recovers() {
    let (file, device) = page();
    file.write_all_at(&MAGIC.to_ne_bytes(), MAGIC_AT).unwrap();
    file.write_all_at(&7_u64.to_ne_bytes(), MARKER_AT).unwrap();
    // Before the first clock, which maps the machine's own VMClock if there is one.
    let mapping = OsClock::map_vmclock(&device);
    remove(&device);
    assert_eq!(mapping, VmClockMapping::Mapped);
    assert_eq!(OsClock.disruption_marker(), Some(7));
    let clock = Clock::builder().build().unwrap();
    if wait_until_fast(&clock).is_none() {
        return;
    }
    let disruptions = || clock.status().events.get(Event::Disruption);
    let before = disruptions();
    file.write_all_at(&8_u64.to_ne_bytes(), MARKER_AT).unwrap();
    let is_state = |state| wait_until(PATIENCE, || clock.status().state == state);
    assert!(is_state(ClockState::Disrupted), "{:?}", clock.status());
    assert!(disruptions() > before);
    assert!(is_state(ClockState::Fast), "{:?}", clock.status());
}

/// Symptom: SIGBUS.
fn an_empty_file_is_not_mapped() {
    let (file, device) = page();
    file.set_len(0).unwrap();
    let mapping = OsClock::map_vmclock(&device);
    remove(&device);
    assert_eq!(mapping, VmClockMapping::Unreadable);
    assert_eq!(OsClock.disruption_marker(), None);
}

/// Symptom: the call waited for a writer.
fn a_pipe_is_not_waited_for() {
    let (_file, device) = page();
    remove(&device);
    // SAFETY: the name is a C string.
    assert_eq!(unsafe { libc::mkfifo(device.as_ptr(), 0o600) }, 0);
    let mapping = OsClock::map_vmclock(&device);
    remove(&device);
    assert_eq!(mapping, VmClockMapping::Unreadable);
    assert_eq!(OsClock.disruption_marker(), None);
}

fn a_file_that_is_no_vmclock_is_not_mapped() {
    let (_file, device) = page();
    let mapping = OsClock::map_vmclock(&device);
    remove(&device);
    assert_eq!(mapping, VmClockMapping::NoVmClock);
    assert_eq!(OsClock.disruption_marker(), None);
}
