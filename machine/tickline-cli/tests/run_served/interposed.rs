//! Tests programs in which another library replaces the calls for the time, as libfaketime does.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{compile, library, text};
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

    /// What the program prints with the libraries in `LD_PRELOAD`.
    fn prints(&self, libraries: &[&Path], switch: &str) -> String {
        let preloaded: Vec<_> = libraries
            .iter()
            .map(|path| path.to_str().unwrap())
            .collect();
        let mut command = Command::new(&self.program);
        command
            .env("LD_PRELOAD", preloaded.join(":"))
            .env("TICKLINE", switch)
            .env("TICKLINE_SERVE", "always")
            .env("TICKLINE_PAGE", &self.served.page);
        let found = output(&mut command);
        assert_eq!(text(&found.stderr), "", "{preloaded:?}");
        text(&found.stdout)
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
