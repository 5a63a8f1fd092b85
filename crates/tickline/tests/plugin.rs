//! A library that reads the time, loaded and unloaded again and again.
//!
//! For targets that are likely to be the host's too, for which cargo compiles the library.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

mod common;

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{in_child, skip, skipped_in_an_emulator};

/// The library.
const SOURCE: &str = r#"
#[unsafe(no_mangle)]
pub extern "C" fn use_the_clock() -> u64 {
    for _ in 0..1_000 {
        std::hint::black_box(tickline::now_ns());
    }
    drop(tickline::start().expect("a thread"));
    tickline::now_ordered_ns()
}
"#;

/// Compiles the library with the dependencies that the workspace has locked. `None` without a cargo
/// that can do that offline.
fn plugin() -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("plugin");
    let manifest = format!(
        "[package]\nname = \"tickline-test-plugin\"\nedition = \"2024\"\n\n[lib]\npath = \"lib.rs\"\ncrate-type = \
         [\"cdylib\"]\n\n[dependencies]\ntickline = {{ path = {root:?} }}\n\n[workspace]\n"
    );
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
    std::fs::write(folder.join("lib.rs"), SOURCE).expect("a file");
    std::fs::copy(root.join("../../Cargo.lock"), folder.join("Cargo.lock")).ok()?;
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["build", "--quiet", "--offline", "--target-dir", "target"])
        .current_dir(&folder)
        // Sanitizers want another std, too.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .ok()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(folder.join("target/debug/libtickline_test_plugin.so"))
}

/// Loads the library, uses its clock on a thread of its own, and unloads it.
fn load_and_unload(path: &Path) {
    let name = CString::new(path.as_os_str().as_bytes()).expect("no zeros");
    // SAFETY: a library of this test's own; what runs at its loading is std's.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    assert!(!library.is_null(), "{}", path.display());
    // SAFETY: the library was just loaded.
    let symbol = unsafe { libc::dlsym(library, c"use_the_clock".as_ptr()) };
    assert!(!symbol.is_null());
    // SAFETY: the library has a function of this type by that name.
    let use_the_clock = unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn() -> u64>(symbol) };
    // The library's thread-local storage would keep it loaded for as long as the thread runs.
    let time = std::thread::spawn(move || use_the_clock()).join().expect("no panic");
    assert!(time > 0);
    // SAFETY: loaded above, and nothing of it runs or is held.
    assert_eq!(unsafe { libc::dlclose(library) }, 0);
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    assert!(!maps.contains("libtickline_test_plugin"), "still loaded:\n{maps}");
}

/// The bytes that are mapped and have no name: neither a file nor the heap of the test itself.
fn anonymous_bytes() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("procfs");
    let bytes = |line: &str| {
        let mut fields = line.split_whitespace();
        let (start, end) = fields.next()?.split_once('-')?;
        let number = |text| usize::from_str_radix(text, 16).ok();
        fields.nth(4).is_none().then_some(number(end)? - number(start)?)
    };
    maps.lines().filter_map(bytes).sum()
}

/// Symptom: each loading and unloading left a page behind, the one that a fork wipes.
#[test]
fn an_unloaded_library_leaves_no_memory() {
    if skipped_in_an_emulator() {
        return;
    }
    let Some(path) = plugin() else { return skip("the library can't be compiled here") };
    in_child(&[], || {
        const TIMES: usize = 64;
        for _ in 0..8 {
            load_and_unload(&path); // libc keeps a stack or two for later threads
        }
        let before = anonymous_bytes();
        for _ in 0..TIMES {
            load_and_unload(&path);
        }
        let left = anonymous_bytes().saturating_sub(before);
        assert!(left < TIMES * 4_096 / 2, "{left} bytes are left of {TIMES} times");
    });
}
