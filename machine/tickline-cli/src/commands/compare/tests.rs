use super::*;
use crate::document::{GateRow, Level};
use crate::machine::{Cpuid, Machine, Ntp, NtpDaemon, Ptp4l, TimeNamespace, VmClock};
use crate::machine_rows::machine_rows;
use crate::measure::calls::MONOTONIC;
use crate::measure::costs::CostRow;
use crate::measure::served_by::ServedBy;

/// The limit of `--above`, percent.
const ABOVE: f64 = 10.0;

/// A machine whose vDSO answers `clock_gettime`.
fn fast_machine() -> Document {
    let mut document = Document {
        taken_at: "2026-11-21T08:00:00Z".to_owned(),
        machine: Machine {
            kernel: Some("6.1.0".to_owned()),
            clocksource: Some("tsc".to_owned()),
            available_clocksources: Some("tsc hpet acpi_pm".to_owned()),
            architecture: Some("x86_64".to_owned()),
            cpuid: Some(Cpuid {
                invariant_tsc: Some(true),
                ..Cpuid::default()
            }),
            kernel_log: Some(vec!["tsc".to_owned()]),
            ..Machine::default()
        },
        costs: vec![CostRow {
            clock: MONOTONIC.to_owned(),
            cost_ns: Some(25.0),
            served_by: Some(ServedBy::Vdso),
            ..CostRow::default()
        }],
        ..Document::default()
    };
    document.clock.frequency_hz = Some(2_600_000_000);
    document
}

/// That machine after a change, which made its clocks slow.
fn slow_machine() -> Document {
    let mut document = fast_machine();
    document.machine.clocksource = Some("hpet".to_owned());
    document.costs[0].cost_ns = Some(1_000.0);
    document.costs[0].served_by = Some(ServedBy::SystemCall);
    document
}

fn compared(first: &Document, second: &Document) -> DocumentDiff {
    let [first, second] =
        [first, second].map(|document| side_facts(Path::new("x.json"), document, ABOVE));
    compare(first, second, ABOVE)
}

/// The comparison of the fast machine with itself after `change`.
fn after(change: impl FnOnce(&mut Document)) -> DocumentDiff {
    let mut second = fast_machine();
    change(&mut second);
    compared(&fast_machine(), &second)
}

fn words(words: &str) -> Option<FactValue> {
    Some(FactValue::Words(words.to_owned()))
}

fn names(rows: &[DiffRow]) -> Vec<&str> {
    rows.iter().map(|row| row.name.as_str()).collect()
}

fn difference<'a>(found: &'a DocumentDiff, name: &str) -> &'a DiffRow {
    let mut rows = found.differences.iter();
    let row = rows.find(|row| row.name == name);
    row.unwrap_or_else(|| panic!("no difference {name} in {found:?}"))
}

#[test]
fn a_document_does_not_differ_from_itself() {
    let found = compared(&slow_machine(), &slow_machine());
    assert_eq!(found.differences, []);
    assert_eq!(found.known_once, []);
    // Health, finding, five facts of the machine, frequency, cost and answerer.
    assert_eq!(found.equal, 10);
}

#[test]
fn a_machine_that_became_slow_differs_in_its_health_its_costs_and_a_finding() {
    let found = compared(&fast_machine(), &slow_machine());
    assert_eq!(
        names(&found.differences),
        [
            "health",
            "clocksource",
            "cost of clock_gettime MONOTONIC",
            "answered by, clock_gettime MONOTONIC",
            "finding tsc_not_chosen",
        ]
    );
    assert_eq!(found.known_once, []);
    let health = difference(&found, "health");
    assert_eq!(health.first, Some(FactValue::Health(Level::Unknown)));
    assert_eq!(health.second, Some(FactValue::Health(Level::Slow)));
    assert_eq!(difference(&found, "clocksource").second, words("hpet"));
    let answerer = difference(&found, "answered by, clock_gettime MONOTONIC");
    let system_call = FactValue::AnsweredBy(ServedBy::SystemCall);
    assert_eq!(answerer.second, Some(system_call));
}

#[test]
fn a_different_cost_has_its_unit_and_the_ratio_of_the_second_to_the_first() {
    let found = compared(&fast_machine(), &slow_machine());
    let cost = difference(&found, "cost of clock_gettime MONOTONIC");
    assert_eq!((cost.unit, cost.ratio), (Some("ns"), Some(40.0)));
}

#[test]
fn a_finding_of_one_document_is_a_difference() {
    let name = "finding tsc_not_chosen";
    let became_slow = compared(&fast_machine(), &slow_machine());
    let finding = difference(&became_slow, name);
    assert_eq!(finding.first, words("not found"));
    assert_eq!(finding.second, words("slow"));
    let became_fast = compared(&slow_machine(), &fast_machine());
    let finding = difference(&became_fast, name);
    assert_eq!(finding.first, words("slow"));
    assert_eq!(finding.second, words("not found"));
}

