//! Runs the control loop and its readers on a machine that the input controls. Between any two
//! reads of a clock, the counter and the reference may jump anywhere, and a reader or `bar` may
//! interrupt the call. No call may panic or overflow, and every call must return.
//!
//! The target does not check order and bounds, because tickline promises neither on such a machine.
#![no_main]

use std::cell::{Cell, RefCell};

use libfuzzer_sys::fuzz_target;
use tickline_core::cell::{LineCell, StateCell};
use tickline_core::control::{Cadence, Config, Control, INTERVAL_RANGE_NS};
use tickline_core::counter::Counter;
use tickline_core::line::Slope;
use tickline_core::reference::{Reference, ReferenceKind, Resolutions};
use tickline_core::shared::SharedClock;
use tickline_core::state::WRAP_MASK;

/// The limit of reads of the machine's clocks in one call, including the calls that interrupt it.
/// An iteration of four attempts takes about 300.
const MAX_READS: u32 = 20_000;

/// After this many reads in one call, time passes faster and faster, so that a reader's wait ends.
const PATIENT_READS: u32 = 2_000;

/// The limit of calls in one input.
const MAX_CALLS: u32 = 400;
/// The limit of calls that interrupt each other.
const MAX_DEPTH: u32 = 2;

/// The input, byte by byte. Zeros follow its end.
struct Input(RefCell<std::vec::IntoIter<u8>>);

impl Input {
    fn is_empty(&self) -> bool {
        self.0.borrow().as_slice().is_empty()
    }

    fn byte(&self) -> u8 {
        self.0.borrow_mut().next().unwrap_or(0)
    }

    fn number(&self) -> u64 {
        u64::from_le_bytes(std::array::from_fn(|_| self.byte()))
    }

    /// A number of any size, from two bytes of input.
    fn power(&self) -> u64 {
        u64::from(self.byte()) << (self.byte() % 57)
    }
}

struct Machine<'a> {
    shared: &'a SharedClock,
    input: &'a Input,
    ticks: Cell<u64>,
    ns: Cell<i64>,
    unix_offset_ns: Cell<i64>,
    steering_ppb: Cell<Option<i64>>,
    /// The ticks that pass with each read.
    ticks_a_read: Cell<u64>,
    ns_a_read: Cell<i64>,
    /// The number of reads before the next disturbance.
    quiet_reads: Cell<u32>,
    /// The number of reads in this call.
    reads: Cell<u32>,
    /// The number of calls that this call interrupts.
    depth: Cell<u32>,
}

impl Machine<'_> {
    fn read(&self) {
        self.reads.set(self.reads.get() + 1);
        assert!(self.reads.get() <= MAX_READS, "a call does not return");
        if let Some(quiet_reads) = self.quiet_reads.get().checked_sub(1) {
            self.quiet_reads.set(quiet_reads);
        } else {
            self.disturb();
        }
        let haste = (self.reads.get().saturating_sub(PATIENT_READS) / 16).min(48);
        let ticks = self
            .ticks_a_read
            .get()
            .checked_shl(haste)
            .unwrap_or(u64::MAX >> 8);
        self.ticks.set(self.ticks.get().wrapping_add(ticks));
        self.ns
            .set(self.ns.get().wrapping_add(self.ns_a_read.get()));
    }

    /// Advances both clocks as this many reads would.
    fn pass(&self, reads: u64) {
        let ticks = self.ticks_a_read.get().wrapping_mul(reads);
        self.ticks.set(self.ticks.get().wrapping_add(ticks));
        let ns = self.ns_a_read.get().wrapping_mul(reads.cast_signed());
        self.ns.set(self.ns.get().wrapping_add(ns));
    }

    /// Disturbs the machine as the input says, or sets the number of quiet reads.
    fn disturb(&self) {
        let input = self.input;
        if input.is_empty() {
            return;
        }
        match input.byte() {
            reads @ 0..=127 => self.quiet_reads.set(u32::from(reads) * 8),
            // This thread pauses while both clocks go on.
            128..=143 => self.pass(input.power()),
            // One of the clocks jumps.
            144..=151 => self.ticks.set(self.ticks.get().wrapping_add(input.power())),
            152..=159 => self.ticks.set(self.ticks.get().wrapping_sub(input.power())),
            160..=163 => self.ticks.set(input.number()),
            // The counter jumps to a tick just before it wraps, or before the shifted ticks wrap.
            164..=165 => self
                .ticks
                .set((u64::MAX >> (input.byte() % 8)) - u64::from(input.byte())),
            166..=167 => self.ticks.set(input.byte().into()),
            168..=175 => self
                .ns
                .set(self.ns.get().wrapping_add(input.power().cast_signed())),
            176..=183 => self
                .ns
                .set(self.ns.get().wrapping_sub(input.power().cast_signed())),
            184..=187 => self.ns.set(input.number().cast_signed()),
            188..=189 => self.ns.set(i64::MAX - i64::from(input.byte())),
            190..=191 => self.ns.set(i64::MIN + i64::from(input.byte())),
            192..=195 => self.unix_offset_ns.set(input.number().cast_signed()),
            // A clock's rate changes.
            196..=203 => self.ticks_a_read.set(input.byte().into()),
            204..=207 => self.ticks_a_read.set(input.power()),
            208..=215 => self.ns_a_read.set(input.byte().cast_signed().into()),
            216..=217 => self.ns_a_read.set(input.number().cast_signed()),
            218..=219 => self.steering_ppb.set(Some(input.number().cast_signed())),
            220 => self.steering_ppb.set(None),
            // Another call interrupts this one.
            _ if self.depth.get() < MAX_DEPTH => {
                self.depth.set(self.depth.get() + 1);
                self.call();
                self.depth.set(self.depth.get() - 1);
            }
            _ => {}
        }
    }

    /// Makes a call that any thread may make at any time. The call must return.
    fn call(&self) {
        let readings = self.shared.readings();
        match self.input.byte() % 8 {
            0 => _ = readings.read_ns(&self),
            1 => _ = readings.read_ordered_ns(&self),
            2 => _ = readings.read_unix_ns(&self),
            3 => {
                _ = readings
                    .read_ordered_bounded(&self)
                    .map(|reading| reading.unix_range())
            }
            4 => {
                _ = readings
                    .read_ordered_bounded_while_valid(&self, &self)
                    .map(|reading| reading.unix_range())
            }
            5 => _ = self.shared.bar(&self, &self),
            6 => _ = self.shared.unbar(&self, &self),
            _ => _ = readings.read_ordered_in_any_state(&self, &self),
        }
    }
}

