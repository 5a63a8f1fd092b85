//! A program with the library in `LD_PRELOAD`, beside system calls of its own: this test, executed
//! again.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![expect(clippy::print_stdout, reason = "what was skipped")]

#[path = "../../tickline/tests/common/fork.rs"]
mod fork;
mod page;

use std::env;
use std::ffi::CString;
use std::fs;
use std::io;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::ptr;

use fork::{CANNOT, code_in_time_namespace, code_of_fork};
use page::{AHEAD_NS, counter_is_readable, page_off_by, served_page, system_call_ns};

/// The test that a child runs, and what it does there.
const ROLE: &str = "TICKLINE_TEST_ROLE";

fn libc_ns(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    assert_eq!(result, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
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
        Ok("odd") => odd_calls(),
        Ok("forked") => forked(),
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

#[test]
fn a_program_is_served() {
    if !counter_is_readable() {
        println!("SKIPPED: the counter may not be read");
        return;
    }
    let (_folder, page) = served_page();
    for role in ["served", "odd", "forked", "elsewhere", "twice"] {
        passes(&mut run(role, &page));
    }
    passes(run("native", &page).env("TICKLINE", "off"));
    passes(run("off", &page).env("TICKLINE", "off"));
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
    // A page in a folder that is a link to the right one.
    let link = page.with_file_name("folder");
    std::os::unix::fs::symlink(page.parent().unwrap(), &link).unwrap();
    passes(&mut run("native", &link.join(page.file_name().unwrap())));
    let (_folder, page) = page_off_by(0, 200_000_000);
    passes(&mut run("far", &page));
    // So far that a child of a fork finds it near and far by turns, as the kernel's ticks go on.
    let (_folder, page) = page_off_by(AHEAD_NS + 2_500_000, 0);
    passes(&mut run("behind", &page));
    // As in the moments after a VM was paused.
    let (_folder, page) = page_off_by(LEFT_NS, 0);
    passes(&mut run("left", &page));
}

/// Whatever closes it: the vDSO's symbols lead to it.
#[test]
fn the_library_stays_where_it_is() {
    let bytes = fs::read(library()).unwrap();
    let file = elf::ElfBytes::<elf::endian::LittleEndian>::minimal_parse(&bytes).unwrap();
    let flags = file.dynamic().unwrap().unwrap().iter().find(|entry| entry.d_tag == elf::abi::DT_FLAGS_1);
    const NODELETE: u64 = 8;
    assert_eq!(flags.map(|entry| entry.d_val() & NODELETE), Some(NODELETE));
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

type ClockGettime = extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

fn clock_gettime_of(handle: *mut libc::c_void) -> ClockGettime {
    // SAFETY: a name with a zero at its end.
    let function = unsafe { libc::dlsym(handle, c"clock_gettime".as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: the library's function of this name, whose type this is.
    unsafe { mem::transmute::<*mut libc::c_void, ClockGettime>(function) }
}

/// Whether `clock_gettime` has a time from the page.
fn is_ahead(clock_gettime: ClockGettime) -> bool {
    (0..100).any(|_| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        assert_eq!(clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time), 0);
        time.tv_sec * 1_000_000_000 + time.tv_nsec > system_call_ns(libc::CLOCK_MONOTONIC)
    })
}

/// Another copy of the library, as a program that `tickline run` traces may have it, leads to the first.
fn twice() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.so");
    fs::copy(library(), &copy).unwrap();
    assert!(is_ahead(clock_gettime_of(open_library(&copy))));
}

/// A process that may not read the counter has the kernel's clock, also once it may.
#[test]
fn a_process_that_is_denied_the_counter_is_not_served() {
    if !counter_is_readable() {
        println!("SKIPPED: the counter may not be read");
        return;
    }
    let (_folder, page) = served_page();
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
    assert_eq!(is_ahead(clock_gettime_of(handle)), !is_denied);
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

/// Symptom: a library that was switched off made a system call of what the vDSO can answer: a filter of
/// system calls may not allow that.
fn off() {
    let denied = code_of_fork(|| {
        let clock = u32::try_from(libc::SYS_clock_gettime).unwrap();
        let statement = |code: u32, k: u32, jf: u8| libc::sock_filter {
            code: u16::try_from(code).unwrap(),
            jt: 0,
            jf,
            k,
        };
        let errno = libc::SECCOMP_RET_ERRNO | u32::try_from(libc::EPERM).unwrap();
        let mut filter = [
            statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0),
            statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, clock, 1),
            statement(libc::BPF_RET | libc::BPF_K, errno, 0),
            statement(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW, 0),
        ];
        let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
        // SAFETY: no pointer goes in.
        let granted = unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
        // SAFETY: a filter of four statements, which the kernel copies.
        let set = unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
        if granted != 0 || set != 0 {
            return CANNOT;
        }
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // The vDSO answers coarse clocks whatever the clocksource is.
        // SAFETY: there is room for the time.
        i32::from(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) } != 0)
    });
    // SAFETY: any number may be asked for.
    let has_vdso = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } != 0;
    if denied == CANNOT || !has_vdso {
        println!("SKIPPED: no filter, or no vDSO");
        return;
    }
    assert_eq!(denied, 0);
}

/// As without the library: the error numbers, and `errno` where there is no error.
fn odd_calls() {
    let errno = || io::Error::last_os_error().raw_os_error();
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
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

/// Unix time that the page puts far above the kernel's last tick was set by somebody (rule R10).
fn far() {
    assert!((0..100).any(|_| is_served(libc::CLOCK_MONOTONIC)));
    // SAFETY: any number may be asked for.
    if unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } == 0 {
        println!("SKIPPED: without a vDSO there is no time of the last tick");
        return;
    }
    assert!(!(0..100).any(|_| is_served(libc::CLOCK_REALTIME)));
}

/// A child of a fork is served, and not before its parent.
fn forked() {
    let before_ns = libc_ns(libc::CLOCK_MONOTONIC);
    let code = code_of_fork(|| {
        let is_ordered = libc_ns(libc::CLOCK_MONOTONIC) >= before_ns;
        let is_served = (0..100).any(|_| is_served(libc::CLOCK_MONOTONIC));
        i32::from(!(is_ordered && is_served))
    });
    assert_eq!(code, 0);
}

/// Symptom: a child of a fork had the OS clock, as long as it did not know its time namespace, and then
/// a line that was below that (rule R8).
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

/// Symptom: a child of a fork that first found the line seconds behind had the kernel's clock for life.
fn left() {
    let page = PathBuf::from(env::var_os("TICKLINE_PAGE").unwrap());
    let code = code_of_fork(|| {
        let had_kernels = !(0..100).any(|_| is_served(libc::CLOCK_MONOTONIC));
        raise_line(&page, LEFT_NS);
        let is_served = (0..100).any(|_| is_served(libc::CLOCK_MONOTONIC));
        i32::from(!(had_kernels && is_served))
    });
    assert_eq!(code, 0);
}

/// A child of a fork in another time namespace has the kernel's clock there. The line is 5 ms ahead.
/// Symptom: one whose clock was 23 ms ahead was served, 18 ms below its own clock.
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
