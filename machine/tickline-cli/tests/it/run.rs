//! Tests that `tickline run` runs the named program, served or not, with its arguments, process
//! number, exit code and signals.

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::common::{library, skip, text, tickline};

fn run(arguments: &[&str]) -> Command {
    tickline(&[&["run"], arguments].concat())
}

fn output(arguments: &[&str]) -> Output {
    run(arguments).output().unwrap()
}

#[test]
fn the_exit_code_and_the_signal_are_the_programs() {
    assert_eq!(
        output(&["-q", "--", "sh", "-c", "exit 7"]).status.code(),
        Some(7)
    );
    assert_eq!(
        output(&["-q", "sh", "-c", "kill -TERM $$"]).status.signal(),
        Some(15)
    );
}

#[test]
fn arguments_and_input_reach_the_program() {
    let output = output(&[
        "-q",
        "sh",
        "-c",
        "printf '%s|' \"$@\"",
        "sh",
        "-q",
        "--help",
        "--",
        "a b",
    ]);
    assert_eq!(text(&output.stdout), "-q|--help|--|a b|");
}

#[test]
fn the_program_replaces_run_in_the_same_process() {
    let child = run(&["-q", "sh", "-c", "echo $$ $PPID"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = child.id();
    let output = child.wait_with_output().unwrap();
    assert_eq!(
        text(&output.stdout).trim(),
        format!("{pid} {}", std::process::id())
    );
}

/// The standard library opens closed standard files before `main`. The program must find them
/// closed.
#[test]
fn a_closed_file_stays_closed() {
    for file in 0..3 {
        let closed = ["0<&-", "1>&-", "2>&-"][file];
        let command = format!("exec \"$0\" run --quiet -- test -e /proc/self/fd/{file} {closed}");
        let program = env!("CARGO_BIN_EXE_tickline");
        let code = |command: &str| {
            let output = Command::new("sh")
                .args(["-c", command, program])
                .output()
                .expect("a shell");
            output.status.code()
        };
        assert_eq!(code(&command), Some(1), "{command}");
        assert_eq!(code(&command.replace(closed, "")), Some(0), "{command}");
    }
}

/// One line on standard error says which clock the program has, and why. `--quiet` omits it.
#[test]
fn one_line_says_which_clock_the_program_has() {
    let missing = [
        "--always",
        "--page",
        "/nonexistent/page",
        "--library",
        "/nonexistent/library.so",
    ];
    let ended = output(&[&missing[..], &["sh", "-c", "exit 3"]].concat());
    let line = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(3));
    assert!(
        line.starts_with("tickline: sh has the kernel's clock: /nonexistent/library.so: "),
        "{line}"
    );
    assert_eq!(line.lines().count(), 1, "{line}");
    let quiet = output(&[&missing[..], &["-q", "sh", "-c", "exit 3"]].concat());
    assert_eq!(
        (quiet.status.code(), text(&quiet.stderr)),
        (Some(3), String::new())
    );
    let off = run(&[&missing[..], &["true"]].concat())
        .env("TICKLINE", "off")
        .output()
        .unwrap();
    assert_eq!(
        text(&off.stderr),
        "tickline: true has the kernel's clock: TICKLINE=off\n"
    );
}

/// Symptom: "No such file or directory", without the file.
#[test]
fn a_relative_name_in_a_folder_that_is_gone_is_in_the_error() {
    let folder = tempfile::tempdir().unwrap();
    let script = "cd \"$1\" && rmdir \"$1\" && exec \"$0\" run --always --library library.so true";
    let ended = Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_tickline")])
        .arg(folder.path())
        .env_remove("TICKLINE")
        .output()
        .unwrap();
    let line = text(&ended.stderr);
    assert!(line.contains("clock: library.so: "), "{line}");
}

/// The names come from a script, which names its interpreter, and from the user.
#[test]
fn names_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("script");
    std::fs::write(&script, "#!/nonexistent/\u{1b}[2J\n").unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    for program in [script.to_str().unwrap(), "/nonexistent/\u{1b}[2J"] {
        let ended = output(&["--always", "--library", "/nonexistent/\u{1b}[2J", program]);
        assert!(
            text(&ended.stderr).contains("/nonexistent/\u{fffd}[2J"),
            "{ended:?}"
        );
        assert!(!ended.stderr.contains(&0x1b), "{ended:?}");
    }
}

