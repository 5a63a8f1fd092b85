//! The guests, what is done to them, and what is expected: a table, with a reason for each line.

use super::super::check::Rule;
use super::super::packages::Program;
use super::{NOTICED_MS, RESUMED_MS, Scenario, Serves, Trust, WINDOW_NS};

/// A processor whose TSC is not called invariant: with more than one, the kernel marks its TSC
/// unstable and takes hpet.
const PLAIN: &str = "max";

/// One whose TSC is called invariant. The emulator's is, but QEMU refuses to say so (its
/// `target/i386/cpu.c` has no `TCG_APM_FEATURES`); the second option makes it. The third hides
/// the emulator's name.
pub(in super::super) const PROCESSOR: &str = "max,+invtsc,x-force-features=on,tcg-cpuid=off";

/// The same, without that claim.
const NOT_INVARIANT: &str = "max,tcg-cpuid=off";

/// `PROCESSOR` with the emulator's name.
const EMULATOR: &str = "max,+invtsc,x-force-features=on";

/// Makes the kernel trust the TSC without tests, which an emulated TSC may fail on a busy host.
const TRUSTED: &str = "tsc=reliable";

/// The same, and the kernel refuses to write to read-only memory by `/proc/PID/mem` (Linux 6.12; also
/// in Debian's 6.1).
const HARDENED: &str = "tsc=reliable proc_mem.force_override=never";

/// Makes the kernel reject the TSC, as it does with a bad one.
const REJECTED: &str = "tsc=unstable";

/// The same where there is no hpet either.
const REJECTED_NO_HPET: &str = "tsc=unstable hpet=disable";

/// Makes the kernel use hpet while it trusts the TSC.
const CHOSEN: &str = "tsc=reliable clocksource=hpet";

/// Makes the kernel believe that the TSC runs at a tenth of its rate (2.6 GHz on the AMD EPYC,
/// family 26). A kernel that calibrates it against a timer on a busy machine may get that wrong,
/// too.
const SLOW: &str = "tsc=reliable tsc_early_khz=260000";

/// The available clocksources then: the kernel takes some seconds to decide.
const ON_OFFER: &[&str] = &["tsc hpet acpi_pm", "tsc-early hpet acpi_pm"];

/// How many times cheaper a reading must be where the OS clock is hpet, at 1,060 ns, or acpi_pm,
/// at 740.
const HPET_TIMES: u64 = 12;
const ACPI_PM_TIMES: u64 = 9;

/// Why the counter does not serve where the kernel does not accept it.
const REJECTS: &[&str] = &["kernel_rejected"];

/// The kernel keeps time with the TSC.
fn tsc(name: &'static str, about: &'static str) -> Scenario {
    Scenario::new(name, about, PROCESSOR, TRUSTED).clocksource("tsc")
}

/// The administrator switches the clocksource and gives it back; the TSC stays on offer.
fn switched(name: &'static str, about: &'static str) -> Scenario {
    tsc(name, about).act("switch").noticed("switched").noticed("back")
}

/// Every scenario.
pub(in crate::vm) fn all() -> Vec<Scenario> {
    let mut scenarios = machines();
    scenarios.extend(measured());
    scenarios.extend(events());
    scenarios
}

