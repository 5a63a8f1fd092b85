//! An hpet stops in deep idle states, and the watchdog blames the TSC (kernel bug 203183).

use super::super::given::machine_on_hpet_without_tsc;
use super::{MARKED_BY_WATCHDOG, MARKED_FOR_SKEW};

const BROKEN: &str = "hpet, which is the broken clock";
const MAY_STOP: &str = "hpet, which may stop in deep idle states on this processor";

const WHISKEY_LAKE: &str = "Intel(R) Core(TM) i7-8565U CPU @ 1.80GHz";

#[test]
fn an_hpet_that_stops_is_named_and_disabled() {
    for cpu in [
        WHISKEY_LAKE,
        "Intel(R) Core(TM) i7-10510U CPU @ 1.80GHz",
        "Intel(R) Core(TM) i7-1065G7 CPU @ 1.30GHz",
        "11th Gen Intel(R) Core(TM) i7-1165G7 @ 2.80GHz",
        "12th Gen Intel(R) Core(TM) i7-1255U",
        "12th Gen Intel(R) Core(TM) i9-12900K",
        "Intel(R) Celeron(R) N4000 CPU @ 1.10GHz",
        "Intel(R) Celeron(R) J4125 CPU @ 2.00GHz",
        "Intel(R) Celeron(R) CPU 5205U @ 1.90GHz",
        "Intel(R) Xeon(R) E-2176M  CPU @ 2.70GHz",
    ] {
        for message in [MARKED_FOR_SKEW, MARKED_BY_WATCHDOG] {
            let machine = machine_on_hpet_without_tsc().log(&[message]);
            let findings = machine.kernel("5.3.0-18-generic").cpu(cpu).findings();
            findings[0]
                .shows("id=203183")
                .fix_begins("echo acpi_pm")
                .fix_has("boot with hpet=disable")
                .fix_lacks("may be right")
                .fix_lacks("BIOS");
            let steps = findings[0].fix.steps().expect("commands");
            let is_named = |texts: &[String]| {
                !texts.is_empty() && texts.iter().all(|text| text.contains("hpet=disable"))
            };
            assert!(is_named(&steps.keep_by_hand), "{steps:?}");
            assert!(is_named(&steps.undo_keep_by_hand), "{steps:?}");
        }
    }
}

/// Symptom: without a message of the kernel `tsc=reliable` was the fix, and nothing named hpet.
#[test]
fn an_hpet_that_stops_is_named_without_a_message_of_the_kernel() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    let machine = machine.kernel("5.3.0").cpu(WHISKEY_LAKE);
    let listed = machine.clone().offers("hpet acpi_pm tsc");
    for (machine, code) in [
        (machine.clone(), "tsc_missing"),
        (machine.log_unreadable(), "tsc_missing"),
        (listed.clone(), "tsc_unstable"),
        (listed.log_unreadable(), "tsc_unstable"),
    ] {
        machine
            .first(code)
            .says(MAY_STOP)
            .shows("id=203183")
            .fix_has_in_order("echo acpi_pm", "boot with hpet=disable")
            .fix_lacks("tsc=reliable");
    }
}

/// Symptom: "then echo acpi_pm" after "read why", whatever the log says; later, no word of what to
/// do if it does say that counters differ.
#[test]
fn an_unread_log_may_say_that_not_hpet_is_to_blame() {
    let machine = machine_on_hpet_without_tsc().log_unreadable();
    let machine = machine.cpu(WHISKEY_LAKE);
    for release in ["5.3.0", "5.10.0-18-amd64"] {
        let finding = machine.clone().kernel(release).first("tsc_missing");
        finding
            .fix_begins("read why: sudo dmesg")
            .fix_has_in_order(
                "if it says that counters differ: update the firmware (BIOS)",
                "else: ",
            )
            .fix_has_in_order("else: ", "echo acpi_pm");
    }
}

