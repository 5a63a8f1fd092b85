//! What reads text: only the exact names mean something.
//!
//! The program's arguments are not here: they are parsed in a binary, which has no functions to
//! call from outside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickline_core::cpu_list::ids_in_list;
use tickline_core::gate::Clocksource;

/// Everything that means something, with what it means.
const CLOCKSOURCES: &[(&[u8], Clocksource)] = &[
    (b"tsc", Clocksource::Tsc),
    (b"tsc\n", Clocksource::Tsc),
    (b"tsc-early", Clocksource::TscEarly),
    (b"tsc-early\n", Clocksource::TscEarly),
    (b"arch_sys_counter", Clocksource::ArchSysCounter),
    (b"arch_sys_counter\n", Clocksource::ArchSysCounter),
    (b"riscv_clocksource", Clocksource::Riscv),
    (b"riscv_clocksource\n", Clocksource::Riscv),
    (b"kvm-clock", Clocksource::KvmClock),
    (b"kvm-clock\n", Clocksource::KvmClock),
    (b"hyperv_clocksource_tsc_page", Clocksource::HypervPage),
    (b"hyperv_clocksource_tsc_page\n", Clocksource::HypervPage),
    (b"xen", Clocksource::Xen),
    (b"xen\n", Clocksource::Xen),
    (b"hpet", Clocksource::Hpet),
    (b"hpet\n", Clocksource::Hpet),
    (b"acpi_pm", Clocksource::AcpiPm),
    (b"acpi_pm\n", Clocksource::AcpiPm),
    (b"jiffies", Clocksource::Jiffies),
    (b"jiffies\n", Clocksource::Jiffies),
    (b"refined-jiffies", Clocksource::Jiffies),
    (b"refined-jiffies\n", Clocksource::Jiffies),
    (b"", Clocksource::Unknown),
    (b"\n", Clocksource::Unknown),
];

fn meaning<T: Copy>(table: &[(&[u8], T)], text: &[u8], otherwise: T) -> T {
    table.iter().find(|(name, _)| *name == text).map_or(otherwise, |(_, meaning)| *meaning)
}

fn check_clocksource(text: &[u8]) {
    let expected = meaning(CLOCKSOURCES, text, Clocksource::Other);
    assert_eq!(Clocksource::from_name(text), expected, "{}", text.escape_ascii());
}

/// `tsc` is accepted if it is one of the words, and none before it is a timer.
fn check_list(text: &[u8]) {
    const TIMERS: [&[u8]; 4] = [b"hpet", b"acpi_pm", b"jiffies", b"refined-jiffies"];
    let words: Vec<&[u8]> = text.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty()).collect();
    let tsc = words.iter().position(|word| word == b"tsc");
    let timer = words.iter().position(|word| TIMERS.contains(word));
    let accepted = tsc.is_some_and(|tsc| timer.is_none_or(|timer| tsc < timer));
    let expected = (!words.is_empty()).then_some(accepted);
    assert_eq!(Clocksource::Tsc.is_accepted(text), expected, "{}", text.escape_ascii());
}

/// A list of CPUs that is understood names an id at its end, and nothing else is understood.
fn check_cpus(text: &[u8]) {
    if let Some(ids) = ids_in_list(text) {
        let largest = (ids - 1).to_string();
        assert!(ids > 0 && text.windows(largest.len()).any(|part| part == largest.as_bytes()));
        assert!(text.iter().all(|byte| byte.is_ascii_digit() || b",-\n".contains(byte)));
    }
}

/// `name` with one byte changed, added or taken out.
fn near_miss(name: &[u8], change: &[u8]) -> Vec<u8> {
    let mut text = name.to_vec();
    let &[place, byte, kind, ..] = change else { return text };
    let place = usize::from(place) % (text.len() + 1);
    match kind % 3 {
        0 => text.insert(place, byte),
        1 if place < text.len() => text[place] = byte,
        _ if place < text.len() => drop(text.remove(place)),
        _ => {}
    }
    text
}

fuzz_target!(|text: &[u8]| {
    check_clocksource(text);
    check_list(text);
    check_cpus(text);
    if let Some((&first, change)) = text.split_first() {
        check_clocksource(&near_miss(CLOCKSOURCES[usize::from(first) % CLOCKSOURCES.len()].0, change));
    }
});