/// The kinds of machines.
fn machines() -> Vec<Scenario> {
    use Serves::{Counter, Os};
    let new = Scenario::new;
    vec![
        tsc("tsc", "the kernel keeps time with the TSC")
            .serves(Counter, Counter)
            .finds("ntp_unsynchronised", "run an NTP daemon"),
        asked(),
        who(),
        served(tsc("served", "`tickline serve`, and a static program under `tickline run`, with hpet")),
        served(
            new("hardened", "the same, and `/proc/PID/mem` writes to no code", PROCESSOR, HARDENED)
                .clocksource("tsc"),
        ),
        chrony(),
        tsc("one_cpu", "one CPU, which readers, driver and everybody share; spans of tracing")
            .one_cpu()
            .spans_cheaper(105)
            .serves(Counter, Counter),
        new("no_vdso", "an emulator that says so, and no vDSO", EMULATOR, "tsc=reliable vdso=0")
            .clocksource("tsc")
            .serves(Counter, Counter)
            .finds("vdso_off", "take `vdso=0` off"),
        new("slow_machine", "all takes ten times as long, as the guest's clocks have it", PROCESSOR, SLOW)
            .slow()
            .clocksource("tsc")
            .serves(Counter, Counter),
        new("hpet", "two CPUs with a TSC that nobody vouches for", PLAIN, "")
            .clocksource("hpet")
            .serves(Os(&["not_invariant"]), Os(&["not_invariant"]))
            .finds("tsc_unsynchronised", "-accel kvm"),
        new("hpet_rejected", "the kernel has rejected an invariant TSC", PROCESSOR, REJECTED)
            .clocksource("hpet")
            .serves(Os(REJECTS), Os(REJECTS))
            .finds("tsc_switched_off", "take `tsc=unstable` off"),
        new("acpi_pm", "the kernel has rejected it, and there is no hpet", PROCESSOR, REJECTED_NO_HPET)
            .clocksource("acpi_pm")
            .serves(Os(REJECTS), Os(REJECTS))
            .finds("tsc_switched_off", "take `tsc=unstable` off"),
        chosen("chosen", "hpet by the administrator's choice, tsc on offer; spans of tracing")
            .one_cpu() // see `measured`
            .spans_cheaper(200)
            .untested_at_first()
            .serves(Counter, Counter)
            .times_cheaper(HPET_TIMES)
            .finds("tsc_not_chosen", "instead of `clocksource=hpet`"),
        chosen("chosen_cpus", "as chosen, with two CPUs: comparison, order and cost")
            .untested_at_first()
            .used()
            .times_cheaper(HPET_TIMES),
        chosen("chosen_kernel", "as chosen, and Trust::Kernel")
            .one_cpu()
            .trust(Trust::Kernel)
            .serves(Os(&["kernel_uses_other"]), Os(&["kernel_uses_other"])),
        chosen("chosen_taken", "as chosen, and the TSC is taken from the kernel, which does not use it")
            .one_cpu()
            .act("take")
            .noticed("taken")
            .serves(Counter, Os(REJECTS)),
    ]
}

/// The program's findings about a good guest whose clocks are made bad.
fn asked() -> Scenario {
    let switch = "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource";
    tsc(
        "asked",
        "the program tickline is asked while its clocks, or its rights, are other than they should be",
    )
    .act("ask-program")
    .serves(Serves::Counter, Serves::Counter)
    .finds_in("program_hpet", "switched to hpet", "tsc_not_chosen", switch)
    .finds_in("program_acpi_pm", "switched to acpi_pm", "tsc_not_chosen", switch)
    .expect(
        "program_mended",
        "clocksource",
        Rule::Is("tsc"),
        "doctor --fix takes the TSC, after a comparison of the CPUs",
    )
    .finds_in("program_masked", "without /sys", "clocksource_unknown", "mount -t sysfs -o ro sysfs /sys")
    .finds_in("program_denied", "after PR_SET_TSC", "counter_denied", "prctl(PR_SET_TSC, PR_TSC_ENABLE)")
}

