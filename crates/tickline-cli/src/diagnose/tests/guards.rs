//! Fixes that must not be recommended, or only under a condition.

use super::*;

#[test]
fn unsynchronised_counters_are_never_recommended() {
    let offers = [json!("tsc hpet"), json!("hpet"), Value::Null];
    for (source, offered) in
        ["hpet", "xen", "kvm-clock"].iter().flat_map(|name| offers.iter().map(move |offer| (name, offer)))
    {
        let found = findings(&[
            (SERVED, json!("system_call")),
            ("/machine", {
                let mut machine = good()["machine"].clone();
                machine["clocksource"] = json!(source);
                machine["available_clocksources"] = offered.clone();
                machine["counter_difference_ticks"] = json!(5_000);
                machine
            }),
        ]);
        assert!(found.iter().any(|finding| finding.code == "counters_unsynchronised"), "{source}");
        for finding in &found {
            assert!(
                !finding.fix.contains("echo tsc") && !finding.fix.contains("tsc=reliable"),
                "{finding:?}"
            );
        }
    }
}

/// Unsynchronised counters that `tickline warp` or the report has found, while the clock's own
/// comparison was not made, or did not find them.
fn with_pairs(synchronised: bool, changes: &[(&str, Value)]) -> Vec<Finding> {
    let mut facts = good();
    for (path, value) in changes {
        *facts.pointer_mut(path).expect("a path") = value.clone();
    }
    let pair = |to_cpu: u32, unsynchronised: bool| {
        json!({ "from_cpu": 0, "to_cpu": to_cpu, "exchanges": 5_000, "warps": 7, "synchronised": !unsynchronised,
            "largest_warp_ns": if unsynchronised { 3_900 } else { 0 }, "offset_least_ns": -4_000, "offset_most_ns": -3_900 })
    };
    facts["machine"]["online_cpus"] = json!("0-2");
    facts["warp"] = json!({ "cpus": [0, 1, 2], "pattern": "star", "frequency_hz": 2e9, "resolution_ns": 0.5, "synchronised": synchronised,
        "unknown": null, "largest_warp_ns": 3_900, "pairs": [pair(1, false), pair(2, !synchronised)] });
    diagnose(&serde_json::from_value(facts).unwrap())
}

#[test]
fn unsynchronised_pairs_are_found() {
    let found = &with_pairs(false, &[])[0];
    assert_eq!((found.code, found.severity), ("counters_unsynchronised", Severity::Wrong));
    let expected = ["CPU 0 and CPU 2 are unsynchronised by at least 3900 ns (unsynchronised pairs: 1 of 2)"];
    assert_eq!(found.evidence, expected, "not the result of the clock's own comparison");
    assert!(with_pairs(true, &[]).is_empty());
    let by_call = (SERVED, json!("system_call"));
    for source in ["hpet", "xen", "kvm-clock"] {
        let found = with_pairs(false, &[by_call.clone(), (SOURCE, json!(source))]);
        assert!(found.iter().any(|finding| finding.code == "counters_unsynchronised"), "{source}");
        assert!(found.iter().all(|finding| !finding.fix.contains("echo tsc")), "{found:?}");
    }
    let unseen = [by_call, (SOURCE, json!("xen")), (COUNTERS, json!("not compared"))];
    assert!(
        with_pairs(true, &unseen)[0].fix.starts_with("echo tsc"),
        "another comparison than the clock's counts, too"
    );
}

#[test]
fn a_kernel_with_unsynchronised_counters_should_use_another_clocksource() {
    let mut machine = good()["machine"].clone();
    machine["counter_difference_ticks"] = json!(5_000);
    machine["kernel_command_line"] = json!("tsc=reliable");
    let found = &findings(&[("/machine", machine)])[0];
    assert_eq!((found.code, found.severity), ("counters_unsynchronised", Severity::Wrong));
    assert!(found.fix.starts_with("echo hpet | sudo tee"), "{found:?}");
    assert!(found.evidence.iter().any(|seen| seen.contains("tsc=reliable")), "{found:?}");
}

