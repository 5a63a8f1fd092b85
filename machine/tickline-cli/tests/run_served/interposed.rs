//! Tests programs in which another library replaces the calls for the time, as libfaketime does.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::common::{compile, library, text, tickline};
use crate::served::{ServedPage, output};

/// A program of `c/yesterday.c`, its library, and what the program prints.
struct Yesterday {
    served: ServedPage,
    program: PathBuf,
    library: PathBuf,
}

impl Yesterday {
    /// `None` where no page can be served, or where nothing can be compiled.
    fn new() -> Option<Self> {
        let served = ServedPage::new()?;
        let folder = served.folder.path();
        let library = library("yesterday", &["-DLIBRARY"], folder)?;
        let program = folder.join("yesterday");
        // Not position-independent, so that the program has symbols of the functions' names.
        let flags = ["-O1", "-Wall", "-Werror", "-no-pie", "-fno-pie"];
        compile("yesterday", &flags, &program).unwrap();
        Some(Self {
            served,
            program,
            library,
        })
    }

    /// A program with the libraries in `LD_PRELOAD`.
    fn command(&self, program: impl AsRef<OsStr>, libraries: &[&Path], switch: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", env::join_paths(libraries).unwrap())
            .env("TICKLINE", switch)
            .env("TICKLINE_SERVE", "always")
            .env("TICKLINE_PAGE", &self.served.page);
        command
    }

    /// What the program of `c/yesterday.c` prints.
    fn prints(&self, libraries: &[&Path], switch: &str) -> String {
        let found = output(&mut self.command(&self.program, libraries, switch));
        assert_eq!(text(&found.stderr), "", "{libraries:?}");
        text(&found.stdout)
    }

    /// The keys of `serve status` under which a program with the libraries is listed.
    fn status_keys(&self, libraries: &[&Path]) -> Vec<&'static str> {
        let mut command = self.command("cat", libraries, "on");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The program answers when its libraries are loaded.
        child.stdin.as_ref().unwrap().write_all(b"\n").unwrap();
        child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
        let mut status = tickline(&["serve", "status", "--json", "-", "--page"]);
        let shown = status.arg(&self.served.page).output().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        let pid = json!(child.id());
        let is_listed = |key: &&str| {
            let mut listed = shown[key].as_array().unwrap().iter();
            listed.any(|process| *process == pid || process["pid"] == pid)
        };
        let keys = ["readers", "library_only"];
        keys.into_iter().filter(is_listed).collect()
    }
}

const TODAY_SERVED: &str = "0 0 0 0 0, failed 1, served 1\n";
const YESTERDAY: &str = "1 1 1 1 1, failed 1, served 0\n";

/// Symptom: of a program under `faketime -f -1d`, which appends its library behind this one,
/// `clock_gettime` said today, and `time` yesterday. The same with the counter switched off.
#[test]
fn the_library_stands_back_for_one_that_it_hides() {
    let Some(yesterday) = Yesterday::new() else {
        return;
    };
    let (ours, theirs) = (yesterday.served.library, yesterday.library.as_path());
    for switch in ["on", "off"] {
        assert_eq!(
            yesterday.prints(&[ours, theirs], switch),
            YESTERDAY,
            "{switch}"
        );
    }
}

#[test]
fn a_library_in_front_of_this_one_replaces_its_calls() {
    let Some(yesterday) = Yesterday::new() else {
        return;
    };
    let (ours, theirs) = (yesterday.served.library, yesterday.library.as_path());
    assert_eq!(yesterday.prints(&[theirs, ours], "on"), YESTERDAY);
}

/// The dynamic linker finds the addresses of the functions in this program, which does not define
/// them.
#[test]
fn a_program_that_takes_the_addresses_of_the_calls_is_served() {
    let Some(yesterday) = Yesterday::new() else {
        return;
    };
    assert_eq!(
        yesterday.prints(&[yesterday.served.library], "on"),
        TODAY_SERVED
    );
}

#[test]
fn a_program_with_two_copies_of_the_library_is_served() {
    let Some(yesterday) = Yesterday::new() else {
        return;
    };
    let ours = yesterday.served.library;
    let copy = yesterday.served.folder.path().join("copy.so");
    fs::copy(ours, &copy).unwrap();
    assert_eq!(yesterday.prints(&[ours, &copy], "on"), TODAY_SERVED);
}

/// `tickline run` has printed its line before a library is loaded, so the status has to say it.
#[test]
fn the_status_lists_a_process_in_which_the_library_stands_back() {
    let Some(yesterday) = Yesterday::new() else {
        return;
    };
    let (ours, theirs) = (yesterday.served.library, yesterday.library.as_path());
    assert_eq!(yesterday.status_keys(&[ours]), ["readers"]);
    assert_eq!(yesterday.status_keys(&[ours, theirs]), ["library_only"]);
}
