//! The facts of a document that `compare` compares.

use serde::Serialize;

use crate::diagnose;
use crate::document::{Document, Health, Level};
use crate::float::signed_f64;
use crate::machine::{Cpuid, Machine, NtpDaemon, Ptp4l, TimeNamespace, VmClock};
use crate::measure::served_by::ServedBy;
use crate::words::plain;

/// The value of a fact.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub(super) enum FactValue {
    Words(String),
    Health(Level),
    AnsweredBy(ServedBy),
    IsSo(bool),
    Whole(i64),
    Figure(f64),
}

impl FactValue {
    fn whole(value: impl TryInto<i64>) -> Self {
        Self::Whole(value.try_into().unwrap_or(i64::MAX))
    }

    /// The value, if it is a figure.
    pub(super) fn figure(&self) -> Option<f64> {
        match self {
            Self::Words(_) | Self::Health(_) | Self::AnsweredBy(_) | Self::IsSo(_) => None,
            Self::Whole(value) => Some(signed_f64(*value)),
            Self::Figure(value) => Some(*value),
        }
    }

    /// The value as the key of a map: different values have different keys. It is a text, because
    /// figures have no order (`f64` is not `Ord`).
    pub(super) fn key(&self) -> String {
        format!("{self:?}")
    }

    /// The value in a table.
    pub(super) fn cell(&self) -> String {
        match self {
            Self::Words(words) => plain(words),
            Self::Health(level) => level.code().to_owned(),
            Self::AnsweredBy(served_by) => served_by.words().to_owned(),
            Self::IsSo(is_so) => if *is_so { "yes" } else { "no" }.to_owned(),
            Self::Whole(value) => value.to_string(),
            Self::Figure(value) => format!("{value:.2}"),
        }
    }
}

/// The value of a finding in a document without it.
pub(super) fn not_found() -> FactValue {
    FactValue::Words("not found".to_owned())
}

/// A fact in words, or a figure with its unit.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Fact {
    pub(super) name: String,
    pub(super) unit: Option<&'static str>,
    pub(super) value: FactValue,
    /// The largest relative difference of two figures that count as equal.
    tolerance: f64,
    /// Whether the fact is a finding. A document without a finding is known not to have it.
    pub(super) is_finding: bool,
}

/// The tolerance of measured rates. Two measurements of a steady counter differ by less.
const RATE: f64 = 100e-6;

impl Fact {
    fn new(name: &str, unit: Option<&'static str>, value: FactValue) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            value,
            tolerance: 0.0,
            is_finding: false,
        }
    }

    /// The same fact with another value.
    pub(super) fn with(&self, value: FactValue) -> Self {
        Self {
            value,
            ..self.clone()
        }
    }

    /// Whether two figures that differ may count as equal.
    pub(super) fn has_tolerance(&self) -> bool {
        self.tolerance > 0.0
    }

    /// Whether the fact of another document is the same, within the tolerance. A figure below 0 has
    /// none, and equals itself alone.
    pub(super) fn equals(&self, other: &Self) -> bool {
        if self.value == other.value {
            return true;
        }
        match (self.value.figure(), other.value.figure()) {
            (Some(first), Some(second)) if self.has_tolerance() => {
                first.max(second) <= first.min(second) * (1.0 + self.tolerance)
            }
            _ => false,
        }
    }
}

/// The facts of a document, without the unknown ones.
#[derive(Debug, Default)]
struct Facts(Vec<Fact>);

impl Facts {
    fn add_words(&mut self, name: &str, words: Option<&str>) {
        if let Some(words) = words
            && !words.is_empty()
        {
            self.add(name, None, FactValue::Words(words.to_owned()));
        }
    }

    fn add_code(&mut self, name: &str, value: Option<&impl ToString>) {
        self.add_words(name, value.map(ToString::to_string).as_deref());
    }

    fn add_is_so(&mut self, name: &str, is_so: Option<bool>) {
        if let Some(is_so) = is_so {
            self.add(name, None, FactValue::IsSo(is_so));
        }
    }

    fn add_count(&mut self, name: &str, count: Option<impl TryInto<i64>>) {
        if let Some(count) = count {
            self.add(name, None, FactValue::whole(count));
        }
    }

    fn add_whole(&mut self, name: &str, value: Option<impl TryInto<i64>>, unit: &'static str) {
        if let Some(value) = value {
            self.add(name, Some(unit), FactValue::whole(value));
        }
    }