/// Without `clocksource=tsc` on the command line the kernel may still choose the TSC, and
/// Hyper-V's page uses the same counters.
#[test]
fn what_is_recommended_instead_of_the_counters_is_something_else_and_stays() {
    for (source, offered, other) in [
        ("tsc", "tsc hyperv_clocksource_tsc_page hpet", Some("hpet")),
        ("arch_sys_counter", "arch_sys_counter timer", Some("timer")),
        ("arch_sys_counter", "arch_sys_counter", None),
    ] {
        let mut machine = good()["machine"].clone();
        machine["counter_difference_ticks"] = json!(5_000);
        machine["clocksource"] = json!(source);
        machine["available_clocksources"] = json!(offered);
        machine["kernel_command_line"] = json!(format!("clocksource={source}"));
        let found = &findings(&[("/machine", machine)])[0];
        assert_eq!((found.code, found.severity), ("counters_unsynchronised", Severity::Wrong), "{source}");
        match other {
            Some(other) => assert!(
                found.fix.starts_with(&format!("echo {other} | "))
                    && found.fix.contains(&format!(
                        "boot with clocksource={other} instead of `clocksource={source}`"
                    )),
                "{found:?}"
            ),
            None => assert!(!found.fix.contains("echo"), "{found:?}"),
        }
    }
}

/// A TSC that is not invariant changes its rate with the processor's, so the kernel's doubts are
/// right.
#[test]
fn a_tsc_that_is_not_invariant_is_never_recommended() {
    for reason in ["cpufreq changes", "clocksource watchdog", "TSCs unsynchronized"] {
        for hypervisor in ["none", "kvm", "tcg"] {
            let mut machine = rejected(json!([format!("tsc: Marking TSC unstable due to {reason}")]));
            machine.push((HYPERVISOR, json!(hypervisor)));
            machine.push(("/machine/cpuid/invariant_tsc", json!(false)));
            for found in findings(&machine) {
                assert!(!found.fix.contains("tsc=reliable"), "{found:?}");
            }
        }
    }
    // The kernel accepts it all the same.
    for source in ["hpet", "kvm-clock", "xen", "hyperv_clocksource_msr"] {
        for hypervisor in ["none", "kvm", "xen", "hyper_v"] {
            let found = &findings(&[
                (SERVED, json!("system_call")),
                (SOURCE, json!(source)),
                (OFFERED, json!(format!("tsc {source}"))),
                (HYPERVISOR, json!(hypervisor)),
                ("/machine/cpuid/invariant_tsc", json!(false)),
            ])[0];
            assert_eq!(found.severity, Severity::Slow, "{found:?}");
            match found.fix.split_once("echo tsc") {
                None => assert!(hypervisor == "none" && found.fix.starts_with("none: "), "{found:?}"),
                Some((before, _)) => {
                    let conditional =
                        before.contains("or, as CPUID does not call the TSC invariant, only where");
                    assert!(before.starts_with("on the host: ") && conditional, "{found:?}");
                }
            }
        }
    }
}

/// kvm-clock and xen without the vDSO: nothing but a comparison shows that the counters of all
/// CPUs agree.
#[test]
fn a_host_without_a_guarantee_is_no_evidence() {
    for source in ["kvm-clock", "xen"] {
        let fix = |counters: &str| {
            let machine =
                [(SERVED, json!("system_call")), (SOURCE, json!(source)), (COUNTERS, json!(counters))];
            findings(&machine).remove(0).fix
        };
        assert!(fix("synchronised on 8 CPUs").starts_with("echo tsc"), "{source}");
        let unseen = fix("not compared by this program");
        let (before, _) = unseen.split_once("echo tsc").expect("it is on offer");
        assert!(before.contains("that `tickline warp` finds the counters synchronised"), "{unseen}");
    }
    let hpet = [(SERVED, json!("system_call")), (SOURCE, json!("hpet")), (COUNTERS, json!("not compared"))];
    assert!(findings(&hpet)[0].fix.starts_with("echo tsc"), "the kernel itself accepts it");
}

