//! A good machine, and the words to change it and to check its findings.

use super::super::{NotNearUtc, explanations, findings, why_not_near_utc};
use crate::document::{ClockStatus, Document, Explained, Finding, Level, Place};
use crate::machine::{Cpuid, Hypervisor, Machine, Ntp};
use crate::measure::calls::{GETPPID, MONOTONIC, MONOTONIC_COARSE, SYSTEM_CALL};
use crate::measure::costs::CostRow;
use crate::measure::served_by::ServedBy;
use crate::measure::warp::{Pattern, WarpPair, WarpTest};

/// The counter reads of the good machine, an x86 one, wherever the tests run.
const BARE: &str = "rdtsc";
const ORDERED: &str = "lfence; rdtsc";

/// The facts that a test gives to the rules.
#[derive(Clone)]
pub(super) struct Given(Document);

/// A machine without faults. It has no hypervisor, 8 CPUs and a daemon for NTP; its kernel and its
/// vDSO read the TSC.
pub(super) fn good_machine() -> Given {
    let machine = Machine {
        architecture: text("x86_64"),
        kernel: text("6.18.0"),
        kernel_command_line: text("quiet"),
        kernel_log: Some(vec!["clocksource: Switched to clocksource tsc".to_owned()]),
        clocksource: text("tsc"),
        available_clocksources: text("tsc hpet acpi_pm"),
        hypervisor: Some(Hypervisor::NoneNamed),
        cpuid: Some(Cpuid {
            invariant_tsc: Some(true),
            ..Cpuid::default()
        }),
        counter_readable: Some(true),
        vdso_mapped: Some(true),
        tracer_pid: Some(0),
        clock_gettime_file: text("/lib/x86_64-linux-gnu/libc.so.6"),
        clock_gettime_difference_ns: Some(-40),
        clock_gettime_skew_ppb: Some(0),
        online_cpus: text("0-7"),
        synchronised_cpus: Some(8),
        counters: "synchronised on 8 CPUs".to_owned(),
        systemd: Some(true),
        ntp: Some(Ntp {
            synchronised: true,
            frequency_ppb: -20_000,
            tick_us: 10_000,
            offset_ns: 0,
            time_constant: None,
            maximum_error_us: 0,
            estimated_error_us: 0,
            flags: None,
            leap: None,
            tai_offset_s: None,
        }),
        ..Machine::default()
    };
    let clock = ClockStatus {
        frequency_hz: Some(2_596_120_122),
        nominal_frequency_hz: Some(2_600_000_000),
        ..ClockStatus::default()
    };
    let costs = [
        (BARE, 9.0, None),
        (ORDERED, 15.0, None),
        (MONOTONIC, 20.0, Some(ServedBy::Vdso)),
        (SYSTEM_CALL, 160.0, None),
        (MONOTONIC_COARSE, 5.0, Some(ServedBy::Vdso)),
        (GETPPID, 110.0, None),
    ];
    let costs = costs.map(|(clock, cost_ns, served_by)| CostRow {
        clock: clock.to_owned(),
        cost_ns: Some(cost_ns),
        served_by,
        ..CostRow::default()
    });
    Given(Document {
        machine,
        clock,
        costs: costs.into(),
        ..Document::default()
    })
}

/// Checks that the machine of each code has a finding with this code. `machine` matches all codes
/// of a file of rules, so a code without a machine does not compile.
pub(super) fn assert_each_found<C: Explained>(codes: &[C], machine: impl Fn(&C) -> Given) {
    for code in codes {
        machine(code).finding(code.explanation().code);
    }
}

