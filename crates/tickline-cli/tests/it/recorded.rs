//! The program's findings on machines whose facts were recorded.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::measured::measured;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts")
}

fn diagnose(file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickline"))
        .args(["doctor", "--json", "-", "--facts"])
        .arg(file)
        .output()
        .expect("it can be started")
}

/// The file, the first finding's code, and a part of its fix; no code where nothing is wrong.
const EXPECTED: [(&str, &str, &str); 12] = [
    ("guest-hpet", "tsc_not_chosen", "echo tsc | sudo tee"),
    (
        "xen-aws-p3",
        "xen_clocksource",
        "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource",
    ),
    ("virtualbox-debian7", "tsc_warp", "VBoxManage modifyvm NAME --paravirtprovider kvm"),
    ("vmware-debian7", "", ""),
    ("vmware-no-log", "tsc_missing", "monitor_control.virtual_rdtsc = \"FALSE\""),
    ("hyperv-page", "", ""),
    ("kvm-clickhouse", "", ""),
    ("hyperv-msr", "hyperv_without_page", "hyperv_clocksource_tsc_page"),
    ("rhel6-vsyscall64", "vsyscall64_off", "sysctl -w kernel.vsyscall64=1"),
    ("hpet-listed-tsc", "tsc_skew", "the kernel may be right"),
    ("xen-emulated", "counter_trapped", "tsc_mode"),
    ("numa-watchdog", "tsc_watchdog_delay", "tsc=nowatchdog clocksource=tsc"),
];

/// Machines with notes alone, and their codes.
const NOTES: [(&str, &[&str]); 3] = [
    ("chrony-plain", &["ntp_flag"]),
    ("chrony-rtcsync", &[]),
    ("chrony-slewing", &["ntp_slewing", "ntp_flag"]),
];

#[test]
fn recorded_machines_are_diagnosed() {
    for (name, code, fix) in EXPECTED {
        let output = diagnose(&folder().join(format!("{name}.json")));
        let said: Value = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{name}: {error}: {}", String::from_utf8_lossy(&output.stderr)));
        let findings = said["findings"].as_array().unwrap();
        let is_host = findings.iter().any(|finding| finding["steps"]["place"] == "host");
        assert_eq!(is_host, name == "virtualbox-debian7", "{name}: commands for the host");
        if code.is_empty() {
            assert_eq!((findings.as_slice(), output.status.code()), (&[][..], Some(0)), "{name}");
            continue;
        }
        let first = &findings[0];
        assert_eq!(first["code"], code, "{name}: {first}");
        assert!(first["fix"].as_str().unwrap().contains(fix), "{name}: {first}");
        assert!(!first["evidence"].as_array().unwrap().is_empty(), "{name}: {first}");
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
}

/// Account D: the cause, and the commands for the host, which stand beside their step.
#[test]
fn a_guest_of_virtualbox_has_commands_for_its_host() {
    let output = Command::new(env!("CARGO_BIN_EXE_tickline"))
        .arg("--facts")
        .arg(folder().join("virtualbox-debian7.json"))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in [
        "run:  the following commands on the host",
        "check: VBoxManage showvminfo ",
        "--paravirtprovider kvm && VBoxManage setextradata ",
        "undo keep: VBoxManage modifyvm ",
        "this one is 3.2.0-4-amd64",
    ] {
        assert!(text.contains(part), "{part} is not in:\n{text}");
    }
}

/// The kernel's state under a real chronyd: without `rtcsync` the flag stays set, which is no lack of a
/// daemon.
#[test]
fn notes_on_recorded_daemons() {
    for (name, codes) in NOTES {
        let output = diagnose(&folder().join(format!("{name}.json")));
        let said: Value = serde_json::from_slice(&output.stdout).unwrap();
        let findings = said["findings"].as_array().unwrap();
        let found: Vec<_> = findings.iter().map(|finding| finding["code"].as_str().unwrap()).collect();
        assert_eq!((found.as_slice(), output.status.code()), (codes, Some(0)), "{name}");
        assert!(findings.iter().all(|finding| finding["severity"] == "note"), "{name}");
    }
}

/// The first line was about tickline, or about nothing, and `--check` did not exist.
#[test]
fn the_machine_comes_first() {
    for (name, first, status, exit) in [
        (
            "guest-hpet",
            "SLOW: every clock_gettime is a system call: 937 ns, 84 possible (hpet). Fix below.",
            "WARNING",
            1,
        ),
        ("xen-aws-p3", "SLOW: every clock_gettime is a system call", "WARNING", 1),
        (
            "virtualbox-debian7",
            "SLOW: every clock_gettime is a system call: 2000 ns (acpi_pm). Fix below.",
            "WARNING",
            1,
        ),
        (
            "xen-emulated",
            "SLOW: reading the counter takes longer than a system call: the hypervisor emulates the",
            "WARNING",
            1,
        ),
        ("kvm-clickhouse", "OK: the vDSO answers clock_gettime MONOTONIC (kvm-clock).", "OK", 0),
    ] {
        let file = folder().join(format!("{name}.json"));
        let run = |arguments: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
            let output =
                command.args(arguments).arg("--facts").arg(&file).output().expect("it can be started");
            (String::from_utf8(output.stdout).expect("text"), output.status.code())
        };
        let (text, code) = run(&[]);
        assert!(text.starts_with(first), "{name}: {text}");
        assert_eq!(code, Some(exit), "{name}");
        let (line, code) = run(&["--check"]);
        assert!(
            line.starts_with(&format!("TICKLINE {status} - ")) && line.lines().count() == 1,
            "{name}: {line}"
        );
        assert_eq!(code, Some(exit), "{name}");
    }
}

