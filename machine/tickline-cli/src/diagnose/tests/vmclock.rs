//! The VMClock of a guest.

use super::super::vmclock::Code;
use super::given::{Given, assert_each_found, good_machine};
use crate::document::Severity;
use crate::machine::VmClock;

/// A machine with a VMClock, which this user can or can't read.
fn with_vmclock(unreadable: Option<&str>) -> Given {
    let vmclock = VmClock {
        device: "/dev/vmclock0".to_owned(),
        unreadable: unreadable.map(str::to_owned),
        disruption_marker: Some(7),
        ..VmClock::default()
    };
    good_machine().with(|document| document.machine.vmclock = Some(vmclock))
}

#[test]
fn a_vmclock_that_can_not_be_read_is_worth_knowing() {
    let finding = with_vmclock(Some("Permission denied (os error 13)")).only("vmclock_unreadable");
    assert_eq!(finding.severity, Severity::Note);
    finding
        .says("can't read /dev/vmclock0")
        .shows("/dev/vmclock0: Permission denied")
        .fix_has("MODE=\"0444\"");
}

/// Symptom: a command that writes to `/etc`, which NixOS mounts from its store.
#[test]
fn on_nixos_the_rule_belongs_to_the_configuration() {
    let finding = with_vmclock(Some("Permission denied (os error 13)"))
        .command_line("init=/nix/store/abc-nixos-system-a-25.11/init quiet")
        .only("vmclock_unreadable");
    finding
        .fix_has("services.udev.extraRules")
        .fix_has("MODE=\"0444\"")
        .fix_lacks("/etc/udev");
}

/// Symptom: `udevadm` alone, on a machine without udev.
#[test]
fn without_systemd_the_machine_may_have_mdev_in_place_of_udev() {
    let finding = with_vmclock(Some("Permission denied (os error 13)"))
        .with(|document| document.machine.systemd = Some(false))
        .only("vmclock_unreadable");
    finding.fix_has_in_order("if the machine has udev: echo", "/etc/mdev.conf");
}

#[test]
fn a_vmclock_that_can_be_read_is_no_finding() {
    assert_eq!(with_vmclock(None).codes(), [""; 0]);
}

#[test]
fn each_code_about_the_vmclock_has_a_machine() {
    assert_each_found(Code::ALL, |code| match code {
        Code::VmclockUnreadable => with_vmclock(Some("Permission denied (os error 13)")),
    });
}
