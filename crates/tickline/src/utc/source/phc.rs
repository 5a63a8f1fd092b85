//! The error bound of a hardware clock (PHC): the Elastic Network Adapter states its own in sysfs
//! (`phc_error_bound`, in `Documentation/networking/device_drivers/ethernet/amazon/ena.rst` of
//! Linux).

use std::io::ErrorKind;

/// The largest bound that a clock of this machine states, ns; 0 if none does. chronyd does not say
/// which of them a reference clock of its own is: the digit of `PHC0` counts its reference clocks.
pub(super) fn error_bound_ns() -> i64 {
    let Ok(clocks) = std::fs::read_dir("/sys/class/ptp") else { return 0 };
    clocks
        .flatten()
        .map(|clock| bound_ns(std::fs::read_to_string(clock.path().join("device/phc_error_bound"))))
        .max()
        .unwrap_or(0)
}

/// A bound that cannot be read is not a small one.
fn bound_ns(read: std::io::Result<String>) -> i64 {
    match read {
        Ok(text) => text.trim().parse::<u32>().map_or(i64::MAX, i64::from),
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(_) => i64::MAX,
    }
}

#[test]
fn a_bound_that_cannot_be_read_is_not_a_small_one() {
    let bound = |text: &str| bound_ns(Ok(text.to_owned()));
    assert_eq!(["17\n", "-1", "", "4294967296"].map(bound), [17, i64::MAX, i64::MAX, i64::MAX]);
    let failed = |kind: ErrorKind| bound_ns(Err(kind.into()));
    assert_eq!([ErrorKind::NotFound, ErrorKind::ResourceBusy].map(failed), [0, i64::MAX]);
}
