//! Cases for both readers. A case has a page and the clocks' answers.

use std::array::from_fn;
use std::cell::Cell;
use std::mem::{offset_of, transmute};
use std::ops::Range;

use tickline_page::lease::{PageSource, ProcessHighWater, ReaderOs};
use tickline_page::{AttachError, BootContext, COUNTER_ID, Counter, Page, Reference};

/// 4096 bytes at a multiple of 64.
#[repr(C, align(64))]
struct Memory([Cell<u64>; 512]);

/// `struct input` of `c/compare.c`.
#[derive(Debug, Clone)]
#[repr(C)]
pub(crate) struct Case {
    page: [u64; 80],
    boot_id: [u8; 16],
    time_namespace: u64,
    knows_offset: u64,
    offset_ns: i64,
    counters: [u64; 8],
    os: [i64; 8],
    has_coarse: u64,
    coarse: i64,
    change_at: u64,
    new_word: u64,
    high_water_ns: i64,
    is_unix: u64,
    /// Whether the word changes at each answer of a clock, so that a reading gives up.
    pub(crate) changes_always: u64,
}

/// `struct output` of `c/compare.c`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(C)]
pub(crate) struct Output {
    pub(crate) refusal: i64,
    page_offset_ns: i64,
    ns: i64,
    /// 1 if the reading comes from the OS clock; 0 for a line, or no reading.
    pub(crate) source: i64,
    high_water_ns: i64,
    pub(crate) counter_reads: u64,
    pub(crate) os_reads: u64,
    pauses: u64,
}

impl Output {
    pub(crate) const BYTES: usize = size_of::<Self>();

    pub(crate) fn from_bytes(bytes: &[u8]) -> Self {
        let bytes: [u8; Self::BYTES] = bytes.try_into().expect("an output");
        // SAFETY: the struct consists of integers without padding, so any bytes are valid.
        unsafe { transmute(bytes) }
    }

    /// Checks that the reading did not wait too long, and is not below the OS clock that it read.
    pub(crate) fn judge(&self, case: &Case) {
        let Self {
            refusal,
            ns,
            source,
            high_water_ns,
            counter_reads,
            os_reads,
            pauses,
            ..
        } = *self;
        assert!(
            pauses <= 11 && counter_reads <= (1 << 17) + 64 && os_reads <= 65,
            "{case:?}: {self:?}"
        );
        assert!(
            refusal == 0 || counter_reads + os_reads == 0,
            "a page that does not count was read"
        );
        if source == 1 {
            // The reader compares monotonic times in the page's time. Unix time has no offset.
            let offset_ns = if case.is_unix == 0 {
                self.page_offset_ns
            } else {
                0
            };
            let os_ns = case.os[answer_index(os_reads - 1)];
            assert!(
                ns.wrapping_sub(offset_ns) >= os_ns.wrapping_sub(offset_ns),
                "{case:?}: {self:?}"
            );
            assert!(
                case.is_unix != 0 || high_water_ns >= ns.wrapping_sub(offset_ns),
                "{case:?}: {self:?}"
            );
        }
    }
}

/// The index of a clock's answer with this number: the eight answers repeat.
fn answer_index(number: u64) -> usize {
    usize::try_from(number % 8).expect("small")
}

const BOOT: [u8; 16] = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3];

impl Case {
    /// The number of bytes of the page; they come first.
    #[allow(dead_code, reason = "the fuzz target `page`")]
    pub(crate) const PAGE_BYTES: usize = offset_of!(Self, boot_id);

    /// The range of bytes that any clock may have: offset and answers.
    #[allow(dead_code, reason = "the fuzz target `page`")]
    pub(crate) const CLOCKS: Range<usize> =
        offset_of!(Self, knows_offset)..offset_of!(Self, has_coarse);

    pub(crate) fn random(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut page: [u64; 80] = from_fn(|_| random.u64(..));
        let near = random.u64(..);
        // Nearly all headers are valid.
        let header = [
            *b"tickline",
            *b"\x01\0\0\0\0\x10\0\0",
            BOOT[..8].try_into().unwrap(),
        ];
        page[..3].copy_from_slice(&header.map(u64::from_ne_bytes));
        page[3] = u64::from_ne_bytes(BOOT[8..].try_into().unwrap());
        page[4] = random.u64(..3);
        page[5] = COUNTER_ID;
        if random.u8(..4) > 0 {
            page[8] = page[8] & !7 | random.choice([1, 2, 3, 3, 3, 4]).unwrap();
        }
        if random.u8(..8) == 0 {
            page[random.usize(..6)] ^= 1 << random.u8(..64);
        }
        if random.u8(..4) > 0 {
            // Slots that hold lines, or end marks, near one tick and one time.
            for slot in page[16..].chunks_exact_mut(8) {
                slot[0] = near
                    .wrapping_add(random.u64(..1_000_000))
                    .wrapping_sub(500_000);
                slot[1] = random.u64(..1_000_000);
                slot[2] = if random.bool() {
                    1 << 48
                } else {
                    random.u64(..2_000_000)
                };
                slot[3] = slot[0].wrapping_add(random.u64(..1_000_000));
                slot[4] = random.u64(..2_000);
                slot[5] = if random.u8(..5) == 0 {
                    1 << 63
                } else {
                    random.u64(..1_000_000_000)
                };
                slot[6] = random.u64(..3_000);
            }
        }
        let mut tick = || match random.u8(..12) {
            0 => random.u64(..),
            _ => near
                .wrapping_add(random.u64(..2_000_000))
                .wrapping_sub(500_000),
        };
        let first = tick();
        let counters = match seed % 3 {
            0 => [first; 8],
            1 => from_fn(|_| first.wrapping_add(random.u64(..100))),
            _ => from_fn(|_| tick()),
        };
        Self {
            page,
            boot_id: BOOT,
            time_namespace: random.u64(..3),
            knows_offset: u64::from(random.u8(..3) > 0),
            offset_ns: random.i64(..) >> random.u8(..60),
            counters,
            os: from_fn(|_| {
                if random.u8(..20) == 0 {
                    random.i64(..)
                } else {
                    random.i64(..2_000_000)
                }
            }),
            has_coarse: random.u64(..2),
            coarse: random.i64(-100_000_000..100_000_000),
            change_at: random.u64(..12),
            new_word: random.u64(..),
            high_water_ns: if random.bool() {
                i64::MIN
            } else {
                random.i64(0..1_000_000)
            },
            is_unix: random.u64(..2),
            changes_always: u64::from(random.u8(..16) == 0),
        }
    }

