//! The TSC had another rate than the clock of the kernel's watchdog.

use super::super::given::{good_machine, machine_on_hpet_without_tsc};
use super::{MARKED_BY_WATCHDOG, MARKED_FOR_SKEW, READ_DELAY, assert_found};

const MEASURED_SKEW: &str = "clocksource:                       \
    Clocksource 'tsc' skewed 436888 ns (0 ms) over watchdog 'hpet' \
    interval of 503029760 ns (503 ms)";

#[test]
fn a_wrong_rate_is_a_skew_in_old_and_new_kernels() {
    assert_found(
        "Clocksource tsc unstable (delta = -201134949 ns)",
        "tsc_skew",
    );
    assert_found(MARKED_FOR_SKEW, "tsc_skew");
    assert_found(MEASURED_SKEW, "tsc_skew");
}

/// Symptom: the evidence left out by how much the clocks differed, the first question of an
/// operator.
#[test]
fn a_skew_has_its_size_in_the_forms_of_all_kernels() {
    let by_both = [
        MARKED_FOR_SKEW,
        "clocksource:                       'hpet' wd_nsec: 503207012 wd_now: 48a38f74 \
         wd_last: 47e3ab74 mask: ffffffff",
        "clocksource:                       'tsc' cs_nsec: 501207012 cs_now: 3224653e7bd \
         cs_last: 3220d4f8d57 mask: ffffffffffffffff",
    ];
    let rewritten = [
        "clocksource: Marking clocksource tsc unstable due to frequency skew",
        "clocksource: Watchdog                    hpet interval:        499958332ns",
        "clocksource: Clocksource                  tsc interval:        500987654ns",
    ];
    let early = [
        "clocksource: Marking clocksource tsc-early unstable due to frequency skew",
        "clocksource: Watchdog                    hpet interval:        499958332ns",
        "clocksource: Clocksource            tsc-early interval:        501958332ns",
    ];
    for (messages, shown) in [
        (
            &early[..],
            "the TSC gained 2 ms in 500 ms of the other clock (4000.3 ppm)",
        ),
        (
            &by_both[..],
            "the TSC lost 2 ms in 503 ms of the other clock (-3974.5 ppm)",
        ),
        (
            &[MEASURED_SKEW],
            "the TSC gained 437 us in 503 ms of the other clock (868.5 ppm)",
        ),
        (
            &rewritten,
            "the TSC gained 1 ms in 500 ms of the other clock (2058.8 ppm)",
        ),
        (
            &["Clocksource tsc unstable (delta = -201134949 ns)"],
            "the TSC lost 201 ms against the other clock",
        ),
    ] {
        let machine = machine_on_hpet_without_tsc().log(messages);
        machine.first("tsc_skew").shows(shown);
    }
}

/// Symptom: "lost 6.2 s in 503 ms (-1239.4 %)", "gained 0 ns".
#[test]
fn a_jump_is_no_rate_and_no_difference_is_no_skew() {
    let measured = |difference_ns: i64| {
        let message = format!(
            "clocksource: Clocksource 'tsc' skewed {difference_ns} ns over watchdog 'hpet' \
             interval of 503029760 ns (503 ms)"
        );
        let machine = machine_on_hpet_without_tsc().log(&[&message]);
        machine.first("tsc_skew")
    };
    for difference_ns in [-6_234_567_890, 503_029_760, -503_029_760] {
        measured(difference_ns)
            .shows("in 503 ms of the other clock")
            .does_not_show("%)");
    }
    measured(503_029_759).shows("of the other clock (100 %)");
    measured(0)
        .does_not_show("the TSC gained")
        .does_not_show("the TSC lost");
}

/// Symptom: the size was that of the newest skew, and the resume that of the first.
#[test]
fn the_size_and_the_resume_are_of_one_skew() {
    let at = |seconds: &str, message: &str| format!("[ {seconds}] {message}");
    let log = [
        at("9001.000000", "PM: suspend exit"),
        at(
            "9002.000000",
            "Clocksource tsc unstable (delta = -7000000 ns)",
        ),
        at("9900.000000", MEASURED_SKEW),
    ];
    let log = log.each_ref().map(String::as_str);
    let finding = machine_on_hpet_without_tsc().log(&log).first("tsc_skew");
    finding
        .shows("the TSC gained 437 us")
        .does_not_show("the TSC lost")
        .does_not_show("after a resume");
    let later = machine_on_hpet_without_tsc().log(&[log[2], log[0], log[1]]);
    later
        .first("tsc_skew")
        .shows("the TSC lost 7 ms")
        .shows("1 s after a resume");
}

