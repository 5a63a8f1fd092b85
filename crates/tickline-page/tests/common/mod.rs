//! Cases for both readers: a page, and clocks whose answers are written down.

use std::cell::Cell;

use tickline_page::{
    COUNTER, Counter, Machine, OsClock, Page, PrivateFloor, Reading, Refusal, Source, Timescale,
};

/// Numbers that look random.
#[derive(Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x1234_5678)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ (mixed >> 29)
    }

    /// Below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// 4096 bytes at a multiple of 64.
#[repr(C, align(64))]
struct Memory([Cell<u64>; 512]);

#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) page: [u64; 80],
    pub(crate) machine: Machine,
    pub(crate) counters: [u64; 8],
    pub(crate) os: [i64; 8],
    pub(crate) coarse: Option<i64>,
    pub(crate) change_at: u64,
    pub(crate) new_word: u64,
    /// Whether each answer of a clock finds another writer's word: what a reading gives up on.
    pub(crate) changes_always: bool,
    pub(crate) floor_ns: i64,
    pub(crate) timescale: Timescale,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Output {
    pub(crate) refusal: i64,
    pub(crate) shift_ns: i64,
    pub(crate) ns: i64,
    pub(crate) source: i64,
    pub(crate) floor_ns: i64,
    pub(crate) counter_reads: u64,
    pub(crate) os_reads: u64,
    pub(crate) pauses: u64,
}

impl Output {
    /// The `source` of a reading that asked the OS clock; 0 is a line, or no reading.
    pub(crate) const OS: i64 = 1;

    #[allow(dead_code, reason = "not every test has a program in C")]
    pub(crate) const BYTES: usize = 64;

    #[allow(dead_code, reason = "not every test has a program in C")]
    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight")));
        let mut next = || words.next().expect("eight words");
        Self {
            refusal: next().cast_signed(),
            shift_ns: next().cast_signed(),
            ns: next().cast_signed(),
            source: next().cast_signed(),
            floor_ns: next().cast_signed(),
            counter_reads: next(),
            os_reads: next(),
            pauses: next(),
        }
    }
}

const BOOT: [u8; 16] = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3];

impl Case {
    pub(crate) fn random(seed: u64) -> Self {
        let mut chance = Chance::new(seed);
        let mut page: [u64; 80] = std::array::from_fn(|_| chance.next());
        let near = chance.next();
        // A header that is right, nearly always.
        page[0] = u64::from_ne_bytes(*b"tickline");
        let halves: [[u8; 4]; 2] = [1_u32.to_ne_bytes(), 4096_u32.to_ne_bytes()];
        page[1] = u64::from_ne_bytes(halves.concat().try_into().expect("eight"));
        page[2] = u64::from_ne_bytes(BOOT[..8].try_into().expect("eight"));
        page[3] = u64::from_ne_bytes(BOOT[8..].try_into().expect("eight"));
        page[4] = chance.below(3);
        page[5] = COUNTER;
        if chance.below(4) > 0 {
            page[8] = page[8] & !7 | [1, 2, 3, 3, 3, 4][usize::try_from(chance.below(6)).expect("small")];
        }
        if chance.below(8) == 0 {
            let place = usize::try_from(chance.below(6)).expect("small");
            page[place] ^= 1 << chance.below(64);
        }
        if chance.below(4) > 0 {
            // Slots that hold lines, or floors, near one tick and one time.
            for slot in 0..8 {
                let words = &mut page[16 + 8 * slot..24 + 8 * slot];
                words[0] = near.wrapping_add(chance.below(1_000_000)).wrapping_sub(500_000);
                words[1] = chance.below(1_000_000);
                words[2] = if chance.below(2) == 0 { 1 << 48 } else { chance.below(2_000_000) };
                words[3] = words[0].wrapping_add(chance.below(1_000_000));
                words[4] = chance.below(2_000);
                words[5] = if chance.below(5) == 0 { 1 << 63 } else { chance.below(1_000_000_000) };
                words[6] = chance.below(3_000);
            }
        }
        let tick = |chance: &mut Chance| match chance.below(12) {
            0 => chance.next(),
            _ => near.wrapping_add(chance.below(2_000_000)).wrapping_sub(500_000),
        };
        let first = tick(&mut chance);
        let counters = std::array::from_fn(|_| match seed % 3 {
            0 => first,
            1 => first.wrapping_add(chance.below(100)),
            _ => tick(&mut chance),
        });
        let os = std::array::from_fn(|_| match chance.below(20) {
            0 => chance.next().cast_signed(),
            _ => chance.below(2_000_000).cast_signed(),
        });
        Self {
            page,
            machine: Machine {
                boot_id: BOOT,
                time_namespace: chance.below(3),
                monotonic_offset_ns: (chance.below(3) > 0)
                    .then(|| chance.next().cast_signed() >> chance.below(60)),
            },
            counters,
            os,
            coarse: (chance.below(2) == 0).then(|| chance.below(200_000_000).cast_signed() - 100_000_000),
            change_at: chance.below(12),
            new_word: chance.next(),
            floor_ns: if chance.below(2) == 0 { i64::MIN } else { chance.below(1_000_000).cast_signed() },
            timescale: if chance.below(2) == 0 { Timescale::Monotonic } else { Timescale::Unix },
            changes_always: chance.below(16) == 0,
        }
    }

