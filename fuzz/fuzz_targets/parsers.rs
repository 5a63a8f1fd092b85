//! What reads text: only the exact names mean something.
//!
//! The program's arguments are not here: they are parsed in a binary, which has no functions to
//! call from outside.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickline::cpu_list::ids_in_list;
use tickline_core::gate::Clocksource;

/// Everything that means something, with what it means; each may have a line break behind it.
const CLOCKSOURCES: [(&str, Clocksource); 12] = [
    ("tsc", Clocksource::Tsc),
    ("tsc-early", Clocksource::TscEarly),
    ("arch_sys_counter", Clocksource::ArchSysCounter),
    ("riscv_clocksource", Clocksource::Riscv),
    ("kvm-clock", Clocksource::KvmClock),
    ("hyperv_clocksource_tsc_page", Clocksource::HypervPage),
    ("xen", Clocksource::Xen),
    ("hpet", Clocksource::Hpet),
    ("acpi_pm", Clocksource::AcpiPm),
    ("jiffies", Clocksource::Jiffies),
    ("refined-jiffies", Clocksource::Jiffies),
    ("", Clocksource::Unknown),
];

fn check_clocksource(text: &[u8]) {
    let name = text.strip_suffix(b"\n").unwrap_or(text);
    let known = CLOCKSOURCES.iter().find(|(known, _)| known.as_bytes() == name);
    let expected = known.map_or(Clocksource::Other, |(_, clocksource)| *clocksource);
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
        let (name, _) = CLOCKSOURCES[usize::from(first) % CLOCKSOURCES.len()];
        check_clocksource(&near_miss(name.as_bytes(), change));
    }
});
