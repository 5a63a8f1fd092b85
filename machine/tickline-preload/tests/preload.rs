//! Each test executes itself again with the library in `LD_PRELOAD`, and compares its clocks with
//! system calls. A test of `tickline-cli` (`a_preloaded_program_answers_as_without_a_page`) checks
//! that every call answers as without the library.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::env;
use std::ffi::{CString, OsString};
use std::fs;
use std::mem;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use tickline_observe::fork::{CANNOT, code_in_time_namespace, code_of_fork};
use tickline_observe::page::{
    AHEAD_NS, Serves, page_off_by, page_that, served_page, system_call_ns,
};
use tickline_observe::skip;
use tickline_page::program::kernels_clock_is_fast;

/// The variable with the part of a child process that is this test program.
const ROLE: &str = "TICKLINE_TEST_ROLE";

type ClockGettime = unsafe extern "C" fn(libc::clockid_t, *mut libc::timespec) -> libc::c_int;

fn ns_by(clock_gettime: ClockGettime, clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` has room for the result.
    assert_eq!(unsafe { clock_gettime(clock, &raw mut time) }, 0);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

fn libc_ns(clock: libc::clockid_t) -> i64 {
    ns_by(libc::clock_gettime, clock)
}

/// Whether this function's readings come from the page.
fn is_served_by(clock_gettime: ClockGettime, clock: libc::clockid_t) -> bool {
    // This thread can be stopped between the two readings. Only a time from the page can still be
    // above the later system call.
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
    child.args(["--exact", "role_named_by_the_variable", "--nocapture"]);
    child.env("LD_PRELOAD", library()).env(ROLE, role);
    child
        .env("TICKLINE_PAGE", page)
        .env("TICKLINE_SERVE", "always")
        .env_remove("TICKLINE");
    child
}

fn assert_passes(child: &mut Command) {
    let Output {
        status,
        stdout,
        stderr,
    } = child.output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        status.success(),
        "{status}\n{}{}",
        text(&stdout),
        text(&stderr)
    );
    assert!(text(&stdout).contains("1 passed"));
}

/// The child process of the other tests. `ROLE` names its part. Does nothing by itself.
#[test]
fn role_named_by_the_variable() {
    match env::var(ROLE).as_deref() {
        Ok("served") => play_served(),
        Ok("native") => play_native(),
        Ok("off") => play_off(),
        Ok("other_namespace") => play_other_namespace(),
        Ok("forked_in_order") => play_forked_in_order(),
        Ok("unix_far_ahead") => play_unix_far_ahead(),
        Ok("closes_library") => close_library(),
        Ok("second_copy") => use_second_copy(),
        Ok("line_behind") => play_line_behind(),
        Ok("without_line") => play_without_line(),
        Ok("after_vm_pause") => play_after_vm_pause(),
        Ok("denied") => open_without_the_counter(),
        Ok("opened") => open_with_the_counter(),
        _ => {}
    }
}

#[test]
fn a_program_is_served() {
    let Some((_folder, page)) = served_page() else {
        return;
    };
    for role in ["served", "other_namespace", "second_copy"] {
        assert_passes(&mut run(role, &page));
    }
    for role in ["native", "off"] {
        assert_passes(run(role, &page).env("TICKLINE", "off"));
    }
    // Without "always", the library replaces only a slow kernel clock.
    let role = if kernels_clock_is_fast() {
        "native"
    } else {
        "served"
    };
    assert_passes(run(role, &page).env_remove("TICKLINE_SERVE"));
    // A missing page, a symbolic link to the page, and the page by a symbolic link to its folder.
    let (link, folder) = (page.with_file_name("link"), page.with_file_name("folder"));
    symlink(&page, &link).unwrap();
    symlink(page.parent().unwrap(), &folder).unwrap();
    for page in [
        Path::new("/nonexistent/page"),
        &link,
        &folder.join("page"),
        &folder.join("./page"),
    ] {
        assert_passes(&mut run("native", page));
    }
    // A page is refused if other users may write to it.
    for (mode, role) in [(0o666, "native"), (0o644, "served")] {
        fs::set_permissions(&page, fs::Permissions::from_mode(mode)).unwrap();
        assert_passes(&mut run(role, &page));
    }
    for (role, less_ns, more_ns) in [
        ("unix_far_ahead", 0, 200_000_000),
        // A line that a slew has put above the kernel's clock.
        ("forked_in_order", AHEAD_NS - 1_000_000, 0),
        // At this distance, a forked child finds the line near and far by turns, depending on the
        // time between its two readings.
        ("line_behind", AHEAD_NS + 1_999_000, 0),
        // A page is in this state just after a VM pause.
        ("after_vm_pause", VM_PAUSE_NS, 0),
    ] {
        let (_folder, page) = page_off_by(less_ns, more_ns);
        assert_passes(&mut run(role, &page));
    }
}

/// The dynamic linker ignores `LD_PRELOAD` in such a program, so this one is linked with the
/// library.
#[test]
fn a_set_user_id_program_ignores_the_variables() {
    const USER: u32 = 4_711;
    let Some((folder, page)) = served_page() else {
        return;
    };
    // SAFETY: the call has no precondition.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root can make a program that has another user's rights");
    }
    let program = folder.path().join("linked");
    if let Err(error) = link_with_library(&program) {
        return skip(format_args!(
            "no C program can be linked with the library: {error}"
        ));
    }
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = Command::new(&program);
    run.envs([("TICKLINE_SERVE", "always")])
        .env("TICKLINE_PAGE", &page)
        .env_remove("TICKLINE");
    assert_eq!(run.status().unwrap().code(), Some(1), "it is served");
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    match run.arg("privileged").uid(USER).status().unwrap().code() {
        Some(77) => skip("the file system gives no program another user's rights"),
        code => assert_eq!(code, Some(0), "it has the kernel's clock"),
    }
}

fn link_with_library(program: &Path) -> Result<(), String> {
    let library = library();
    let mut runs_there = OsString::from("-Wl,-rpath,");
    runs_there.push(library.parent().unwrap());
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut linker = Command::new(compiler);
    linker.arg("-o").arg(program);
    linker.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c/linked.c"));
    linker
        .arg("-Wl,--no-as-needed")
        .arg(&library)
        .arg(runs_there);
    let output = linker.output().map_err(|error| error.to_string())?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// Symptom: while the page's second line was in use, or its line was doubted, or its leases had run
/// out, a forked child had the kernel's clock, below its parent's last reading.
#[test]
fn a_forked_child_is_not_below_its_parent_whatever_the_page_serves() {
    if served_page().is_none() {
        return;
    }
    for serves in [
        Serves::FirstLine,
        Serves::SecondLine,
        Serves::DoubtedLine,
        // Processes stand still at this mark while the test runs. A suspend leaves one.
        Serves::EndMark(1_500_000_000),
    ] {
        println!("{serves:?}");
        let (_folder, page) = page_that(serves, 0, 0);
        assert_passes(&mut run("forked_in_order", &page));
    }
}

#[test]
fn a_program_has_the_kernels_clocks_while_its_page_has_no_line() {
    if served_page().is_none() {
        return;
    }
    let (_folder, page) = page_that(Serves::EndMark(-1_000_000_000), 0, 0);
    assert_passes(&mut run("without_line", &page));
}

/// `dlclose` does not unmap the library, because the vDSO's symbols lead to it.
#[test]
fn the_library_stays_mapped_after_dlclose() {
    assert_passes(run("closes_library", Path::new("/nonexistent/page")).env_remove("LD_PRELOAD"));
}

fn open_library(path: &Path) -> *mut libc::c_void {
    let path = CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library's start-up code only asks the kernel and sets up the library.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    handle
}

/// Opens the library, and closes it.
fn close_library() {
    let is_mapped = || {
        fs::read_to_string("/proc/self/maps")
            .unwrap()
            .contains("libtickline_preload")
    };
    assert!(!is_mapped());
    let handle = open_library(&library());
    // SAFETY: this test opened the library once, and closes it once.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
    assert!(is_mapped());
}

fn clock_gettime_of(handle: *mut libc::c_void) -> ClockGettime {
    // SAFETY: the name ends with a zero.
    let function = unsafe { libc::dlsym(handle, c"clock_gettime".as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: the library's function of this name has this type.
    unsafe { mem::transmute::<*mut libc::c_void, ClockGettime>(function) }
}

/// A second copy of the library leads to the first one. A program that `tickline run` traces may
/// have two copies.
fn use_second_copy() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.so");
    fs::copy(library(), &copy).unwrap();
    assert!(is_served_by(
        clock_gettime_of(open_library(&copy)),
        libc::CLOCK_MONOTONIC
    ));
}

/// A process that starts without the right to read the counter has the kernel's clock, and keeps it
/// when it later gets the right.
#[test]
fn a_process_that_is_denied_the_counter_is_not_served() {
    let Some((_folder, page)) = served_page() else {
        return;
    };
    for role in ["denied", "opened"] {
        assert_passes(run(role, &page).env_remove("LD_PRELOAD"));
    }
}

/// Whether the library serves a process that has opened it with this right to read the counter
/// (`PR_SET_TSC`), and has the right now.
fn is_served_if_opened_with(right: libc::c_int) -> bool {
    // A dynamic linker may itself read the counter at its start, so the counter is denied only
    // here, and not before the program is executed.
    let set = |right: libc::c_int| {
        // SAFETY: the call takes only numbers.
        assert_eq!(unsafe { libc::prctl(libc::PR_SET_TSC, right) }, 0);
    };
    set(right);
    let handle = open_library(&library());
    set(libc::PR_TSC_ENABLE);
    is_served_by(clock_gettime_of(handle), libc::CLOCK_MONOTONIC)
}

fn open_without_the_counter() {
    assert!(!is_served_if_opened_with(libc::PR_TSC_SIGSEGV));
}

fn open_with_the_counter() {
    assert!(is_served_if_opened_with(libc::PR_TSC_ENABLE));
}

const SERVED: [libc::clockid_t; 2] = [libc::CLOCK_MONOTONIC, libc::CLOCK_REALTIME];

fn play_served() {
    for clock in SERVED {
        assert!(is_served(clock), "clock {clock}");
        // The time stays near the kernel's, however long this thread was stopped.
        let (before_ns, page_ns, after_ns) =
            (system_call_ns(clock), libc_ns(clock), system_call_ns(clock));
        assert!(page_ns >= before_ns, "clock {clock}");
        assert!(page_ns <= after_ns + 2 * AHEAD_NS, "clock {clock}");
    }
    unsafe extern "C" fn by_timespec_get(
        _: libc::clockid_t,
        time: *mut libc::timespec,
    ) -> libc::c_int {
        // SAFETY: the caller promises that `time` has room for the result.
        unsafe { timespec_get(time, 1) - 1 }
    }
    assert!(
        is_served_by(by_timespec_get, libc::CLOCK_REALTIME),
        "timespec_get"
    );
}

unsafe extern "C" {
    fn timespec_get(time: *mut libc::timespec, base: libc::c_int) -> libc::c_int;
}

fn play_native() {
    for clock in SERVED {
        assert!(!is_served(clock), "clock {clock}");
    }
}

/// Symptom: a library that was switched off made a system call for a time that the vDSO can answer.
/// A filter of system calls may forbid that call.
fn play_off() {
    let denied = code_of_fork(|| {
        let rules = [(libc::SYS_clock_gettime, vec![])].into_iter().collect();
        let (architecture, refuse) = (
            env::consts::ARCH.try_into().unwrap(),
            SeccompAction::Errno(1),
        );
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).unwrap();
        if seccompiler::apply_filter(&BpfProgram::try_from(filter).unwrap()).is_err() {
            return CANNOT;
        }
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // The vDSO answers coarse clocks with any clocksource.
        // SAFETY: `time` has room for the result.
        i32::from(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) } != 0)
    });
    if denied == CANNOT || !has_vdso() {
        skip("no filter, or no vDSO");
        return;
    }
    assert_eq!(denied, 0);
}

fn has_vdso() -> bool {
    // SAFETY: `getauxval` accepts any number.
    unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) != 0 }
}

/// If the page's Unix time is far above the kernel's last tick, the clock was set back (rule R10).
fn play_unix_far_ahead() {
    assert!(is_served(libc::CLOCK_MONOTONIC));
    if has_vdso() {
        assert!(!is_served(libc::CLOCK_REALTIME));
    } else {
        skip("without a vDSO there is no time of the last tick");
    }
}

/// The readings of a forked child, and of that child's child, are not below its parent's last one.
fn play_forked_in_order() {
    assert!(is_served(libc::CLOCK_MONOTONIC));
    for _ in 0..50 {
        let before_ns = libc_ns(libc::CLOCK_MONOTONIC);
        let code = code_of_fork(|| {
            let child_ns = libc_ns(libc::CLOCK_MONOTONIC);
            let is_grandchild_behind =
                code_of_fork(|| i32::from(libc_ns(libc::CLOCK_MONOTONIC) < child_ns));
            i32::from(child_ns < before_ns) + 2 * is_grandchild_behind
        });
        assert_eq!(code, 0);
    }
}

/// Symptom: a forked child used the OS clock until it knew its time namespace. Then it used a line
/// that was below the OS clock (rule R8).
fn play_line_behind() {
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

/// Each call has the kernel's time, in its unit.
fn play_without_line() {
    let time_of_day_ns = || {
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        // SAFETY: `time` has room for the result, and no time zone is asked for.
        let result = unsafe { libc::gettimeofday(&raw mut time, std::ptr::null_mut()) };
        assert_eq!(result, 0);
        time.tv_sec * 1_000_000_000 + time.tv_usec * 1_000
    };
    let calls: [(libc::clockid_t, i64, &dyn Fn() -> i64); 3] = [
        (libc::CLOCK_MONOTONIC, 1, &|| libc_ns(libc::CLOCK_MONOTONIC)),
        (libc::CLOCK_REALTIME, 1, &|| libc_ns(libc::CLOCK_REALTIME)),
        (libc::CLOCK_REALTIME, 1_000, &time_of_day_ns),
    ];
    for (clock, unit_ns, call) in calls {
        for _ in 0..1_000 {
            let (before_ns, ns, after_ns) = (system_call_ns(clock), call(), system_call_ns(clock));
            assert!(
                before_ns - before_ns % unit_ns <= ns && ns <= after_ns,
                "{before_ns} {ns} {after_ns}"
            );
        }
    }
}

/// The line of [`play_after_vm_pause`] is lower by this at first, ns. So it is 5 s below the OS
/// clock.
const VM_PAUSE_NS: i64 = AHEAD_NS + 5_000_000_000;

/// Raises the line of the page at `path` by `ns`.
fn raise_line(path: &Path, ns: i64) {
    let file = fs::File::options()
        .read(true)
        .write(true)
        .open(path)
        .unwrap();
    let load = |offset| {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, offset).unwrap();
        u64::from_ne_bytes(bytes)
    };
    // The word at 64 names the slot of the line, which contains the base (tickline-page's README).
    let base = 128 + 64 * (load(64) >> 3 & 7) + 8;
    file.write_all_at(&load(base).wrapping_add_signed(ns).to_ne_bytes(), base)
        .unwrap();
}

/// Symptom: a forked child that first found the line seconds behind kept the kernel's clock for its
/// whole life.
fn play_after_vm_pause() {
    let page = PathBuf::from(env::var_os("TICKLINE_PAGE").unwrap());
    let code = code_of_fork(|| {
        let had_kernels = !is_served(libc::CLOCK_MONOTONIC);
        raise_line(&page, VM_PAUSE_NS);
        // Just before a tick of the kernel, the coarse clock is so late that a line 5 ms ahead does
        // not count as near.
        let is_served_soon = (0..1_000).any(|_| {
            thread::sleep(Duration::from_millis(1));
            is_served(libc::CLOCK_MONOTONIC)
        });
        i32::from(!had_kernels) + 2 * i32::from(!is_served_soon)
    });
    assert_eq!(code, 0);
}

/// A forked child in another time namespace has the kernel's clock there. The line is 5 ms ahead.
/// Symptom: the page served a child whose clock was 23 ms ahead, 18 ms below its own clock.
fn play_other_namespace() {
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
            skip("no time namespace can be made here");
            return;
        }
        assert_eq!(moved, 0, "{ahead_ns} ns ahead");
    }
}