    fn add(&mut self, name: &str, unit: Option<&'static str>, value: FactValue) {
        self.0.push(Fact::new(name, unit, value));
    }
}

/// Every known fact and figure of the document. This program's rules make the health and the
/// findings, whichever version wrote the document. Costs are equal within `above_percent`.
pub(super) fn facts_of(document: &Document, above_percent: f64) -> Vec<Fact> {
    let findings = diagnose::findings(document);
    let mut facts = Facts::default();
    let level = Health::new(document, &findings).level;
    facts.add("health", None, FactValue::Health(level));
    for finding in &findings {
        let name = format!("finding {}", finding.code);
        let severity = FactValue::Words(finding.severity.code().to_owned());
        facts.0.push(Fact {
            is_finding: true,
            ..Fact::new(&name, None, severity)
        });
    }
    add_machine(&document.machine, &mut facts);
    let ntp = document.machine.ntp.as_ref();
    facts.add_is_so("NTP: synchronised", ntp.map(|ntp| ntp.synchronised));
    facts.add_is_so("counter used", document.counter_used());
    for gate in &document.gates {
        let state = if gate.open {
            Some("open")
        } else {
            gate.reason.as_deref()
        };
        facts.add_words(&format!("gate {}", gate.gate), state);
    }
    if let Some(hz) = document.clock.frequency_hz {
        facts.0.push(Fact {
            tolerance: RATE,
            ..Fact::new("frequency", Some("Hz"), FactValue::whole(hz))
        });
    }
    for row in &document.costs {
        if let Some(ns) = row.cost_ns {
            let name = format!("cost of {}", row.clock);
            facts.0.push(Fact {
                tolerance: above_percent / 100.0,
                ..Fact::new(&name, Some("ns"), FactValue::Figure(ns))
            });
        }
        if let Some(served_by) = row.served_by {
            let name = format!("answered by, {}", row.clock);
            facts.add(&name, None, FactValue::AnsweredBy(served_by));
        }
    }
    facts.0
}

/// Adds the facts of the machine, mostly with the words of `machine_rows`, by which a user searches
/// both texts. `ROW: FACT` is a fact of that row. A new fact does not compile until it is compared
/// or left out here.
fn add_machine(machine: &Machine, facts: &mut Facts) {
    let Machine {
        cpu,
        architecture,
        kernel,
        kernel_command_line,
        clocksource,
        available_clocksources,
        hypervisor,
        xen_dom0,
        product,
        cloud,
        container,
        cpuid,
        counter_readable,
        vdso_mapped,
        clock_gettime_file,
        time_namespace,
        allowed_cpus,
        online_cpus,
        page_readers,
        page_served,
        page_switched_off,
        vmclock,
        ntp_daemon,
        ignored_answer,
        ptp4l,
        boot_loader,
        systemd,
        synchronised_cpus,
        counters,
        // These differ from run to run, or from boot to boot. `facts_of` adds whether NTP is
        // synchronised.
        kernel_log: _,
        tracer_pid: _,
        clock_gettime_difference_ns: _,
        clock_gettime_skew_ppb: _,
        ntp: _,
        counter_difference_ticks: _,
    } = machine;
    facts.add_words("CPU", cpu.as_deref());
    facts.add_words("architecture", architecture.as_deref());
    facts.add_words("kernel", kernel.as_deref());
    facts.add_words("command line", kernel_command_line.as_deref());
    facts.add_words("clocksource", clocksource.as_deref());
    facts.add_words("clocksource: available", available_clocksources.as_deref());
    facts.add_code("hypervisor", hypervisor.as_ref());
    facts.add_is_so("hypervisor: Xen's dom0", *xen_dom0);
    facts.add_words("product", product.as_deref());
    facts.add_code("cloud", cloud.as_ref());
    facts.add_words("container", container.as_deref());
    if let Some(cpuid) = cpuid {
        add_cpuid(cpuid, facts);
    }
    facts.add_is_so("may read the counter", *counter_readable);
    facts.add_is_so("vDSO mapped", *vdso_mapped);
    facts.add_words("provider of clock_gettime", clock_gettime_file.as_deref());
    if let Some(namespace) = time_namespace {
        add_time_namespace(namespace, facts);
    }
    facts.add_words("CPUs: allowed", allowed_cpus.as_deref());
    facts.add_words("CPUs: online", online_cpus.as_deref());
    facts.add_count("page: readers", *page_readers);
    facts.add_is_so("page: served", *page_served);
    facts.add_is_so("page: switched off", *page_switched_off);
    if let Some(vmclock) = vmclock {
        add_vmclock(vmclock, facts);
    }
    if let Some(daemon) = ntp_daemon {
        add_ntp_daemon(daemon, facts);
    }
    if let Some(answer) = ignored_answer {
        facts.add_code("NTP daemon: ignored answer by", Some(&answer.channel));
        facts.add_code("NTP daemon: ignored because", Some(&answer.reason));
    }
    if let Some(ptp4l) = ptp4l {
        add_ptp4l(ptp4l, facts);
    }
    facts.add_words("boot loader", boot_loader.as_deref());
    facts.add_is_so("systemd", *systemd);
    facts.add_count("counters: synchronised CPUs", *synchronised_cpus);
    facts.add_words("counters", Some(counters));
}