/// An argument that is wrong must not look like a machine that is.
#[test]
fn a_check_that_fails_is_unknown() {
    for arguments in
        [&["--check", "--facts", "no/such"][..], &["--check", "--secs", "x"], &["--check", "--x"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_tickline")).args(arguments).output().unwrap();
        let line = String::from_utf8(output.stdout).unwrap();
        assert!(
            line.starts_with("TICKLINE UNKNOWN - ") && line.lines().count() == 1,
            "{arguments:?}: {line}"
        );
        assert_eq!(output.status.code(), Some(3), "{arguments:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nothing.json");
    std::fs::write(&path, r#"{ "schema": "tickline/2", "machine": {} }"#).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_tickline"))
        .args(["--check", "--facts"])
        .arg(&path)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3), "it is unknown who answers");
}

#[test]
fn every_recorded_machine_names_its_source_and_is_expected() {
    for entry in std::fs::read_dir(folder()).unwrap() {
        let path = entry.unwrap().path();
        let facts: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert!(facts["source"].as_str().is_some_and(|source| source.len() > 20), "{}", path.display());
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let mut expected = EXPECTED.iter().map(|(expected, ..)| *expected).chain(NOTES.map(|(name, _)| name));
        assert!(expected.any(|expected| expected == name), "{name} is expected nowhere");
    }
}

#[test]
fn what_is_not_known_is_no_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nothing.json");
    std::fs::write(&path, r#"{ "schema": "tickline/2", "machine": {} }"#).unwrap();
    let output = diagnose(&path);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["findings"], output.status.code()), (&Value::Array(Vec::new()), Some(0)));
}

/// `tickline warp --json` and a report's data contain the comparison of all pairs.
#[test]
fn unsynchronised_counters_are_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warp.json");
    let mut document = measured("warp").json.clone();
    document["machine"]["clocksource"] = "tsc".into();
    document["warp"]["synchronised"] = false.into();
    document["warp"]["pairs"] = serde_json::json!([{ "from_cpu": 0, "to_cpu": 48, "exchanges": 5_000, "warps": 2_000,
        "largest_warp_ns": 3_900.0, "offset_least_ns": -4_000.0, "offset_most_ns": -3_900.0, "synchronised": false }]);
    std::fs::write(&path, document.to_string()).unwrap();
    let output = diagnose(&path);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let first = &said["findings"][0];
    assert_eq!(
        (&first["code"], output.status.code()),
        (&"counters_unsynchronised".into(), Some(1)),
        "{said}"
    );
    assert!(first["evidence"].to_string().contains("CPU 0 and CPU 48"), "{first}");
}

/// Facts may come from a hostile file.
#[test]
fn facts_do_not_steer_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.json");
    let evil = "\\u001b]0;title\\u0007\\u009b2J";
    let machine = format!(r#"{{ "cpu": "{evil}", "clocksource": "hpet{evil}", "counters": "{evil}" }}"#);
    for schema in ["tickline/2", evil] {
        let costs = format!(r#"[{{ "clock": "{evil}" }}]"#);
        let text = format!(
            r#"{{ "schema": "{schema}", "machine": {machine}, "costs": {costs}, "served_unknown": "{evil}" }}"#
        );
        std::fs::write(&path, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_tickline")).arg("--facts").arg(&path).output().unwrap();
        let said = [output.stdout, output.stderr].map(|out| String::from_utf8(out).unwrap()).concat();
        assert!(said.contains("]0;title"), "{said}");
        assert!(said.chars().all(|character| character == '\n' || !character.is_control()), "{said:?}");
    }
}

/// Notes alone give exit code 0, like the text.
#[test]
fn what_is_only_worth_knowing_is_nothing_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("facts.json");
    std::fs::write(&path, r#"{ "schema": "tickline/2", "reason": "switched_off", "machine": {} }"#).unwrap();
    let output = diagnose(&path);
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&said["findings"][0]["severity"], output.status.code()), (&"note".into(), Some(0)));
}
