//! A parameter of the kernel's command line switches the TSC off.

use super::super::given::{guest_on, machine_on_hpet_without_tsc};
use super::super::guests::DECIDE;
use super::MARKED_BY_WATCHDOG;
use crate::document::Place;

#[test]
fn a_parameter_on_the_command_line_comes_before_the_log() {
    for word in ["notsc", "tsc=unstable"] {
        let finding = machine_on_hpet_without_tsc()
            .log(&[MARKED_BY_WATCHDOG])
            .command_line(&format!("quiet {word}"))
            .first("tsc_switched_off");
        finding.fix_has(&format!("`{word}`"));
    }
}

#[test]
fn a_part_of_a_word_is_not_a_parameter() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    machine
        .command_line("rootflags=notsc,ro")
        .first("tsc_missing");
}

/// The administrator may have had reasons for the parameter.
#[test]
fn a_parameter_against_a_good_tsc_is_taken_off() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    for word in ["notsc", "tsc=unstable"] {
        let machine = machine.clone().command_line(&format!("quiet {word}"));
        let finding = machine.first("tsc_switched_off");
        finding.fix_has(&format!("take `{word}` off"));
        assert_eq!(finding.place(), Some(Place::Here), "{finding:#?}");
    }
}

/// Symptom: the parameter was taken off without the check that `explain tsc_switched_off` asks for.
#[test]
fn a_parameter_against_the_tsc_is_taken_off_only_after_a_check() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    let by_log = machine_on_hpet_without_tsc()
        .log(&["tsc: Marking TSC unstable due to boot parameter"])
        .first("tsc_switched_off");
    by_log.fix_has_in_order("`tickline warp`", "take `tsc=unstable` off");
    for word in ["notsc", "tsc=unstable"] {
        let machine = machine.clone().command_line(&format!("quiet {word}"));
        for hypervisor in ["none", "bhyve"] {
            let finding = machine.clone().hypervisor(hypervisor);
            let finding = finding.first("tsc_switched_off");
            let take_off = format!("take `{word}` off");
            finding
                .fix_has_in_order("who set the parameter", "`tickline warp`")
                .fix_has_in_order("`tickline warp`", &take_off);
            let steps = finding.fix.steps().expect("commands");
            assert_eq!(steps.check.as_deref(), Some("tickline warp"));
        }
    }
}

/// Symptom: only `tsc=unstable` was taken off, and the next start had the slow clocksource again.
#[test]
fn a_selection_beside_a_parameter_against_the_tsc_is_replaced_with_it() {
    let machine = machine_on_hpet_without_tsc().log(&[]).boot_loader("grubby");
    let finding = machine
        .command_line("quiet tsc=unstable clocksource=acpi_pm")
        .first("tsc_switched_off");
    finding.fix_has(
        "take `tsc=unstable` off the kernel's command line, and put clocksource=tsc in place of \
         `clocksource=acpi_pm`",
    );
    let steps = finding.fix.steps().expect("commands");
    let (keep, undo) = (
        steps.keep.as_ref().expect("a command"),
        steps.undo_keep.as_ref().expect("a command"),
    );
    let keeps = "--remove-args='tsc=unstable clocksource=acpi_pm' --args=clocksource=tsc";
    assert!(keep.contains(keeps), "{keep}");
    let undoes = "--remove-args=clocksource=tsc --args='tsc=unstable clocksource=acpi_pm'";
    assert!(undo.contains(undoes), "{undo}");
}

#[test]
fn a_selection_of_the_tsc_beside_a_parameter_against_it_stays() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    let finding = machine
        .command_line("clocksource=tsc tsc=unstable")
        .first("tsc_switched_off");
    let steps = finding.fix.steps().expect("steps");
    for text in &steps.keep_by_hand {
        assert!(
            text.contains("tsc=unstable") && !text.contains("clocksource="),
            "{text}"
        );
    }
}