/// A program calls for the time 100,000 times a second, and `tickline who` is to find it.
fn who() -> Scenario {
    use Rule::{AtLeast, AtMost, Exactly, Has, Is, True};
    let mut guest = tsc("who", "which program asks for the time: `tickline who`, with hpet and with tsc")
        // With two, the emulator has hung twice in `syscall_trace_enter` (`tests/vm/README.md`).
        .one_cpu()
        .act("who")
        .serves(Serves::Counter, Serves::Counter)
        .expect("who_unmounted", "exit_code", Exactly(1), "nothing can be counted without tracefs")
        .expect("who_unmounted", "who.instead.0", Has("mount -t tracefs"), "and this makes it possible")
        .expect("who_nobody", "exit_code", Exactly(1), "only root may count")
        .expect("who_nobody", "who.instead.0", Has("sudo tickline who"), "and that is said");
    for phase in ["who_hpet", "who_pid"] {
        guest = guest
            .expect(phase, "exit_code", Exactly(0), "calls were counted")
            .expect(phase, "clocksource", Is("hpet"), "each call is a system call")
            .expect(phase, "first_is_asker", True, "the program is found")
            .expect(phase, "asker.process", Is("asker"), "by its name")
            .expect(phase, "asker.clock", Is("clock_gettime MONOTONIC"), "and its clock")
            .expect(phase, "counted_permille", AtLeast(990), "as often as it says itself")
            .expect(phase, "counted_permille", AtMost(1_010), "as often as it says itself")
            .expect(phase, "who.lost_calls", Exactly(0), "every sample had room")
            // 100,000 calls of 300 ns at the least, and a tenth of that.
            .expect(phase, "core_permille", AtLeast(30), "the calls cost a part of a CPU");
        guest.check(phase, "fixed_core_permille", Rule::AtMostTimes(1, "core_permille"), "less, when fixed");
    }
    guest
        .expect("who_pid", "rows", Exactly(1), "other processes are left out")
        .expect("who_tsc", "exit_code", Exactly(0), "calls were counted")
        .expect("who_tsc", "asker_rows", Exactly(0), "the vDSO answers, and no tracepoint sees that")
}

/// A static program gets the clock of `tickline serve` under `tickline run`, where hpet is the
/// kernel's.
fn served(guest: Scenario) -> Scenario {
    use Rule::{AtLeast, AtMostTimes, Exactly, Has, Is, True};
    let mut guest = guest
        .one_cpu() // see `measured`
        .act("serve")
        .serves(Serves::Counter, Serves::Counter);
    for phase in ["served", "server_killed", "served_again", "server_stopped"] {
        guest = guest
            .expect(phase, "exit_code", Exactly(0), "the program does its work")
            .expect(phase, "clocksource", Is("hpet"), "each call of the kernel's clock is a system call")
            .expect(phase, "call_ns", AtLeast(1), "it has called the clock")
            .expect(phase, "backward", Exactly(0), "its time never steps back")
            .expect(phase, "is_in_order", True, "nor is it before that of the program before");
    }
    for phase in ["served", "served_again"] {
        let said = Has("/init has the clock of /run/tickline/page.v1");
        guest = guest.expect(phase, "said", said, "it is served");
        guest.check(
            phase,
            "call_ns",
            AtMostTimes(1, "native_third_ns"),
            "three times as fast a call, though the host be busy",
        );
    }
    // That its line is doubted (W9) is for the tests of leases: here a line may be doubted for more.
    let phase = "os_ran_ahead";
    guest
        .expect("server_stopped", "server", Has("the leases have run out"), "the server ends in order")
        .expect(phase, "exit_code", Exactly(0), "the program does its work")
        .expect(phase, "backward", Exactly(0), "its time stands still where the line was ahead")
        .expect(phase, "is_in_order", True, "nor is it before that of the program before")
}

/// Debian's chronyd steers the clock, and the program says what the kernel knows of that.
fn chrony() -> Scenario {
    use Rule::{Exactly, Nothing, True};
    let mut guest =
        tsc("chrony", "chronyd steers the clock: without `rtcsync`, with it, and with a large offset")
            .needs(Program { package: "chrony", path: "usr/sbin/chronyd" })
            .act("chrony")
            .serves(Serves::Counter, Serves::Counter)
            .expect(
                "chrony_plain",
                "timex.synchronised",
                Rule::False,
                "chronyd leaves the flag without rtcsync",
            )
            .finds_in("chrony_plain", "chronyd without rtcsync", "ntp_flag", "chronyc tracking")
            .expect("chrony_rtcsync", "timex.synchronised", True, "chronyd clears the flag with rtcsync")
            .expect("chrony_rtcsync", "finding", Nothing, "there is nothing to find")
            .finds_in(
                "chrony_slewing",
                "chronyd removes 1 s",
                "ntp_slewing",
                "wait until the NTP daemon has removed",
            );
    for phase in ["chrony_plain", "chrony_rtcsync", "chrony_slewing"] {
        guest = guest.expect(phase, "work.reached", True, "chronyd follows the time that it is told").expect(
            phase,
            "exit_code",
            Exactly(0),
            "no clock is slow or wrong",
        );
    }
    guest
}