/// The fault of a file that is another library, or none.
const OTHER: &str = concat!(
    "this is not the libtickline_preload.so of version ",
    env!("CARGO_PKG_VERSION")
);

/// Checks that a program runs unserved, and that a line names this fault of the library.
#[track_caller]
fn assert_refused(library: &Path, fault: &str) {
    let library = library.to_str().unwrap();
    let script = "ulimit -v 1048576; exec \"$0\" run --always --library \"$1\" sh -c 'exit 4'";
    let words = ["-c", script, env!("CARGO_BIN_EXE_tickline"), library];
    let ended = Command::new("sh")
        .args(words)
        .env_remove("TICKLINE")
        .output()
        .unwrap();
    let line = text(&ended.stderr);
    assert_eq!(ended.status.code(), Some(4), "{line}");
    assert!(line.contains(&format!("{library}: {fault}")), "{line}");
}

#[test]
fn a_file_that_is_not_the_library_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [empty, begun] = ["empty", "begun"].map(|name| folder.path().join(name));
    std::fs::write(&empty, "").unwrap();
    std::fs::write(&begun, b"\x7fELF\x02\x01").unwrap();
    for library in [Path::new("/bin/sh"), &empty, &begun] {
        assert_refused(library, OTHER);
    }
}

/// Symptom: `tickline run --library /dev/zero` never ended.
#[test]
fn a_library_that_is_no_regular_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let kind = rustix::fs::FileType::Fifo;
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
    for library in [Path::new("/dev/zero"), &pipe] {
        assert_refused(library, "this is not a regular file: mode ");
    }
}

#[test]
fn a_library_that_is_too_large_is_refused() {
    const LIMIT: u64 = 16 << 20;
    let folder = tempfile::tempdir().unwrap();
    let large = folder.path().join("large");
    let file = std::fs::File::create(&large).unwrap();
    file.set_len(LIMIT + 1).unwrap();
    let bytes = LIMIT + 1;
    let fault = format!("it has {bytes} bytes, and a library has {LIMIT} at most");
    assert_refused(&large, &fault);
}

/// The option by which a linker packs the relative relocations of a library, as those of libc are.
const PACK: &str = "-Wl,-z,pack-relative-relocs";

/// Symptom: the packed relocations of libc were named, and not that libc is another library.
#[test]
fn another_library_is_called_another_also_if_its_relocations_are_packed() {
    let folder = tempfile::tempdir().unwrap();
    let flags = [PACK, "-DSECTION=\".data\""];
    if let Some(strange) = library("packed", &flags, folder.path()) {
        assert_refused(&strange, OTHER);
    }
}

/// Symptom: an unrelocated function address was called.
#[test]
fn a_library_with_packed_relocations_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let Some(packed) = library("packed", &[PACK], folder.path()) else {
        return;
    };
    let bytes = std::fs::read(&packed).unwrap();
    if !bytes.windows(9).any(|name| name == b".relr.dyn") {
        return skip("no library has packed relocations here");
    }
    let fault = "its relative relocations are packed (DT_RELR), which this program can't read: \
                 link it with -z nopack-relative-relocs";
    assert_refused(&packed, fault);
}

#[test]
fn a_program_that_cannot_be_executed_is_an_error() {
    // Symptom: before the error, a line said that the program has the kernel's clock.
    for program in ["no-such-program-of-tickline", "/nonexistent/program"] {
        let ended = output(&["--", program]);
        assert_eq!(ended.status.code(), Some(127));
        let line = text(&ended.stderr);
        assert!(
            line.starts_with(&format!("tickline: {program}: ")) && line.lines().count() == 1,
            "{line}"
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data");
    std::fs::write(&file, "text").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert_eq!(
        output(&["-q", file.to_str().unwrap()]).status.code(),
        Some(126)
    );
    assert_eq!(output(&[]).status.code(), Some(2), "no program was named");
}
