//! Tests that `doctor --facts` reads the output of `facts.sh`, on machines with different tools.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::common::{assert_fails, skip};
use crate::measured::{document_schema, faults, measured};
use crate::recorded::diagnosed;

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/facts.sh");

fn write(root: &Path, name: &str, text: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
    fs::write(path, text).expect("it can be written");
}

/// Writes a program that prints this text, for a folder in front of the path.
fn write_program(folder: &Path, name: &str, prints: &str) {
    write(
        folder,
        name,
        &format!("#!/bin/sh\ncat <<'END'\n{prints}\nEND\n"),
    );
    fs::set_permissions(folder.join(name), fs::Permissions::from_mode(0o755)).expect("it is there");
}

fn facts(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Writes the files of a machine with hpet below `root`, and returns the folder of its programs.
fn machine_with_hpet(root: &Path) -> PathBuf {
    for (name, text) in [
        (
            "proc/cpuinfo",
            "model name\t: A \"CPU\" \\ 1\u{b5}\t\u{1b}x\nflags\t\t: nonstop_tsc rdtscp\n",
        ),
        ("proc/cmdline", "quiet a=\"b c\"\n"),
        ("proc/sys/kernel/osrelease", "6.1.0\n"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet\n",
        ),
        (
            "sys/devices/system/clocksource/clocksource0/available_clocksource",
            "tsc hpet acpi_pm \n",
        ),
        ("sys/devices/system/cpu/online", "0-3\n"),
    ] {
        write(root, name, text);
    }
    let programs = root.join("programs");
    for (name, prints) in [
        (
            "dmesg",
            "[ 1.0] clocksource: \"hpet\"\\\n[ 1.1] usb 1-1: no clock\n[ 1.1] input: PrtSc key\n[ 1.1] tsc2007 1-0048: touch\n[ 1.2] tsc: 3000 MHz",
        ),
        (
            "strace",
            "clock_gettime(CLOCK_REALTIME, {tv_sec=1, tv_nsec=2}) = 0\n000000002",
        ),
        // The output of busybox, and chronyd's reply for a hardware clock.
        (
            "adjtimex",
            "    mode:         0\n-o  offset:       -480000 us\n-f  freq.adjust:  -655360 (65536 = 1ppm)\n    maxerror:     510000\n\
             \x20   esterror:     7\n    status:       64 (UNSYNC)\n-p  timeconstant: 7\n-t  tick:         10834 us",
        ),
        (
            "chronyc",
            "5048,PHC0,1,1700000000.5,-0.250000000,0.0,0.0,-7.5,0.0,0.25,0.001,0.002,16.0,Normal",
        ),
    ] {
        write_program(&programs, name, prints);
    }
    programs
}

/// The facts that the script collects below `root` in this shell, with these folders in front of
/// the path.
fn collected(shell: &str, folders: &[&Path], root: &Path) -> Value {
    let usual = std::env::var_os("PATH").expect("a path");
    let folders = folders.iter().map(|folder| folder.to_path_buf());
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&usual))).expect("a path");
    let mut words = shell.split(' ');
    let output = Command::new(words.next().expect("a shell"))
        .args(words)
        .arg(SCRIPT)
        .arg("-r")
        .arg(root)
        .env("PATH", path)
        .output()
        .expect("the shell");
    facts(&output)
}

/// The facts that the script collects of a machine with hpet.
fn facts_of_hpet() -> &'static Value {
    static FACTS: OnceLock<Value> = OnceLock::new();
    FACTS.get_or_init(|| {
        let root = tempfile::tempdir().expect("a folder");
        let root = root.path();
        let programs = machine_with_hpet(root);
        collected("sh", &[&programs], root)
    })
}

#[test]
fn the_collectors_facts_satisfy_the_schema() {
    assert_eq!(faults(&document_schema(), facts_of_hpet()), [""; 0]);
}

#[test]
fn quotes_and_backslashes_of_a_file_stay_and_other_bytes_go() {
    let machine = &facts_of_hpet()["machine"];
    assert_eq!(machine["cpu"], "A \"CPU\" \\ 1 x");
    assert_eq!(machine["kernel_command_line"], "quiet a=\"b c\"");
}

#[test]
fn the_collector_lists_the_clocksources_that_the_kernel_accepts() {
    let machine = &facts_of_hpet()["machine"];
    assert_eq!(machine["available_clocksources"], "tsc hpet acpi_pm");
}

