//! The fixes: commands, kernel parameters, and settings of hypervisors. `texts.json` has the
//! phrases that several fixes share.

use serde::Serialize;

use super::steps::{self, Steps};
use super::texts::{TEXTS, phrase};
use crate::document::Document;

/// The fix for a finding.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Fix {
    /// The fix in words: the command, the kernel's parameter, the hypervisor's setting.
    #[serde(rename = "fix")]
    pub(crate) text: String,
    /// The fix as commands, step by step; null if an administrator must decide, or if the commands
    /// for another machine are unknown.
    pub(crate) steps: Option<Steps>,
    /// Whether there is no fix, and therefore no gain. The text then says why.
    #[serde(skip)]
    pub(super) is_none: bool,
}

impl From<String> for Fix {
    fn from(text: String) -> Self {
        Self {
            text,
            ..Self::default()
        }
    }
}

impl Fix {
    /// States that there is no fix, for this reason.
    pub(super) fn none(why: &str) -> Self {
        Self {
            text: format!("none: {why}"),
            steps: None,
            is_none: true,
        }
    }

    /// The fix with another text and the same commands.
    pub(super) fn reworded(self, words: impl FnOnce(&str) -> String) -> Self {
        Self {
            text: words(&self.text),
            ..self
        }
    }

    /// The parts of the text. A long text is split at its semicolons outside of brackets.
    pub(super) fn parts(&self) -> Vec<String> {
        /// The length of a long text, bytes: three lines.
        const LONG: usize = 250;
        let mut brackets = 0_u32;
        let ends = |character| {
            match character {
                '(' => brackets += 1,
                ')' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            character == ';' && brackets == 0
        };
        let parts: Vec<&str> = self.text.split(ends).map(str::trim).collect();
        if self.text.len() < LONG || parts.len() == 1 {
            return vec![self.text.clone()];
        }
        (1..)
            .zip(parts)
            .map(|(number, part): (u32, _)| format!("{number}. {part}"))
            .collect()
    }
}

/// The switch of the kernel to another clocksource that it accepts, now and after a restart.
pub(super) fn switch_to(clocksource: &str, facts: &Document) -> Fix {
    let now = steps::switch_command(clocksource);
    let text = match facts.parameter_of("clocksource=") {
        Some(word) if word.strip_prefix("clocksource=") == Some(clocksource) => {
            format!("{now}; the kernel's command line has `{word}` already, for the next start")
        }
        // Without any such parameter, the kernel would choose a clocksource by its own preferences.
        Some(word) => {
            format!("{now}; to keep it, boot with clocksource={clocksource} instead of `{word}`")
        }
        None => format!("{now}; to keep it, boot with clocksource={clocksource}"),
    };
    Fix {
        text,
        steps: steps::switch(clocksource, facts),
        is_none: false,
    }
}

/// The switch of the kernel to the TSC, which the kernel must accept, with the checks that must
/// come first. If CPUID does not call the TSC invariant, its rate may vary, which one comparison of
/// the CPUs can't show. The fix then has no commands.
pub(super) fn use_tsc(facts: &Document) -> Fix {
    // A host whose own clock the kernel uses does not guarantee its TSC, so the counters must be
    // compared first. For a TSC that is not invariant, the text below contains that condition.
    let needs_no_warp = facts.invariant() == Some(false) || facts.are_synchronised();
    let warp = facts
        .paravirtual_clock()
        .filter(|_| !needs_no_warp)
        .map(|_| phrase("warp_first"));
    let log = facts
        .machine
        .kernel_log
        .is_none()
        .then(|| phrase("log_first"));
    let checks: Vec<String> = warp.into_iter().chain(log).collect();
    let mut switch = switch_to("tsc", facts);
    if !checks.is_empty() {
        switch = switch
            .reworded(|switch| format!("check first {}; then: {switch}", checks.join(", and ")));
    }
    if facts.invariant() != Some(false) {
        return switch;
    }
    let invariant = invariant_tsc(facts);
    if invariant.is_none {
        return invariant;
    }
    invariant.reworded(|text| format!("{text}; {}: {}", phrase("varying_only_where"), switch.text))
}

/// The fix for a TSC that CPUID does not call invariant: the host must offer an invariant TSC.
pub(super) fn invariant_tsc(facts: &Document) -> Fix {
    let cpuid = facts.machine.cpuid.as_ref();
    host_fix(facts).unwrap_or_else(|| match cpuid.and_then(|cpuid| cpuid.hypervisor) {
        Some(true) => phrase("show_invariant").into(),
        _ => Fix::none(
            "the processor has no invariant TSC; leave the choice of clocksource to the kernel",
        ),
    })
}

/// Makes the kernel trust a TSC that it doubts. If the TSC's rate depends on power states, the
/// kernel is right, and there is no fix.
pub(super) fn trust_tsc(facts: &Document) -> Fix {
    if facts.invariant() == Some(false) {
        return Fix::none("by CPUID the TSC is not invariant, so the kernel's doubts are right");
    }
    // Older kernels compare the counters in spite of the parameter (`unsynchronized_tsc` in
    // `arch/x86/kernel/tsc.c`).
    let kernel = match facts
        .machine
        .kernel
        .as_deref()
        .filter(|_| facts.is_kernel_at_least(3, 3) == Some(false))
    {
        Some(older) => format!("with a kernel 3.3 or later: this one is {older}"),
        None => "kernel 3.3 or later".to_owned(),
    };
    // `Documentation/admin-guide/kernel-parameters.txt`
    format!(
        "boot with tsc=reliable clocksource=tsc ({kernel}), {}",
        phrase("reliable_only_where")
    )
    .into()
}

/// Keeps the kernel's watchdog from checking the TSC. The kernel still compares the CPUs' counters
/// at boot (`no_tsc_watchdog` in `arch/x86/kernel/tsc.c`; git pull "x86/timers updates for v5.2").
pub(super) fn no_watchdog(facts: &Document) -> Fix {
    match facts.invariant() {
        Some(false) => trust_tsc(facts),
        _ => format!(
            "{}, {}",
            phrase("no_watchdog"),
            phrase("reliable_only_where")
        )
        .into(),
    }
}

/// The fix if the kernel's watchdog has, or may have, measured a wrong rate of the TSC. The
/// watchdog tolerates about 100 ppm or more (`kernel/time/clocksource.c`). `tickline warp` measures
/// the rate more precisely, even if a read of hpet takes 700 ns.
pub(super) fn check_tsc(facts: &Document) -> Fix {
    if facts.invariant() == Some(false) {
        return host_fix_or(trust_tsc, facts);
    }
    let (check, repair) = (phrase("check_rate"), host_or_firmware_fix(facts).text);
    format!(
        "{check}; {repair}; only if the rate is steady then: {}",
        no_watchdog(facts).text
    )
    .into()
}

/// The fix on the host, or the fix in the kernel. If the TSC is not invariant, only the host can
/// help. If the host is unknown, only the fix in the kernel remains.
pub(super) fn host_fix_or(kernel: fn(&Document) -> Fix, facts: &Document) -> Fix {
    match (host_fix(facts), facts.invariant()) {
        (Some(host), Some(false)) => host,
        (Some(host), _) => host.reworded(|host| format!("{host}; or {}", kernel(facts).text)),
        (None, _) => kernel(facts),
    }
}

/// The fix on the host, or else the fix for firmware that has written to the counters or left them
/// unsynchronised.
pub(super) fn host_or_firmware_fix(facts: &Document) -> Fix {
    host_fix(facts).unwrap_or_else(|| phrase("firmware").into())
}

/// The cloud provider's own recommendation; `None` outside of the known clouds.
pub(super) fn provider(facts: &Document) -> Option<String> {
    Some(
        TEXTS
            .clouds
            .get(facts.machine.cloud.as_deref()?)?
            .advice
            .clone(),
    )
}

/// The fix that lets a guest's kernel trust the TSC, for the host's administrator or for the
/// customer of a cloud. `None` without a known hypervisor or cloud.
pub(super) fn host_fix(facts: &Document) -> Option<Fix> {
    let cloud = facts
        .machine
        .cloud
        .as_deref()
        .and_then(|name| TEXTS.clouds.get(name));
    cloud
        .map(|cloud| cloud.tsc.clone().into())
        .or_else(|| fix_for_hypervisor(facts.hypervisor(), facts))
}

/// The fix on a host with this hypervisor that lets a guest's kernel trust the TSC.
pub(super) fn fix_for_hypervisor(hypervisor: &str, facts: &Document) -> Option<Fix> {
    let host = TEXTS.hosts.get(hypervisor)?;
    // A cloud with QEMU may put its own product name into the firmware.
    let is_qemu = facts
        .machine
        .product
        .as_deref()
        .is_some_and(|product| product.contains("QEMU"));
    let text = if is_qemu {
        host.tsc.clone()
    } else {
        format!("{}{}", host.tsc, host.unless_qemu)
    };
    // In a cloud, the customer has no commands for the host.
    let steps = host.steps.clone().filter(|_| facts.machine.cloud.is_none());
    Some(Fix {
        text,
        steps,
        is_none: false,
    })
}