#[test]
fn costs_are_equal_within_the_limit_of_the_option() {
    let noise = after(|machine| machine.costs[0].cost_ns = Some(27.4));
    assert_eq!(noise.differences, []);
    let slower = after(|machine| machine.costs[0].cost_ns = Some(27.6));
    assert_eq!(
        names(&slower.differences),
        ["cost of clock_gettime MONOTONIC"]
    );
    let faster = after(|machine| machine.costs[0].cost_ns = Some(22.6));
    assert_eq!(
        names(&faster.differences),
        ["cost of clock_gettime MONOTONIC"]
    );
}

#[test]
fn rates_of_the_counter_are_equal_within_100_ppm() {
    // 77 ppm and 115 ppm.
    let noise = after(|machine| machine.clock.frequency_hz = Some(2_600_200_000));
    assert_eq!(noise.differences, []);
    let other = after(|machine| machine.clock.frequency_hz = Some(2_600_300_000));
    let frequency = difference(&other, "frequency");
    assert_eq!(frequency.unit, Some("Hz"));
    assert_eq!(other.differences.len(), 1);
}

#[test]
fn a_fact_that_only_one_document_knows_is_not_a_difference() {
    let found = after(|document| {
        document.machine.kernel = None;
        document.machine.vdso_mapped = Some(true);
    });
    assert_eq!(found.differences, []);
    let [kernel, vdso] = &found.known_once[..] else {
        panic!("{:?}", found.known_once);
    };
    assert_eq!(kernel.name, "kernel");
    assert_eq!((&kernel.first, &kernel.second), (&words("6.1.0"), &None));
    assert_eq!(vdso.name, "vDSO mapped");
    let is_mapped = Some(FactValue::IsSo(true));
    assert_eq!((&vdso.first, &vdso.second), (&None, &is_mapped));
}

/// What the facts of a machine are.
struct FactValues {
    is_so: bool,
    number: u8,
    name: &'static str,
}

const VALUES: FactValues = FactValues {
    is_so: true,
    number: 1,
    name: "chronyd",
};

/// A machine with CPUID, a time namespace and an NTP daemon, whose facts have these values.
fn machine_with_parts(facts: FactValues) -> Document {
    let FactValues {
        is_so,
        number,
        name,
    } = facts;
    let mut document = fast_machine();
    document.machine.cpuid = Some(Cpuid {
        invariant_tsc: Some(is_so),
        rdtscp: Some(is_so),
        hypervisor: Some(is_so),
        leaf_15h_hz: Some(number.into()),
        hypervisor_khz: Some(number.into()),
    });
    document.machine.time_namespace = Some(TimeNamespace {
        monotonic_offset_ns: Some(number.into()),
        boottime_offset_ns: Some(number.into()),
        children_elsewhere: is_so,
    });
    document.machine.ntp_daemon = Some(NtpDaemon {
        name: name.to_owned(),
        synchronised: is_so,
        reference: Some(name.to_owned()),
        stratum: Some(number.into()),
        ..NtpDaemon::default()
    });
    document.machine.vmclock = Some(VmClock {
        device: format!("/dev/vmclock{number}"),
        clock_status: Some(name.to_owned()),
        ..VmClock::default()
    });
    document.machine.ptp4l = Some(Ptp4l {
        domain: number,
        port_state: name.to_owned(),
        grandmaster: Some(name.to_owned()),
        clock_class: number,
        accuracy_ns: Some(number.into()),
        steps_removed: number.into(),
        utc_offset_s: Some(number.into()),
        unbounded: Some(name.to_owned()),
        ..Ptp4l::default()
    });
    document.machine.allowed_cpus = Some(number.to_string());
    document.machine.online_cpus = Some(number.to_string());
    document.machine.synchronised_cpus = Some(number.into());
    document.machine.page_readers = Some(number.into());
    document.machine.page_served = Some(is_so);
    document
}

#[test]
fn the_facts_of_each_part_of_the_machine_are_compared() {
    let others = FactValues {
        is_so: false,
        number: 2,
        name: "ntpd",
    };
    let found = compared(&machine_with_parts(VALUES), &machine_with_parts(others));
    let names = names(&found.differences);
    for name in [
        "CPUID: invariant TSC",
        "CPUID: rdtscp",
        "CPUID: hypervisor",
        "CPUID: leaf 15h",
        "CPUID: leaf 4000_0010h",
        "namespace: offset of monotonic time",
        "namespace: offset of boot time",
        "namespace: children receive another namespace",
        "NTP daemon: name",
        "NTP daemon: synchronised",
        "NTP daemon: follows",
        "NTP daemon: stratum",
        "VMClock: device",
        "VMClock: the host's clock",
        "ptp4l: domain",
        "ptp4l: port",
        "ptp4l: grandmaster",
        "ptp4l: class",
        "ptp4l: accuracy",
        "ptp4l: steps away",
        "ptp4l: TAI is ahead of UTC",
        "ptp4l: bounds nothing",
    ] {
        assert!(names.contains(&name), "no {name} in {names:?}");
    }
}