/// The good machine with 3 CPUs, after `tickline warp` has found CPU 0 and CPU 2 unsynchronised.
pub(super) fn machine_with_an_unsynchronised_pair() -> Given {
    let pair = |to_cpu, synchronised, largest_warp_ns| WarpPair {
        from_cpu: 0,
        to_cpu,
        exchanges: 5_000,
        warps: 7,
        largest_warp_ns,
        offset_least_ns: Some(-4_000.0),
        offset_most_ns: Some(-3_900.0),
        synchronised: Some(synchronised),
    };
    good_machine().with(|document| {
        document.machine.online_cpus = text("0-2");
        document.warp = Some(WarpTest {
            cpus: vec![0, 1, 2],
            pattern: Pattern::Star,
            frequency_hz: Some(2e9),
            resolution_ns: Some(0.5),
            untested_cpus: None,
            synchronised: Some(false),
            unknown: None,
            largest_warp_ns: 3_900.0,
            pairs: vec![pair(1, true, 0.0), pair(2, false, 3_900.0)],
        });
    })
}

/// The good machine, except that the kernel keeps time with hpet, does not offer the TSC, and a
/// system call answers.
pub(super) fn machine_on_hpet_without_tsc() -> Given {
    good_machine()
        .system_call_answers()
        .clocksource("hpet")
        .offers("hpet acpi_pm")
}

/// A guest whose kernel does not offer the TSC, and does not say why.
pub(super) fn guest_without_tsc(hypervisor: &str) -> Given {
    let machine = machine_on_hpet_without_tsc();
    machine.log(&[]).hypervisor(hypervisor)
}