    /// As the program in C reads it.
    #[allow(dead_code, reason = "not every test has a program in C")]
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let boot = self.machine.boot_id;
        let offset_ns = self.machine.monotonic_offset_ns;
        let words = self.page.into_iter();
        let mut bytes: Vec<u8> = words.flat_map(u64::to_ne_bytes).chain(boot).collect();
        let flag = u64::from;
        let rest =
            [self.machine.time_namespace, flag(offset_ns.is_some()), offset_ns.unwrap_or(0).cast_unsigned()];
        let os = self.os.map(|ns| ns.cast_unsigned());
        let coarse = [flag(self.coarse.is_some()), self.coarse.unwrap_or(0).cast_unsigned()];
        let is_unix = flag(self.timescale == Timescale::Unix);
        let last = [
            self.change_at,
            self.new_word,
            self.floor_ns.cast_unsigned(),
            is_unix,
            flag(self.changes_always),
        ];
        for part in [&rest[..], &self.counters, &os, &coarse, &last] {
            bytes.extend(part.iter().flat_map(|word| word.to_ne_bytes()));
        }
        bytes
    }

    /// What the reader in Rust makes of it.
    pub(crate) fn run(&self) -> Output {
        let memory =
            Memory(std::array::from_fn(|place| Cell::new(self.page.get(place).copied().unwrap_or(0))));
        let start = std::ptr::from_ref(&memory).cast::<u8>();
        // SAFETY: aligned and long enough, alive until the end of this function. One thread changes
        // it, by whole words and between the reader's loads.
        let page = unsafe { Page::at(start) };
        let attached = match page.attach(&self.machine) {
            Ok(attached) => attached,
            Err(refusal) => {
                return Output { refusal: number(refusal), floor_ns: self.floor_ns, ..Output::default() };
            }
        };
        let clocks = Clocks { case: self, memory: &memory, output: Cell::new(Output::default()) };
        let private = PrivateFloor::new();
        private.raise(self.floor_ns);
        let Reading { ns, source } = match self.timescale {
            Timescale::Monotonic => attached.monotonic(&clocks, &clocks, &private),
            Timescale::Unix => attached.unix(&clocks, &clocks, &private),
        };
        let source = if source == Source::Os { Output::OS } else { 0 };
        Output { shift_ns: attached.shift_ns(), ns, source, floor_ns: private.ns(), ..clocks.output.get() }
    }
}

fn number(refusal: Refusal) -> i64 {
    match refusal {
        Refusal::NotAPage => 1,
        Refusal::Version(_) => 2,
        Refusal::Size(_) => 3,
        Refusal::OtherBoot => 4,
        Refusal::OtherCounter(_) => 5,
        Refusal::OtherNamespace(_) => 6,
        other => panic!("no number for {other}"),
    }
}

struct Clocks<'a> {
    case: &'a Case,
    memory: &'a Memory,
    output: Cell<Output>,
}

impl Clocks<'_> {
    fn count(&self, change: fn(&mut Output) -> &mut u64) -> u64 {
        let mut output = self.output.get();
        let count = change(&mut output);
        *count += 1;
        let before = *count - 1;
        self.output.set(output);
        before
    }

    /// The word of the next generation.
    fn change(&self) {
        if self.case.changes_always {
            let word = &self.memory.0[8];
            word.set(word.get().wrapping_add(1 << 10));
        }
    }

    fn os(&self) -> i64 {
        self.change();
        self.case.os[usize::try_from(self.count(|output| &mut output.os_reads) % 8).expect("small")]
    }
}

impl Counter for Clocks<'_> {
    fn now(&self) -> u64 {
        let number = self.count(|output| &mut output.counter_reads);
        if number == self.case.change_at {
            self.memory.0[8].set(self.case.new_word);
        }
        self.change();
        self.case.counters[usize::try_from(number % 8).expect("small")]
    }
    fn now_ordered(&self) -> u64 {
        self.now()
    }
    fn barrier(&self) {}
}

impl OsClock for Clocks<'_> {
    fn monotonic_ns(&self) -> i64 {
        self.os()
    }
    fn realtime_ns(&self) -> i64 {
        self.os()
    }
    fn coarse_realtime_ns(&self) -> Option<i64> {
        self.case.coarse
    }
    fn pause(&self) {
        self.count(|output| &mut output.pauses);
    }
}