/// The kernel keeps time with hpet by the administrator's choice, and would accept the TSC.
fn chosen(name: &'static str, about: &'static str) -> Scenario {
    let why = "the kernel has not rejected the TSC";
    Scenario::new(name, about, PROCESSOR, CHOSEN).sparing().clocksource("hpet").expect(
        "machine",
        "clocksources",
        Rule::OneOf(ON_OFFER),
        why,
    )
}

/// Slow clocksources, and counters that the comparison finds good.
///
/// Most have one CPU: where several read the emulator's TSC at once, it jumps forward by
/// microseconds, many times a second. (Threads of the machine below read their own counters a
/// little out of order, and QEMU's `cpu_get_ticks` adds whatever it sees to step back to an
/// offset.) Where the kernel keeps time with that counter, the jumps do not show; beside another
/// clock, no limit on offsets or bounds can hold.
fn measured() -> Vec<Scenario> {
    let new = |name, about, kernel, clocksource| {
        Scenario::new(name, about, PROCESSOR, kernel)
            .trust(Trust::Measured)
            .sparing()
            .untested_at_first()
            .clocksource(clocksource)
            .times_cheaper(if clocksource == "hpet" { HPET_TIMES } else { ACPI_PM_TIMES })
    };
    let one = |name, about, kernel, clocksource| {
        new(name, about, kernel, clocksource).one_cpu().serves(Serves::Counter, Serves::Counter)
    };
    vec![
        one("measured_hpet", "hpet, and Trust::Measured", REJECTED, "hpet"),
        one("measured_acpi_pm", "acpi_pm, and Trust::Measured", REJECTED_NO_HPET, "acpi_pm"),
        // The emulator stops the counter and the kernel's clock one after the other.
        one("measured_paused", "as measured_hpet, and stopped for 10 s", REJECTED, "hpet")
            .act("pause")
            .done("host"),
        new("measured_cpus", "as measured_hpet, with two CPUs: order and cost", REJECTED, "hpet").used(),
        one(
            "waived",
            "as measured_hpet, and nobody calls the TSC invariant: assume_invariant()",
            REJECTED,
            "hpet",
        )
        .processor(NOT_INVARIANT)
        .trust(Trust::Waived),
    ]
}

/// The machine moves from one QEMU to another, with the counters that `tests/vm/guest/src/migrate.rs`
/// has, while `tickline watch` runs.
fn migrated(guest: Scenario, first: &'static str) -> Scenario {
    use Rule::{AtMost, AtMostTimesPlus, Is, True};
    let mut guest = guest.act("migrate").quiet("moved_steady", Serves::Counter);
    for phase in [first, "moved_ahead", "moved_behind"] {
        let bounds = AtMostTimesPlus(1, "narrowest_bracket_ns", "widest_bound_ns");
        guest = guest
            .done(phase)
            .expect(phase, "ahead_ns", AtMost(WINDOW_NS), "ahead by what was left of the window at most")
            .expect(phase, "behind_ns", bounds, "behind by the bound that is claimed at most")
            .expect(phase, "work.unsaid_ms", AtMost(RESUMED_MS), "it is off, and does not say so")
            .expect(phase, "work.outside_ms", AtMost(NOTICED_MS), "the bounds hold again");
    }
    guest.expect("again", "work.reached", True, "the counter is used again").expect(
        "watched",
        "errors",
        Is(""),
        "tickline watch has watched",
    )
}

