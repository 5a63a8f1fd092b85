//! `cargo xtask ports`: runs the tests of published programs over this project's clock.
//!
//! Programs that depend on quanta are built as published, with one patched dependency
//! (`crates/tickline-quanta/patch/`). In other programs, this command replaces lines. Cargo fetches
//! all sources, and none is part of this repository. The command runs unit tests, integration tests
//! and doc tests. They run as on a machine that started a minute ago, because some programs
//! subtract an hour from the present.

mod list;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::Value;

use crate::command::{command, command_of, output, run_logged, words};
use crate::files::{self, read, root, store};
use crate::outcome::NotPassed::{self, Failed, Skipped};
use crate::outcome::SOME_SKIPPED;
use crate::test_output;
use list::{PORTS, Port};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Only these programs
    #[arg(value_parser = PossibleValuesParser::new(PORTS.map(|port| port.name)))]
    names: Vec<String>,
}

/// The version of quanta in the lock files of the patched programs.
const PATCHED: &str = "\"0.12.6+tickline\"";

/// The most runs of a program's tests until they pass. governor's `tests/future.rs` asserts that a
/// call takes at most 200 us, and that a wait that began before a reading takes 100 ms after that
/// reading. If the thread is preempted in between, the test fails with any clock.
const TRIES: usize = 3;

pub(crate) fn run(arguments: &Arguments) -> Result<u8, String> {
    let names = &arguments.names;
    let metadata = match fetch_sources() {
        Ok(metadata) => metadata,
        Err(Skipped(why)) => {
            println!(
                "=== SKIPPED all ports: cargo can't fetch the sources; nothing was checked\n{why}"
            );
            return Ok(SOME_SKIPPED);
        }
        Err(Failed(why)) => return Err(why),
    };
    let on_new_machine = try_new_machine()?;
    let mut code = 0;
    let asked = |port: &Port| names.is_empty() || names.iter().any(|name| name == port.name);
    for port in PORTS.into_iter().filter(asked) {
        let Port { name, version, .. } = port;
        let source = source_of(&port, &metadata)
            .ok_or_else(|| format!("cargo has not fetched {name} {version}"))?;
        match test(&port, source, &on_new_machine) {
            Ok(tests) => println!("{name} {version}: {tests} tests passed"),
            Err(why) => {
                println!("=== FAILED {name} {version}: {why}");
                code = 1;
            }
        }
    }
    Ok(code)
}

/// Lets cargo fetch the sources of all programs. Returns its metadata, which says where they are.
fn fetch_sources() -> Result<Value, NotPassed> {
    let sources = files::target().join("ports/sources");
    let mut manifest =
        "[package]\nname = \"sources\"\nedition = \"2024\"\n\n[dependencies]\n".to_owned();
    for Port { name, version, .. } in PORTS {
        manifest += &format!("{name} = {{ version = \"={version}\", default-features = false }}\n");
    }
    store(sources.join("Cargo.toml"), &manifest)?;
    store(sources.join("src/lib.rs"), "")?;
    let mut fetch = command("cargo metadata --format-version 1");
    let text = output(fetch.current_dir(&sources)).map_err(Skipped)?;
    serde_json::from_str(&text).map_err(|error| Failed(format!("`cargo metadata`: {error}")))
}

/// The folder of a program's source.
fn source_of<'a>(port: &Port, metadata: &'a Value) -> Option<&'a Path> {
    let packages = metadata["packages"].as_array()?;
    let is_port =
        |package: &&Value| package["name"] == port.name && package["version"] == port.version;
    let package = packages.iter().find(is_port)?;
    Path::new(package["manifest_path"].as_str()?).parent()
}

/// Tries whether commands can run as on a machine that started a minute ago: in a time namespace.
/// Returns the first words of such a command; none if the machine itself started so lately, or if
/// this user may not make a namespace.
fn try_new_machine() -> Result<Vec<String>, String> {
    const AGE_S: u64 = 60;
    let uptime = read("/proc/uptime")?;
    let uptime_s = uptime
        .split('.')
        .next()
        .and_then(|whole| whole.parse().ok());
    let uptime_s: u64 = uptime_s.ok_or("/proc/uptime has no number")?;
    if uptime_s <= AGE_S {
        return Ok(Vec::new());
    }
    let offset = format!("--monotonic=-{}", uptime_s - AGE_S);
    let unshare = vec!["unshare".to_owned(), "--time".to_owned(), offset];
    match output(command_of(&unshare).arg("true")) {
        Ok(_) => Ok(unshare),
        Err(why) => {
            println!("SKIPPED: the tests do not run as on a machine that has just started\n{why}");
            Ok(Vec::new())
        }
    }
}

/// A copy of a program with this project's clock.
struct Copied {
    folder: PathBuf,
    /// The options of cargo for its builds.
    options: Vec<String>,
    /// What its lock file has because of this project.
    lock_text: &'static str,
}

impl Copied {
    /// Copies a crate, and gives it this project's clock.
    fn make(port: &Port, source: &Path) -> Result<Self, String> {
        let folder = files::target()
            .join("ports")
            .join(format!("{}-{}", port.name, port.version));
        copy_anew(source, &folder)?;
        if port.edits.is_empty() {
            let patch = root().join("crates/tickline-quanta/patch/0.12");
            let setting = format!("patch.crates-io.quanta.path={patch:?}");
            return Ok(Self {
                folder,
                options: vec!["--config".to_owned(), setting],
                lock_text: PATCHED,
            });
        }
        for (text, instead) in port.edits {
            replace(&folder, text, instead)?;
        }
        let dependency = format!(
            "\n[dependencies.tickline]\npath = {:?}\n",
            root().join("crates/tickline")
        );
        let manifest = folder.join("Cargo.toml");
        store(&manifest, &(read(&manifest)? + &dependency))?;
        Ok(Self {
            folder,
            options: Vec::new(),
            lock_text: "name = \"tickline\"",
        })
    }