/// Symptom: "3. then boot with hpet=disable" after "2. if hpet is wrong", as if for each hpet.
#[test]
fn the_steps_for_an_hpet_that_stops_have_the_letters_of_their_condition() {
    let machine = machine_on_hpet_without_tsc().cpu(WHISKEY_LAKE);
    let may_stop = machine.clone().kernel("5.10.0-18-amd64");
    let certain = machine.kernel("5.3.0").log_unreadable();
    for finding in [
        may_stop.log(&[MARKED_FOR_SKEW]).first("tsc_skew"),
        certain.first("tsc_missing"),
    ] {
        let paragraphs = finding.fix.paragraphs();
        for start in ["a. echo acpi_pm", "b. then boot with hpet=disable"] {
            let has_it = paragraphs.iter().any(|text| text.starts_with(start));
            assert!(has_it, "{start}: {paragraphs:#?}");
        }
    }
}

/// A guest has no such hpet. Symptom: "hpet, which is the broken clock", of an unknown machine.
#[test]
fn an_hpet_of_a_machine_that_may_be_a_guest_may_not_stop() {
    let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
    let machine = machine.kernel("5.3.0").cpu(WHISKEY_LAKE);
    let unknown = machine.with(|document| {
        document.machine.hypervisor = None;
        document.machine.cpuid = None;
    });
    let finding = unknown.first("tsc_skew");
    finding.says(MAY_STOP).does_not_say(BROKEN);
}

/// `doctor --fix` makes the switch that a fix names.
#[test]
fn the_fix_for_an_hpet_that_stops_names_the_clock_in_its_place() {
    let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
    let finding = machine.kernel("5.3.0").cpu(WHISKEY_LAKE).first("tsc_skew");
    assert_eq!(finding.fix.clocksource(), Some("acpi_pm"));
}

/// Symptom: "hpet, which is the broken clock", of a kernel that does not use such an hpet.
#[test]
fn the_release_of_the_kernel_tells_whether_it_uses_an_hpet_that_stops() {
    let with_kernel = |release| {
        let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
        machine.cpu(WHISKEY_LAKE).kernel(release).first("tsc_skew")
    };
    for release in [
        "4.19.0-27-amd64",
        "5.3.0-18-generic",
        "5.4.152",
        "5.10.46",
        "5.13.19",
        "5.14.11",
    ] {
        with_kernel(release).says(BROKEN);
    }
    for release in [
        "5.4.153",
        "5.10.73",
        "5.10.223-212.873.amzn2.x86_64",
        "5.14.12-arch1-1",
        "5.15.0-91-generic",
    ] {
        with_kernel(release)
            .does_not_say(BROKEN)
            .does_not_say(MAY_STOP)
            .fix_lacks("hpet=disable");
    }
}

/// Debian's 5.10.0-18-amd64 does not state the stable version, and RHEL adds fixes to its 4.18.
#[test]
fn if_the_kernel_may_use_no_hpet_that_stops_the_rates_are_compared_first() {
    for release in [
        "4.18.0-553.el8_10.x86_64",
        "5.3.18-150300.59.93-default",
        "5.4.0-216-generic",
        "5.10.0-18-amd64",
        "5.14.0-427.el9.x86_64",
        "unknown",
    ] {
        for message in [MARKED_FOR_SKEW, MARKED_BY_WATCHDOG] {
            let machine = machine_on_hpet_without_tsc().log(&[message]);
            let findings = machine.kernel(release).cpu(WHISKEY_LAKE).findings();
            findings[0]
                .says(MAY_STOP)
                .does_not_say(BROKEN)
                .shows("id=203183")
                .fix_has_in_order("run `tickline warp` when idle", "if hpet is wrong")
                .fix_has_in_order("if hpet is wrong", "echo acpi_pm")
                .fix_has("5.15 or later (or 5.4.153, 5.10.73 or 5.14.12, or a later")
                .fix_has_in_order("boot with hpet=disable", "if the kernel is right: ");
            assert_eq!(findings[0].fix.steps(), None, "{release}");
        }
    }
}

