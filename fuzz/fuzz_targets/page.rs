//! Any bytes as a page: a reading ends, waits no longer than it may, is not below the OS clock that
//! it asked, and a page that does not count is not read at all.
#![no_main]

use core::cell::Cell;

use libfuzzer_sys::fuzz_target;
use tickline_page::{COUNTER, Counter, Machine, OsClock, Page, PrivateFloor, Source};

const BOOT: [u8; 16] = *b"0123456789abcdef";

/// 4096 bytes at a multiple of 64.
#[repr(C, align(64))]
struct Memory([Cell<u64>; 512]);

/// Pauses after which an opening ends, and the phase that comes then. One that nobody ends takes
/// 1,000 times as long, and is for unit tests.
const PAUSES: u32 = 3;
const LIVE: u64 = 3;

/// Clocks that answer what the input says, over and over.
struct Clocks<'a> {
    answers: &'a [u8],
    place: Cell<usize>,
    asked: Cell<i64>,
    reads: Cell<u32>,
    pauses: Cell<u32>,
    memory: &'a Memory,
}

impl Clocks<'_> {
    fn answer(&self) -> u64 {
        self.reads.set(self.reads.get() + 1);
        let mut bytes = [0; 8];
        for byte in &mut bytes {
            let place = self.place.get();
            *byte = self.answers.get(place).copied().unwrap_or(0);
            self.place.set(if place + 1 < self.answers.len() { place + 1 } else { 0 });
        }
        u64::from_le_bytes(bytes)
    }
}

impl Counter for Clocks<'_> {
    fn now(&self) -> u64 {
        self.answer()
    }
    fn now_ordered(&self) -> u64 {
        self.answer()
    }
    fn barrier(&self) {}
}

impl OsClock for Clocks<'_> {
    fn monotonic_ns(&self) -> i64 {
        let ns = self.answer().cast_signed();
        self.asked.set(ns);
        ns
    }
    fn realtime_ns(&self) -> i64 {
        self.monotonic_ns()
    }
    fn coarse_realtime_ns(&self) -> Option<i64> {
        let ns = self.answer();
        (ns & 1 == 0).then(|| ns.cast_signed() >> 8)
    }
    fn pause(&self) {
        self.pauses.set(self.pauses.get() + 1);
        if self.pauses.get() % PAUSES == 0 {
            self.memory.0[8].set(self.answer() & !7 | LIVE);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let (answers, bytes) = rest.split_at(rest.len().min(64));
    let mut content = [0; 4096];
    let header_bytes = if how & 1 == 0 { 0 } else { 64 };
    for (to, from) in content[header_bytes..].iter_mut().zip(bytes) {
        *to = *from;
    }
    if header_bytes > 0 {
        // A header that counts; the rest is the input.
        content[..8].copy_from_slice(b"tickline");
        content[8..12].copy_from_slice(&1_u32.to_ne_bytes());
        content[12..16].copy_from_slice(&4096_u32.to_ne_bytes());
        content[16..32].copy_from_slice(&BOOT);
        content[32..40].copy_from_slice(&7_u64.to_ne_bytes());
        content[40..48].copy_from_slice(&COUNTER.to_ne_bytes());
    }
    let mut words = content.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight")));
    let memory = Memory(core::array::from_fn(|_| Cell::new(words.next().expect("512 words"))));
    // SAFETY: aligned, 4096 bytes, alive until the end of this function. One thread changes it, by
    // whole words and between the reader's loads.
    let page = unsafe { Page::at(core::ptr::from_ref(&memory).cast()) };
    let machine =
        Machine { boot_id: BOOT, time_namespace: 7, monotonic_offset_ns: (how & 2 == 0).then_some(5) };
    let zero = || Cell::new(0);
    let clocks = Clocks {
        answers,
        place: Cell::new(0),
        asked: Cell::new(0),
        reads: zero(),
        pauses: zero(),
        memory: &memory,
    };
    let private = PrivateFloor::new();
    let Ok(attached) = page.attach(&machine) else {
        assert_eq!(clocks.reads.get(), 0);
        assert!(header_bytes == 0, "this header counts");
        return;
    };
    assert!(content[..8] == *b"tickline" && content[16..32] == BOOT);
    let reading = attached.monotonic(&clocks, &clocks, &private);
    if reading.source == Source::Os && attached.shift_ns() == 0 {
        assert!(reading.ns >= clocks.asked.get(), "{reading:?} below {}", clocks.asked.get());
        assert!(private.ns() >= reading.ns);
    }
    let reading = attached.unix(&clocks, &clocks, &private);
    if reading.source == Source::Os {
        assert!(reading.ns >= clocks.asked.get());
    }
    assert!(clocks.reads.get() < 2 * ((1 << 17) + 4 * 64), "{}", clocks.reads.get());
    assert!(clocks.pauses.get() <= 2 * 11, "{}", clocks.pauses.get());
});
