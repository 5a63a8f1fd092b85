//! What to do: commands, parameters of the kernel, settings of hypervisors. Words that several
//! fixes share are in `texts.json`.

use serde::Serialize;

use super::steps::{self, Steps};
use super::texts::{TEXTS, phrase};
use crate::document::Document;

/// What to do about a finding.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Fix {
    /// What to do: the command, the kernel's parameter, the hypervisor's setting.
    #[serde(rename = "fix")]
    pub(crate) text: String,
    /// The fix as commands, step by step; null where it needs somebody's judgement, or another
    /// machine.
    pub(crate) steps: Option<Steps>,
}

impl From<String> for Fix {
    fn from(text: String) -> Self {
        Self { text, steps: None }
    }
}

/// The beginning of the text where there is no fix, and therefore no gain.
const NONE: &str = "none: ";

impl Fix {
    /// There is none, for this reason.
    pub(super) fn none(why: &str) -> Self {
        format!("{NONE}{why}").into()
    }

    /// Whether the text says that there is no fix.
    pub(super) fn is_none(&self) -> bool {
        self.text.starts_with(NONE)
    }

    /// The same commands, with other words.
    pub(super) fn reworded(self, words: impl FnOnce(&str) -> String) -> Self {
        Self { text: words(&self.text), ..self }
    }

    /// The text in parts: a long one is divided by its semicolons outside of brackets.
    pub(super) fn parts(&self) -> Vec<String> {
        /// Bytes: three lines.
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
        (1..).zip(parts).map(|(number, part): (u32, _)| format!("{number}. {part}")).collect()
    }
}

/// How to switch the kernel to another clocksource that it accepts, now and after a restart.
pub(super) fn switch_to(clocksource: &str, facts: &Document) -> Fix {
    let now = steps::choose(clocksource);
    let text = match facts.parameter_of("clocksource=") {
        Some(word) if word.strip_prefix("clocksource=") == Some(clocksource) => {
            format!("{now}; the kernel's command line has `{word}` already, for the next start")
        }
        // If the word were only removed, the kernel would choose by its own preferences.
        Some(word) => format!("{now}; to keep it, boot with clocksource={clocksource} instead of `{word}`"),
        None => format!("{now}; to keep it, boot with clocksource={clocksource}"),
    };
    Fix { text, steps: steps::switch(clocksource, facts) }
}

/// How to switch the kernel to the TSC, which it must accept, after what must be checked. By CPUID
/// the TSC's rate may still vary. One comparison of the CPUs can't show that, so this machine has no
/// commands then.
pub(super) fn use_tsc(facts: &Document) -> Fix {
    // Where the kernel keeps time with the hypervisor's clock, the host does not guarantee its TSC.
    // With a TSC that is not invariant, the fix names that condition already.
    let is_said = facts.invariant() == Some(false) || facts.are_synchronised();
    let warp = facts.paravirtual_clock().filter(|_| !is_said).map(|_| phrase("warp_first"));
    let log = facts.machine.kernel_log.is_none().then(|| phrase("log_first"));
    let checks: Vec<String> = warp.into_iter().chain(log).collect();
    let mut switch = switch_to("tsc", facts);
    if !checks.is_empty() {
        switch = switch.reworded(|switch| format!("check first {}; then: {switch}", checks.join(", and ")));
    }
    if facts.invariant() != Some(false) {
        return switch;
    }
    let invariant = invariant_tsc(facts);
    if invariant.is_none() {
        return invariant;
    }
    invariant.reworded(|text| format!("{text}; {}: {}", phrase("varying_only_where"), switch.text))
}

/// How to have a TSC that CPUID calls invariant: the host must offer it.
pub(super) fn invariant_tsc(facts: &Document) -> Fix {
    let cpuid = facts.machine.cpuid.as_ref();
    on_the_host(facts).unwrap_or_else(|| match cpuid.and_then(|cpuid| cpuid.hypervisor) {
        Some(true) => phrase("show_invariant").into(),
        _ => Fix::none("the processor has no invariant TSC; leave the choice of clocksource to the kernel"),
    })
}