#[test]
fn the_clock_that_a_stopping_hpet_makes_wrong_is_named() {
    let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
    let stopping = machine.clone().kernel("5.3.0").cpu(WHISKEY_LAKE);
    stopping.first("tsc_skew").says(BROKEN);
    machine
        .first("tsc_skew")
        .says("the TSC's rate differ from another clock's")
        .does_not_say(BROKEN);
}

/// Symptom: beside a sentence that called hpet the broken clock, a resume was to blame.
#[test]
fn no_resume_is_evidence_beside_an_hpet_that_stops() {
    let marked = format!("[ 9003.000000] {MARKED_FOR_SKEW}");
    let log = ["[ 9001.200000] PM: suspend exit", &marked];
    let machine = machine_on_hpet_without_tsc().log(&log);
    let finding = machine.kernel("5.3.0").cpu(WHISKEY_LAKE).first("tsc_skew");
    finding.does_not_show("resume").fix_lacks("resume");
}

/// Some of Coffee Lake had the first hpet that a kernel gave up.
#[test]
fn the_first_kernel_without_this_hpet_depends_on_the_present_one() {
    let with_kernel = |release| {
        let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
        machine.cpu(WHISKEY_LAKE).kernel(release).first("tsc_skew")
    };
    with_kernel("5.3.0").fix_has("a kernel 5.4 or later for some of Coffee Lake, 5.15 or later");
    with_kernel("5.4.0")
        .fix_has("a kernel 5.15 or later (or 5.4.153")
        .fix_lacks("Coffee Lake");
}

/// Symptom: "hpet, which is the broken clock", of a machine whose TSC had a fault. Skylake-X and
/// Cascade Lake-X have names of Intel's client processors.
#[test]
fn an_hpet_beside_the_die_of_a_server_does_not_stop() {
    for cpu in [
        "Intel(R) Core(TM) i7-9800X CPU @ 3.80GHz",
        "Intel(R) Core(TM) i9-9820X CPU @ 3.30GHz",
        "Intel(R) Core(TM) i9-9980XE CPU @ 3.00GHz",
        "Intel(R) Core(TM) i9-10900X CPU @ 3.70GHz",
        "Intel(R) Core(TM) i9-10980XE CPU @ 3.00GHz",
    ] {
        machine_on_hpet_without_tsc()
            .log(&[MARKED_FOR_SKEW])
            .kernel("4.19.0-27-amd64")
            .cpu(cpu)
            .first("tsc_skew")
            .does_not_say(BROKEN)
            .does_not_say(MAY_STOP)
            .fix_lacks("hpet=disable");
    }
}

/// Linux 5.15 has tested the hpet that it uses. Symptom: "hpet, which is the broken clock".
#[test]
fn another_hpet_is_not_blamed() {
    let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
    let whiskey_lake = machine.clone().cpu(WHISKEY_LAKE);
    for machine in [
        whiskey_lake.clone().kernel("5.15.0-91-generic"),
        whiskey_lake.clone().kernel("5.3.0").hypervisor("kvm"),
        whiskey_lake.clone().kernel("5.3.0").clocksource("acpi_pm"),
        machine
            .clone()
            .kernel("5.3.0")
            .cpu("Intel(R) Xeon(R) Gold 6138 CPU @ 2.00GHz"),
        machine
            .clone()
            .kernel("5.3.0")
            .cpu("Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz"),
        machine
            .kernel("5.3.0")
            .cpu("Intel(R) Core(TM) i7-4790K CPU @ 4.00GHz"),
    ] {
        machine.first("tsc_skew").fix_lacks("hpet=disable");
    }
    let forced = whiskey_lake.kernel("6.1.0").command_line("hpet=force");
    forced.first("tsc_skew").fix_has("take `hpet=force` off");
}
