//! The facts of this machine, against the kernel's files.

mod guest;

use tickline::{Clock, Driver};
use tickline_core::comparison::CounterDifference;

use super::*;

/// The facts of this machine, after this comparison of the CPUs' counters.
fn machine_after(comparison: CounterComparison) -> Machine {
    let clock = Clock::builder().driver(Driver::Manual).build().unwrap();
    let mut status = clock.status();
    status.comparison = comparison;
    Machine::read(&status)
}

fn machine() -> Machine {
    machine_after(CounterComparison::Pending)
}

/// The text of a file, without the end of its line; `None` if it is unreadable or empty.
fn trimmed(path: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}

#[test]
fn synchronised_counters_are_counted() {
    let machine = machine_after(CounterComparison::Synchronised {
        cpus: 8,
        max_difference_ticks: 400,
    });
    assert_eq!(machine.synchronised_cpus, Some(8));
    assert_eq!(machine.counter_difference_ticks, None);
    assert_eq!(machine.counters, "synchronised on 8 CPUs");
}

#[test]
fn unsynchronised_counters_have_their_least_difference() {
    let machine = machine_after(CounterComparison::Unsynchronised {
        cpu: 2,
        other_cpu: 5,
        difference: CounterDifference {
            min_ticks: 700,
            max_ticks: 900,
        },
    });
    assert_eq!(machine.synchronised_cpus, None);
    assert_eq!(machine.counter_difference_ticks, Some(700));
    let text = "CPU 2 and CPU 5 are unsynchronised by at least 700 ticks";
    assert_eq!(machine.counters, text);
}

#[test]
fn counters_that_were_not_compared_have_no_figure() {
    for (comparison, text) in [
        (CounterComparison::Pending, "not compared by this program"),
        (CounterComparison::Single, "one CPU only"),
        (CounterComparison::Impossible, "could not be compared"),
    ] {
        let machine = machine_after(comparison);
        assert_eq!(machine.synchronised_cpus, None, "{text}");
        assert_eq!(machine.counter_difference_ticks, None, "{text}");
        assert_eq!(machine.counters, text);
    }
}

#[test]
fn each_fact_of_one_line_is_that_of_its_file() {
    let machine = machine();
    for (fact, file) in [
        (&machine.kernel, "/proc/sys/kernel/osrelease"),
        (&machine.kernel_command_line, "/proc/cmdline"),
        (
            &machine.clocksource,
            "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        ),
        (
            &machine.available_clocksources,
            "/sys/devices/system/clocksource/clocksource0/available_clocksource",
        ),
        (&machine.online_cpus, "/sys/devices/system/cpu/online"),
    ] {
        assert_eq!(*fact, trimmed(file), "{file}");
    }
}

#[test]
fn the_product_has_the_names_of_the_vendor_and_of_the_machine() {
    let product = machine().product.unwrap_or_default();
    for file in ["sys_vendor", "product_name"] {
        let name = trimmed(&format!("/sys/class/dmi/id/{file}")).unwrap_or_default();
        assert!(product.contains(&name), "no {name} in {product}");
    }
}

#[test]
fn the_product_is_unknown_without_a_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_str().unwrap();
    assert_eq!(product_name(path), None);
    fs::write(folder.path().join("sys_vendor"), "Dell Inc.\n").unwrap();
    assert_eq!(product_name(path).as_deref(), Some("Dell Inc."));
    fs::write(folder.path().join("product_name"), "PowerEdge\n").unwrap();
    assert_eq!(product_name(path).as_deref(), Some("Dell Inc. PowerEdge"));
    assert_eq!(
        dmi_field(path, "product_name").as_deref(),
        Some("PowerEdge")
    );
    assert_eq!(dmi_field(path, "bios_version"), None);
}

/// Runs `facts.sh` on the files below this root, with this kernel log, and returns its facts.
#[cfg(target_os = "linux")]
pub(super) fn machine_by_facts_sh(root: &Path, kernel_log: &str) -> Machine {
    let programs = root.join("programs");
    fs::create_dir_all(&programs).unwrap();
    let dmesg = programs.join("dmesg");
    fs::write(&dmesg, "#!/bin/sh\nprintf '%s\\n' \"$LOG\"\n").unwrap();
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(dmesg, executable).unwrap();
    let usual = std::env::var("PATH").unwrap();
    let output = std::process::Command::new("sh")
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/facts.sh"))
        .arg("-r")
        .arg(root)
        .env("PATH", format!("{}:{usual}", programs.display()))
        .env("LOG", kernel_log)
        .output()
        .unwrap();
    let facts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    serde_json::from_value(facts["machine"].clone()).unwrap()
}

