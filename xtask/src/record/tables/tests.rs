use super::super::samples::samples;
use super::*;

#[test]
fn the_table_of_clocks_shows_the_best_of_each_processor_whoever_it_is() {
    let rows = "\
| *bare instructions* | | | | | | | | | |
| rdtsc | 8.0 (1.00) | 16.0 (1.00) | 8.0 (1.00) | 16.0 (1.00) |  |  |  |  |  |
| *time in ns* | | | | | | | | | |
| tickline now_ns | 9.0 (1.12) | 17.0 (1.06) | 12.0 (1.29) | 17.0 (1.06) | 3.0 us | 0.7 ms | **-0.2** | **11 ns** | 3,000 |
| peer now | **8.6 (1.07)** | **16.6 (1.04)** | **8.6 (1.07)** | **16.6 (1.04)** |  |  | 1,702 | 3.2 ms | **< 0.1** |
";
    let table = clocks_block(&samples()).unwrap();
    assert!(table.ends_with(rows), "{table}");
    let head = "|  | AMD EPYC: tight loop, ns | AMD EPYC: awaited, ns | Intel Xeon: tight loop, ns |";
    assert!(table.starts_with(head) && table.contains("offset changed in 60 s"), "{table}");
}

#[test]
fn processors_of_one_name_differ_by_family_and_model() {
    let mut records = samples();
    records[1].json["processor"] = "AMD EPYC, family 25, model 1".into();
    let table = clocks_block(&records).unwrap();
    for part in ["| AMD EPYC, family 26, model 2: awaited", "| AMD EPYC, family 25, model 1: awaited"] {
        assert!(table.contains(part), "{part} in {table}");
    }
}

#[test]
fn the_other_blocks_say_what_the_records_say() {
    let [machines, tickline] = [machines_block, tickline_block].map(|block| block(&samples()).unwrap());
    for part in [
        "- AMD EPYC, family 26, model 2: 2 CPUs, hypervisor kvm, Linux 6.18,",
        "rustc 1.95.0;",
        "commit 0123456789:",
        "(record/2026-11-20-amd.json)",
        "- Intel Xeon, family 6, model 207, **taken before**: 2 CPUs",
        "(record/2026-11-21-intel.json)",
    ] {
        assert!(machines.contains(part), "{part} in {machines}");
    }
    for part in [
        "| 60 s each | AMD EPYC: thread driver | AMD EPYC: reader driver | Intel Xeon: thread driver |",
        "| offset from the bracket's middle, ns | -10 to +13, mean +0.4 | -10 to +13, mean +0.4 |",
        "| largest claimed bound to either side, ns | 25 | 25 | 35 | 25 |",
        "| CPU of the thread | 0.04 % of a core | no thread |",
        "|  | AMD EPYC | Intel Xeon |",
        "| 0 in 2.5 billion exchanges (bare counter: 678 thousand in 120 million) |",
        "| 190 us of steady use; the slowest call on the way takes 57 us |",
        "| 5.0 us (of 800 us) | 5.0 us (of 800 us) |",
        "| 220 ns / 321 / 1,051 |",
    ] {
        assert!(tickline.contains(part), "{part} in {tickline}");
    }
}

#[test]
fn a_machine_without_a_usable_counter_says_why_nothing_was_tried() {
    let mut records = samples();
    let record = &mut records[0].json;
    record["order"]["skipped"] = "no usable counter: not invariant".into();
    record["order"]["ordered"] = Value::Null;
    record["startup"]["clocks"][0]["counter_us"] = Value::Null;
    let tickline = tickline_block(&records).unwrap();
    assert!(tickline.contains("not tried: no usable counter: not invariant"), "{tickline}");
    assert!(tickline.contains("| not on this machine |"), "{tickline}");
}
