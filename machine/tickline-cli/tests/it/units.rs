//! Tests of the systemd units: what programs and the page's file rely on.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{text, tickline};

const UNITS: [&str; 2] = ["tickline.service", "tickline-user.service"];

/// The text of a unit.
fn unit(name: &str) -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd"));
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Checks that the unit has exactly these lines of `key`.
fn assert_has(name: &str, key: &str, values: &[&str]) {
    let unit = unit(name);
    let fields = unit.lines().filter_map(|line| line.split_once('='));
    let found: Vec<_> = fields
        .filter(|(found, _)| *found == key)
        .map(|(_, value)| value)
        .collect();
    assert_eq!(found, values, "{name}: {key}");
}

/// Programs keep the file mapped, so a restart must find the same file.
#[test]
fn a_restart_finds_the_same_page() {
    for name in UNITS {
        assert_has(name, "RuntimeDirectory", &["tickline"]);
        assert_has(name, "RuntimeDirectoryPreserve", &["yes"]);
    }
}

/// Programs trust a page if no other user may write to it or to its folder.
#[test]
fn nobody_else_may_write_to_the_page() {
    for name in UNITS {
        assert_has(name, "RuntimeDirectoryMode", &["0755"]);
        assert_has(name, "UMask", &["0022"]);
    }
    assert_has("tickline.service", "User", &["root"]);
}

/// A server that finds its page switched off exits with 0.
#[test]
fn a_server_is_restarted_unless_the_page_is_switched_off() {
    for name in UNITS {
        assert_has(name, "ExecStart", &["/usr/bin/tickline serve"]);
        assert_has(name, "Restart", &["on-failure"]);
        assert_has(name, "StartLimitIntervalSec", &["0"]);
    }
}

/// Symptom: a unit that systemd called active started its server ten times a second for ever.
#[test]
fn a_permanent_error_is_the_end_of_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    fs::write(&page, "junk").unwrap();
    let mut server = tickline(&["serve", "--page"]);
    let output = server.arg(&page).output().unwrap();
    let code = output.status.code().unwrap().to_string();
    assert_ne!(code, "2", "an error that may pass");
    for name in UNITS {
        assert_has(name, "RestartPreventExitStatus", &[&code]);
    }
}

#[test]
fn a_server_has_no_rights_beyond_those_that_it_needs() {
    for name in UNITS {
        assert_has(name, "NoNewPrivileges", &["yes"]);
        assert_has(name, "MemoryDenyWriteExecute", &["yes"]);
    }
    assert_has("tickline.service", "CapabilityBoundingSet", &[""]);
    assert_has("tickline.service", "ProtectSystem", &["strict"]);
    assert_has("tickline.service", "PrivateNetwork", &["yes"]);
}

/// Each line changes what the one before it allows, so their order counts.
#[test]
fn a_server_may_read_the_kernels_ntp_state_and_choose_a_cpu() {
    let of_root = [
        "@system-service",
        "~@privileged @resources",
        "adjtimex sched_setaffinity",
    ];
    assert_has("tickline.service", "SystemCallFilter", &of_root);
    let of_user = ["@system-service adjtimex"];
    assert_has("tickline-user.service", "SystemCallFilter", &of_user);
}

/// The server reads the boot's id in `/proc/sys`, which this setting would hide.
#[test]
fn the_boots_id_is_not_hidden() {
    for name in UNITS {
        assert_has(name, "ProcSubset", &[]);
    }
}

#[test]
fn systemd_accepts_the_units() {
    let folder = tempfile::tempdir().unwrap();
    for name in UNITS {
        // The program must be where the unit says, and its manual may not be installed.
        let unit = unit(name)
            .replace("/usr/bin/tickline", env!("CARGO_BIN_EXE_tickline"))
            .replace("man:tickline-serve(1) ", "");
        let copy = folder.path().join(name);
        fs::write(&copy, unit).unwrap();
        let mut verify = Command::new("systemd-analyze");
        let Ok(output) = verify.arg("verify").arg(&copy).output() else {
            return eprintln!("SKIPPED: there is no systemd-analyze here");
        };
        let messages = text(&output.stderr);
        let complaints: Vec<_> = messages
            .lines()
            .filter(|line| line.contains(name))
            .collect();
        assert_eq!(complaints, [""; 0], "{name}: {messages}");
        assert!(output.status.success(), "{name}: {messages}");
    }
}