#[test]
fn the_collector_takes_the_invariant_tsc_from_the_processors_flags() {
    let machine = &facts_of_hpet()["machine"];
    assert_eq!(machine["cpuid"]["invariant_tsc"], true);
}

#[test]
fn a_processor_without_the_flag_of_guests_has_no_hypervisor() {
    assert_eq!(facts_of_hpet()["machine"]["hypervisor"], "none");
}

#[test]
fn the_collector_keeps_the_messages_about_clocks() {
    let expected = json!(["[ 1.0] clocksource: \"hpet\"\\", "[ 1.2] tsc: 3000 MHz"]);
    assert_eq!(facts_of_hpet()["machine"]["kernel_log"], expected);
}

#[test]
fn the_collector_reads_the_kernels_ntp_state_from_busyboxs_adjtimex() {
    let ntp = json!({ "synchronised": false, "frequency_ppb": -10_000, "tick_us": 10_834,
        "offset_ns": -480_000_000, "time_constant": 7, "maximum_error_us": 510_000, "estimated_error_us": 7,
        "flags": ["UNSYNC"] });
    assert_eq!(facts_of_hpet()["machine"]["ntp"], ntp);
}

#[test]
fn the_collector_reads_chronyds_reply() {
    let daemon = json!({ "name": "chronyd", "synchronised": true, "reference": "PHC0", "stratum": 1,
        "offset_ns": -250_000_000, "bound_ns": 252_500_000, "leap": "none", "frequency_ppb": -7_500, "skew_ppb": 250,
        "root_delay_ns": 1_000_000, "root_dispersion_ns": 2_000_000 });
    assert_eq!(facts_of_hpet()["machine"]["ntp_daemon"], daemon);
}

#[test]
fn a_machine_without_systemds_folder_has_no_systemd() {
    assert_eq!(facts_of_hpet()["machine"]["systemd"], false);
}

#[test]
fn a_clock_that_strace_sees_is_served_by_a_system_call() {
    assert_eq!(facts_of_hpet()["costs"][0]["served_by"], "system_call");
}

#[test]
fn a_machine_with_hpet_is_diagnosed_by_its_files() {
    let (document, code) = diagnosed(facts_of_hpet());
    let findings = document["findings"].as_array().expect("findings");
    let codes: Vec<_> = findings.iter().map(|finding| &finding["code"]).collect();
    let expected = json!(["ntp_slewing", "tsc_not_chosen", "ntp_flag"]);
    assert_eq!((json!(codes), code), (expected, Some(1)), "{document}");
}

/// Symptom: nothing said that the watchdog's message came right after a resume.
#[test]
fn the_collector_keeps_the_resume_before_a_message_about_clocks() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let programs = machine_with_hpet(root);
    let log = "[ 1.0] PM: suspend exit\n[ 2.0] PM: suspend exit\n[ 3.0] tsc: 3000 MHz\n[ 4.0] PM: suspend exit";
    write_program(&programs, "dmesg", log);
    let facts = collected("sh", &[&programs], root);
    let expected = json!(["[ 2.0] PM: suspend exit", "[ 3.0] tsc: 3000 MHz"]);
    assert_eq!(facts["machine"]["kernel_log"], expected);
}

/// Symptom: without awk, the log was readable and said nothing, so that no rejection was known.
#[test]
fn a_log_that_cannot_be_filtered_is_left_out() {
    for missing in ["awk", "grep", "tr", "sed"] {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let programs = machine_with_hpet(root);
        write(&programs, missing, "#!/bin/sh\nexit 127\n");
        let executable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(programs.join(missing), executable).unwrap();
        let facts = collected("sh", &[&programs], root);
        assert_eq!(facts["machine"]["kernel_log"], Value::Null, "{missing}");
    }
}