/// Writes what this sign of a hypervisor or of a cloud looks for below the root, and returns the
/// kernel's log.
#[cfg(target_os = "linux")]
pub(super) fn write_sign(root: &Path, words: &[(Text, &str)]) -> String {
    let mut log = "no clock".to_owned();
    let write = |path: &str, text: &str| {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    };
    write("proc/cpuinfo", "");
    for (text, word) in words {
        match text {
            Text::KernelVersion => write("proc/version", word),
            Text::KernelLog => log = format!("[ 0.0] {word}"),
            Text::AcpiDevices => write(&format!("sys/bus/acpi/devices/{word}00"), ""),
            Text::VendorAndProduct => write("sys/class/dmi/id/sys_vendor", word),
            Text::Dmi(field) => write(&format!("sys/class/dmi/id/{field}"), word),
        }
    }
    log
}

/// Symptom: `facts.sh` named no cloud, so the customers of clouds were told to change the host.
#[test]
#[cfg(target_os = "linux")]
fn facts_sh_names_each_hypervisor_and_each_cloud_as_the_program_does() {
    for (hypervisor, words) in &platform::HYPERVISORS {
        let (facts, by_program) = named_by_both(words, &platform::HYPERVISORS);
        assert_eq!(by_program.as_ref(), Some(hypervisor), "{words:?}");
        assert_eq!(facts.hypervisor, by_program, "{words:?}");
    }
    for (cloud, words) in &platform::CLOUDS {
        let (facts, by_program) = named_by_both(words, &platform::CLOUDS);
        assert_eq!(by_program.as_ref(), Some(cloud), "{words:?}");
        assert_eq!(facts.cloud, by_program, "{words:?}");
    }
}

/// On a machine with these words: the facts by `facts.sh`, and what the program finds by its signs.
#[cfg(target_os = "linux")]
fn named_by_both<T: Clone>(
    words: &[(Text, &str)],
    signs: &[platform::Sign<T>],
) -> (Machine, Option<T>) {
    let root = tempfile::tempdir().unwrap();
    let log = write_sign(root.path(), words);
    let path = root.path().to_str().unwrap();
    let text_of = |text: Text| platform_text(text, path, Some(&log));
    let by_program = platform::first_match(signs, text_of);
    (machine_by_facts_sh(root.path(), &log), by_program)
}

