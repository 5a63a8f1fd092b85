//! A program with the library in `LD_PRELOAD`, next to system calls of its own: this test, executed
//! again. That every call answers as without the library is a test of `tickline-cli`
//! (`every_call_answers_as_without_a_page`).

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "what was skipped")]

#[path = "../../tickline/tests/common/fork.rs"]
mod fork;
mod page;

use std::env;
use std::ffi::CString;
use std::fs;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use fork::{CANNOT, code_in_time_namespace, code_of_fork};
use page::{AHEAD_NS, counter_is_readable, page_off_by, served_page, system_call_ns};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use tempfile::TempDir;

/// The test that a child runs, and what it does there.
const ROLE: &str = "TICKLINE_TEST_ROLE";

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

fn ns_by(clock_gettime: ClockGettime, clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    assert_eq!(unsafe { clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn libc_ns(clock: libc::clockid_t) -> i64 {
    ns_by(libc::clock_gettime, clock)
}

/// Whether readings by this function are from the page.
fn is_served_by(clock_gettime: ClockGettime, clock: libc::clockid_t) -> bool {
    // A thread can be stopped between any two of the readings, so the one before is the bound.
    (0..100).any(|_| ns_by(clock_gettime, clock) > system_call_ns(clock))
}

fn is_served(clock: libc::clockid_t) -> bool {
    is_served_by(libc::clock_gettime, clock)
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

/// What the other tests run in a child.
#[test]
fn child() {
    match env::var(ROLE).as_deref() {
        Ok("served") => served(),
        Ok("native") => native(),
        Ok("off") => off(),
        Ok("elsewhere") => elsewhere(),
        Ok("far") => far(),
        Ok("closed") => closed(),
        Ok("twice") => twice(),
        Ok("behind") => behind(),
        Ok("left") => left(),
        Ok("denied") => opened(true),
        Ok("opened") => opened(false),
        _ => {}
    }
}

/// A page and its folder; `None` where no page is read.
fn served_page_if_read() -> Option<(TempDir, PathBuf)> {
    let is_read = counter_is_readable();
    if !is_read {
        println!("SKIPPED: the counter may not be read");
    }
    is_read.then(served_page)
}

#[test]
fn a_program_is_served() {
    let Some((_folder, page)) = served_page_if_read() else { return };
    for role in ["served", "elsewhere", "twice"] {
        passes(&mut run(role, &page));
    }
    for role in ["native", "off"] {
        passes(run(role, &page).env("TICKLINE", "off"));
    }
    // Nothing, a link to a page that is right, and a page in a folder that is a link to the right
    // one.
    let (link, folder) = (page.with_file_name("link"), page.with_file_name("folder"));
    symlink(&page, &link).unwrap();
    symlink(page.parent().unwrap(), &folder).unwrap();
    for page in [Path::new("/nonexistent/page"), &link, &folder.join("page"), &folder.join("./page")] {
        passes(&mut run("native", page));
    }
    // A page that others may write to.
    for (mode, role) in [(0o666, "native"), (0o644, "served")] {
        fs::set_permissions(&page, fs::Permissions::from_mode(mode)).unwrap();
        passes(&mut run(role, &page));
    }
    for (role, less_ns, more_ns) in [
        ("far", 0, 200_000_000),
        // So far that a child of a fork finds it near and far by turns, as the kernel's ticks go
        // on.
        ("behind", AHEAD_NS + 2_500_000, 0),
        // As in the moments after a VM was paused.
        ("left", LEFT_NS, 0),
    ] {
        let (_folder, page) = page_off_by(less_ns, more_ns);
        passes(&mut run(role, &page));
    }
}

/// However it is closed: the vDSO's symbols lead to it.
#[test]
fn the_library_stays_where_it_is() {
    passes(run("closed", Path::new("/nonexistent/page")).env_remove("LD_PRELOAD"));
}

fn open_library(path: &Path) -> *mut libc::c_void {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library asks the kernel, and sets up itself.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

/// Opens the library, and closes it.
fn closed() {
    let is_mapped = || fs::read_to_string("/proc/self/maps").unwrap().contains("libtickline_preload");
    assert!(!is_mapped());
    let handle = open_library(&library());
    // SAFETY: opened once, closed once.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
    assert!(is_mapped());
}

fn clock_gettime_of(handle: *mut libc::c_void) -> ClockGettime {
    // SAFETY: a name with a zero at its end.
    let function = unsafe { libc::dlsym(handle, c"clock_gettime".as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: the library's function of this name, whose type this is.
    unsafe { mem::transmute::<*mut libc::c_void, ClockGettime>(function) }
}

/// Another copy of the library, as a program that `tickline run` traces may have it, leads to the
/// first.
fn twice() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.so");
    fs::copy(library(), &copy).unwrap();
    assert!(is_served_by(clock_gettime_of(open_library(&copy)), libc::CLOCK_MONOTONIC));
}

/// A process that may not read the counter has the kernel's clock, also once it may.
#[test]
fn a_process_that_is_denied_the_counter_is_not_served() {
    let Some((_folder, page)) = served_page_if_read() else { return };
    for role in ["denied", "opened"] {
        passes(run(role, &page).env_remove("LD_PRELOAD"));
    }
}

/// Opens the library while the counter may not be read, or at any time.
fn opened(is_denied: bool) {
    // With a dynamic linker that itself reads the counter at its start, no program is executed so.
    let set = |mode: libc::c_int| {
        // SAFETY: no pointer goes in.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, mode) }, 0);
    };
    set(if is_denied { libc::PR_TSC_SIGSEGV } else { libc::PR_TSC_ENABLE });
    let handle = open_library(&library());
    set(libc::PR_TSC_ENABLE);
    assert_eq!(is_served_by(clock_gettime_of(handle), libc::CLOCK_MONOTONIC), !is_denied);
}

const SERVED: [libc::clockid_t; 2] = [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME];

fn served() {
    for clock in SERVED {
        assert!(is_served(clock), "clock {clock}");
        // Never far from the kernel's, however long this thread was stopped.
        let (before_ns, page_ns, after_ns) = (system_call_ns(clock), libc_ns(clock), system_call_ns(clock));
        assert!(page_ns >= before_ns, "clock {clock}");
        assert!(page_ns <= after_ns + 2 * AHEAD_NS, "clock {clock}");
    }
    unsafe extern "C" fn by_timespec_get(_: libc::clockid_t, time: *mut libc::timespec) -> libc::c_int {
        // SAFETY: by the caller's promise.
        unsafe { timespec_get(time, 1) - 1 }
    }
    assert!(is_served_by(by_timespec_get, libc::CLOCK_REALTIME), "timespec_get");
}

unsafe extern "C" {
    fn timespec_get(time: *mut libc::timespec, base: libc::c_int) -> libc::c_int;
}

fn native() {
    for clock in SERVED {
        assert!(!is_served(clock), "clock {clock}");
    }
}

/// Symptom: a library that was switched off made a system call of what the vDSO can answer: a
/// filter of system calls may not allow that.
fn off() {
    let denied = code_of_fork(|| {
        let rules = [(libc::SYS_clock_gettime, vec![])].into_iter().collect();
        let (architecture, refuse) = (env::consts::ARCH.try_into().unwrap(), SeccompAction::Errno(1));
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap();
        if seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).is_err() {
            return CANNOT;
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // The vDSO answers coarse clocks with any clocksource.
        // SAFETY: there is room for the time.
        i32::from(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) } != 0)
    });
    if denied == CANNOT || !has_vdso() {
        println!("SKIPPED: no filter, or no vDSO");
        return;
    }
    assert_eq!(denied, 0);
}

fn has_vdso() -> bool {
    // SAFETY: any number may be asked for.
    unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) != 0 }
}

/// Unix time that the page puts far above the kernel's last tick was set by somebody (rule R10).
fn far() {
    assert!(is_served(libc::CLOCK_MONOTONIC));
    if has_vdso() {
        assert!(!is_served(libc::CLOCK_REALTIME));
    } else {
        println!("SKIPPED: without a vDSO there is no time of the last tick");
    }
}

/// Symptom: a child of a fork had the OS clock, as long as it did not know its time namespace, and
/// then a line that was below that (rule R8).
fn behind() {
    for _ in 0..50 {
        let code = code_of_fork(|| {
            let mut last_ns = libc_ns(libc::CLOCK_MONOTONIC);
            // Two ticks of the kernel.
            let end_ns = last_ns + 20_000_000;
            let mut is_ordered = true;
            while system_call_ns(libc::CLOCK_MONOTONIC) < end_ns {
                let now_ns = libc_ns(libc::CLOCK_MONOTONIC);
                is_ordered &= now_ns >= last_ns;
                last_ns = now_ns;
            }
            i32::from(!is_ordered)
        });
        assert_eq!(code, 0);
    }
}

/// By how much the line is lower at first in [`left`], ns: 5 s below the OS clock.
const LEFT_NS: i64 = AHEAD_NS + 5_000_000_000;

/// Makes the line in the file at `path` say so much more.
fn raise_line(path: &Path, ns: i64) {
    let file = fs::File::options().read(true).write(true).open(path).unwrap();
    let load = |place| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, place).unwrap();
        u64::from_ne_bytes(bytes)
    };
    // The word, and the base of the slot that it names first (tickline-page's README).
    let base = 128 + 64 * (load(64) >> 3 & 7) + 8;
    file.write_all_at(&load(base).wrapping_add_signed(ns).to_ne_bytes(), base).unwrap();
}