/// Symptom: with busybox's awk (Alpine, OpenWrt), chronyd was lost.
#[test]
fn each_shell_and_each_awk_collects_the_same() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path();
    let programs = machine_with_hpet(root);
    let without_time = |mut facts: Value| {
        facts["taken_at"].take();
        facts
    };
    let usual = without_time(collected("sh", &[&programs], root));
    assert_eq!(usual["machine"]["ntp_daemon"]["stratum"], 1, "{usual}");
    for (shell, program, tools) in [
        ("dash", "dash", &[][..]),
        ("bash", "bash", &[]),
        ("sh", "mawk", &["awk"]),
        ("sh", "gawk", &["awk"]),
        ("sh", "original-awk", &["awk"]),
        (
            "busybox sh",
            "busybox",
            &["awk", "sed", "grep", "head", "tr", "cat", "date", "uname"],
        ),
    ] {
        let Some(file) = installed(program) else {
            skip(format_args!(
                "facts.sh with {program}, which is not installed (apt install {program})"
            ));
            continue;
        };
        let folder = tempfile::tempdir().unwrap();
        for tool in tools {
            symlink(&file, folder.path().join(tool)).expect("a link");
        }
        let facts = collected(shell, &[&programs, folder.path()], root);
        assert_eq!(
            without_time(facts),
            usual,
            "{program} as {tools:?}, in {shell}"
        );
    }
}

/// The file of a program on the path.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let mut files = std::env::split_paths(&path).map(|folder| folder.join(program));
    files.find(|file| file.is_file())
}

#[test]
fn the_collector_and_the_program_describe_a_machine_alike() {
    let output = Command::new("sh").arg(SCRIPT).output().unwrap();
    let facts = facts(&output);
    assert_eq!(faults(&document_schema(), &facts), [""; 0]);
    let (_, code) = diagnosed(&facts);
    assert!(matches!(code, Some(0 | 1)), "{code:?}: {facts}");
    let program_facts = &measured("doctor").json;
    for key in [
        "kernel",
        "clocksource",
        "available_clocksources",
        "online_cpus",
        "time_namespace",
        "tracer_pid",
        "container",
        "vmclock",
    ] {
        assert_eq!(
            facts["machine"][key], program_facts["machine"][key],
            "{key}"
        );
    }
}

/// Symptom: a container's other CLOCK_MONOTONIC was not among the facts, or, with its own numbers
/// of processes and the machine's /proc, the facts were those of another process.
#[test]
fn the_collector_and_the_program_see_the_same_time_namespace() {
    for options in [&["--fork"][..], &["--fork", "--pid"], &[]] {
        let in_namespace = |words: &[&str]| {
            let mut unshare = Command::new("unshare");
            unshare
                .args(["--user", "--map-root-user"])
                .args(["--time", "--monotonic", "100", "--boottime", "200"])
                .args(options)
                .args(words)
                .output()
                .ok()
                .filter(|output| matches!(output.status.code(), Some(0 | 1)))
                .and_then(|output| serde_json::from_slice::<Value>(&output.stdout).ok())
        };
        let program = env!("CARGO_BIN_EXE_tickline");
        let (Some(collected), Some(measured)) = (
            in_namespace(&["sh", SCRIPT]),
            in_namespace(&[program, "doctor", "--json", "-"]),
        ) else {
            return skip("no time namespace");
        };
        let key = "time_namespace";
        assert!(measured["machine"][key].is_object(), "{measured}");
        assert_eq!(collected["machine"][key], measured["machine"][key]);
    }
}

#[test]
fn facts_of_the_collectors_own_process_are_not_those_of_another_root() {
    let root = tempfile::tempdir().unwrap();
    let programs = machine_with_hpet(root.path());
    let facts = collected("sh", &[&programs], root.path());
    for key in ["tracer_pid", "time_namespace", "allowed_cpus"] {
        assert_eq!(facts["machine"][key], Value::Null, "{key}");
    }
}

/// Symptom: mksh counts with 32 bits, so numbers of ns were wrong.
#[test]
fn a_shell_that_counts_with_32_bits_is_refused() {
    let Some(shell) = installed("mksh") else {
        return skip("mksh is not installed (apt install mksh)");
    };
    let output = Command::new(shell).arg(SCRIPT).output().unwrap();
    assert_fails(&output, 2, "this shell counts with 32 bits");
}

/// Symptom: 22 messages.
#[test]
fn a_closed_output_has_one_message() {
    let output = Command::new("sh")
        .args(["-c", "sh \"$0\" >&-", SCRIPT])
        .output()
        .unwrap();
    let messages = String::from_utf8_lossy(&output.stderr);
    assert_eq!(messages.lines().count(), 1, "{messages}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn the_collector_names_a_wrong_root() {
    let output = Command::new("sh")
        .arg(SCRIPT)
        .args(["-r", "/nowhere"])
        .output()
        .unwrap();
    assert_fails(&output, 2, "/nowhere/proc/cpuinfo");
    let output = Command::new("sh").arg(SCRIPT).arg("more").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
