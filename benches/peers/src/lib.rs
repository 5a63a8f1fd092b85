//! The six routines of `crates/tickline-criterion/benches/equal_builds.rs`, in the same words.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::hint::black_box;

/// The names, in the order of the functions below.
pub const ROUTINES: [&str; 6] = ["chain", "hash", "walk", "boxes", "texts", "lists"];

/// The steps of a routine: the number at the end of this program's name, or 100. Copies of one
/// program do different work by their names alone.
#[must_use]
pub fn steps() -> u64 {
    let program = std::env::current_exe().unwrap_or_default();
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    let number = name
        .rsplit_once('-')
        .and_then(|(_, number)| number.parse().ok());
    number.unwrap_or(100)
}

/// Multiplications in registers.
#[must_use]
pub fn chain(steps: u64) -> u64 {
    (0..steps).fold(black_box(3_u64), |value, _| {
        black_box(value.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 1)
    })
}

#[must_use]
pub fn hash(steps: u64) -> u64 {
    let mut hasher = DefaultHasher::new();
    (0..steps).for_each(|step| hasher.write_u64(step));
    hasher.finish()
}

/// What `walk` goes through.
#[must_use]
pub fn table() -> Vec<u16> {
    (0..1_024).map(|place| (place * 5 + 1) % 1_024).collect()
}

/// Loads, each of which needs the result of the load before.
#[must_use]
pub fn walk(table: &[u16], steps: u64) -> u16 {
    (0..steps).fold(0, |place, _| table[usize::from(place)])
}

#[must_use]
pub fn boxes(steps: u64) -> usize {
    let boxed = |step| Box::new([step; 6]);
    (0..steps)
        .filter(|step| black_box(boxed(*step))[5] > 7)
        .count()
}

#[must_use]
pub fn texts(steps: u64) -> usize {
    let text = |step: u64| format!("{step}.{}", step + 1);
    (0..steps).map(|step| black_box(text(step)).len()).sum()
}

#[must_use]
pub fn lists(steps: u64) -> usize {
    let list = |step: u64| -> Vec<Vec<u64>> { (0..3).map(|part| vec![step; 2 + part]).collect() };
    (0..steps).map(|step| black_box(list(step)).len()).sum()
}
