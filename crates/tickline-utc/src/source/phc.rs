//! The hardware clocks (PHC) of this machine, and the error bounds that they state: the Elastic
//! Network Adapter states its own in sysfs (`phc_error_bound`, in
//! `Documentation/networking/device_drivers/ethernet/amazon/ena.rst` of Linux).

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

/// A hardware clock.
pub(super) struct HardwareClock {
    pub(super) device: ClockDevice,
    /// The error bound that it states, ns; 0 if it states none.
    pub(super) error_ns: i64,
}

/// The clocks. `None` unless this user may read all of them: a clock that can't be read may show
/// the same time as another.
pub(super) fn clocks() -> Option<Vec<HardwareClock>> {
    clocks_of(Path::new("/sys/class"), Path::new("/dev"))
}

fn clocks_of(classes: &Path, folder: &Path) -> Option<Vec<HardwareClock>> {
    let open = |clock: DirEntry| {
        Some(HardwareClock {
            device: ClockDevice::open(&folder.join(clock.file_name()))?,
            error_ns: stated_ns(&clock),
        })
    };
    match std::fs::read_dir(classes.join("ptp")) {
        Ok(clocks) => clocks.map(|clock| open(clock.ok()?)).collect(),
        Err(error) => is_without_clocks(&error, classes).then(Vec::new),
    }
}

/// Whether the kernel has no such clock, because its class has no folder. If sysfs is not mounted,
/// it may have some.
fn is_without_clocks(error: &std::io::Error, classes: &Path) -> bool {
    error.kind() == ErrorKind::NotFound && classes.exists()
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
        Err(error) if is_without_clocks(&error, classes) => return 0,
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

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_bound_that_is_no_number_is_not_a_small_one() {
        let bound = |text: &str| bound_ns(Ok(text.to_owned()));
        assert_eq!(
            ["17\n", "-1", "", "4294967296"].map(bound),
            [17, i64::MAX, i64::MAX, i64::MAX]
        );
    }

    #[test]
    fn a_bound_that_cannot_be_read_is_not_a_small_one() {
        let failed = |kind: ErrorKind| bound_ns(Err(kind.into()));
        assert_eq!(
            [ErrorKind::NotFound, ErrorKind::ResourceBusy].map(failed),
            [0, i64::MAX]
        );
    }

    /// A folder in place of `/sys/class`, removed with this value.
    struct Classes(PathBuf);

    impl Classes {
        fn new(name: &str) -> Self {
            let process = std::process::id();
            let folder = std::env::temp_dir().join(format!("tickline-phc-{name}-{process}"));
            std::fs::create_dir(&folder).unwrap();
            Self(folder)
        }

        fn add_clock(&self, clock: &str, bound: &str) {
            let device = self.0.join("ptp").join(clock).join("device");
            std::fs::create_dir_all(&device).unwrap();
            std::fs::write(device.join("phc_error_bound"), bound).unwrap();
        }
    }

    impl Drop for Classes {
        fn drop(&mut self) {
            std::fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn without_sysfs_a_clock_may_have_any_bound() {
        let missing = std::env::temp_dir().join("tickline-no-sysfs");
        assert_eq!(largest_ns(&missing), i64::MAX);
    }

    #[test]
    fn without_a_clock_there_is_no_error() {
        assert_eq!(largest_ns(&Classes::new("none").0), 0);
    }

    #[test]
    fn clocks_that_cannot_be_listed_may_have_any_bound() {
        let classes = Classes::new("no-folder");
        std::fs::write(classes.0.join("ptp"), "").unwrap();
        assert_eq!(largest_ns(&classes.0), i64::MAX);
    }

    #[test]
    fn the_largest_of_the_clocks_bounds_counts() {
        let classes = Classes::new("two");
        classes.add_clock("ptp0", "17\n");
        classes.add_clock("ptp1", "3\n");
        assert_eq!(largest_ns(&classes.0), 17);
    }

    /// Symptom: without the right to open `/dev/ptp0` the OS clock, which showed TAI, was the only
    /// clock that showed the time of the last Sync, and UTC was wrong by 37 s.
    #[test]
    #[cfg(all(target_os = "linux", not(miri)))]
    fn a_clock_that_cannot_be_opened_makes_the_clocks_unknown() {
        let root = std::env::temp_dir().join(format!("tickline-devices-{}", std::process::id()));
        let classes = root.join("class");
        let folder = root.join("dev");
        let clocks = || clocks_of(&classes, &folder).map(|clocks| clocks.len());
        assert_eq!(clocks(), None, "no sysfs");
        std::fs::create_dir_all(&classes).unwrap();
        assert_eq!(clocks(), Some(0), "no such clock");
        for clock in ["ptp0", "ptp1"] {
            std::fs::create_dir_all(classes.join("ptp").join(clock)).unwrap();
        }
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("ptp0"), "").unwrap();
        assert_eq!(clocks(), None, "one of two");
        std::fs::write(folder.join("ptp1"), "").unwrap();
        assert_eq!(clocks(), Some(2));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