/// A code that is misspelt in the script would be read as that of another version.
#[test]
fn each_code_in_facts_sh_is_known_to_the_program() {
    let script = include_str!("../../facts.sh");
    let codes_in = |function: &str| {
        let (_, rest) = script.split_once(&format!("\n{function}() {{\n")).unwrap();
        let (body, _) = rest.split_once("\n}\n").unwrap();
        let words = body.split("echo ").skip(1);
        let codes: Vec<_> = words
            .filter_map(|text| text.split_whitespace().next())
            .collect();
        assert!(codes.len() > 3, "{codes:?}");
        codes
    };
    for code in codes_in("hypervisor") {
        let read = serde_json::from_value(code.into()).unwrap();
        assert!(!matches!(read, Hypervisor::Other(_)), "{code}");
    }
    for code in codes_in("cloud") {
        let read = serde_json::from_value(code.into()).unwrap();
        assert!(!matches!(read, Cloud::Other(_)), "{code}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn facts_sh_names_no_cloud_for_a_guest_on_other_xen() {
    let root = tempfile::tempdir().unwrap();
    let words = [
        (Text::Dmi("sys_vendor"), "Xen"),
        (Text::Dmi("product_name"), "HVM domU"),
        (Text::Dmi("bios_version"), "4.17"),
    ];
    let log = write_sign(root.path(), &words);
    let facts = machine_by_facts_sh(root.path(), &log);
    assert_eq!(
        (facts.cloud, facts.hypervisor),
        (None, Some(Hypervisor::Xen))
    );
}

/// Symptom: `facts.sh` called dom0 a guest, because `/sys/hypervisor/type` and the kernel's log
/// name Xen there, too.
#[test]
#[cfg(target_os = "linux")]
fn facts_sh_knows_xens_dom0_as_the_program_does() {
    const FEATURES: &str = "sys/hypervisor/properties/features";
    const CAPABILITIES: &str = "proc/xen/capabilities";
    for (files, is_dom0) in [
        (&[(FEATURES, "00002f05")][..], Some(true)),
        (&[(FEATURES, "00002705")], Some(false)),
        (&[(FEATURES, "unknown")], None),
        (&[(CAPABILITIES, "control_d")], Some(true)),
        // In another domain the file is empty.
        (&[(CAPABILITIES, "")], Some(false)),
        (&[(CAPABILITIES, "no_control_d")], Some(false)),
        // Xen before 4.2 has no bit for dom0.
        (
            &[(FEATURES, "00000705"), (CAPABILITIES, "control_d")],
            Some(true),
        ),
        (&[(FEATURES, "00002f05"), (CAPABILITIES, "")], Some(true)),
        (&[], None),
    ] {
        let root = tempfile::tempdir().unwrap();
        let log = write_sign(
            root.path(),
            &[(Text::KernelLog, "Hypervisor detected: Xen PV")],
        );
        for (file, text) in [("sys/hypervisor/type", "xen")].iter().chain(files) {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{text}\n")).unwrap();
        }
        let by_program = xen_dom0(root.path().to_str().unwrap());
        assert_eq!(by_program, is_dom0, "{files:?}");
        let facts = machine_by_facts_sh(root.path(), &log);
        assert_eq!(facts.hypervisor, Some(Hypervisor::Xen), "{files:?}");
        assert_eq!(facts.xen_dom0, is_dom0, "{files:?}");
        assert_eq!(facts.is_guest(), Some(is_dom0 != Some(true)), "{files:?}");
    }
}

#[test]
#[cfg(target_os = "linux")]
fn facts_sh_names_each_boot_loader_as_the_program_does() {
    for (files, code) in [
        (
            &[
                "usr/sbin/grubby",
                "usr/sbin/update-grub",
                "etc/default/grub",
            ][..],
            Some("grubby"),
        ),
        (&["sbin/grubby"], Some("grubby")),
        (&["usr/bin/grubby"], Some("grubby")),
        (&["usr/sbin/update-grub", "etc/default/grub"], Some("grub")),
        (&["etc/default/grub"], None),
        (
            &[
                "usr/sbin/update-grub",
                "etc/default/grub",
                "etc/kernel/cmdline",
            ],
            None,
        ),
        (
            &[
                "usr/sbin/update-grub",
                "etc/default/grub",
                "etc/default/grub.d/50.cfg",
            ],
            Some("grub"),
        ),
        (&["etc/update-extlinux.conf"], Some("extlinux")),
        (
            &["run/ostree-booted", "usr/bin/rpm-ostree", "usr/bin/grubby"],
            Some("rpm_ostree"),
        ),
        // Symptom: update-grub and kernel-install for Endless and for images of bootc.
        (&["run/ostree-booted", "usr/bin/grubby"], Some("ostree")),
        (&["usr/bin/rpm-ostree"], None),
        // Symptom: the list of all boot loaders, because of the last of these files.
        (
            &[
                "etc/kernel/proxmox-boot-uuids",
                "usr/sbin/update-grub",
                "etc/default/grub",
                "etc/kernel/cmdline",
            ],
            Some("proxmox"),
        ),
        (
            &[
                "usr/bin/kernelstub",
                "sys/firmware/efi",
                "usr/sbin/update-grub",
                "etc/default/grub",
            ],
            Some("kernelstub"),
        ),
        // kernelstub needs EFI.
        (&["usr/bin/kernelstub"], None),
        (&["boot/firmware/cmdline.txt"], Some("cmdline_txt")),
        (&["boot/cmdline.txt"], Some("cmdline_txt")),
        (&[], None),
    ] {
        let root = tempfile::tempdir().unwrap();
        let log = write_sign(root.path(), &[]);
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "GRUB_CMDLINE_LINUX=\"quiet\"\n").unwrap();
        }
        let by_program = boot_loader(root.path().to_str().unwrap());
        assert_eq!(by_program, code, "{files:?}");
        let facts = machine_by_facts_sh(root.path(), &log);
        assert_eq!(facts.boot_loader.as_deref(), code, "{files:?}");
    }
}

