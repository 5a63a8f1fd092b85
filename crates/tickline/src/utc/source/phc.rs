//! The error bound of a hardware clock (PHC), where chronyd's reference is one: the Elastic Network
//! Adapter states its own in sysfs (`phc_error_bound`, in `Documentation/networking/device_drivers/
//! ethernet/amazon/ena.rst` of Linux).

/// The bound of the clock that `reference` names, ns; 0 if it names none, or if that clock states
/// none, because chronyd's own distance then says all there is.
pub(super) fn error_bound_ns(reference: [u8; 4]) -> i64 {
    let [b'P', b'H', b'C', digit @ b'0'..=b'9'] = reference else { return 0 };
    let path = format!("/sys/class/ptp/ptp{}/device/phc_error_bound", char::from(digit));
    match std::fs::read_to_string(path) {
        // A bound that cannot be read is not a small one.
        Ok(text) => text.trim().parse().unwrap_or(i64::MAX),
        Err(_) => 0,
    }
}
