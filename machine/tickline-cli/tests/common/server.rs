//! Runs a page's server as a child process.

use std::fs::{self, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tickline::{ClockState, Reason};

use super::{send, tickline, wait_for};

/// The path of a page, in a folder whose name would clear the terminal.
pub fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let odd = folder.path().join("\u{1b}[2J");
    fs::create_dir(&odd).expect("it is ours");
    for folder in [folder.path(), &odd] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).expect("it is ours");
    }
    (folder, odd.join("page"))
}

pub fn serve(page: &Path, words: &[&str]) -> Command {
    let mut command = tickline(&["serve"]);
    command.args(words).arg("--page").arg(page);
    command
}

/// Runs `tickline serve`. Symptom: the terminal executed the escape codes in a folder's name.
pub fn run(page: &Path, words: &[&str]) -> Output {
    let output = serve(page, words).output().expect("the program");
    assert!(
        ![&output.stdout[..], &output.stderr]
            .concat()
            .contains(&0x1b),
        "{output:?}"
    );
    output
}

/// A server that is killed on drop.
pub struct Server(pub Child);

impl Server {
    pub fn start(page: &Path) -> Self {
        Self(
            serve(page, &[])
                .stderr(Stdio::piped())
                .spawn()
                .expect("the program"),
        )
    }

    pub fn signal(&self, signal: i32) {
        send(&self.0, signal);
    }

    /// Waits for the server's end. Returns the exit code and the text on standard error.
    pub fn ended(&mut self) -> (Option<i32>, String) {
        let status = wait_for("the server ends", || self.0.try_wait().expect("a child"));
        let mut message = String::new();
        self.0
            .stderr
            .take()
            .expect("a pipe")
            .read_to_string(&mut message)
            .expect("text");
        assert!(!message.contains('\u{1b}'), "{message:?}");
        (status.code(), message)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

pub fn status(page: &Path) -> Option<Value> {
    let output = run(page, &["status", "--json", "-"]);
    matches!(output.status.code(), Some(0 | 1))
        .then(|| serde_json::from_slice(&output.stdout).expect("JSON"))
}

/// Waits until the page has a server, and until it serves a line if the machine allows it. Returns
/// whether it serves a line.
pub fn wait_for_line(page: &Path, server: &Server) -> bool {
    wait_for("the server has the page", || {
        status(page).filter(|status| status["server_pid"] == server.0.id())
    });
    let clock = tickline::Clock::builder()
        .line_per_cpu(tickline::LinePerCpu::Off)
        .build()
        .expect("a clock");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(20) {
        if status(page).is_some_and(|status| status["serving"] == true) {
            return true;
        }
        // Give up if a gate is closed that will not open.
        match clock.status().state {
            ClockState::Fast | ClockState::Calibrating => {}
            ClockState::Fallback(
                Reason::Untested | Reason::KernelUndecided | Reason::Untestable,
            ) => {}
            _ => return false,
        }
    }
    false
}
