//! Reads the texts of findings and fixes from `texts.json`, by code, hypervisor and cloud.
//!
//! A key of `findings` is a code, or a code and one of its variants (`counter_denied/deadly`). A
//! variant inherits the texts of its code that it does not replace. Braces enclose names of values.
//!
//! Sources for the fixes on hosts:
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
    /// For each hypervisor: the fixes for the host's administrator.
    pub(super) hosts: BTreeMap<String, Host>,
    /// For each cloud: the fixes for its customer.
    pub(super) clouds: BTreeMap<String, Cloud>,
}

/// The texts of a finding.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Words {
    pub(super) severity: Option<Severity>,
    pub(super) what: String,
    pub(super) evidence: Vec<String>,
    pub(super) fix: String,
    /// Why there is no fix. A variant does not inherit this text.
    pub(super) no_fix: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// The fix that lets a guest's kernel trust the TSC.
    pub(super) tsc: String,
    /// An addition to `tsc` if the firmware does not name QEMU. CPUID names KVM even if another
    /// hypervisor uses KVM.
    #[serde(default)]
    pub(super) unless_qemu: String,
    /// The fix that lets the guest read the counter without a trap.
    pub(super) untrapped: Option<String>,
    /// `tsc` as commands, which take effect at the guest's next start. The shell variable VM has
    /// the guest's name (VirtualBox's manual, "VBoxManage modifyvm" and "setextradata"; a setting
    /// without a value is removed).
    pub(super) steps: Option<Steps>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cloud {
    /// The fix for the customer, who cannot change the host.
    pub(super) tsc: String,
    /// The provider's own recommendation, with its address.
    pub(super) advice: String,
}

/// All texts. If the file is malformed, which the tests of the rules find, all texts are empty.
pub(super) static TEXTS: LazyLock<Texts> =
    LazyLock::new(|| serde_json::from_str(include_str!("texts.json")).unwrap_or_default());

/// Names in braces, and the values that replace them.
pub(super) type Values<'a> = &'a [(&'a str, &'a dyn Display)];

/// The texts of a finding, with these values.
pub(super) fn words(key: &str, values: Values<'_>) -> Words {
    let stored = |key: &str| TEXTS.findings.get(key).cloned().unwrap_or_default();
    let (base, own) = (stored(code(key)), stored(key));
    let evidence = if own.evidence.is_empty() {
        base.evidence
    } else {
        own.evidence
    };
    let fix = if own.fix.is_empty() {
        base.fix
    } else {
        own.fix
    };
    Words {
        severity: own.severity.or(base.severity),
        what: fill_in(&own.what, values),
        evidence: evidence.iter().map(|text| fill_in(text, values)).collect(),
        fix: fill_in(&fix, values),
        no_fix: own.no_fix,
    }
}

/// The code of a finding, without its variant.
pub(super) fn code(key: &str) -> &str {
    key.split_once('/').map_or(key, |(code, _)| code)
}

/// A phrase that several fixes share.
pub(super) fn phrase(name: &str) -> String {
    TEXTS.fixes.get(name).cloned().unwrap_or_default()
}

fn fill_in(text: &str, values: Values<'_>) -> String {
    let fill = |text: String, (name, value): &(&str, &dyn Display)| {
        text.replace(&format!("{{{name}}}"), &value.to_string())
    };
    values.iter().fold(text.to_owned(), fill)
}
