//! Tests of clocksources: their names, the kernel's list of them, and their resolutions.

use super::*;

/// Whoever makes the files of `/sys`, as for a container, decides what they contain.
#[test]
fn any_bytes_are_a_name_or_another_clocksource() {
    for bytes in [
        &b"TSC"[..],
        b"tsc\0",
        b"tsc tsc",
        b" tsc",
        &[0xff; 64],
        &[0; 384],
    ] {
        assert_eq!(
            Clocksource::from_name(bytes),
            Clocksource::Other,
            "{bytes:?}"
        );
        assert_ne!(
            Clocksource::ArchSysCounter.acceptance(bytes),
            Acceptance::Accepted,
            "{bytes:?}"
        );
    }
}

#[test]
fn lists_are_searched_for_whole_names() {
    let acceptance = |list: &str| Clocksource::Tsc.acceptance(list.as_bytes());
    assert_eq!(acceptance("kvm-clock tsc hpet \n"), Acceptance::Accepted);
    let near = "hyperv_clocksource_tsc_page tsc-early acpi_pm \n";
    assert_eq!(acceptance(near), Acceptance::Rejected);
}

#[test]
fn an_empty_list_accepts_and_rejects_no_counter() {
    for list in [" \n", ""] {
        let acceptance = Clocksource::Tsc.acceptance(list.as_bytes());
        assert_eq!(acceptance, Acceptance::Unknown, "{list:?}");
    }
}

/// A kernel rates a counter that it has marked unstable below every timer.
#[test]
fn a_counter_that_is_listed_behind_a_timer_is_not_accepted() {
    for list in [
        "hpet tsc",
        "acpi_pm tsc",
        "jiffies tsc",
        "refined-jiffies tsc",
    ] {
        assert_eq!(
            Clocksource::Tsc.acceptance(list.as_bytes()),
            Acceptance::Rejected,
            "{list}"
        );
    }
}

/// Some boards have a timer of their own that the kernel rates above the counter.
#[test]
fn a_counter_that_is_listed_behind_a_boards_timer_is_accepted() {
    let counter = Clocksource::ArchSysCounter;
    let acceptance = counter.acceptance(b"mct-frc arch_sys_counter");
    assert_eq!(acceptance, Acceptance::Accepted);
}

/// `hyperv_clocksource_tsc_page` is not `tsc`.
#[test]
fn only_a_whole_name_is_a_clocksource() {
    for (name, expected) in Clocksource::NAMED {
        assert_eq!(Clocksource::from_name(name.as_bytes()), expected);
        for near in [
            format!("{name} "),
            format!(" {name}"),
            format!("{name}\n\n"),
            name.to_uppercase(),
        ] {
            assert_eq!(
                Clocksource::from_name(near.as_bytes()),
                Clocksource::Other,
                "{near:?}"
            );
        }
    }
}

/// The clocksources that are a counter, that counter, and how the reference is made of it. Only on
/// x86 does the kernel's read of the counter take as long as a read here.
const MADE_OF_A_COUNTER: [(Clocksource, Clocksource, ReferenceKind); 4] = {
    use Clocksource::{ArchSysCounter, Riscv, Tsc, TscEarly};
    use ReferenceKind::{SameCounter, SameRead};
    [
        (Tsc, Tsc, SameRead),
        (TscEarly, Tsc, SameCounter),
        (ArchSysCounter, ArchSysCounter, SameCounter),
        (Riscv, Riscv, SameCounter),
    ]
};

#[test]
fn a_reference_made_of_the_counter_adds_a_nanosecond_of_rounding() {
    for (kernels, own, _) in MADE_OF_A_COUNTER {
        let resolutions = kernels.resolutions(own, 26);
        assert_eq!(resolutions.reference_ns, 1, "{kernels:?}");
    }
}

#[test]
fn the_kind_of_a_reference_says_whether_it_is_made_of_the_counter() {
    for (_, kernels) in Clocksource::NAMED {
        for own in [
            Clocksource::Tsc,
            Clocksource::ArchSysCounter,
            Clocksource::Riscv,
        ] {
            let expected = MADE_OF_A_COUNTER
                .into_iter()
                .find(|row| (row.0, row.1) == (kernels, own))
                .map_or(ReferenceKind::Independent, |row| row.2);
            let kind = kernels.resolutions(own, 26).reference_kind;
            assert_eq!(kind, expected, "{kernels:?}, {own:?}");
        }
    }
}

/// The resolution of the clock that a kernel keeps with the clocksource of this name, ns, where it
/// would accept this counter.
fn reference_ns(name: &str, counter: Clocksource) -> i64 {
    Clocksource::from_name(name.as_bytes())
        .resolutions(counter, 26)
        .reference_ns
}

/// With a finer one the bounds would not contain the kernel's clock.
#[test]
fn a_timer_of_a_known_frequency_has_its_period_as_resolution() {
    for (name, hz, counter) in [
        ("acpi_pm", 3_579_545, Clocksource::Tsc),
        ("pit", 1_193_182, Clocksource::Tsc),
        ("usec", 1_000_000, Clocksource::ArchSysCounter),
        ("timer_us", 1_000_000, Clocksource::ArchSysCounter),
        ("32k_counter", 32_768, Clocksource::ArchSysCounter),
        ("sprd_suspend_timer", 32_768, Clocksource::ArchSysCounter),
        ("tegra_suspend_timer", 1_000, Clocksource::ArchSysCounter),
        ("jiffies", 100, Clocksource::Riscv),
    ] {
        let period_ns = NS_PER_S.div_ceil(hz).cast_signed();
        assert_eq!(reference_ns(name, counter), period_ns, "{name}");
    }
}

/// Tegra's register of this name has 31.25 MHz.
#[test]
fn a_clocksource_tsc_of_arm_is_not_as_fine_as_that_of_x86() {
    assert_eq!(reference_ns("tsc", Clocksource::ArchSysCounter), 32);
    assert_eq!(reference_ns("tsc", Clocksource::Tsc), 1);
}

#[test]
fn a_clocksource_without_a_name_here_is_taken_to_be_as_coarse_as_the_acpi_timer() {
    for name in ["mct-frc", ""] {
        let acpi_pm_ns = reference_ns("acpi_pm", Clocksource::Tsc);
        assert_eq!(
            reference_ns(name, Clocksource::ArchSysCounter),
            acpi_pm_ns,
            "{name:?}"
        );
    }
}
