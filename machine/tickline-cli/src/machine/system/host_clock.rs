//! Reads the clock that a hypervisor gives its guest as a PTP device (`ptp_kvm_common.c` in Linux's
//! `drivers/ptp`, `hv_util.c` in `drivers/hv`, `ptp_vmclock.c`): it shows the host's time.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::time::{ClockId, clock_gettime};
use tickline::backend::OsClock;

use crate::machine::HostMoment;

/// The attempts to read the two clocks, of which the narrowest counts: a hypercall takes a
/// microsecond or two.
const TRIES: u32 = 16;

/// The host's clock now; `None` if there is none, or this user may not read it.
pub(crate) fn now() -> Option<HostMoment> {
    let clocks = fs::read_dir("/sys/class/ptp").ok()?;
    clocks.flatten().find_map(|clock| {
        let name = fs::read_to_string(clock.path().join("clock_name")).ok()?;
        let name = name.trim();
        if !is_hosts(name) {
            return None;
        }
        let device = Path::new("/dev").join(clock.file_name());
        let file = File::open(&device).ok()?;
        let (host_ns, raw_ns) = narrowest(&file)?;
        Some(HostMoment {
            device: device.display().to_string(),
            name: name.to_owned(),
            host_ns,
            raw_ns,
        })
    })
}

/// Whether a PTP clock of this name is that of a hypervisor, not of a network card.
fn is_hosts(name: &str) -> bool {
    matches!(name, "KVM virtual PTP" | "hyperv") || name.starts_with("vmclock")
}

/// The device's time, and `CLOCK_MONOTONIC_RAW` before and after it, ns.
fn narrowest(file: &File) -> Option<(i64, [i64; 2])> {
    /// The lowest bits of a dynamic clock's id (clock_getres(2), "Dynamic clocks").
    const CLOCKFD: libc::clockid_t = 3;
    let clock = ClockId::from_raw((!file.as_raw_fd() << 3) | CLOCKFD);
    let read = || {
        let before_ns = OsClock::raw_ns()?;
        let time = clock_gettime(clock).ok()?;
        let after_ns = OsClock::raw_ns()?;
        #[allow(
            clippy::useless_conversion,
            reason = "time_t and long have 32 bits on some targets"
        )]
        let host_ns = i64::from(time.tv_sec())
            .checked_mul(1_000_000_000)?
            .checked_add(time.tv_nsec().into())?;
        Some((host_ns, [before_ns, after_ns]))
    };
    (0..TRIES)
        .filter_map(|_| read())
        .min_by_key(|(_, [before_ns, after_ns])| after_ns.saturating_sub(*before_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_hypervisors_clock_is_the_hosts() {
        for name in ["KVM virtual PTP", "hyperv", "vmclock0"] {
            assert!(is_hosts(name), "{name}");
        }
        for name in ["ena-ptp-05", "mlx5_ptp", "e1000e-0000:00:1f.6", ""] {
            assert!(!is_hosts(name), "{name}");
        }
    }

    #[test]
    fn a_file_without_a_clock_has_no_time() {
        let file = File::open("/dev/null").expect("a device");
        assert_eq!(narrowest(&file), None);
    }
}
