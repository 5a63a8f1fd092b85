//! The cloud that runs this machine, by its firmware.

/// What the firmware's tables (DMI) say; every user may read these.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traces<'a> {
    pub(super) vendor: Option<&'a str>,
    pub(super) product: Option<&'a str>,
    pub(super) bios_version: Option<&'a str>,
    pub(super) chassis_tag: Option<&'a str>,
}

/// The tag of Azure's machines (`AZURE_CHASSIS_ASSET_TAG`, cloud-init's `DataSourceAzure.py`).
const AZURE_TAG: &str = "7783-7084-3265-9085-8269-3286-77";

/// The cloud's stable name; `None` where the firmware names none of these clouds.
pub(super) fn find(traces: &Traces<'_>) -> Option<&'static str> {
    let has = |text: Option<&str>, word: &str| text.is_some_and(|text| text.contains(word));
    // On Nitro the vendor is Amazon EC2. On Xen it is Xen, and the BIOS version ends in `.amazon`
    // (Amazon EC2 User Guide, "Detect whether a host is an EC2 instance").
    if has(traces.vendor, "Amazon EC2") {
        return Some("ec2_nitro");
    }
    if has(traces.vendor, "Xen") && has(traces.bios_version, "amazon") {
        return Some("ec2_xen");
    }
    if has(traces.product, "Google Compute Engine") {
        return Some("google");
    }
    (traces.chassis_tag == Some(AZURE_TAG)).then_some("azure")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clouds_are_told_by_their_firmware() {
        let none = Traces::default();
        for (traces, expected) in [
            (Traces { vendor: Some("Amazon EC2"), product: Some("c5.large"), ..none }, Some("ec2_nitro")),
            (Traces { vendor: Some("Xen"), bios_version: Some("4.11.amazon"), ..none }, Some("ec2_xen")),
            (
                Traces { vendor: Some("Google"), product: Some("Google Compute Engine"), ..none },
                Some("google"),
            ),
            (
                Traces { vendor: Some("Microsoft Corporation"), chassis_tag: Some(AZURE_TAG), ..none },
                Some("azure"),
            ),
            (
                Traces { vendor: Some("Microsoft Corporation"), product: Some("Virtual Machine"), ..none },
                None,
            ),
            (Traces { vendor: Some("Xen"), bios_version: Some("4.17"), ..none }, None),
            (none, None),
        ] {
            assert_eq!(find(&traces), expected, "{traces:?}");
        }
    }
}
