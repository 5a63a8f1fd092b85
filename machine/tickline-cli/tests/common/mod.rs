//! Helpers for tests that run the program.
#![allow(
    dead_code,
    unreachable_pub,
    reason = "each test file uses a part of it"
)]

#[cfg(all(
    target_os = "linux",
    any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    )
))]
pub mod filter;
#[cfg(target_os = "linux")]
pub mod server;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub use tickline_observe::skip;

/// The longest wait on a loaded machine for work that usually takes at most a second.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until `done` returns a value. Panics if it does not within [`PATIENCE`].
pub fn wait_for<T>(awaited: &str, mut done: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(found) = done() {
            return found;
        }
        assert!(start.elapsed() < PATIENCE, "waited in vain: {awaited}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The program with these arguments, with the counter allowed and the default width.
pub fn tickline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
    command
        .args(arguments)
        .env_remove("TICKLINE")
        .env_remove("COLUMNS")
        .stdin(Stdio::null());
    command
}

/// Copies a program in another process. While this process has the copy open for writing, a child
/// that another test starts may inherit that descriptor, and the copy can't be run ("Text file
/// busy").
pub fn copy_program(program: &Path, copy: &Path) {
    let status = Command::new("cp")
        .arg(program)
        .arg(copy)
        .status()
        .expect("cp runs");
    assert!(
        status.success(),
        "cp {} {}: {status}",
        program.display(),
        copy.display()
    );
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The exit code, which must be 0 (the counter is used) or 1 (a gate is closed).
pub fn code(output: &Output) -> i32 {
    let code = output.status.code().unwrap_or(-1);
    // `warp` exits with 3 in a process that may not run on some CPUs.
    assert!(
        [0, 1, 3].contains(&code),
        "exit code {code}: {}",
        text(&output.stderr)
    );
    code
}

/// Checks that the program has ended with this code, and that standard error contains this text.
pub fn assert_fails(output: &Output, code: i32, says: &str) {
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(says), "no {says} in: {message}");
}

/// Sends a signal to a child that was not yet waited for, so its number is still valid.
pub fn send(child: &Child, signal: libc::c_int) {
    let pid = i32::try_from(child.id()).expect("a process");
    // SAFETY: the call takes no pointer.
    assert_eq!(unsafe { libc::kill(pid, signal) }, 0);
}

/// The names in a folder, sorted.
pub fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the test's folder");
    let mut names: Vec<_> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}

/// The number of the user and the group `nobody` on Linux.
pub const NOBODY: u32 = 65_534;

pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Compiles a file of `c/`.
pub fn compile(name: &str, flags: &[&str], to: &Path) -> io::Result<()> {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let source = format!("{}/tests/c/{name}.c", env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(compiler)
        .args(flags)
        .arg("-o")
        .arg(to)
        .args([&source, "-ldl"])
        .output()?;
    if output.status.success() {
        Ok(())
    } else {
        Err(io::Error::other(text(&output.stderr)))
    }
}

/// Compiles a library of `c/`; `None`, with a message, if there is no compiler.
pub fn library(name: &str, flags: &[&str], folder: &Path) -> Option<PathBuf> {
    let library = folder.join(format!("{name}.so"));
    let compiled = compile(name, &[&["-shared", "-fPIC"], flags].concat(), &library);
    compiled
        .inspect_err(|error| skip(format_args!("{name}.c is not compiled: {error}")))
        .ok()?;
    Some(library)
}
