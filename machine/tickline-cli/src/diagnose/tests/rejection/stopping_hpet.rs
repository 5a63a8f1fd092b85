//! An hpet stops in deep idle states, and the watchdog blames the TSC (kernel bug 203183).

use super::super::given::machine_on_hpet_without_tsc;
use super::{MARKED_BY_WATCHDOG, MARKED_FOR_SKEW};

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
            .says("hpet, which stops in deep idle states on this processor")
            .shows("id=203183")
            .fix_has_in_order("echo acpi_pm", "boot with hpet=disable")
            .fix_lacks("tsc=reliable");
    }
}

/// `doctor --fix` makes the switch that a fix names.
#[test]
fn the_fix_for_an_hpet_that_stops_names_the_clock_in_its_place() {
    let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
    let finding = machine.kernel("5.3.0").cpu(WHISKEY_LAKE).first("tsc_skew");
    assert_eq!(finding.fix.clocksource(), Some("acpi_pm"));
}

#[test]
fn the_clock_that_a_stopping_hpet_makes_wrong_is_named() {
    const BROKEN: &str = "hpet, which is the broken clock";
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
    with_kernel("5.3.0").fix_has("a kernel from 5.4 for some of Coffee Lake, from 5.15");
    with_kernel("5.4.0")
        .fix_has("a kernel from 5.15")
        .fix_lacks("Coffee Lake");
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
