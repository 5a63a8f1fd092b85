//! Findings about the VMClock, by which a hypervisor tells that it has moved the guest.

use crate::document::Block::Commands;
use crate::document::{Document, Explained, Explanation, Finding};

/// Lets every user read the device, now and after each start.
const ALLOW: &str = "echo 'KERNEL==\"vmclock[0-9]*\", MODE=\"0444\"' | sudo tee \
                     /etc/udev/rules.d/60-vmclock.rules && sudo udevadm control --reload && sudo \
                     udevadm trigger";

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
        .fix(format!("let all users read it: {ALLOW}")),
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
                       write to it. To let every user read it:",
                more: &[Commands(&[ALLOW])],
            },
        }
    }
}
