//! The kernel's clocksources: what their names say, and the files that have them.

use tickline_core::clocksource::Clocksource;

/// A file of the kernel's folder about clocksources, with a text before it
/// (`Documentation/ABI/testing/sysfs-devices-system-clocksource`).
macro_rules! clocksource_file {
    ($before:literal, $name:literal) => {
        concat!(
            $before,
            "/sys/devices/system/clocksource/clocksource0/",
            $name
        )
    };
}

/// The file with the kernel's clocksource. Root switches to another one by it.
pub(crate) const CURRENT_FILE: &str = clocksource_file!("", "current_clocksource");

/// The file with the list of the clocksources on offer.
pub(crate) const AVAILABLE_FILE: &str = clocksource_file!("", "available_clocksource");

/// The command that shows the kernel's clocksource.
pub(crate) const SHOW_CURRENT: &str = clocksource_file!("cat ", "current_clocksource");

/// The command that shows the clocksources on offer.
pub(crate) const SHOW_AVAILABLE: &str = clocksource_file!("cat ", "available_clocksource");

/// The clocksource of this name, by the table of names in core.
fn by_name(name: &str) -> Clocksource {
    Clocksource::from_name(name.as_bytes())
}

/// Whether this clocksource is the counter, read directly.
pub(crate) fn is_plain_counter(name: &str) -> bool {
    matches!(
        by_name(name),
        Clocksource::Tsc | Clocksource::ArchSysCounter | Clocksource::Riscv
    )
}

/// Whether this clocksource is the counter itself. Every vDSO of the architecture can read it, and
/// it has the counter's differences between CPUs.
pub(crate) fn is_counter(name: &str) -> bool {
    is_plain_counter(name)
        || matches!(
            by_name(name),
            Clocksource::TscEarly | Clocksource::HypervPage
        )
}

/// Whether this clocksource is the counter with parameters that the host changes (`pvclock_abi.h`):
/// that of KVM or Xen.
pub(crate) fn is_paravirtual(name: &str) -> bool {
    matches!(by_name(name), Clocksource::KvmClock | Clocksource::Xen)
}

/// Whether the host keeps this clocksource for its guest, and moves it on when it resumes the
/// guest: a paravirtual one, or one of the two of Hyper-V.
pub(crate) fn is_of_host(name: &str) -> bool {
    is_paravirtual(name) || name.starts_with("hyperv_clocksource")
}

/// Whether this clocksource has the counter's differences between CPUs: the counter itself, or a
/// hypervisor's clock, which is computed from it.
pub(crate) fn is_computed_from_counter(name: &str) -> bool {
    is_counter(name) || is_paravirtual(name)
}

/// Whether this clocksource is the timer tick, which is too coarse to measure a rate.
pub(crate) fn is_tick(name: &str) -> bool {
    by_name(name) == Clocksource::Jiffies
}

/// Whether this clocksource exists only on x86.
pub(crate) fn is_of_x86(name: &str) -> bool {
    matches!(by_name(name), Clocksource::Hpet | Clocksource::AcpiPm)
}

/// Whether this clocksource is slow or coarse, even if the vDSO answers: a timer behind a bus, or
/// the timer tick.
pub(crate) fn is_slow(name: &str) -> bool {
    is_tick(name)
        || matches!(
            by_name(name),
            Clocksource::Hpet | Clocksource::AcpiPm | Clocksource::Pit
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_those_that_the_clock_reads() {
        let read = [Clocksource::CURRENT_FILE, Clocksource::AVAILABLE_FILE];
        let read = read.map(|file| file.to_str().unwrap());
        assert_eq!([CURRENT_FILE, AVAILABLE_FILE], read);
    }

    #[test]
    fn the_hosts_clocks_are_those_of_kvm_xen_and_hyper_v() {
        for (name, is_hosts) in [
            ("kvm-clock", true),
            ("xen", true),
            ("hyperv_clocksource_tsc_page", true),
            ("hyperv_clocksource_msr", true),
            ("tsc", false),
            ("hpet", false),
        ] {
            assert_eq!(is_of_host(name), is_hosts, "{name}");
        }
    }
}
