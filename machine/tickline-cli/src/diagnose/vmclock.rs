//! Findings about the VMClock, by which a hypervisor tells that it has moved the guest.

use crate::document::Block::{Commands, Prose};
use crate::document::{Document, Explained, Explanation, Finding, Fix};

/// Lets every user read the device, now and after each start, where udev makes the devices, and
/// `/etc` can be written.
const ALLOW: &str = "echo 'KERNEL==\"vmclock[0-9]*\", MODE=\"0444\"' | sudo tee \
                     /etc/udev/rules.d/60-vmclock.rules && sudo udevadm control --reload && sudo \
                     udevadm trigger";

/// The same in the configuration of NixOS, whose `/etc` can't be written.
const ALLOW_ON_NIXOS: &str = "add the line KERNEL==\"vmclock[0-9]*\", MODE=\"0444\" to \
                              services.udev.extraRules in the system's configuration; then run \
                              sudo nixos-rebuild switch, and sudo udevadm trigger";

/// The same for busybox, which obeys the first line that matches.
const ALLOW_BY_MDEV: &str = "put the line `vmclock[0-9]* root:root 0444` at the top of \
                             /etc/mdev.conf, and run sudo mdev -s";

/// Lets every user read the device by the tool that makes the devices, as far as that is known:
/// systemd has udev.
fn allow(document: &Document) -> Fix {
    if document.machine.is_nixos() {
        format!("let all users read it: {ALLOW_ON_NIXOS}").into()
    } else if document.machine.systemd == Some(true) {
        format!("let all users read it: {ALLOW}").into()
    } else {
        let by_udev = format!("let all users read it, if the machine has udev: {ALLOW}");
        Fix::from(by_udev).or(format!("or, if it has mdev (Alpine), {ALLOW_BY_MDEV}"))
    }
}

/// The hypervisor offers a VMClock, and this user may not read it.
pub(super) fn vmclock_unreadable(document: &Document) -> Option<Finding> {
    let vmclock = document.machine.vmclock.as_ref()?;
    let error = vmclock.unreadable.as_deref()?;
    let device = &vmclock.device;
    Some(
        Finding::note(
            Code::VmclockUnreadable,
            format!(
                "the programs of this user don't learn of a snapshot or a move of this guest: they \
                 can't read {device}"
            ),
        )
        .seen(format!("{device}: {error}"))
        .fix(allow(document)),
    )
}

tickline_core::named! {
    /// The codes of the findings of this file, in the order of the alphabet.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        VmclockUnreadable => "vmclock_unreadable",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::VmclockUnreadable => Explanation {
                code,
                summary: "The hypervisor offers a VMClock that this user can't read (note).",
                text: "After a restored snapshot or a move to another host, a guest's clocks go on \
                       from an old value, or at another rate, until its NTP daemon has measured. \
                       The VMClock is a page of memory in which the hypervisor changes a number at \
                       such a moment. tickline's clock then forgets its samples, its state is \
                       `disrupted`, and readings of UTC fail until the source has measured again. \
                       The kernel gives the page to root alone. It has no secrets, and nobody can \
                       write to it. To let every user read it, on a machine with udev:",
                more: &[
                    Commands(&[ALLOW]),
                    Prose(
                        "NixOS has no such file: there the rule belongs to \
                         `services.udev.extraRules`. With mdev (Alpine), put the line \
                         `vmclock[0-9]* root:root 0444` at the top of `/etc/mdev.conf`, and run \
                         `sudo mdev -s`.",
                    ),
                ],
            },
        }
    }
}