/// How to make the kernel trust a TSC that it doubts. Where the TSC's rate depends on power states,
/// the kernel is right, and there is no fix.
pub(super) fn trust_tsc(facts: &Document) -> Fix {
    if facts.invariant() == Some(false) {
        return Fix::none("by CPUID the TSC is not invariant, so the kernel's doubts are right");
    }
    // Older kernels compare the counters all the same (`unsynchronized_tsc` in
    // `arch/x86/kernel/tsc.c`).
    let kernel =
        match facts.machine.kernel.as_deref().filter(|_| facts.is_kernel_at_least(3, 3) == Some(false)) {
            Some(older) => format!("with a kernel 3.3 or later: this one is {older}"),
            None => "kernel 3.3 or later".to_owned(),
        };
    // `Documentation/admin-guide/kernel-parameters.txt`
    format!("boot with tsc=reliable clocksource=tsc ({kernel}), {}", phrase("reliable_only_where")).into()
}

/// How to keep the kernel's watchdog from the TSC. The kernel still compares the CPUs' counters at
/// boot (`no_tsc_watchdog` in `arch/x86/kernel/tsc.c`; git pull "x86/timers updates for v5.2").
pub(super) fn no_watchdog(facts: &Document) -> Fix {
    match facts.invariant() {
        Some(false) => trust_tsc(facts),
        _ => format!("{}, {}", phrase("no_watchdog"), phrase("reliable_only_where")).into(),
    }
}

/// What to do where the kernel's watchdog has, or may have, measured a wrong rate of the TSC. The
/// watchdog tolerates some 100 ppm or more (`kernel/time/clocksource.c`). `tickline warp` measures
/// the rate more closely than that, even if a read of hpet takes 700 ns.
pub(super) fn check_tsc(facts: &Document) -> Fix {
    if facts.invariant() == Some(false) {
        return on_the_host_or(trust_tsc, facts);
    }
    let (check, place) = (phrase("check_rate"), on_the_host_or_firmware(facts).text);
    format!("{check}; {place}; only if the rate is steady then: {}", no_watchdog(facts).text).into()
}

/// What to do on the host, or else in the kernel. Only the host can help where the TSC is not
/// invariant. Only the kernel is left where the host is unknown.
pub(super) fn on_the_host_or(kernel: fn(&Document) -> Fix, facts: &Document) -> Fix {
    match (on_the_host(facts), facts.invariant()) {
        (Some(host), Some(false)) => host,
        (Some(host), _) => host.reworded(|host| format!("{host}; or {}", kernel(facts).text)),
        (None, _) => kernel(facts),
    }
}

/// What to do on the host, or else about firmware that has written to the counters, or left them
/// unsynchronised.
pub(super) fn on_the_host_or_firmware(facts: &Document) -> Fix {
    on_the_host(facts).unwrap_or_else(|| phrase("firmware").into())
}

/// The provider's own recommendation; `None` outside of the known clouds.
pub(super) fn provider(facts: &Document) -> Option<String> {
    Some(TEXTS.clouds.get(facts.machine.cloud.as_deref()?)?.advice.clone())
}

/// What the host's administrator can do so that a guest's kernel may trust the TSC, or the customer
/// of a provider who runs the host. `None` without a known hypervisor.
pub(super) fn on_the_host(facts: &Document) -> Option<Fix> {
    let cloud = facts.machine.cloud.as_deref().and_then(|name| TEXTS.clouds.get(name));
    cloud.map(|cloud| cloud.tsc.clone().into()).or_else(|| on_host_named(facts.hypervisor(), facts))
}

/// The same below this hypervisor.
pub(super) fn on_host_named(hypervisor: &str, facts: &Document) -> Option<Fix> {
    let host = TEXTS.hosts.get(hypervisor)?;
    // Clouds may put their own name there.
    let is_qemu = facts.machine.product.as_deref().is_some_and(|product| product.contains("QEMU"));
    let text = if is_qemu { host.tsc.clone() } else { format!("{}{}", host.tsc, host.unless_qemu) };
    // In a cloud, the customer has no commands for the host.
    let steps = host.steps.clone().filter(|_| facts.machine.cloud.is_none());
    Some(Fix { text, steps })
}