/// With s2idle, the devices resume before the suspend's end, at any time after its beginning.
#[test]
fn a_skew_within_a_suspend_is_called_so() {
    const WITHIN: &str = "that was between the beginning of a suspend and its end";
    let marked = format!("[ 9003.000000] {MARKED_FOR_SKEW}");
    let entry = "[ 5000.000000] PM: suspend entry (s2idle)";
    let waking = "[ 5001.000000] ACPI: PM: Waking up from system sleep state S3";
    let exit = "[ 5002.000000] PM: suspend exit";
    for (log, is_within) in [
        (&[entry][..], true),
        (&[entry, waking], true),
        (&[exit, entry], true),
        (&[entry, exit], false),
        (&[exit], false),
    ] {
        let log: Vec<_> = log.iter().copied().chain([marked.as_str()]).collect();
        let finding = machine_on_hpet_without_tsc().log(&log).first("tsc_skew");
        if is_within {
            finding
                .shows(WITHIN)
                .fix_begins("the skew came between the beginning of a suspend and its end");
        } else {
            finding
                .does_not_show(WITHIN)
                .fix_begins("run `tickline warp`");
        }
    }
}

#[test]
fn the_figures_of_a_skipped_check_are_no_skew() {
    let skipped = "clocksource: Long readout interval, skipping watchdog check: cs_nsec: \
                   2503207012 wd_nsec: 2501207012";
    machine_on_hpet_without_tsc()
        .log(&[skipped, skipped, MARKED_FOR_SKEW])
        .first("tsc_skew")
        .does_not_show("the TSC gained")
        .does_not_show("the TSC lost");
}

/// Symptom: two seconds after a resume, and nothing said so.
#[test]
fn a_skew_right_after_a_resume_is_called_so() {
    let marked = format!("[ 9003.000000] {MARKED_FOR_SKEW}");
    for (resumed, after) in [
        ("[ 9001.200000] PM: suspend exit", Some("1.8 s")),
        (
            "[ 9002.000000] PM: hibernation: hibernation exit",
            Some("1 s"),
        ),
        (
            "[ 9002.500000] ACPI: PM: Waking up from system sleep state S3",
            Some("500 ms"),
        ),
        ("[ 8990.000000] PM: suspend exit", None),
        ("[Sat Nov 28 07:00:00 2026] PM: suspend exit", None),
        ("[ 9002.000000] clocksource: another message", None),
    ] {
        let machine = machine_on_hpet_without_tsc().log(&[resumed, &marked]);
        let finding = machine.first("tsc_skew");
        match after {
            Some(after) => finding
                .shows(&format!("that was {after} after a resume"))
                .fix_begins(&format!("the skew came {after} after a resume"))
                .fix_has("if it comes without one: run `tickline warp`"),
            None => finding
                .does_not_show("resume")
                .fix_begins("run `tickline warp`"),
        };
    }
}

#[test]
fn a_counter_that_a_resume_sets_is_the_hypervisors_or_the_firmwares() {
    let marked = format!("[ 9003.000000] {MARKED_FOR_SKEW}");
    let log = ["[ 9001.200000] PM: suspend exit", &marked];
    for (hypervisor, repair) in [
        ("none", "update the firmware (BIOS)"),
        ("kvm", "let the guest not suspend"),
    ] {
        let machine = machine_on_hpet_without_tsc()
            .log(&log)
            .hypervisor(hypervisor);
        machine.first("tsc_skew").fix_has(repair);
    }
}

/// Symptom: a TSC with a measured skew got the fix for a failed measurement.
#[test]
fn a_skew_must_be_checked_before_the_kernel_is_overruled() {
    for (log, code) in [
        (&[MARKED_FOR_SKEW, MARKED_BY_WATCHDOG][..], "tsc_skew"),
        (
            &[READ_DELAY, MARKED_FOR_SKEW, MARKED_BY_WATCHDOG],
            "tsc_skew",
        ),
        (&[MARKED_BY_WATCHDOG], "tsc_watchdog"),
    ] {
        for (hypervisor, repair) in [("none", "firmware"), ("kvm", "on the host")] {
            let finding = machine_on_hpet_without_tsc()
                .log(log)
                .hypervisor(hypervisor)
                .first(code);
            finding
                .fix_begins("run `tickline warp` when idle")
                .fix_has("the kernel may be right")
                .fix_has(repair)
                .fix_has_in_order("only if the rate is steady", "boot with tsc=nowatchdog")
                .fix_lacks("tsc=reliable");
        }
    }
}

/// Symptom: on Xen the fix overruled a kernel that had measured a skew of the TSC.
#[test]
fn a_skew_is_checked_on_xen_as_well() {
    let message = "clocksource:                       \
        Clocksource 'tsc' skewed 436888 ns (0 ms) over watchdog 'xen'";
    let finding = good_machine()
        .system_call_answers()
        .clocksource("xen")
        .offers("xen")
        .log(&[message])
        .first("xen_clocksource");
    finding
        .fix_begins("run `tickline warp` when idle")
        .fix_has("the kernel may be right")
        .shows(message);
}

