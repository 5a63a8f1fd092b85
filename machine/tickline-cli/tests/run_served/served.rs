//! Provides a page, a library and programs for tests of `tickline run`.

use std::env;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::json;
use tempfile::TempDir;
use tickline_observe::page::served_page;

use crate::common::filter::{filter, put_under};
use crate::common::{self, skip, text, tickline};

/// The path of a dynamic linker. No dynamic linker loads this program itself, so `tickline run`
/// traces it.
pub(crate) const TRACED: &str = "/lib64/ld-linux-x86-64.so.2";

/// A served page, and the library.
pub(crate) struct ServedPage {
    pub(crate) folder: TempDir,
    pub(crate) page: PathBuf,
    pub(crate) library: &'static Path,
}

impl ServedPage {
    /// `None`, with the reason on standard output, where no page can be served.
    pub(crate) fn new() -> Option<Self> {
        let (folder, page) = served_page()?;
        if !Path::new(TRACED).exists() {
            skip(format_args!("there is no {TRACED}"));
            return None;
        }
        let library = library()?;
        Some(Self {
            folder,
            page,
            library,
        })
    }

    /// `tickline run` for a program, with the served page.
    pub(crate) fn run(&self, program: &[&str]) -> Command {
        self.run_with(&self.page, program)
    }

    /// As [`run`](Self::run), with another page.
    pub(crate) fn run_with(&self, page: &Path, program: &[&str]) -> Command {
        let mut command = tickline(&["run", "--always", "--page"]);
        command
            .arg(page)
            .arg("--library")
            .arg(self.library)
            .arg("--")
            .args(program);
        command.env_remove("LD_PRELOAD");
        command
    }

    /// As [`run`](Self::run), for a program that is traced: the dynamic linker runs `program`,
    /// which begins with a path.
    pub(crate) fn run_traced(&self, program: &[&str]) -> Command {
        self.run(&[&[TRACED], program].concat())
    }
}

/// A program with its arguments.
pub(crate) fn program<S: AsRef<OsStr>>(words: &[S]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

/// The command with `prefix` before its own words.
pub(crate) fn behind<S: AsRef<OsStr>>(prefix: &[S], command: &Command) -> Command {
    let prefix = prefix.iter().map(AsRef::as_ref);
    let words: Vec<_> = prefix
        .chain([command.get_program()])
        .chain(command.get_args())
        .collect();
    let mut prefixed = program(&words);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => prefixed.env(name, value),
            None => prefixed.env_remove(name),
        };
    }
    prefixed
}

/// The library as users get it. The build for tests would need libc.
pub(crate) fn library() -> Option<&'static Path> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    let build = || {
        let Some(cargo) = env::var_os("CARGO") else {
            skip("no cargo builds the library: this test was not started by it");
            return None;
        };
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let built = Command::new(cargo)
            .args([
                "build",
                "--quiet",
                "--offline",
                "--profile",
                "preload",
                "-p",
                "tickline-preload",
            ])
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(built.status.success(), "{}", text(&built.stderr));
        Some(target.join("preload/libtickline_preload.so"))
    };
    BUILT.get_or_init(build).as_deref()
}

/// Compiles a program of `c/`: dynamic, and also static if a static libc is installed.
pub(crate) fn compile(source: &str) -> Option<(String, Option<String>)> {
    let one = |name: &str, flags: &[&str]| {
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let strict = [
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-nonnull",
            "-pthread",
        ];
        common::compile(source, &[&strict, flags].concat(), &program)?;
        Ok::<_, io::Error>(program.to_str().unwrap().to_owned())
    };
    let dynamic = match one(source, &[]) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            skip(format_args!("no compiler: {error}"));
            return None;
        }
        dynamic => dynamic.unwrap(),
    };
    let fixed = one(&format!("{source}-static"), &["-static"]);
    if let Err(error) = &fixed {
        skip(format_args!("static programs: {error}"));
    }
    Some((dynamic, fixed.ok()))
}

pub(crate) struct Calls {
    /// The lines that must be the same however the program is started.
    pub(crate) answers: Vec<String>,
    /// The lines that say which clocks are the page's.
    pub(crate) is_served: Vec<String>,
}

/// Runs `command`, which is `c/calls.c`, behind `prefix`.
pub(crate) fn calls(prefix: &[&str], command: &Command) -> Calls {
    let output = output(&mut behind(prefix, command));
    assert_eq!(
        output.status.code(),
        Some(0),
        "{prefix:?} {command:?}: {output:?}"
    );
    let (is_served, mut answers): (Vec<_>, Vec<_>) = text(&output.stdout)
        .lines()
        .map(str::to_owned)
        .partition(|line| line.starts_with("served "));
    assert!(answers.len() > 300, "{} lines", answers.len());
    // If the kernel's clock is a system call, these cases end with another error or signal.
    if !tickline_page::program::kernels_clock_is_fast() {
        skip("wrong addresses, seccomp and PR_SET_TSC: the kernel's clock is a system call here");
        answers.retain(|line| {
            !line.starts_with("seccomp")
                && !line.starts_with("PR_SET_TSC")
                && !line.contains(" into ")
        });
    }
    let is_served = is_served
        .iter()
        .map(|line| line["served ".len()..].to_owned())
        .collect();
    Calls { answers, is_served }
}

pub(crate) fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).output().unwrap()
}

/// Makes a system call fail with EACCES in the process and the programs that it executes, if an
/// argument has this value.
pub(crate) fn refuse(command: &mut Command, call: &str, number: u8, value: u64) {
    let argument = json!({ "index": number, "type": "dword", "op": "eq", "val": value });
    let rules = json!([{ "syscall": call, "args": [argument] }]);
    put_under(
        command,
        filter(&json!({ "errno": libc::EACCES }), &rules).expect("a filter"),
    );
}