#[test]
fn several_selections_beside_a_parameter_against_the_tsc_are_named_without_commands() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    let finding = machine
        .command_line("notsc clocksource=hpet clocksource=acpi_pm")
        .first("tsc_switched_off");
    finding.fix_has("in place of `clocksource=hpet` and `clocksource=acpi_pm`");
    assert_eq!(finding.fix.steps(), None);
}

/// A recorded file must not be able to inject commands.
#[test]
fn a_selection_with_other_characters_beside_a_parameter_reaches_no_shell() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    let finding = machine
        .command_line("tsc=unstable clocksource=$(reboot)")
        .first("tsc_switched_off");
    assert_eq!(finding.fix.steps(), None);
}

#[test]
fn a_parameter_against_a_bad_tsc_stays() {
    let machine = machine_on_hpet_without_tsc().log(&[]);
    for word in ["notsc", "tsc=unstable"] {
        let machine = machine.clone().command_line(&format!("quiet {word}"));
        let part = format!("take `{word}` off");
        machine.clone().counters_differ().assert_no_fix_says(&part);
        let varying = machine.tsc_not_invariant();
        varying.clone().assert_no_fix_says(&part);
        let finding = varying.first("tsc_switched_off");
        assert_eq!(finding.place(), None, "{finding:#?}");
    }
}

#[test]
fn a_parameter_that_only_the_log_shows_has_no_command() {
    let parameter = "tsc: Marking TSC unstable due to boot parameter";
    let finding = machine_on_hpet_without_tsc()
        .log(&[parameter])
        .first("tsc_switched_off");
    finding.fix_has("take `tsc=unstable` off");
    assert_eq!(finding.place(), None);
}

/// The message of `notsc_setup`, and that of kernels before it.
const BY_NOTSC: [&str; 2] = [
    "tsc: Marking TSC unstable due to boot parameter notsc",
    "notsc: Kernel compiled with CONFIG_X86_TSC, cannot disable TSC completely.",
];

/// Symptom: "find out what the kernel means by \"boot parameter notsc\"", and `tsc=reliable`, which
/// does nothing while `notsc` stays.
#[test]
fn each_message_about_notsc_names_the_parameter() {
    for message in BY_NOTSC {
        machine_on_hpet_without_tsc()
            .log(&[message])
            .first("tsc_switched_off")
            .shows(message)
            .fix_has("take `notsc` off")
            .fix_lacks("tsc=unstable")
            .fix_lacks("tsc=reliable");
    }
}

/// Symptom: `nomigrate=1` and `tsc=reliable`, for a domain of Xen whose own command line switches
/// the TSC off.
#[test]
fn a_parameter_against_the_tsc_is_taken_off_on_xen_as_well() {
    let domain = guest_on("xen").offers("xen").hypervisor("xen");
    let by_line = |word: &str| domain.clone().log(&[]).command_line(word);
    for (machine, word) in [
        (by_line("notsc"), "notsc"),
        (by_line("tsc=unstable"), "tsc=unstable"),
        (domain.clone().log(&BY_NOTSC[..1]), "notsc"),
        (domain.clone().log(&BY_NOTSC[1..]), "notsc"),
        (
            domain
                .clone()
                .log(&["tsc: Marking TSC unstable due to boot parameter"]),
            "tsc=unstable",
        ),
    ] {
        machine
            .first("xen_clocksource")
            .fix_begins(DECIDE)
            .fix_has(&format!("take `{word}` off"))
            .fix_lacks("nomigrate")
            .fix_lacks("tsc=reliable");
    }
}

/// Symptom: the command line of a domain of Xen was no evidence.
#[test]
fn on_xen_a_parameter_of_the_command_line_is_shown() {
    guest_on("xen")
        .offers("xen")
        .log(&[])
        .command_line("quiet notsc")
        .first("xen_clocksource")
        .shows("the kernel's command line has notsc");
}