/// Symptom: "differ by 400 ppm or more", while `tickline explain tsc_skew` called a TSC within 500
/// ppm good.
#[test]
fn rates_are_wrong_from_500_ppm_whatever_the_kernel_tolerates() {
    let frequency_skew = "clocksource: Marking clocksource tsc unstable due to frequency skew";
    let early_skew = "clocksource: Marking clocksource tsc-early unstable due to frequency skew";
    let early_interval = "clocksource: Clocksource            tsc-early interval:  503987654ns";
    for (log, kernel) in [
        (MARKED_FOR_SKEW, "6.12.0"),
        (MEASURED_SKEW, "5.14.0-427.el9"),
        (MARKED_BY_WATCHDOG, "4.18.0-553.el8"),
        (MARKED_BY_WATCHDOG, "7.1.5"),
        (frequency_skew, "unknown"),
        (early_skew, "7.1.5"),
        (early_interval, "7.1.5"),
    ] {
        let machine = machine_on_hpet_without_tsc().log(&[log]).kernel(kernel);
        machine.findings()[0]
            .fix_has("differ by 500 ppm or more, the kernel may be right")
            .fix_lacks("tolerates");
    }
}

/// The skew's figures before Linux 5.14.
const CYCLES: &str = "clocksource:                       \
    'hpet' wd_now: 54b0f25 wd_last: 4e9fe44 mask: ffffffff";

/// The skew's figures since Linux 5.14.
const NANOSECONDS: &str = "clocksource:                       \
    'hpet' wd_nsec: 503207012 wd_now: 48a38f74";

/// Symptom: "if the rates differ by 100 ppm or more, the kernel may be right". The watchdog before
/// Linux 5.14 compared with 62.5 ms.
#[test]
fn an_old_kernel_has_rather_seen_a_jump_or_a_late_reading() {
    for (log, tolerates_jumps) in [
        (&[MARKED_FOR_SKEW, CYCLES][..], true),
        (&["Clocksource tsc unstable (delta = -201134949 ns)"], true),
        (&[MARKED_FOR_SKEW, NANOSECONDS], false),
    ] {
        let machine = machine_on_hpet_without_tsc().log(log).kernel("5.4.0");
        let finding = machine.first("tsc_skew");
        finding.fix_has("differ by 500 ppm or more, the kernel may be right");
        if tolerates_jumps {
            finding.fix_has("this kernel tolerates 62.5 ms in half a second");
        } else {
            finding.fix_lacks("tolerates");
        }
    }
}

/// Symptom: "this kernel tolerates 125000 ppm" on Debian 11 (oxidecomputer/propolis#328, Debian
/// 5.10.140), where 6 ms in 3 s were too much.
#[test]
fn cycles_do_not_show_the_old_limit_in_the_series_5_10() {
    let cycles = "clocksource:                       \
        'acpi_pm' wd_now: f4b7d wd_last: 6c50c5 mask: ffffff";
    for kernel in ["5.10.0-18-amd64", "5.10.140", "5.13.0", "unknown"] {
        machine_on_hpet_without_tsc()
            .log(&[MARKED_FOR_SKEW, cycles])
            .kernel(kernel)
            .first("tsc_skew")
            .fix_lacks("rather")
            .fix_lacks("tolerates");
    }
}

/// Symptom: a TSC that gained 1 s in 503 ms, for its wrong frequency, was called a jump.
#[test]
fn a_skew_of_tsc_early_may_be_a_wrong_frequency() {
    let marked = MARKED_FOR_SKEW.replace("'tsc'", "'tsc-early'");
    let early_ns = "clocksource:                       'tsc-early' cs_nsec: 1459207012";
    let rewritten = "clocksource: Marking clocksource tsc-early unstable due to frequency skew";
    for (log, kernel) in [
        (&[marked.as_str(), NANOSECONDS, early_ns][..], "6.1.0"),
        (&[marked.as_str(), CYCLES], "5.4.0"),
        (&[rewritten], "7.1.5"),
    ] {
        let machine = machine_on_hpet_without_tsc().log(log).kernel(kernel);
        machine
            .first("tsc_skew")
            .fix_has("or a wrong frequency")
            .fix_has("`tsc_early_khz=`")
            .fix_lacks("rather");
    }
    let later = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW, NANOSECONDS]);
    later.first("tsc_skew").fix_lacks("wrong frequency");
}

/// Symptom: "only if the rate is steady" led to a kernel that kept time by a wrong frequency.
#[test]
fn the_kernel_is_not_overruled_while_its_frequency_may_be_wrong() {
    let marked = MARKED_FOR_SKEW.replace("'tsc'", "'tsc-early'");
    let machine = machine_on_hpet_without_tsc().log(&[&marked, NANOSECONDS]);
    machine.first("tsc_skew").fix_has_in_order(
        "only if the rate is steady and the kernel's frequency right",
        "boot with tsc=nowatchdog",
    );
}

/// The rates are measured by the clock that may be the wrong one. Symptom: "if the rates differ,
/// the kernel may be right".
#[test]
fn differing_rates_do_not_show_which_clock_is_wrong() {
    let machine = machine_on_hpet_without_tsc().log(&[MARKED_FOR_SKEW]);
    let finding = machine.first("tsc_skew");
    finding.fix_has("or hpet is the wrong clock of the two, which NTP shows");
}
