//! The time namespace: how far its monotonic clocks are from those of the machine
//! (time_namespaces(7)).

#[cfg(target_os = "linux")]
use std::fs;

use serde::{Deserialize, Serialize};
#[cfg(target_os = "linux")]
use tickline_page::host::namespace_offset_ns;

/// The process's time namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub(crate) struct TimeNamespace {
    /// CLOCK_MONOTONIC minus the machine's, ns. Null where the process's children receive another
    /// namespace, since the kernel then shows theirs.
    pub(crate) monotonic_offset_ns: Option<i64>,
    /// CLOCK_BOOTTIME minus the machine's, ns; null in the same case.
    pub(crate) boottime_offset_ns: Option<i64>,
    /// Whether the process's children receive another namespace.
    pub(crate) children_elsewhere: bool,
}

/// `None` where the kernel has no time namespaces (before Linux 5.6), or `/proc` is unreadable.
#[cfg(target_os = "linux")]
pub(super) fn read() -> Option<TimeNamespace> {
    let link = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let children_elsewhere = link("time")? != link("time_for_children")?;
    let offsets = fs::read("/proc/self/timens_offsets").ok()?;
    let own = |name: &str| if children_elsewhere { None } else { namespace_offset_ns(&offsets, name) };
    Some(TimeNamespace {
        monotonic_offset_ns: own("monotonic"),
        boottime_offset_ns: own("boottime"),
        children_elsewhere,
    })
}

/// Only Linux has time namespaces.
#[cfg(not(target_os = "linux"))]
pub(super) const fn read() -> Option<TimeNamespace> {
    None
}
