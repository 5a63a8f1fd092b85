//! A library that contains tickline (`plugin.rs`), and is unloaded.

use std::ffi::{CStr, CString};
use std::fs;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::common::procfs::{await_tickline_threads, status_field, tickline_threads};
use crate::common::{own_name, run_in_child, skipped_in_an_emulator};

/// The library; `None`, with a message, in an emulator. The test builds it, not the test's child,
/// whose time is limited. `cargo test --workspace` has built it together with the examples.
/// `--workspace` chooses the same features of dependencies, so that cargo builds nothing again.
fn library() -> Option<PathBuf> {
    if skipped_in_an_emulator() {
        return None;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    if own_name().is_none() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let built = Command::new(cargo)
            .args(["build", "--quiet", "--workspace", "--example", "plugin"])
            .arg("--manifest-path")
            .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
            .arg("--target-dir")
            .arg(folder)
            .status()
            .expect("cargo");
        assert!(built.success());
    }
    Some(folder.join("debug/examples/libplugin.so"))
}

/// Loads the library, calls its function `name`, and unloads it.
fn load_call_and_unload(library: &Path, name: &CStr) {
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library has no code that runs when it is loaded, except for std's.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    assert!(!handle.is_null());
    // SAFETY: the handle is valid, and the name ends with a zero.
    let function = unsafe { libc::dlsym(handle, name.as_ptr()) };
    assert!(!function.is_null());
    // SAFETY: all functions of `plugin.rs` have this type.
    let function = unsafe { mem::transmute::<*mut libc::c_void, extern "C" fn()>(function) };
    function();
    // SAFETY: the handle is valid, and is not used again.
    assert_eq!(unsafe { libc::dlclose(handle) }, 0);
}

fn is_mapped(library: &Path) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap();
    maps.contains(library.to_str().unwrap())
}

/// The size of this process's address space, pages.
fn size_pages() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}

/// Each series of loads in which the library leaves a page has that growth. libc's own memory grows
/// in few series: it keeps the stacks of as many threads as have ever run at once, and a start that
/// takes long has three threads, because the CPUs' counters are compared.
///
/// Symptom: each load left a page, the memory of the process's token.
#[test]
fn an_unloaded_library_leaves_no_memory() {
    const SERIES: u64 = 6;
    const LOADS: u64 = 40;
    let Some(library) = library() else { return };
    run_in_child(&[], || {
        // SAFETY: passes numbers. Each thread would otherwise reserve 64 MiB for its own
        // allocations.
        unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
        for name in [c"read", c"start_and_stop"] {
            let grows = |_| {
                let before_pages = size_pages();
                (0..LOADS).for_each(|_| load_call_and_unload(&library, name));
                let grown_pages = size_pages().saturating_sub(before_pages);
                println!("{grown_pages} pages more after {LOADS} loads, {name:?}");
                grown_pages >= LOADS / 2
            };
            assert!(!(0..SERIES).all(grows));
            assert!(!is_mapped(&library));
        }
    });
}

/// Symptom: SIGSEGV, because the thread's code was unmapped.
#[test]
fn an_unloaded_library_stays_mapped_while_a_thread_runs_its_code() {
    let Some(library) = library() else { return };
    run_in_child(&[], || {
        load_call_and_unload(&library, c"start_and_forget");
        await_tickline_threads(1);
        // A comparison's thread, which is younger, has this name at first.
        let thread = &tickline_threads()[0];
        // It sleeps at the end of each iteration.
        let sleeps = || -> u64 {
            let count = status_field(thread, "voluntary_ctxt_switches:").expect("the thread");
            count.parse().unwrap()
        };
        let start = Instant::now();
        let before = sleeps();
        while sleeps() < before + 3 {
            assert!(start.elapsed() < Duration::from_secs(20), "it does not run");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(is_mapped(&library));
    });
}
