//! The cloud that runs this machine, by its firmware's tables (DMI), which every user may read.

/// Clouds by their stable codes, and words that the firmware's lines must have. On EC2's Nitro the
/// vendor is Amazon EC2. On its Xen it is Xen, and the BIOS version ends in `.amazon` (Amazon EC2
/// User Guide, "Detect whether a host is an EC2 instance"). Azure's tag: `AZURE_CHASSIS_ASSET_TAG`
/// in cloud-init's `DataSourceAzure.py`.
const CLOUDS: [(&str, &[(&str, &str)]); 4] = [
    ("ec2_nitro", &[("sys_vendor", "Amazon EC2")]),
    ("ec2_xen", &[("sys_vendor", "Xen"), ("bios_version", "amazon")]),
    ("google", &[("product_name", "Google Compute Engine")]),
    ("azure", &[("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77")]),
];

/// The cloud's stable code; `None` where the firmware names none of these clouds. `line` reads a
/// line of the tables.
pub(super) fn find(line: impl Fn(&str) -> Option<String>) -> Option<&'static str> {
    let has = |(name, word): &(&str, &str)| line(name).is_some_and(|text| text.contains(word));
    CLOUDS.iter().find(|(_, words)| words.iter().all(has)).map(|(cloud, _)| *cloud)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn clouds_are_told_by_their_firmware() {
        for (lines, expected) in [
            ([("sys_vendor", "Xen"), ("bios_version", "4.11.amazon")], Some("ec2_xen")),
            ([("sys_vendor", "Xen"), ("bios_version", "4.17")], None),
            ([("sys_vendor", "Microsoft Corporation"), ("product_name", "Virtual Machine")], None),
        ] {
            let lines = BTreeMap::from(lines);
            assert_eq!(find(|name| lines.get(name).map(ToString::to_string)), expected, "{lines:?}");
        }
    }
}
