//! Tests of the copies that `--against` runs.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tickline_observe::skip;

use crate::programs::{Programs, texts};
use crate::turns::compared;

/// Symptom: one of two files with the same bytes was slower by 0.8 % in 15 of 25 comparisons, and a
/// fresh copy of it in none.
pub(crate) fn each_process_of_a_pair_runs_a_copy_that_is_removed(programs: &Programs) {
    if !cfg!(target_os = "linux") {
        return skip("the program of a process is known only on Linux");
    }
    compared(programs, 130, 100);
    let log = fs::read_to_string(programs.0.join("log")).expect("the log");
    let ran: BTreeSet<&str> = log
        .lines()
        .filter_map(|line| line.split(' ').nth(2))
        .collect();
    // The program that measures is no copy.
    let (copies, originals): (Vec<&str>, Vec<&str>) = ran
        .into_iter()
        .partition(|program| program.contains(".copy-"));
    let processes: BTreeSet<&str> = log
        .lines()
        .filter_map(|line| line.split(' ').next())
        .collect();
    assert_eq!(originals.len(), 1, "{log}");
    assert_eq!(copies.len(), processes.len() - 1, "{log}");
    let left: Vec<&str> = copies
        .into_iter()
        .filter(|copy| Path::new(copy).exists())
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// A killed process ends only after its present system call, which may copy a large program.
#[cfg(target_os = "linux")]
fn wait_until_unused(copy: &Path) {
    use nix::fcntl::{Flock, FlockArg};

    /// These take a minute or more.
    const LOOKS: usize = 60_000;
    let is_used = || {
        let file = fs::File::open(copy).expect("a copy");
        Flock::lock(file, FlockArg::LockExclusiveNonblock).is_err()
    };
    for _ in 0..LOOKS {
        if !is_used() {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    panic!("{} is still used", copy.display());
}

/// Symptom: each comparison that was killed left two copies.
pub(crate) fn the_next_comparison_removes_the_copies_of_a_killed_one(programs: &Programs) {
    if !cfg!(target_os = "linux") {
        return skip("only Linux knows whether a copy is in use");
    }
    let copies = || {
        let entries = fs::read_dir(&programs.0).expect("the folder").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| name.starts_with(".copy-"))
            .collect::<Vec<_>>()
    };
    let mut command = programs.command(130, "work/spin", &[]);
    command.arg("--against").arg(programs.path(100));
    // The program starts itself again, so a group of processes is killed.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut killed = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a program");
    while copies().is_empty() {
        assert!(killed.try_wait().expect("a child").is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(1));
    }
    let kill = format!("kill -KILL -{}", killed.id());
    let status = Command::new("sh").args(["-c", &kill]).status();
    assert!(status.expect("a shell").success());
    killed.wait().expect("a child");
    assert!(!copies().is_empty(), "it left none");
    #[cfg(target_os = "linux")]
    for copy in copies() {
        let copy = programs.0.join(copy);
        wait_until_unused(&copy);
        let old = std::time::SystemTime::now() - Duration::from_secs(2 * 24 * 3_600);
        let file = fs::File::open(&copy).expect("a copy");
        file.set_modified(old).expect("own file");
    }
    compared(programs, 130, 100);
    assert_eq!(copies(), [""; 0]);
}

pub(crate) fn a_folder_that_takes_no_copy_is_named(programs: &Programs) {
    if !cfg!(target_os = "linux") {
        return skip("there is no /proc");
    }
    // Nobody can make a file in /proc.
    let output = programs.run(130, "work/spin", &["--against", "/proc/self/exe"]);
    let (out, err) = texts(&output);
    assert!(out.contains(" couples of "), "{out}\n{err}");
    assert!(
        err.contains("/proc/self gets no copy of the program"),
        "{err}"
    );
}
