//! The programs' own tests for time: which suites there are, and where they come from.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use super::source;
use crate::vm::image;

/// A suite.
#[derive(Debug)]
pub(super) struct Suite {
    /// The program's name in `list.rs`, and the suite's folder in the guest.
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// The command in the guest; `RESULTS` is the file in which the guest looks for results.
    command: &'static str,
    /// The same for one test, `TEST`.
    alone: &'static str,
    /// Where it runs, in its folder.
    folder: &'static str,
    pub(super) is_static: bool,
    /// Writes what it needs to a folder. Gets the guest's root.
    bring: fn(&Path, &Path) -> Result<(), String>,
}

pub(super) const SUITES: &[Suite] = &[
    Suite {
        name: "Python",
        about: "`test_time`, and the tests of `test_datetime` for now, today and timestamps, of Debian's \
                libpython3.11-testsuite",
        command: "python3 suite.py",
        alone: "python3 suite.py TEST",
        folder: "",
        is_static: false,
        bring: bring_python,
    },
    Suite {
        name: "Go",
        about: "the package `time` of the host's Go, static, with `-test.short`",
        command: "./time.test -test.short -test.v",
        alone: "./time.test -test.short -test.v -test.run=^TEST$",
        folder: "src/time",
        is_static: true,
        bring: bring_go,
    },
    Suite {
        name: "PHP",
        about: "`ext/standard/tests/time` and `hrtime`, and the files of `ext/date/tests` that name the present \
                clock, of Debian's source package",
        command: "php run-tests.php -q -p /usr/bin/php -W RESULTS -r list",
        alone: "php run-tests.php -q -p /usr/bin/php -W RESULTS TEST",
        folder: "",
        is_static: false,
        bring: bring_php,
    },
    Suite {
        name: "Ruby",
        about: "`test_time.rb`, and the tests `test_clock_*` of `test_process.rb`, of Debian's source package",
        command: "ruby suite.rb",
        alone: "ruby suite.rb TEST",
        folder: "",
        is_static: false,
        bring: bring_ruby,
    },
];

/// Writes what the suite needs to the disk's folder. Returns its entry in the guest's list.
pub(super) fn built(suite: &Suite, tree: &Path, root: &Path) -> Result<Value, String> {
    let folder = tree.join("suites").join(suite.name);
    fs::create_dir_all(folder.join(suite.folder)).map_err(text)?;
    let brought = (suite.bring)(&folder, root);
    if brought.is_err() {
        fs::remove_dir_all(&folder).map_err(text)?;
    }
    brought?;
    Ok(json!({
        "name": suite.name,
        "folder": format!("{}/{}", suite.name, suite.folder),
        "command": suite.command,
        "alone": suite.alone,
        "static": suite.is_static,
    }))
}

fn text(error: impl ToString) -> String {
    error.to_string()
}

/// A file of `tests/vm/programs`.
fn own(name: &str, folder: &Path) -> Result<(), String> {
    let from = crate::vm::root().join("tests/vm/programs").join(name);
    fs::copy(from, folder.join(name)).map(|_| ()).map_err(text)
}

fn bring_python(folder: &Path, root: &Path) -> Result<(), String> {
    let tests = "usr/lib/python3.11/test/test_time.py";
    if !root.join(tests).is_file() {
        return Err(format!("Debian has brought no {tests}"));
    }
    own("suite.py", folder)
}

fn bring_go(folder: &Path, _: &Path) -> Result<(), String> {
    let run = |command: &mut Command| match command.output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
        Err(error) => Err(format!("go: {error}")),
    };
    let place = folder.join("src/time");
    let mut build = Command::new("go");
    run(build.env("CGO_ENABLED", "0").args(["test", "-c", "-o"]).arg(place.join("time.test")).arg("time"))?;
    // Where the tests look for zones and for files of their own.
    let go = PathBuf::from(run(Command::new("go").args(["env", "GOROOT"]))?);
    fs::create_dir_all(folder.join("lib/time")).map_err(text)?;
    fs::copy(go.join("lib/time/zoneinfo.zip"), folder.join("lib/time/zoneinfo.zip")).map_err(text)?;
    run(Command::new("cp").arg("-r").arg(go.join("src/time/testdata")).arg(&place))?;
    Ok(())
}

/// Calls that read the present clock, in PHP's tests for dates.
const PRESENT: [&str; 9] = [
    "microtime(",
    "hrtime(",
    "gettimeofday(",
    "time()",
    "\"now",
    "'now",
    "new DateTime()",
    "sleep(",
    "new DateTimeImmutable()",
];

fn bring_php(folder: &Path, root: &Path) -> Result<(), String> {
    let all = source::unpacked(
        "php8.2-cli",
        root,
        &["run-tests.php", "ext/standard/tests/time", "ext/standard/tests/hrtime", "ext/date/tests"],
    )?;
    source::copy(&all, folder)?;
    let mut list = Vec::new();
    for tests in ["ext/standard/tests/time", "ext/standard/tests/hrtime", "ext/date/tests"] {
        for file in image::entries(&folder.join(tests)) {
            let content = fs::read(&file).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let is_wanted = file.extension().is_some_and(|extension| extension == "phpt")
                && (!tests.contains("date") || content.is_ok_and(|text| reads_clock(&text)));
            if let (true, Some(name)) = (is_wanted, file.file_name()) {
                list.push(format!("{tests}/{}\n", name.to_string_lossy()));
            }
        }
    }
    list.sort_unstable();
    fs::write(folder.join("list"), list.concat()).map_err(text)
}

/// Whether a test of PHP's calls for the present time, in its own part of the file.
fn reads_clock(phpt: &str) -> bool {
    let code = phpt.split("--FILE--").nth(1).and_then(|rest| rest.split("--EXPECT").next());
    code.is_some_and(|code| PRESENT.iter().any(|call| code.contains(call)))
}

fn bring_ruby(folder: &Path, root: &Path) -> Result<(), String> {
    let all = source::unpacked(
        "ruby3.1",
        root,
        &["tool/lib", "test/ruby/test_time.rb", "test/ruby/test_process.rb"],
    )?;
    source::copy(&all, folder)?;
    own("suite.rb", folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_of_php_is_chosen_by_its_code() {
        let file = |code: &str| format!("--TEST--\ntime()\n--FILE--\n<?php {code} ?>\n--EXPECT--\ntime()");
        assert!(reads_clock(&file("echo time();")));
        assert!(reads_clock(&file("date_create('now');")));
        assert!(!reads_clock(&file("date('Y', 0);")));
    }
}