/// A finding promised a gain although it had no fix.
#[test]
fn where_there_is_no_fix_nothing_is_gained() {
    let cost = |machine: &[(&'static str, Value)]| {
        findings(&[machine, &[("/costs/2/cost_ns", json!(700.0))]].concat()).remove(0)
    };
    let unsynchronised = |source: &str| {
        let mut machine = good()["machine"].clone();
        machine["clocksource"] = json!(source);
        machine["counter_difference_ticks"] = json!(5_000);
        let slow = (SERVED, json!("system_call"));
        let found = findings(&[("/machine", machine), slow, ("/costs/2/cost_ns", json!(700.0))]);
        found.into_iter().find(|finding| finding.severity == Severity::Slow).expect("it is slow")
    };
    let not_invariant = |log: Value| {
        let mut machine = rejected(log);
        machine.push(("/machine/cpuid/invariant_tsc", json!(false)));
        cost(&machine)
    };
    let unstable = json!(["tsc: Marking TSC unstable due to cpufreq changes"]);
    for found in [
        unsynchronised("hpet"),
        unsynchronised("xen"),
        not_invariant(unstable.clone()),
        not_invariant(json!([])),
        not_invariant(Value::Null),
    ] {
        assert!(found.fix.starts_with("none: "), "{found:?}");
        assert_eq!(found.gain_ratio, None, "{found:?}");
        assert!(found.evidence.iter().any(|seen| seen.contains("700")), "what it costs is said: {found:?}");
    }
    assert!(cost(&rejected(unstable)).gain_ratio.is_some());
}

/// The administrator may have had reasons for the parameter.
#[test]
fn a_word_against_the_tsc_stays_where_the_tsc_is_bad() {
    for word in ["notsc", "tsc=unstable"] {
        let machine = |changes: &[(&'static str, Value)]| {
            let mut machine = rejected(json!([]));
            machine.push((LINE, json!(format!("quiet {word}"))));
            machine.extend_from_slice(changes);
            machine
        };
        let take_off = format!("take `{word}` off");
        assert!(findings(&machine(&[]))[0].fix.contains(&take_off));
        let variable = machine(&[("/machine/cpuid/invariant_tsc", json!(false))]);
        let unsynchronised = machine(&[("/machine/counter_difference_ticks", json!(5_000))]);
        for bad in [variable, unsynchronised] {
            assert!(findings(&bad).iter().all(|finding| !finding.fix.contains(&take_off)), "{bad:?}");
        }
    }
}

/// On Xen the fix overruled a kernel that had measured a skew of the TSC.
#[test]
fn xen_is_no_reason_to_overrule_the_kernel() {
    let skew = "clocksource:                       'tsc' skewed 436888 ns (0 ms) over watchdog 'xen'";
    let line = skew.replace("'tsc'", "Clocksource 'tsc'");
    let xen = |offered: Value, log: Value| {
        let changes =
            [(SERVED, json!("system_call")), (SOURCE, json!("xen")), (OFFERED, offered), (LOG, log)];
        findings(&changes).swap_remove(0)
    };
    let found = xen(json!("xen"), json!([line]));
    assert_eq!(found.code, "xen_clocksource");
    assert!(found.evidence.contains(&line) && found.fix.starts_with("the kernel may be right"), "{found:?}");
    // It is unknown whether the kernel has rejected the TSC.
    let found = xen(Value::Null, Value::Null);
    assert!(
        found.fix.starts_with("see what it would accept") && !found.fix.contains("tsc=reliable"),
        "{found:?}"
    );
    assert!(xen(json!("xen"), json!([])).fix.contains("tsc=reliable"));
}

/// In the vDSO, kvm-clock and xen use one CPU's parameters on all CPUs, so threads see time step
/// back. The program reported no fault.
#[test]
fn a_paravirtual_clock_on_unsynchronised_counters_is_wrong_in_the_vdso() {
    for source in ["kvm-clock", "xen"] {
        let offered = (OFFERED, json!(format!("{source} tsc acpi_pm")));
        let found = &with_pairs(false, &[(SOURCE, json!(source)), offered.clone()])[0];
        assert_eq!((found.code, found.severity), ("counters_unsynchronised", Severity::Wrong), "{source}");
        assert!(found.fix.starts_with("echo acpi_pm"), "{found:?}");
        // The kernel uses each CPU's own parameters.
        let by_call = [(SERVED, json!("system_call")), (SOURCE, json!(source)), offered];
        let found = with_pairs(false, &by_call);
        let finding =
            found.iter().find(|finding| finding.code == "counters_unsynchronised").expect("it is found");
        assert_eq!(finding.severity, Severity::Note, "{source}");
    }
}

/// The advice to switch the clock of 64 CPUs rested on a comparison of 2 of them.
#[test]
fn some_cpus_do_not_speak_for_all() {
    let condition = "that `tickline warp` finds the counters synchronised";
    for (online, is_known) in [("0-7", true), ("0-63", false)] {
        let found = findings(&[
            (SERVED, json!("system_call")),
            (SOURCE, json!("kvm-clock")),
            ("/machine/online_cpus", json!(online)),
        ]);
        assert_eq!(found[0].fix.starts_with("echo tsc"), is_known, "{found:?}");
        assert_eq!(found[0].fix.contains(condition), !is_known, "{found:?}");
    }
}
