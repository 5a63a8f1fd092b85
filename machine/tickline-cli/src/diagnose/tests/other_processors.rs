//! Machines with Arm and RISC-V, which have neither a TSC nor a BIOS, and whose kernels measure no
//! frequency. All rules judge a machine with each fault.

use super::given::{Given, good_machine};
use crate::document::Finding;
use crate::machine::HostClock;
use crate::measure::served_by::ServedBy;

/// The architecture, its counter as a clocksource, and the instruction that reads the counter.
type Processor = [&'static str; 3];

const PROCESSORS: [Processor; 3] = [
    ["aarch64", "arch_sys_counter", "cntvct_el0"],
    ["arm", "arch_sys_counter", "cntvct_el0"],
    ["riscv64", "riscv_clocksource", "rdtime"],
];

/// Words that belong to x86 alone, in lower case.
const WORDS_OF_X86: [&str; 7] = [
    "tsc",
    "bios",
    "hpet",
    "acpi_pm",
    "kvm-clock",
    "cpuid",
    "nomigrate",
];

/// The good machine with this processor. It offers another timer, too.
fn machine_with([architecture, counter, instruction]: Processor) -> Given {
    good_machine()
        .architecture(architecture)
        .clocksource(counter)
        .offers(&format!("{counter} timer"))
        .counter_instruction(instruction)
        .log(&[&format!("clocksource: Switched to clocksource {counter}")])
        .with(|document| document.machine.cpuid = None)
}

/// A fault, by the code of its finding.
type Fault = (&'static str, fn(Given) -> Given);

/// The faults that such a machine can have.
const FAULTS: &[Fault] = &[
    ("counters_unsynchronised", Given::counters_differ),
    ("counter_denied", |machine| {
        machine.with(|document| document.machine.counter_readable = Some(false))
    }),
    ("counter_trapped", |machine| {
        machine.with(|document| document.costs[0].cost_ns = Some(1209.0))
    }),
    ("frequency_implausible", |machine| {
        machine.with(|document| document.clock.frequency_hz = Some(2_400_000_000))
    }),
    ("clock_rate_wrong", |machine| {
        machine.ntp(|ntp| ntp.frequency_ppb = -500_000)
    }),
    ("clock_rate_wrong", |machine| {
        machine.ntp(|ntp| ntp.frequency_ppb = 500_000)
    }),
    ("clock_rate_wrong", |machine| {
        machine.with(|document| {
            document.host_clock = Some(HostClock {
                raw_rate_ppb: 600_000,
                ..HostClock::default()
            });
        })
    }),
    ("ntp_slewing", |machine| {
        machine.ntp(|ntp| ntp.frequency_ppb = 300_000)
    }),
    ("clocksource_slow", |machine| {
        let slow = machine.system_call_answers();
        slow.clocksource("timer").offers("timer")
    }),
    ("clocksource_slow", |machine| {
        let slow = machine.system_call_answers().counters_differ();
        slow.clocksource("timer")
    }),
    ("clocksource_slow", |machine| {
        machine.clocksource("jiffies").offers("jiffies")
    }),
    ("clocksource_not_chosen", |machine| {
        machine.system_call_answers().clocksource("timer")
    }),
    ("clocksource_unknown", |machine| {
        machine.system_call_answers().clocksource_unreadable()
    }),
    ("vdso_unused", Given::system_call_answers),
    ("vdso_off", |machine| {
        machine
            .system_call_answers()
            .coarse_answered_by(Some(ServedBy::SystemCall))
            .command_line("vdso=0")
            .with(|document| document.machine.vdso_mapped = Some(false))
    }),
    ("ntp_unsynchronised", |machine| {
        machine.maximum_error_us(16_000_000)
    }),
    ("unix_stepped", |machine| {
        machine.with(|document| {
            document.clock.events.insert("unix_step".to_owned(), 3);
        })
    }),
    ("clock_interposed", |machine| {
        machine.with(|document| {
            document.machine.clock_gettime_difference_ns = Some(2_000_000_000);
        })
    }),
    ("traced", |machine| {
        machine.with(|document| document.machine.tracer_pid = Some(4_242))
    }),
    ("no_thread", |machine| {
        machine.with(|document| {
            document.clock.thread_error = Some("no more processes".to_owned());
        })
    }),
];

/// The machine on bare metal, where that is unknown, below hypervisors, and in clouds.
fn places(machine: &Given) -> Vec<Given> {
    let mut places = vec![
        machine.clone(),
        machine
            .clone()
            .with(|document| document.machine.hypervisor = None),
    ];
    for hypervisor in ["kvm", "xen", "vmware", "hyper_v", "gvisor", "tcg", "other"] {
        places.push(machine.clone().hypervisor(hypervisor));
    }
    for cloud in ["ec2_nitro", "google", "azure"] {
        places.push(machine.clone().hypervisor("kvm").cloud(cloud));
    }
    places
}

/// All texts of a finding, in lower case, without the names of prctl(2), which Arm has as well.
fn texts(finding: &Finding) -> String {
    let mut texts = serde_json::to_string(finding).expect("JSON");
    for name in [
        "PR_GET_TSC",
        "PR_SET_TSC",
        "PR_TSC_SIGSEGV",
        "PR_TSC_ENABLE",
    ] {
        texts = texts.replace(name, "");
    }
    texts.to_lowercase()
}

/// Symptom: "restart, so that the kernel measures the counter's frequency again (dmesg | grep
/// 'tsc:')", of a kernel that measures none, and "ask its support for an invariant TSC".
#[test]
fn no_finding_about_another_processor_has_words_of_x86() {
    for processor in PROCESSORS {
        for (code, with_fault) in FAULTS {
            let machine = with_fault(machine_with(processor));
            machine.clone().finding(code);
            for place in places(&machine) {
                for finding in place.findings() {
                    let texts = texts(&finding);
                    for word in WORDS_OF_X86 {
                        assert!(!texts.contains(word), "{word}: {processor:?} {finding:#?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_good_machine_with_another_processor_has_no_finding() {
    for processor in PROCESSORS {
        assert_eq!(machine_with(processor).codes(), [""; 0], "{processor:?}");
    }
}

/// Symptom: a restart, though the kernel reads the same frequency again.
#[test]
fn a_frequency_that_is_stated_is_corrected_where_it_is_stated() {
    for (processor, stated_by) in PROCESSORS.into_iter().zip([
        "clock-frequency) or the firmware (CNTFRQ_EL0)",
        "clock-frequency) or the firmware (CNTFRQ_EL0)",
        "timebase-frequency) or ACPI",
    ]) {
        let implausible = machine_with(processor)
            .with(|document| document.clock.frequency_hz = Some(2_400_000_000))
            .only("frequency_implausible");
        let wrong_rate = machine_with(processor)
            .ntp(|ntp| ntp.frequency_ppb = -500_000)
            .only("clock_rate_wrong");
        for finding in [implausible, wrong_rate] {
            finding
                .fix_has(stated_by)
                .fix_has("sudo dmesg | grep -E 'arch_timer|sched_clock'")
                .fix_lacks("restart");
        }
    }
}

/// Symptom: "the kernel's clocks may run at a wrong rate", as if CNTFRQ_EL0 were right. The device
/// tree may correct it.
#[test]
fn on_arm_the_register_that_states_a_frequency_may_be_the_wrong_one() {
    machine_with(PROCESSORS[0])
        .with(|document| document.clock.frequency_hz = Some(2_400_000_000))
        .only("frequency_implausible")
        .says("either that is wrong, or the kernel's clocks run at a wrong rate");
}
