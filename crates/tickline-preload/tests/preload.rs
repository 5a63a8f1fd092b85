//! A program with the library in `LD_PRELOAD`, beside system calls of its own: this test, executed
//! again.
//!
//! The page is one whose line is 5 ms above the OS clock, so that a reading tells where it is from.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "what was skipped")]

use std::env;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr;

use tickline_core::unstable::lease::{Config, Did, Estimate, OsClock, Writer};
use tickline_core::unstable::line::{Line, Slope};
use tickline_page::{Counter as _, HardwareCounter, Header, Machine, PAGE_BYTES, WritablePage};

const AHEAD_NS: i64 = 5_000_000;

/// The test that a child runs, and what it does there.
const ROLE: &str = "TICKLINE_TEST_ROLE";

fn system_call_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
    assert_eq!(result, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn libc_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
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

/// A page with one line of a day, in a folder of its own.
fn served_page() -> (tempfile::TempDir, PathBuf) {
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
    let (from_ticks, from_ns) = (counter.now_ordered(), system_call_ns(libc::CLOCK_MONOTONIC));
    std::thread::sleep(std::time::Duration::from_millis(50));
    let (ticks, ns) = (counter.now_ordered(), system_call_ns(libc::CLOCK_MONOTONIC));
    let hz = u128::from(ticks - from_ticks) * 1_000_000_000 / u128::try_from(ns - from_ns).unwrap();
    let slope = Slope::from_hz(u64::try_from(hz).unwrap()).unwrap();
    let line = |ahead_ns: i64| Line { start_ticks: ticks, base_ns: ns + ahead_ns, slope };
    let offset_ns = system_call_ns(libc::CLOCK_REALTIME) - system_call_ns(libc::CLOCK_MONOTONIC);
    let unix_ns = Some((offset_ns - 1_000, offset_ns + 1_000));
    let estimate = Estimate { lower: line(-1_000_000), upper: line(AHEAD_NS), unix_ns };
    let config = Config { lease_ns: 86_400_000_000_000, ..Config::DEFAULT };
    // An opening that was interrupted comes to nothing; the next one may be a new writer's.
    let opened = (0..100).any(|_| {
        let mut writer = Writer::start(page.words(), config).unwrap();
        writer.step(page.words(), &counter, &Os, Some(&estimate)).unwrap().did == Did::Opened
    });
    assert!(opened);
    (folder, path)
}

/// The library, which cargo builds for this test.
fn library() -> PathBuf {
    let path = env::current_exe().unwrap();
    path.parent().unwrap().join("libtickline_preload.so")
}

fn run(role: &str, page: &Path) -> Command {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "child", "--nocapture"]);
    child.env("LD_PRELOAD", library()).env(ROLE, role);
    child.env("TICKLINE_PAGE", page).env("TICKLINE_SERVE", "always");
    child
}

fn passes(child: &mut Command) {
    let Output { status, stdout, stderr } = child.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{status}\n{}{}", text(&stdout), text(&stderr));
    assert!(text(&stdout).contains("1 passed"));
}

fn counter_is_readable() -> bool {
    let mut mode = 0;
    // SAFETY: there is room for the answer.
    let result = unsafe { libc::prctl(libc::PR_GET_TSC, &raw mut mode) };
    result == 0 && mode == libc::PR_TSC_ENABLE
}

/// What the other tests run in a child.
#[test]
fn child() {
    match env::var(ROLE).as_deref() {
        Ok("served") => served(),
        Ok("native") => native(),
        Ok("odd") => odd_calls(),
        Ok("forked") => forked(),
        Ok("elsewhere") => elsewhere(),
        _ => {}
    }
}

#[test]
fn a_program_is_served() {
    if !counter_is_readable() {
        println!("SKIPPED: the counter may not be read");
        return;
    }
    let (_folder, page) = served_page();
    for role in ["served", "odd", "forked", "elsewhere"] {
        passes(&mut run(role, &page));
    }
    passes(run("native", &page).env("TICKLINE", "off"));
    passes(&mut run("native", Path::new("/nonexistent/page")));
    // A page that others may write to.
    fs::set_permissions(&page, fs::Permissions::from_mode(0o666)).unwrap();
    passes(&mut run("native", &page));
    fs::set_permissions(&page, fs::Permissions::from_mode(0o644)).unwrap();
    passes(&mut run("served", &page));
    // A link to one that is right.
    let link = page.with_file_name("link");
    std::os::unix::fs::symlink(&page, &link).unwrap();
    passes(&mut run("native", &link));
}

const SERVED: [libc::clockid_t; 2] = [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME];

fn is_served(clock: libc::clockid_t) -> bool {
    // A thread can be stopped between any two of the readings, so the one before is what tells.
    let page_ns = libc_ns(clock);
    page_ns - system_call_ns(clock) > 0
}