#[test]
fn the_product_of_a_recorded_guest_names_the_cloud() {
    for (hypervisor, product, cloud) in [
        (
            Some(Hypervisor::Kvm),
            "Google Google Compute Engine",
            Some(Cloud::Google),
        ),
        (
            Some(Hypervisor::Kvm),
            "Amazon EC2 m5.large",
            Some(Cloud::Ec2Nitro),
        ),
        (Some(Hypervisor::Xen), "Xen HVM domU", None),
        (
            Some(Hypervisor::HyperV),
            "Microsoft Corporation Virtual Machine",
            None,
        ),
        // Words anywhere in a name, and machines without a host.
        (Some(Hypervisor::Kvm), "Acme Appliance for Amazon EC2", None),
        (Some(Hypervisor::Kvm), "Acme Google Compute Engine", None),
        (
            Some(Hypervisor::Kvm),
            "Google Google Compute Engine Appliance",
            None,
        ),
        (Some(Hypervisor::NoneNamed), "Amazon EC2 m5.metal", None),
        (None, "Google Google Compute Engine", None),
    ] {
        let mut machine = Machine {
            hypervisor,
            product: Some(product.to_owned()),
            ..Machine::default()
        };
        machine.add_cloud_of_product();
        assert_eq!(machine.cloud, cloud, "{product}");
    }
}

#[test]
#[cfg(target_arch = "x86_64")]
fn on_x86_a_hypervisor_is_named_or_there_is_none() {
    assert!(machine().hypervisor.is_some());
}

#[test]
fn the_cpu_has_the_kernels_name() {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    match machine().cpu {
        Some(name) => assert!(cpuinfo.contains(&format!(": {name}\n")), "{name}"),
        None => assert!(!cpuinfo.contains("model name")),
    }
}

#[test]
fn the_architecture_is_that_of_the_program() {
    let name = machine().architecture.unwrap();
    assert_eq!(name, std::env::consts::ARCH);
}

#[test]
fn a_vdso_is_mapped_if_the_process_has_one() {
    let maps = fs::read_to_string("/proc/self/maps").ok();
    let is_mapped = maps.map(|maps| maps.lines().any(|line| line.ends_with(" [vdso]")));
    assert_eq!(machine().vdso_mapped, is_mapped);
}

#[test]
fn a_line_of_the_process_status_has_its_value() {
    let Ok(status) = fs::read_to_string("/proc/self/status") else {
        return assert_eq!(status_line("Pid:"), None);
    };
    assert_eq!(status_line("Pid:"), Some(std::process::id().to_string()));
    assert_eq!(status_line("No such line:"), None);
    let tracer_pid = machine().tracer_pid.unwrap();
    assert!(status.contains(&format!("TracerPid:\t{tracer_pid}\n")));
    let cpus = machine()
        .allowed_cpus
        .expect("the CPUs on which this process may run");
    assert!(status.contains(&format!("Cpus_allowed_list:\t{cpus}\n")));
}

#[test]
fn systemd_runs_if_it_has_its_folder() {
    let has_folder = fs::metadata("/run/systemd/system").is_ok();
    assert_eq!(machine().systemd, Some(has_folder));
}

#[test]
fn each_device_of_the_acpi_tables_has_a_line() {
    let entries = fs::read_dir("/sys/bus/acpi/devices");
    let mut names: Vec<_> = entries
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    let devices = acpi_devices(ACPI_DEVICES);
    let mut found: Vec<_> = devices.lines().collect();
    names.sort();
    found.sort_unstable();
    assert_eq!(found, names);
}

#[test]
#[cfg(target_os = "linux")]
fn a_process_has_the_name_that_the_kernel_knows() {
    let name = process_name(std::process::id());
    assert_eq!(name, trimmed("/proc/self/comm"));
    assert_eq!(process_name(u32::MAX), None);
}