/// A guest whose clocksource is the hypervisor's clock, which a system call answers.
pub(super) fn guest_on(clocksource: &str) -> Given {
    let machine = good_machine().system_call_answers();
    machine.clocksource(clocksource)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

impl Given {
    /// Why `tickline wait` goes on to wait.
    pub(super) fn why_not_near_utc(&self) -> Option<NotNearUtc> {
        why_not_near_utc(&self.0)
    }

    /// Changes the facts.
    pub(super) fn with(mut self, change: impl FnOnce(&mut Document)) -> Self {
        change(&mut self.0);
        self
    }

    /// Changes the row of a clock.
    fn cost(self, clock: &str, change: impl FnOnce(&mut CostRow)) -> Self {
        self.with(|document| {
            let mut rows = document.costs.iter_mut();
            change(rows.find(|row| row.clock == clock).expect(clock));
        })
    }

    /// A system call answers the precise clock.
    pub(super) fn system_call_answers(self) -> Self {
        self.answered_by(Some(ServedBy::SystemCall))
    }

    /// Who answers the precise clock; `None` for unknown.
    pub(super) fn answered_by(self, served_by: Option<ServedBy>) -> Self {
        self.cost(MONOTONIC, |row| row.served_by = served_by)
    }

    /// Who answers the coarse clock; `None` for unknown.
    pub(super) fn coarse_answered_by(self, served_by: Option<ServedBy>) -> Self {
        self.cost(MONOTONIC_COARSE, |row| row.served_by = served_by)
    }

    /// The cost of the precise clock.
    pub(super) fn costs_ns(self, cost_ns: f64) -> Self {
        self.cost(MONOTONIC, |row| row.cost_ns = Some(cost_ns))
    }

    /// The cost of the bare and of the ordered read of the counter.
    pub(super) fn counter_costs_ns(self, bare_ns: f64, ordered_ns: f64) -> Self {
        self.cost(BARE, |row| row.cost_ns = Some(bare_ns))
            .cost(ORDERED, |row| row.cost_ns = Some(ordered_ns))
    }

    /// The instruction that reads the counter. After it, `counter_costs_ns` finds no row.
    pub(super) fn counter_instruction(self, name: &str) -> Self {
        self.cost(BARE, |row| row.clock = name.to_owned())
    }

    pub(super) fn clocksource(self, name: &str) -> Self {
        self.with(|document| document.machine.clocksource = text(name))
    }

    pub(super) fn clocksource_unreadable(self) -> Self {
        self.with(|document| document.machine.clocksource = None)
    }

    /// The clocksources that the kernel lists.
    pub(super) fn offers(self, list: &str) -> Self {
        self.with(|document| document.machine.available_clocksources = text(list))
    }

    pub(super) fn offer_unreadable(self) -> Self {
        self.with(|document| document.machine.available_clocksources = None)
    }

    /// The kernel's messages about clocks.
    pub(super) fn log(self, messages: &[&str]) -> Self {
        let messages = messages.iter().map(|line| (*line).to_owned()).collect();
        self.with(|document| document.machine.kernel_log = Some(messages))
    }

    pub(super) fn log_unreadable(self) -> Self {
        self.with(|document| document.machine.kernel_log = None)
    }

    pub(super) fn boot_loader(self, code: &str) -> Self {
        self.with(|document| document.machine.boot_loader = text(code))
    }

    pub(super) fn command_line(self, line: &str) -> Self {
        self.with(|document| document.machine.kernel_command_line = text(line))
    }

    pub(super) fn kernel(self, release: &str) -> Self {
        self.with(|document| document.machine.kernel = text(release))
    }

    /// The processor's name.
    pub(super) fn cpu(self, name: &str) -> Self {
        self.with(|document| document.machine.cpu = text(name))
    }

    pub(super) fn architecture(self, name: &str) -> Self {
        self.with(|document| document.machine.architecture = text(name))
    }

    pub(super) fn hypervisor(self, code: &str) -> Self {
        self.with(|document| document.machine.hypervisor = serde_json::from_value(code.into()).ok())
    }

    /// Whether CPUID says that there is a hypervisor.
    pub(super) fn hypervisor_by_cpuid(self, has_hypervisor: Option<bool>) -> Self {
        self.with(|document| {
            let cpuid = document.machine.cpuid.get_or_insert_default();
            cpuid.hypervisor = has_hypervisor;
        })
    }

    pub(super) fn cloud(self, code: &str) -> Self {
        self.with(|document| document.machine.cloud = serde_json::from_value(code.into()).ok())
    }

    pub(super) fn product(self, name: &str) -> Self {
        self.with(|document| document.machine.product = text(name))
    }

    /// The machine is a container that this program has made.
    pub(super) fn container(self, name: &str) -> Self {
        self.with(|document| document.machine.container = text(name))
    }

    /// CPUID does not call the TSC invariant.
    pub(super) fn tsc_not_invariant(self) -> Self {
        self.with(|document| {
            let cpuid = document.machine.cpuid.get_or_insert_default();
            cpuid.invariant_tsc = Some(false);
        })
    }

    /// tickline's clock has found unsynchronised counters.
    pub(super) fn counters_differ(self) -> Self {
        self.with(|document| document.machine.counter_difference_ticks = Some(5_000))
    }

    /// tickline's clock has not compared the counters.
    pub(super) fn counters_not_compared(self) -> Self {
        self.with(|document| document.machine.synchronised_cpus = None)
    }

    /// The comparison by `tickline warp` has found the pairs synchronised.
    pub(super) fn pairs_agree(self) -> Self {
        self.with(|document| {
            let warp = document.warp.as_mut().expect("a comparison");
            warp.synchronised = Some(true);
            warp.pairs[1].synchronised = Some(true);
        })
    }

    /// Changes the kernel's NTP state.
    pub(super) fn ntp(self, change: impl FnOnce(&mut Ntp)) -> Self {
        self.with(|document| change(document.machine.ntp.as_mut().expect("an NTP state")))
    }

    /// The findings. Checks what holds for all: the most severe is first, and each has a sentence,
    /// evidence, a fix, and an explanation of its code.
    #[track_caller]
    pub(super) fn findings(self) -> Vec<Finding> {
        let findings = findings(&self.0);
        assert!(
            findings.is_sorted_by_key(|finding| finding.severity),
            "{findings:#?}"
        );
        let explained = explanations();
        for Finding {
            code,
            what,
            evidence,
            fix,
            ..
        } in &findings
        {
            assert!(!what.is_empty() && !fix.text().is_empty(), "{findings:#?}");
            assert!(!evidence.is_empty(), "{findings:#?}");
            assert!(explained.iter().any(|known| known.code == *code), "{code}");
            assert!(
                evidence.iter().all(|text| !text.is_empty()),
                "{findings:#?}"
            );
        }
        findings
    }

    /// The level that the doctor gives to the machine.
    pub(super) fn level(mut self) -> Level {
        self.0.add_diagnosis();
        self.0.health.expect("a diagnosis").level
    }

    /// The sentence about the machine.
    pub(super) fn sentence(mut self) -> String {
        self.0.add_diagnosis();
        self.0.headline().expect("a diagnosis")
    }

    /// The codes of the findings.
    #[track_caller]
    pub(super) fn codes(self) -> Vec<&'static str> {
        let findings = self.findings();
        findings.iter().map(|finding| finding.code).collect()
    }

    /// The first finding, which must have this code.
    #[track_caller]
    pub(super) fn first(self, code: &str) -> Finding {
        let first = self.findings().into_iter().next().expect("a finding");
        assert_eq!(first.code, code, "{first:#?}");
        first
    }

    /// The only finding, which must have this code.
    #[track_caller]
    pub(super) fn only(self, code: &str) -> Finding {
        let findings = self.findings();
        assert_eq!(findings.len(), 1, "{findings:#?}");
        assert_eq!(findings[0].code, code, "{findings:#?}");
        findings.into_iter().next().expect("a finding")
    }

    /// The finding with this code, which need not be the first.
    #[track_caller]
    pub(super) fn finding(self, code: &str) -> Finding {
        let findings = self.findings();
        let found = findings.iter().find(|finding| finding.code == code);
        found
            .unwrap_or_else(|| panic!("no {code} in {findings:#?}"))
            .clone()
    }

    /// Checks that no finding's fix has this part.
    #[track_caller]
    pub(super) fn assert_no_fix_says(self, part: &str) {
        for finding in self.findings() {
            finding.fix_lacks(part);
        }
    }
}

