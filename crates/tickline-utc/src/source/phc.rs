//! The hardware clocks (PHC) of this machine, and the error bounds that they state: the Elastic Network Adapter states its own in sysfs
//! (`phc_error_bound`, in `Documentation/networking/device_drivers/ethernet/amazon/ena.rst` of
//! Linux).

use std::fs::DirEntry;
use std::io::ErrorKind;
use std::path::Path;

use crate::sys::ClockDevice;

/// The largest bound that a clock of this machine states, ns; 0 if none does. chronyd does not say
/// which of these clocks it uses as a reference clock: the digit of `PHC0` counts chronyd's
/// reference clocks.
pub(super) fn error_bound_ns() -> i64 {
    largest_ns(Path::new("/sys/class"))
}

/// The clocks that this user may read, each with the error bound that it states, ns; 0 if it states
/// none.
pub(super) fn devices() -> Vec<(ClockDevice, i64)> {
    let clocks = std::fs::read_dir("/sys/class/ptp");
    let device = |clock: DirEntry| {
        let device = ClockDevice::open(&Path::new("/dev").join(clock.file_name()))?;
        Some((device, stated_ns(&clock)))
    };
    clocks
        .into_iter()
        .flatten()
        .filter_map(|clock| device(clock.ok()?))
        .collect()
}

/// The bound that a clock states, ns; 0 if it states none.
fn stated_ns(clock: &DirEntry) -> i64 {
    bound_ns(std::fs::read_to_string(
        clock.path().join("device/phc_error_bound"),
    ))
}

fn largest_ns(classes: &Path) -> i64 {
    let clocks = match std::fs::read_dir(classes.join("ptp")) {
        Ok(clocks) => clocks,
        // The kernel has no such clock. If sysfs is not mounted, the bound is unknown.
        Err(error) if error.kind() == ErrorKind::NotFound && classes.exists() => return 0,
        Err(_) => return i64::MAX,
    };
    clocks
        .map(|clock| clock.map_or(i64::MAX, |clock| stated_ns(&clock)))
        .max()
        .unwrap_or(0)
}

/// The bound in a file, ns. A bound that cannot be read counts as the largest one.
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
    assert_eq!(
        ["17\n", "-1", "", "4294967296"].map(bound),
        [17, i64::MAX, i64::MAX, i64::MAX]
    );
    let failed = |kind: ErrorKind| bound_ns(Err(kind.into()));
    assert_eq!(
        [ErrorKind::NotFound, ErrorKind::ResourceBusy].map(failed),
        [0, i64::MAX]
    );
}

#[test]
fn clocks_that_cannot_be_listed_may_have_any_bound() {
    let classes = std::env::temp_dir().join(format!("tickline-phc-{}", std::process::id()));
    assert_eq!(largest_ns(&classes), i64::MAX, "no sysfs");
    std::fs::create_dir(&classes).unwrap();
    assert_eq!(largest_ns(&classes), 0, "no such clock");
    std::fs::write(classes.join("ptp"), "").unwrap();
    assert_eq!(largest_ns(&classes), i64::MAX, "no folder");
    std::fs::remove_file(classes.join("ptp")).unwrap();
    for (clock, bound) in [("ptp0", "17\n"), ("ptp1", "3\n")] {
        let device = classes.join("ptp").join(clock).join("device");
        std::fs::create_dir_all(&device).unwrap();
        std::fs::write(device.join("phc_error_bound"), bound).unwrap();
    }
    assert_eq!(largest_ns(&classes), 17);
    std::fs::remove_dir_all(&classes).unwrap();
}
