//! A library that contains tickline (`plugin.rs`), and is unloaded.

use std::ffi::{CStr, CString};
use std::fs;
use std::mem;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::common::procfs::tickline_threads;

in_processes! { in_child_of_a_kernel:
    an_unloaded_library_leaves_no_memory,
    an_unloaded_library_stays_mapped_while_a_thread_runs_its_code,
}

/// The library. `cargo test` builds it together with the examples, unless it is told to build
/// nothing but these tests.
fn library() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo)
        .args(["build", "--quiet", "--example", "plugin", "--manifest-path"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))
        .arg("--target-dir")
        .arg(folder)
        .status()
        .expect("cargo");
    assert!(built.success());
    folder.join("debug/examples/libplugin.so")
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

/// Symptom: each load left a page, the memory of the process's token.
fn an_unloaded_library_leaves_no_memory() {
    const LOADS: u64 = 100;
    let library = library();
    // SAFETY: passes numbers. Each thread would otherwise reserve 64 MiB for its own allocations.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 1) };
    for name in [c"read", c"start_and_stop"] {
        let load = || load_call_and_unload(&library, name);
        (0..10).for_each(|_| load()); // until libc has the memory that it keeps
        let before_pages = size_pages();
        (0..LOADS).for_each(|_| load());
        let grown_pages = size_pages().saturating_sub(before_pages);
        assert!(
            grown_pages < LOADS / 2,
            "{grown_pages} pages more after {LOADS} loads, {name:?}"
        );
        assert!(!is_mapped(&library));
    }
}

/// Symptom: SIGSEGV, because the thread's code was unmapped.
fn an_unloaded_library_stays_mapped_while_a_thread_runs_its_code() {
    let library = library();
    load_call_and_unload(&library, c"start_and_forget");
    std::thread::sleep(Duration::from_millis(1_200)); // two intervals, and more
    assert!(is_mapped(&library));
    assert_eq!(tickline_threads().len(), 1);
}