impl Finding {
    /// The machine on which the commands of the fix run; `None` without commands.
    pub(super) fn place(&self) -> Option<Place> {
        self.fix.steps().map(|steps| steps.place)
    }

    #[track_caller]
    pub(super) fn says(&self, part: &str) -> &Self {
        assert!(self.what.contains(part), "{part}: {self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn does_not_say(&self, part: &str) -> &Self {
        assert!(!self.what.contains(part), "{part}: {self:#?}");
        self
    }

    /// Checks that a text of the evidence has this part.
    #[track_caller]
    pub(super) fn shows(&self, part: &str) -> &Self {
        let shown = self.evidence.iter().any(|text| text.contains(part));
        assert!(shown, "{part}: {self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn does_not_show(&self, part: &str) -> &Self {
        let shown = self.evidence.iter().any(|text| text.contains(part));
        assert!(!shown, "{part}: {self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn fix_has(&self, part: &str) -> &Self {
        assert!(self.fix.text().contains(part), "{part}: {self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn fix_begins(&self, start: &str) -> &Self {
        assert!(self.fix.text().starts_with(start), "{start}: {self:#?}");
        self
    }

    /// Checks that `then` follows `first` in the fix.
    #[track_caller]
    pub(super) fn fix_has_in_order(&self, first: &str, then: &str) -> &Self {
        let text = self.fix.text();
        let before = text.split_once(then).map(|(before, _)| before);
        assert!(
            before.is_some_and(|before| before.contains(first)),
            "{first} ... {then}: {self:#?}"
        );
        self
    }

    #[track_caller]
    pub(super) fn fix_lacks(&self, part: &str) -> &Self {
        assert!(!self.fix.text().contains(part), "{part}: {self:#?}");
        self
    }

    /// Checks that there is no fix, and therefore no gain. The text says why.
    #[track_caller]
    pub(super) fn has_no_fix(&self) -> &Self {
        assert!(self.fix.is_impossible(), "{self:#?}");
        self.fix_begins("none: ").has_no_gain()
    }

    #[track_caller]
    pub(super) fn gains(&self, ratio: f64) -> &Self {
        let gain_ratio = self.gain_ratio.expect("a gain");
        assert!((gain_ratio - ratio).abs() < 1e-9, "{self:#?}");
        self
    }

    #[track_caller]
    pub(super) fn has_no_gain(&self) -> &Self {
        assert_eq!(self.gain_ratio, None, "{self:#?}");
        self
    }
}
