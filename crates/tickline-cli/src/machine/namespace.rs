//! The time namespace: how far its monotonic clocks are from those of the machine
//! (time_namespaces(7)).

use std::fs;

use serde::{Deserialize, Serialize};

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
pub(super) fn read() -> Option<TimeNamespace> {
    let link = |name: &str| fs::read_link(format!("/proc/self/ns/{name}")).ok();
    let children_elsewhere = link("time")? != link("time_for_children")?;
    let offsets = fs::read_to_string("/proc/self/timens_offsets").ok()?;
    let own = |name: &str| if children_elsewhere { None } else { offset_ns(&offsets, name) };
    Some(TimeNamespace {
        monotonic_offset_ns: own("monotonic"),
        boottime_offset_ns: own("boottime"),
        children_elsewhere,
    })
}

/// Reads one clock's offset from lines of name, seconds, nanoseconds.
fn offset_ns(offsets: &str, name: &str) -> Option<i64> {
    let line = offsets.lines().find(|line| line.split_whitespace().next() == Some(name))?;
    let mut numbers = line.split_whitespace().skip(1).map(str::parse::<i64>);
    let (seconds, nanos) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_from_the_kernels_table() {
        let table = "monotonic           7         5\nboottime          -86400         0\n";
        assert_eq!(offset_ns(table, "monotonic"), Some(7_000_000_005));
        assert_eq!(offset_ns(table, "boottime"), Some(-86_400_000_000_000));
        assert_eq!(offset_ns(table, "realtime"), None);
        assert_eq!(offset_ns("monotonic  x 0\n", "monotonic"), None);
    }
}