/// A machine whose processor or hypervisor states these frequencies, Hz and kHz.
fn stating(leaf_15h_hz: Option<u64>, hypervisor_khz: Option<u32>) -> Machine {
    let cpuid = Some(Cpuid {
        leaf_15h_hz,
        hypervisor_khz,
        ..Cpuid::default()
    });
    Machine {
        cpuid,
        ..Machine::default()
    }
}

#[test]
fn the_nominal_frequency_is_the_hypervisors_or_else_the_processors() {
    let by_processor = Some(2_500_000_000);
    let by_hypervisor = Some(2_600_000);
    for (machine, nominal_hz) in [
        (stating(by_processor, by_hypervisor), Some(2_600_000_000)),
        (stating(by_processor, None), by_processor),
        (stating(None, None), None),
    ] {
        assert_eq!(machine.nominal_hz(), nominal_hz);
    }
}

/// Symptom: a guest of 2 GHz had the 5.6 GHz of its host as the nominal frequency.
#[test]
fn the_leaf_of_the_processor_says_nothing_in_a_guest() {
    let named = |hypervisor| Machine {
        hypervisor: Some(hypervisor),
        ..stating(Some(5_600_000_000), None)
    };
    assert_eq!(named(Hypervisor::Kvm).nominal_hz(), None);
    assert_eq!(named(Hypervisor::Gvisor).nominal_hz(), None);
    assert_eq!(
        named(Hypervisor::NoneNamed).nominal_hz(),
        Some(5_600_000_000)
    );
    let mut by_cpuid = stating(Some(5_600_000_000), None);
    by_cpuid.cpuid.as_mut().unwrap().hypervisor = Some(true);
    assert_eq!(by_cpuid.nominal_hz(), None);
}

/// Linux shows the same bits of CPUID (`arch/x86/include/asm/cpufeatures.h`).
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn cpuid_has_the_features_that_the_kernel_shows() {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap();
    let flags = cpuinfo.lines().find(|line| line.starts_with("flags"));
    let has = |flag| flags.map(|flags| flags.split_whitespace().any(|word| word == flag));
    let cpuid = machine().cpuid.unwrap();
    assert_eq!(cpuid.rdtscp, has("rdtscp"));
    assert_eq!(cpuid.hypervisor, has("hypervisor"));
    assert_eq!(cpuid.invariant_tsc, has("nonstop_tsc"));
}

/// The host's clock at this time, between these two of `CLOCK_MONOTONIC_RAW`.
fn host_moment(host_ns: i64, raw_ns: [i64; 2]) -> HostMoment {
    HostMoment {
        device: "/dev/ptp0".to_owned(),
        name: "KVM virtual PTP".to_owned(),
        host_ns,
        raw_ns,
    }
}

#[test]
fn the_rate_against_the_host_is_known_to_within_the_reads() {
    let first = host_moment(1_800_000_000_000_000_000, [1_000, 3_000]);
    let last = host_moment(1_800_000_001_000_000_000, [1_000_021_000, 1_000_025_000]);
    let rate = HostClock::between(&first, &last).expect("a rate");
    // From 2,000 to 1,000,023,000 ns in a second, within half of 2,000 and half of 4,000 ns.
    assert_eq!(rate.raw_rate_ppb, 21_000);
    assert_eq!(rate.uncertainty_ppb, 3_001);
    assert_eq!(rate.span_ns, 1_000_000_000);
}

#[test]
fn a_host_that_stands_still_or_steps_back_has_no_rate() {
    let first = host_moment(1_000, [0, 1]);
    for host_ns in [1_000, 999, i64::MIN] {
        let last = host_moment(host_ns, [10, 11]);
        assert_eq!(HostClock::between(&first, &last), None, "{host_ns}");
    }
}

#[test]
fn a_libc_is_known_by_its_whole_name() {
    for name in [
        "/lib/libc.so.6",
        "libc-2.31.so",
        "librt-2.5.so",
        "/lib/ld-musl-x86_64.so.1",
    ] {
        assert!(is_libc(name), "{name}");
    }
    for name in ["libc-offset.so", "librt-fake.so", "libfaketime.so.1"] {
        assert!(!is_libc(name), "{name}");
    }
}