fn add_cpuid(cpuid: &Cpuid, facts: &mut Facts) {
    let Cpuid {
        invariant_tsc,
        rdtscp,
        hypervisor,
        leaf_15h_hz,
        hypervisor_khz,
    } = cpuid;
    facts.add_is_so("CPUID: invariant TSC", *invariant_tsc);
    facts.add_is_so("CPUID: rdtscp", *rdtscp);
    facts.add_is_so("CPUID: hypervisor", *hypervisor);
    facts.add_whole("CPUID: leaf 15h", *leaf_15h_hz, "Hz");
    facts.add_whole("CPUID: leaf 4000_0010h", *hypervisor_khz, "kHz");
}

fn add_time_namespace(namespace: &TimeNamespace, facts: &mut Facts) {
    let TimeNamespace {
        monotonic_offset_ns: monotonic_ns,
        boottime_offset_ns: boottime_ns,
        children_elsewhere,
    } = namespace;
    facts.add_whole("namespace: offset of monotonic time", *monotonic_ns, "ns");
    facts.add_whole("namespace: offset of boot time", *boottime_ns, "ns");
    facts.add_is_so(
        "namespace: children receive another namespace",
        Some(*children_elsewhere),
    );
}

fn add_vmclock(vmclock: &VmClock, facts: &mut Facts) {
    let VmClock {
        device,
        unreadable: _,
        // Each guest has its own numbers.
        disruption_marker: _,
        vm_generation: _,
        clock_status,
    } = vmclock;
    facts.add_words("VMClock: device", Some(device));
    facts.add_words("VMClock: the host's clock", clock_status.as_deref());
}

fn add_ptp4l(ptp4l: &Ptp4l, facts: &mut Facts) {
    let Ptp4l {
        domain,
        port_state,
        grandmaster,
        clock_class,
        accuracy_ns,
        steps_removed,
        // Like the figures of the kernel's NTP state, these differ from run to run.
        offset_ns: _,
        mean_path_delay_ns: _,
        bound_ns: _,
        utc_offset_s,
        unbounded,
        // It follows from the cause.
        remedy: _,
    } = ptp4l;
    facts.add_count("ptp4l: domain", Some(*domain));
    facts.add_words("ptp4l: port", Some(port_state));
    facts.add_words("ptp4l: grandmaster", grandmaster.as_deref());
    facts.add_count("ptp4l: class", Some(*clock_class));
    facts.add_whole("ptp4l: accuracy", *accuracy_ns, "ns");
    facts.add_count("ptp4l: steps away", Some(*steps_removed));
    facts.add_whole(
        "ptp4l: TAI is ahead of UTC",
        utc_offset_s.map(i64::from),
        "s",
    );
    facts.add_words("ptp4l: bounds nothing", unbounded.as_deref());
}

fn add_ntp_daemon(daemon: &NtpDaemon, facts: &mut Facts) {
    let NtpDaemon {
        name,
        synchronised,
        reference,
        stratum,
        // Like the figures of the kernel's NTP state, these differ from run to run.
        offset_ns: _,
        bound_ns: _,
        updated_s: _,
        leap: _,
        frequency_ppb: _,
        skew_ppb: _,
        root_delay_ns: _,
        root_dispersion_ns: _,
        channel,
        user: _,
    } = daemon;
    facts.add_words("NTP daemon: name", Some(name));
    facts.add_is_so("NTP daemon: synchronised", Some(*synchronised));
    facts.add_words("NTP daemon: follows", reference.as_deref());
    facts.add_count("NTP daemon: stratum", *stratum);
    facts.add_code("NTP daemon: asked by", channel.as_ref());
}
