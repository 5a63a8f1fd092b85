//! The kernel's clocksources: what their names say, and the files that have them.

use std::ffi::CStr;

use tickline_core::clocksource::Clocksource;

/// The file with the kernel's clocksource. Root switches to another one by it.
pub(crate) const CURRENT_FILE: &str = text(Clocksource::CURRENT_FILE);

/// The file with the list of the clocksources on offer.
pub(crate) const AVAILABLE_FILE: &str = text(Clocksource::AVAILABLE_FILE);

/// The command that shows the kernel's clocksource.
pub(crate) const SHOW_CURRENT: &str =
    "cat /sys/devices/system/clocksource/clocksource0/current_clocksource";

/// The command that shows the clocksources on offer.
pub(crate) const SHOW_AVAILABLE: &str =
    "cat /sys/devices/system/clocksource/clocksource0/available_clocksource";

/// The name of a file as text; a name that is no text does not compile in a constant.
const fn text(file: &'static CStr) -> &'static str {
    match file.to_str() {
        Ok(text) => text,
        Err(_) => panic!("a file of the kernel has a plain name"),
    }
}

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
    fn the_commands_show_the_files() {
        assert_eq!(SHOW_CURRENT, format!("cat {CURRENT_FILE}"));
        assert_eq!(SHOW_AVAILABLE, format!("cat {AVAILABLE_FILE}"));
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