/// Symptom: "clocksources available" here, and "available" in the row `clocksource` of the doctor.
#[test]
fn a_fact_with_a_row_has_the_name_of_a_row_of_the_doctor() {
    let document = machine_with_parts(VALUES);
    let rows = machine_rows(&document);
    let facts = facts_of(&document, ABOVE);
    let with_row = facts.iter().filter_map(|fact| fact.name.split_once(": "));
    for (row, fact) in with_row {
        assert!(rows.iter().any(|(name, _)| *name == row), "{row}: {fact}");
    }
}

/// Symptom: the frequency that the hypervisor states had the name of the fact whether there is
/// one, so each virtual machine differed from itself.
#[test]
fn facts_of_the_same_parts_are_equal() {
    let machine = machine_with_parts(VALUES);
    assert_eq!(compared(&machine, &machine).differences, []);
}

/// Symptom: two documents of one machine with chronyd never were equal.
#[test]
fn the_figures_of_the_ntp_daemon_are_not_compared() {
    let with_figures = |figure: i64| {
        let mut document = machine_with_parts(VALUES);
        document.machine.ntp_daemon.as_mut().unwrap().offset_ns = Some(figure);
        document.machine.ntp_daemon.as_mut().unwrap().bound_ns = Some(figure);
        document.machine.ntp_daemon.as_mut().unwrap().updated_s = Some(figure.unsigned_abs());
        document
    };
    let found = compared(&with_figures(1), &with_figures(200));
    assert_eq!(found.differences, []);
}

#[test]
fn gates_the_counters_use_and_the_kernels_synchronisation_are_compared() {
    let machine = |open: bool| {
        let mut document = fast_machine();
        document.fast = open;
        document.gates = vec![GateRow {
            gate: "kernel".to_owned(),
            open,
            reason: (!open).then(|| "kernel_rejected".to_owned()),
            ..GateRow::default()
        }];
        document.machine.ntp = Some(Ntp {
            synchronised: open,
            frequency_ppb: 0,
            tick_us: 10_000,
            offset_ns: 0,
            time_constant: None,
            maximum_error_us: 100,
            estimated_error_us: 1,
            flags: None,
            leap: None,
            tai_offset_s: None,
        });
        document
    };
    let found = compared(&machine(true), &machine(false));
    let gate = difference(&found, "gate kernel");
    assert_eq!(gate.first, words("open"));
    assert_eq!(gate.second, words("kernel_rejected"));
    let used = difference(&found, "counter used");
    assert_eq!(used.second, Some(FactValue::IsSo(false)));
    let synchronised = difference(&found, "NTP: synchronised");
    assert_eq!(synchronised.second, Some(FactValue::IsSo(false)));
}

#[test]
fn messages_of_the_kernel_are_not_compared() {
    let found = after(|document| document.machine.kernel_log = Some(vec!["hpet".to_owned()]));
    assert_eq!((found.differences, found.known_once), (vec![], vec![]));
}

#[test]
fn a_side_has_its_time_and_version_if_the_document_has_them() {
    let found = after(|document| {
        document.taken_at = String::new();
        document.program_version = "1.2.3".to_owned();
    });
    assert_eq!(found.first.file, "x.json");
    let taken_at = found.first.taken_at.as_deref();
    assert_eq!(taken_at, Some("2026-11-21T08:00:00Z"));
    assert_eq!(found.first.program_version, None);
    assert_eq!(found.second.taken_at, None);
    let version = found.second.program_version.as_deref();
    assert_eq!(version, Some("1.2.3"));
}

/// Symptom: a gate that unsynchronised counters have closed read "the clock is not
/// synchronised", which are the words for that code in the row UTC.
#[test]
fn the_code_of_a_closed_gate_is_shown_as_it_is() {
    let state = FactValue::Words("unsynchronised".to_owned());
    assert_eq!(state.cell(), "unsynchronised");
}

#[test]
fn long_values_stand_below_the_table_of_the_short_ones() {
    let found = after(|document| {
        document.machine.kernel = Some("6.1.0-42-cloud-amd64-unsigned".to_owned());
        document.machine.clocksource = Some("hpet".to_owned());
    });
    let shown = comparison_text(&found);
    assert!(shown.contains("\n  clocksource"), "{shown}");
    let long = "\n  kernel\n      A: 6.1.0\n      B: 6.1.0-42-cloud-amd64-unsigned\n";
    assert!(shown.contains(long), "{shown}");
}
