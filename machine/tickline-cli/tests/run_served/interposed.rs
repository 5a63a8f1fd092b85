//! Tests programs in which another library replaces the calls for the time, as libfaketime does.

use std::process::Command;

use crate::common::{compile, library, text};
use crate::served::{ServedPage, output};

/// Symptom: of a program under `faketime -f -1d`, which appends its library behind this one,
/// `clock_gettime` said today, and `time` yesterday.
#[test]
fn the_library_stands_back_for_another_one_that_replaces_the_calls() {
    let Some(served) = ServedPage::new() else {
        return;
    };
    let folder = served.folder.path();
    let Some(yesterday) = library("yesterday", &["-DLIBRARY"], folder) else {
        return;
    };
    let program = folder.join("yesterday");
    compile("yesterday", &["-O1", "-Wall", "-Werror"], &program).unwrap();
    let [ours, theirs] = [served.library, &yesterday].map(|path| path.to_str().unwrap());
    for (preloaded, days) in [
        (ours.to_owned(), "0 0 0 0 0"),
        (format!("{ours} {theirs}"), "1 1 1 1 1"),
        (format!("{theirs} {ours}"), "1 1 1 1 1"),
    ] {
        let mut command = Command::new(&program);
        command
            .env("LD_PRELOAD", &preloaded)
            .env("TICKLINE_SERVE", "always")
            .env("TICKLINE_PAGE", &served.page);
        let found = output(&mut command);
        assert_eq!(
            text(&found.stdout),
            format!("{days}, failed 1\n"),
            "{preloaded}: {}",
            text(&found.stderr)
        );
    }
}
