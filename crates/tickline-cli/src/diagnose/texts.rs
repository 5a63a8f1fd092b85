//! The words of findings and fixes: `texts.json`, by code, hypervisor and cloud.
//!
//! A key of `findings` is a code, or a code and one of its variants (`counter_denied/deadly`). A
//! variant has the texts of its code but for those of its own. Figures and names stand in braces.
//!
//! Sources for the abilities of a host:
//!
//! - xen-tscmode(7). By default Xen emulates the counter after a move to a host with another
//!   counter. It shows an invariant TSC only to a domain that is never moved.
//! - "Timekeeping in VMware Virtual Machines" ("Virtual TSC").
//! - QEMU's `TCG_APM_FEATURES` (`target/i386/cpu.c`). Its emulated processors have no invariant
//!   TSC, and the emulation has no `-cpu host`.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::LazyLock;

use serde::Deserialize;

use super::finding::Severity;
use super::steps::Steps;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Texts {
    pub(super) findings: BTreeMap<String, Words>,
    fixes: BTreeMap<String, String>,
    /// By the hypervisor's name: what its administrator can do.
    pub(super) hosts: BTreeMap<String, Host>,
    /// By the cloud's name: what its customer can do.
    pub(super) clouds: BTreeMap<String, Cloud>,
}

/// The words of a finding.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Words {
    pub(super) severity: Option<Severity>,
    pub(super) what: String,
    pub(super) seen: Vec<String>,
    pub(super) fix: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// So that a guest's kernel may trust the TSC.
    pub(super) tsc: String,
    /// The rest of `tsc` where the firmware does not name QEMU: CPUID names only KVM, even where
    /// another hypervisor is built on it.
    #[serde(default)]
    pub(super) unless_qemu: String,
    /// So that the guest reads the counter itself.
    pub(super) untrapped: Option<String>,
    /// `tsc` as commands, which take effect when the machine is started the next time. The variable
    /// VM has its name (VirtualBox's manual, "VBoxManage modifyvm" and "setextradata"; a setting
    /// without a value is removed).
    pub(super) steps: Option<Steps>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cloud {
    /// In place of what a host's administrator can do.
    pub(super) tsc: String,
    /// The provider's own recommendation, with its address.
    pub(super) advice: String,
}

/// A mistake in the file, which the tests of the rules find, leaves it without words.
pub(super) static TEXTS: LazyLock<Texts> =
    LazyLock::new(|| serde_json::from_str(include_str!("texts.json")).unwrap_or_default());

/// Names in braces, and what replaces them.
pub(super) type Values<'a> = &'a [(&'a str, &'a dyn Display)];

/// The words of a finding, with these values.
pub(super) fn words(key: &str, values: Values<'_>) -> Words {
    let of = |key: &str| TEXTS.findings.get(key).cloned().unwrap_or_default();
    let (base, own) = (of(code(key)), of(key));
    let seen = if own.seen.is_empty() { base.seen } else { own.seen };
    let fix = if own.fix.is_empty() { base.fix } else { own.fix };
    Words {
        severity: own.severity.or(base.severity),
        what: filled(&own.what, values),
        seen: seen.iter().map(|seen| filled(seen, values)).collect(),
        fix: filled(&fix, values),
    }
}

/// The code of a finding, without its variant.
pub(super) fn code(key: &str) -> &str {
    key.split_once('/').map_or(key, |(code, _)| code)
}

/// A part of a fix.
pub(super) fn phrase(name: &str) -> String {
    TEXTS.fixes.get(name).cloned().unwrap_or_default()
}

fn filled(text: &str, values: Values<'_>) -> String {
    let fill = |text: String, (name, value): &(&str, &dyn Display)| {
        text.replace(&format!("{{{name}}}"), &value.to_string())
    };
    values.iter().fold(text.to_owned(), fill)
}