impl Counter for &Machine<'_> {
    fn now(&self) -> u64 {
        self.read();
        self.ticks.get()
    }
    fn barrier(&self) {}
}

impl Reference for &Machine<'_> {
    fn monotonic_ns(&self) -> i64 {
        self.read();
        self.ns.get()
    }
    fn unix_ns(&self) -> i64 {
        self.read();
        self.ns.get().wrapping_add(self.unix_offset_ns.get())
    }
    fn steering_ppb(&self) -> Option<i64> {
        self.steering_ppb.get()
    }
}

fn run(input: &Input) {
    let kind = input.byte();
    let shared = SharedClock::new(LineCell::new());
    let fraction = u64::from(input.byte());
    let (shortest, longest) = INTERVAL_RANGE_NS.into_inner();
    let interval_ns = shortest + (longest - shortest) / 255 * fraction;
    let extreme = kind & 4 != 0;
    let counter_ticks = if extreme {
        input.number()
    } else {
        input.byte().into()
    };
    let reference_ns = if extreme {
        input.number().cast_signed()
    } else {
        input.byte().into()
    };
    let reference_kind = if extreme || kind >> 7 == 0 {
        ReferenceKind::Independent
    } else {
        ReferenceKind::SameRead
    };
    let resolutions = Resolutions::new(counter_ticks, reference_ns, reference_kind);
    let mut control = Control::new(resolutions, Config::new(interval_ns));
    control.config.cadence = if kind & 2 != 0 {
        Cadence::Scheduled
    } else {
        Cadence::OnDemand
    };
    let machine = Machine {
        shared: &shared,
        input,
        ticks: Cell::new(input.number()),
        ns: Cell::new(input.number().cast_signed()),
        unix_offset_ns: Cell::new(0),
        steering_ppb: Cell::new(None),
        ticks_a_read: Cell::new(input.byte().into()),
        ns_a_read: Cell::new(input.byte().cast_signed().into()),
        quiet_reads: Cell::new(0),
        reads: Cell::new(0),
        depth: Cell::new(0),
    };
    for _ in 0..MAX_CALLS {
        if input.is_empty() {
            break;
        }
        machine.reads.set(0);
        match input.byte() {
            0..=99 => _ = control.iterate(&shared, &&machine, &&machine),
            // The loop runs, and the time until its next iteration passes.
            100..=149 => {
                let iteration = control.iterate(&shared, &&machine, &&machine);
                machine.pass(iteration.next_in_ns / machine.ns_a_read.get().unsigned_abs().max(1));
            }
            150..=199 => machine.disturb(),
            200..=203 => {
                control.config.cadence = if input.byte() & 1 != 0 {
                    Cadence::Scheduled
                } else {
                    Cadence::OnDemand
                };
            }
            _ => machine.call(),
        }
        let line = shared.cell().snapshot();
        let end_ticks = line.start_ticks.wrapping_add(2 * line.window_ticks);
        assert!(
            !line.state.is_published()
                || line.slope() > Slope::default()
                    && (line.start_ticks ^ end_ticks) & !WRAP_MASK == 0,
            "a line that stands still, or wraps"
        );
    }
}

fuzz_target!(|data: &[u8]| {
    run(&Input(RefCell::new(Vec::from(data).into_iter())));
});