fn served() {
    for clock in SERVED {
        assert!((0..100).any(|_| is_served(clock)), "clock {clock}");
        // Never far from the kernel's, however long this thread was stopped.
        let (before_ns, page_ns, after_ns) = (system_call_ns(clock), libc_ns(clock), system_call_ns(clock));
        assert!(page_ns >= before_ns, "clock {clock}");
        assert!(page_ns <= after_ns + 2 * AHEAD_NS, "clock {clock}");
    }
    let (mut time, mut spec) =
        (libc::timeval { tv_sec: 0, tv_usec: 0 }, libc::timespec { tv_sec: 0, tv_nsec: 0 });
    let ahead = (0..100).any(|_| {
        // SAFETY: there is room for the time.
        unsafe { libc::gettimeofday(&raw mut time, ptr::null_mut()) };
        time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000 > system_call_ns(libc::CLOCK_REALTIME)
    });
    assert!(ahead, "gettimeofday");
    let ahead = (0..100).any(|_| {
        // SAFETY: there is room for the time.
        assert_eq!(unsafe { timespec_get(&raw mut spec, 1) }, 1);
        spec.tv_sec * 1_000_000_000 + spec.tv_nsec > system_call_ns(libc::CLOCK_REALTIME)
    });
    assert!(ahead, "timespec_get");
}

unsafe extern "C" {
    fn timespec_get(time: *mut libc::timespec, base: libc::c_int) -> libc::c_int;
}

fn native() {
    for clock in SERVED {
        assert!(!(0..100).any(|_| is_served(clock)), "clock {clock}");
    }
}

/// As without the library: the error numbers, and `errno` where there is no error.
fn odd_calls() {
    let errno = || io::Error::last_os_error().raw_os_error();
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time; the kernel refuses the clocks.
    for clock in [77, -1, i32::MAX] {
        // SAFETY: there is room for the time.
        let result = unsafe { libc::syscall(libc::SYS_clock_gettime, clock, &raw mut time) };
        let kernels = (result, errno());
        // SAFETY: as above.
        let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
        assert_eq!((i64::from(result), errno()), kernels, "clock {clock}");
    }
    assert_eq!(errno(), Some(libc::EINVAL));
    libc_ns(libc::CLOCK_MONOTONIC);
    assert_eq!(errno(), Some(libc::EINVAL), "a reading leaves errno as it is");
    for clock in [libc::CLOCK_BOOTTIME, libc::CLOCK_MONOTONIC_RAW, libc::CLOCK_PROCESS_CPUTIME_ID] {
        let (before_ns, own_ns, after_ns) = (system_call_ns(clock), libc_ns(clock), system_call_ns(clock));
        assert!((before_ns..=after_ns).contains(&own_ns), "clock {clock}");
    }
    // SAFETY: a null pointer is allowed here: nothing is stored.
    assert_eq!(unsafe { libc::gettimeofday(ptr::null_mut(), ptr::null_mut()) }, 0);
    // SAFETY: there is room for the time.
    assert_eq!(unsafe { timespec_get(&raw mut time, 77) }, 0);
}

/// A child of a fork is served, and not before its parent.
fn forked() {
    let before_ns = libc_ns(libc::CLOCK_MONOTONIC);
    let code = in_a_fork(|| {
        let is_ordered = libc_ns(libc::CLOCK_MONOTONIC) >= before_ns;
        let is_served = (0..100).any(|_| is_served(libc::CLOCK_MONOTONIC));
        i32::from(!(is_ordered && is_served))
    });
    assert_eq!(code, 0);
}

/// What a forked process could not do here.
const SKIPPED: i32 = 77;

/// A child of a fork in another time namespace has the kernel's clock there.
fn elsewhere() {
    // A process with one thread may have a user namespace of its own, and in that any other.
    let moved = in_a_fork(|| {
        // SAFETY: no pointer goes in.
        if unsafe { libc::unshare(libc::CLONE_NEWUSER | CLONE_NEWTIME) } != 0
            || fs::write("/proc/self/timens_offsets", "monotonic 100000 0").is_err()
        {
            return SKIPPED;
        }
        in_a_fork(|| {
            let clock = libc::CLOCK_MONOTONIC;
            let is_native = (0..100).all(|_| {
                let before_ns = system_call_ns(clock);
                let own_ns = libc_ns(clock);
                (before_ns..=system_call_ns(clock)).contains(&own_ns)
            });
            i32::from(!is_native)
        })
    });
    if moved == SKIPPED {
        println!("SKIPPED: no time namespace can be made here");
        return;
    }
    assert_eq!(moved, 0);
}

/// `CLONE_NEWTIME` (Linux, `linux/sched.h`).
const CLONE_NEWTIME: libc::c_int = 0x80;

/// Runs `act` in a child of a fork. Returns its exit code.
fn in_a_fork(act: impl Fn() -> i32) -> i32 {
    // SAFETY: the child asks clocks and the kernel, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends this process alone.
        unsafe { libc::_exit(act()) };
    }
    let mut status = 0;
    // SAFETY: there is room for the status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    if libc::WIFEXITED(status) { libc::WEXITSTATUS(status) } else { -1 }
}