    /// A command of cargo in the copy; further words follow.
    fn cargo(&self, on_new_machine: &[String], words: &[&str]) -> Command {
        let machine = on_new_machine.iter().map(String::as_str);
        let limited = machine.chain(["timeout", "600", "cargo"]);
        let mut cargo = command_of(limited.chain(words.iter().copied()));
        cargo
            .current_dir(&self.folder)
            .args(&self.options)
            .env("CARGO_PROFILE_DEV_DEBUG", "0")
            .env("CARGO_TARGET_DIR", files::target().join("ports/build"));
        cargo
    }

    /// Fails unless the last build had this project. If a patch does not apply, cargo only warns.
    fn require_this_project(&self) -> Result<(), String> {
        let lock = read(self.folder.join("Cargo.lock"))?;
        if !lock.contains(self.lock_text) || lock.contains("[[patch.unused]]") {
            return Err("its lock file does not have this project".into());
        }
        Ok(())
    }
}

/// Replaces a folder by a copy of another one.
fn copy_anew(from: &Path, to: &Path) -> Result<(), String> {
    files::remove_folder(to)?;
    // The files that cargo unpacks may be read-only.
    output(command("cp -r --no-preserve=mode,ownership").args([from, to])).map(drop)
}

/// Copies a crate, gives it this project's clock, and runs its tests. Returns how many have passed.
fn test(port: &Port, source: &Path, on_new_machine: &[String]) -> Result<u64, String> {
    let copied = Copied::make(port, source)?;
    if port.edits.is_empty() {
        output(&mut copied.cargo(on_new_machine, &["update", "--package", "quanta"]))?;
    }
    let features = format!("--features={}", port.features);
    let mut tests = copied.cargo(on_new_machine, &["test", "--no-fail-fast", &features]);
    tests.arg("--");
    for name in port.left_out {
        tests.args(["--skip", name]);
    }
    let mut last = String::new();
    for _ in 0..TRIES {
        let (status, output) = run_logged(&mut tests, port.name)?;
        copied.require_this_project()?;
        let passed = test_output::passed(&output);
        // A crate without tests would prove nothing.
        if status.success() && passed > 0 {
            return Ok(passed);
        }
        last = format!("`{}`: {status}\n{output}", words(&tests));
    }
    Err(last)
}

/// Replaces a text in all sources and manifests of a folder. Fails if none has the text: a program
/// that still has its own clock would prove nothing.
fn replace(folder: &Path, text: &str, instead: &str) -> Result<(), String> {
    let mut is_there = false;
    // `grep` takes each line of a text as a text of its own. It fails if no file has the first
    // line.
    let first_line = text.lines().next().unwrap_or_default();
    let files = output(
        command("grep -rlF --include=*.rs --include=Cargo.toml")
            .arg(first_line)
            .arg(folder),
    )?;
    for file in files.lines() {
        let source = read(file)?;
        is_there |= source.contains(text);
        store(file, &source.replace(text, instead))?;
    }
    if !is_there {
        return Err(format!("no source has the text {text:?}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Symptom: in a clone below `~/my code`, the command removed the folder `~/my`.
    #[test]
    fn a_path_with_a_space_is_one_folder() {
        let folder = files::target().join(format!("spaces-{}", std::process::id()));
        store(folder.join("my/own"), "").unwrap();
        store(folder.join("my source/lib.rs"), "new").unwrap();
        let to = folder.join("my code");
        store(to.join("old.rs"), "old").unwrap();
        let copied = copy_anew(&folder.join("my source"), &to);
        let is_there = ["my/own", "my code/old.rs"].map(|file| folder.join(file).exists());
        let text = read(to.join("lib.rs"));
        fs::remove_dir_all(folder).unwrap();
        assert_eq!((copied, is_there), (Ok(()), [true, false]));
        assert_eq!(text.unwrap(), "new");
    }

    /// Replaces a text in a program of two sources. Returns the result, and the sources.
    fn replaced(test: &str, text: &str, instead: &str) -> (Result<(), String>, [String; 2]) {
        let folder = files::target().join(format!("{test}-{}", std::process::id()));
        let sources = ["src/lib.rs", "tests/it.rs"].map(|file| folder.join(file));
        store(&sources[0], "use a::{b,\n    c};\n").unwrap();
        store(&sources[1], "use a::{b,\n    d};\n").unwrap();
        store(folder.join("Cargo.toml"), "c};").unwrap();
        let result = replace(&folder, text, instead);
        let sources = sources.map(|file| read(file).unwrap());
        fs::remove_dir_all(folder).unwrap();
        (result, sources)
    }

    #[test]
    fn a_text_is_replaced_in_every_source() {
        let (result, sources) = replaced("every-source", "a::", "std::");
        let expected = ["use std::{b,\n    c};\n", "use std::{b,\n    d};\n"];
        assert_eq!((result, sources), (Ok(()), expected.map(str::to_owned)));
    }

    #[test]
    fn a_text_of_two_lines_is_replaced_only_as_a_whole() {
        let (result, sources) = replaced("two-lines", "{b,\n    c}", "c");
        let expected = ["use a::c;\n", "use a::{b,\n    d};\n"];
        assert_eq!((result, sources), (Ok(()), expected.map(str::to_owned)));
    }

    #[test]
    fn a_text_that_no_source_has_is_an_error() {
        for text in ["nowhere", "{b,\n    e}"] {
            let (result, _) = replaced("no-source", text, "");
            assert!(result.is_err(), "{text}");
        }
    }
}
