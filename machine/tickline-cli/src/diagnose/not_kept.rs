//! Whether a switch to the TSC lasts.

use super::{shared_fixes, steps};
use crate::clocksources::is_of_host;
use crate::document::Block::Commands;
use crate::document::{Document, Explained, Explanation, Finding, Fix};

/// The kernel keeps time with the TSC, after a switch, but its command line selects another
/// clocksource, which it offers. No finding for a TSC that may be bad. Nor for a selection of the
/// hypervisor's clock: it survives what the host does to its guest, and may have been selected for
/// that.
pub(super) fn clocksource_not_kept(document: &Document) -> Option<Finding> {
    let is_good = document.may_use_tsc()
        && document.machine.has_invariant_tsc() != Some(false)
        && document.tsc_frequency_doubt().is_none();
    if document.machine.clocksource() != Some("tsc") || !is_good {
        return None;
    }
    let parameter = document.machine.last_parameter("clocksource=")?;
    let name = parameter.strip_prefix("clocksource=")?;
    if name == "tsc" || is_of_host(name) || !document.machine.lists_clocksource(name) {
        return None;
    }
    let fix = Fix::from(format!(
        "boot with clocksource=tsc instead of `{parameter}`"
    ))
    .with_steps(steps::keep_tsc(document));
    let fix = shared_fixes::after_decision(fix, document);
    Some(
        Finding::note(
            Code::ClocksourceNotKept,
            format!(
                "the kernel keeps time with tsc until the next restart only: its command line \
                 selects {name}"
            ),
        )
        .seen("current_clocksource is tsc")
        .seen(format!("the kernel's command line has {parameter}"))
        .fix(fix),
    )
}

tickline_core::named! {
    /// The code of the finding of this file.
    #[derive(Debug, Clone, Copy)]
    pub(super) enum Code {
        ClocksourceNotKept => "clocksource_not_kept",
    }
}

impl Explained for Code {
    fn explanation(&self) -> Explanation {
        let code = self.code();
        match self {
            Self::ClocksourceNotKept => Explanation {
                code,
                summary: "The kernel keeps time with tsc, but its command line selects another clock (note).",
                text: "Somebody has switched the clocksource since the start, as `tickline doctor \
                       --fix` does. The switch lasts until the next restart, after which the \
                       kernel again keeps time with the clock that its command line selects. To \
                       see the command line:",
                more: &[Commands(&["cat /proc/cmdline"])],
            },
        }
    }
}