    /// The case as the program in C reads it.
    pub(crate) fn to_bytes(&self) -> [u8; size_of::<Self>()] {
        // SAFETY: the struct consists of integers without padding.
        unsafe { transmute(self.clone()) }
    }

    /// The case with these bytes, which a fuzzer has changed.
    #[allow(dead_code, reason = "the fuzz target `page`")]
    pub(crate) fn from_bytes(bytes: [u8; size_of::<Self>()]) -> Self {
        // SAFETY: the struct consists of integers without padding, so any bytes are valid.
        unsafe { transmute(bytes) }
    }

    /// Runs the case with the reader in Rust.
    pub(crate) fn run(&self) -> Output {
        let memory = Memory(from_fn(|index| {
            Cell::new(self.page.get(index).copied().unwrap_or(0))
        }));
        // SAFETY: the memory is aligned, long enough, and alive until the end of this function.
        // Only this thread changes it, by whole words and between the reader's loads.
        let page = unsafe { Page::from_ptr(std::ptr::from_ref(&memory).cast()) };
        let context = BootContext {
            boot_id: self.boot_id,
            time_namespace: self.time_namespace,
            monotonic_offset_ns: (self.knows_offset != 0).then_some(self.offset_ns),
        };
        let high_water_ns = self.high_water_ns;
        let attached = match page.attach(&context) {
            Ok(attached) => attached,
            Err(error) => {
                return Output {
                    refusal: number(error),
                    high_water_ns,
                    ..Output::default()
                };
            }
        };
        let clocks = Clocks {
            case: self,
            memory: &memory,
            output: Cell::new(Output::default()),
        };
        let process_high_water = ProcessHighWater::new();
        process_high_water.raise(high_water_ns);
        let reading = match self.is_unix {
            0 => attached.monotonic(&clocks, &clocks, &process_high_water),
            _ => attached.unix(&clocks, &clocks, &process_high_water),
        };
        let (ns, source) = (reading.ns, i64::from(reading.source == PageSource::Os));
        Output {
            page_offset_ns: attached.page_offset_ns(),
            ns,
            source,
            high_water_ns: process_high_water.ns(),
            ..clocks.output.get()
        }
    }
}

fn number(error: AttachError) -> i64 {
    match error {
        AttachError::NotAPage => 1,
        AttachError::OtherVersion { .. } => 2,
        AttachError::OtherSize { .. } => 3,
        AttachError::OtherBoot { .. } => 4,
        AttachError::OtherCounter { .. } => 5,
        AttachError::OtherNamespace { .. } => 6,
        other => panic!("no number for {other}"),
    }
}

struct Clocks<'a> {
    case: &'a Case,
    memory: &'a Memory,
    output: Cell<Output>,
}

impl Clocks<'_> {
    /// Raises a counter of the output by 1, and returns its value from before.
    fn count(&self, counter: fn(&mut Output) -> &mut u64) -> u64 {
        let mut output = self.output.get();
        *counter(&mut output) += 1;
        self.output.set(output);
        *counter(&mut output) - 1
    }

    /// Changes the word, if it changes always.
    fn change(&self) {
        if self.case.changes_always != 0 {
            self.memory.0[8].update(|word| word.wrapping_add(1 << 10));
        }
    }
}

impl Counter for Clocks<'_> {
    fn now(&self) -> u64 {
        let number = self.count(|output| &mut output.counter_reads);
        if number == self.case.change_at {
            self.memory.0[8].set(self.case.new_word);
        }
        self.change();
        self.case.counters[answer_index(number)]
    }
    fn barrier(&self) {}
}

impl Reference for Clocks<'_> {
    fn monotonic_ns(&self) -> i64 {
        self.change();
        self.case.os[answer_index(self.count(|output| &mut output.os_reads))]
    }
    fn unix_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}

impl ReaderOs for Clocks<'_> {
    fn coarse_unix_ns(&self) -> Option<i64> {
        (self.case.has_coarse != 0).then_some(self.case.coarse)
    }
    fn pause(&self) {
        self.count(|output| &mut output.pauses);
    }
}