/// Symptom: a child of a fork that first found the line seconds behind had the kernel's clock for
/// life.
fn left() {
    let page = PathBuf::from(env::var_os("TICKLINE_PAGE").unwrap());
    let code = code_of_fork(|| {
        let had_kernels = !is_served(libc::CLOCK_MONOTONIC);
        raise_line(&page, LEFT_NS);
        // At the end of a kernel's tick the coarse clock is so late that a line 5 ms ahead is not
        // near.
        let is_served_soon = (0..1_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            is_served(libc::CLOCK_MONOTONIC)
        });
        i32::from(!had_kernels) + 2 * i32::from(!is_served_soon)
    });
    assert_eq!(code, 0);
}

/// A child of a fork in another time namespace has the kernel's clock there. The line is 5 ms
/// ahead. Symptom: one whose clock was 23 ms ahead was served, 18 ms below its own clock.
fn elsewhere() {
    for ahead_ns in [100_000_000_000_000, 23_000_000] {
        let moved = code_in_time_namespace(ahead_ns, || {
            let clock = libc::CLOCK_MONOTONIC;
            let is_native = (0..100).all(|_| {
                let before_ns = system_call_ns(clock);
                let own_ns = libc_ns(clock);
                (before_ns..=system_call_ns(clock)).contains(&own_ns)
            });
            i32::from(!is_native)
        });
        if moved == CANNOT {
            println!("SKIPPED: no time namespace can be made here");
            return;
        }
        assert_eq!(moved, 0, "{ahead_ns} ns ahead");
    }
}
