//! A page for tests: its line is [`AHEAD_NS`] above the OS clock, so that a reading tells where it is
//! from.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::ptr;

use tickline_page::lease::{
    Config, Did, Estimate, LeaseLine, LeaseMemory as _, LeaseStore as _, Line, Slope, Writer,
};
use tickline_page::{Counter as _, HardwareCounter, Header, Machine, OsClock, PAGE_BYTES, WritablePage};

pub(crate) const AHEAD_NS: i64 = 5_000_000;

pub(crate) fn system_call_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    assert_eq!(result, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

struct Os;

impl OsClock for Os {
    fn monotonic_ns(&self) -> i64 {
        system_call_ns(libc::CLOCK_MONOTONIC)
    }
    fn realtime_ns(&self) -> i64 {
        system_call_ns(libc::CLOCK_REALTIME)
    }
    fn pause(&self) {
        std::thread::yield_now();
    }
}

/// Counter and clock at one time: within the shortest of some brackets, as this thread may be stopped.
fn together(counter: &HardwareCounter) -> (u64, i64) {
    let samples = (0..100).map(|_| {
        let (before, ns, after) =
            (counter.now_ordered(), system_call_ns(libc::CLOCK_MONOTONIC), counter.now_ordered());
        (after - before, (before.midpoint(after), ns))
    });
    samples.min().unwrap().1
}

/// A page with one line of a day, in a folder of its own.
pub(crate) fn served_page() -> (tempfile::TempDir, PathBuf) {
    page_off_by(0, 0)
}

/// The same, whose line is lower by `less_ns`, and whose Unix time is above the line by `more_ns` more.
pub(crate) fn page_off_by(less_ns: i64, more_ns: i64) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let path = folder.path().join("page");
    let file = File::options().read(true).write(true).create_new(true).open(&path).unwrap();
    file.set_len(PAGE_BYTES as u64).unwrap();
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let start =
        unsafe { libc::mmap(ptr::null_mut(), PAGE_BYTES, protection, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert_ne!(start, libc::MAP_FAILED);
    // SAFETY: readable, writable, and never unmapped.
    let page = unsafe { WritablePage::at(start.cast()) };
    page.claim(&Header::of(&Machine::find().unwrap())).unwrap();
    let counter = HardwareCounter::if_present().unwrap();
    let (from_ticks, from_ns) = together(&counter);
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (ticks, ns) = together(&counter);
    let hz = u128::from(ticks - from_ticks) * 1_000_000_000 / u128::try_from(ns - from_ns).unwrap();
    let slope = Slope::from_hz(u64::try_from(hz).unwrap()).unwrap();
    let line = |ahead_ns: i64| Line { start_ticks: ticks, base_ns: ns + ahead_ns, slope };
    let offset_ns = system_call_ns(libc::CLOCK_REALTIME) - system_call_ns(libc::CLOCK_MONOTONIC) + more_ns;
    let unix_ns = Some((offset_ns - 1_000, offset_ns + 1_000));
    let estimate = Estimate { lower: line(-1_000_000), upper: line(AHEAD_NS), unix_ns };
    let config = Config { lease_ns: 86_400_000_000_000, ..Config::DEFAULT };
    // An opening that was interrupted comes to nothing; the next one may be a new writer's.
    let opened = (0..100).any(|_| {
        let mut writer = Writer::start(page.words(), config).unwrap();
        writer.step(page.words(), &counter, &Os, Some(&estimate)).unwrap().did == Did::Opened
    });
    assert!(opened);
    let slot = page.words().word().first();
    let found = LeaseLine::load(page.words(), slot);
    let line = Line { base_ns: found.line.base_ns - less_ns, ..found.line };
    page.words().fill(slot, &LeaseLine { line, ..found }.to_words());
    (folder, path)
}

pub(crate) fn counter_is_readable() -> bool {
    let mut mode = 0;
    // SAFETY: there is room for the answer.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result == 0 && mode == libc::PR_TSC_ENABLE
}