/// What happens to machines.
fn events() -> Vec<Scenario> {
    use Rule::AtLeast;
    use Serves::{Counter, Os};
    vec![
        switched("switched", "the clocksource is switched and given back while readers run")
            .serves(Counter, Counter)
            .judged_anew(),
        // With one CPU, lines over the other reference can be judged as well.
        switched("switched_one", "the same with one CPU: offsets and bounds, too")
            .one_cpu()
            .sparing()
            .serves(Counter, Counter)
            .judged_anew()
            .quiet("switched_steady", Counter),
        tsc("demoted", "the TSC is taken from the kernel while readers run")
            .act("take")
            .noticed("taken")
            .serves(Counter, Os(REJECTS)),
        tsc("set_clock", "the clock is set by an hour and by a second, both ways")
            .act("set-clock")
            .serves(Counter, Counter),
        tsc("adjtimex", "the kernel's rate is changed by +500 ppm, to -500, to 0")
            .act("adjtimex")
            .serves(Counter, Counter)
            .rate_changed("rate_up")
            .quiet("steady_up", Counter)
            .rate_changed("rate_down")
            .quiet("steady_down", Counter)
            .rate_changed("rate_zero")
            .quiet("steady_zero", Counter),
        tsc("hotplug", "a CPU goes offline under a reader, and comes back")
            .act("hotplug")
            .serves(Counter, Counter)
            .done("offline")
            .quiet("without", Counter)
            .done("online"),
        tsc("paused", "the machine is stopped for 10 s and continued")
            .act("pause")
            .serves(Counter, Counter)
            .done("host"),
        tsc("saved", "the machine's state is saved, loaded and continued")
            .act("save")
            .serves(Counter, Counter)
            .done("host"),
        // Here the counter and the kernel's clock jump alike, or stand still, so nobody sees it.
        migrated(
            tsc("migrated", "the machine moves to other hosts, whose counters are the same, ahead, behind"),
            "moved",
        )
        .in_order_as_the_os_clock_is("moved_behind")
        .serves(Counter, Counter),
        migrated(chosen("migrated_hpet", "the same where hpet is the kernel's"), "moved_near")
            .one_cpu() // see `measured`
            .serves(Counter, Counter)
            .expect("watched", "jumps", Rule::Exactly(3), "tickline watch has seen each jump"),
        tsc("suspended", "suspend to RAM, ended by the real-time clock").suspended("suspend").expect(
            "suspend",
            "work.slept_ms",
            AtLeast(3_000),
            "the machine slept for longer than a window",
        ),
        // The window lasts for 3 s at the least when three quarters of the interval are reached.
        tsc(
            "suspended_within",
            "the same at an interval of 2 s: the line is still in use when the machine wakes up",
        )
        .interval_ms(2_000)
        .suspended("suspend")
        .expect("grown", "work.reached", Rule::True, "lines last for so long")
        // The kernel counts its sleep by the battery's clock, in whole seconds: a second may be
        // missing, and 450 ms were seen.
        .expect("suspend", "work.slept_ms", AtLeast(1), "the machine slept, and the kernel says so")
        .expect("suspend", "work.ahead_us", AtLeast(500_000), "readings are ahead by as much")
        .expect(
            "suspend",
            "work.said_ms",
            AtLeast(1_000),
            "and the clock says so until they are back",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct_and_every_scenario_expects_something() {
        let scenarios = all();
        for (index, one) in scenarios.iter().enumerate() {
            assert!(scenarios[..index].iter().all(|other| other.name != one.name), "{} twice", one.name);
            let states = |phase| {
                one.checks
                    .iter()
                    .any(|check| check.phase == phase && ["state", "reason"].contains(&check.path))
            };
            assert!(states("before") && states("after"), "{} expects no state", one.name);
        }
    }
}
