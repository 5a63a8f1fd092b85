//! A clock on a machine without an operating system: `tickline-core`, a counter, a reference, and
//! a loop that drives it.
//!
//! `cargo xtask bare` builds this program, boots it under QEMU, and prints whether it passed. To
//! run it by hand, in this folder:
//!
//! ```sh
//! cargo build --release
//! qemu-system-x86_64 -nodefaults -no-reboot -display none -cpu max -serial stdio \
//!     -device isa-debug-exit,iobase=0xf4,iosize=4 -kernel target/x86_64-unknown-none/release/tickline-bare
//! ```
//!
//! | file | contents |
//! |---|---|
//! | `clocks.rs` | the counter (TSC), the reference (HPET), and the reason for this reference |
//! | `trust.rs` | whether the counter may be used: facts for the gates of `tickline-core` |
//! | `main.rs` | the clock, its driver, and the checks |
//! | `boot.rs`, `port.rs`, `link.ld` | the work that an operating system would otherwise do |

#![no_std]
#![no_main]

mod boot;
mod clocks;
mod port;
mod trust;

use core::panic::PanicInfo;

use clocks::{Hpet, TSC};
use port::End;
use tickline_core::cell::LineCell;
use tickline_core::control::{Config, Control};
use tickline_core::counter::resolution_ticks;
use tickline_core::reference::{Reference, ReferenceKind, Resolutions};
use tickline_core::shared::SharedClock;

/// The clock. Any code may read it, including interrupt handlers and other CPUs.
static CLOCK: SharedClock = SharedClock::new(LineCell::new());

/// The time between iterations in the steady state, ns. It is short, so that a run of seconds has
/// many iterations.
const INTERVAL_NS: u64 = 100_000_000;

const MS: i64 = 1_000_000;

/// The time, ns, from the counter if possible, otherwise from the HPET. It never decreases.
fn now_ns(hpet: &Hpet) -> i64 {
    CLOCK.readings().now_ordered_ns(&TSC, hpet)
}

/// The manual driver: makes an iteration when one is due.
struct Driver {
    control: Control,
    due_ns: i64,
}

impl Driver {
    fn serve(&mut self, hpet: &Hpet) {
        while now_ns(hpet) >= self.due_ns {
            let iteration = self.control.iterate(&CLOCK, &TSC, hpet);
            self.due_ns = now_ns(hpet) + i64::try_from(iteration.next_in_ns).unwrap_or(i64::MAX);
        }
    }
}

/// Counts of readings.
#[derive(Default)]
struct Counts {
    readings: u64,
    by_counter: u64,
    /// Readings that were smaller than the reading before.
    backward: u64,
    /// Readings whose bounds exclude the HPET's time before and after them.
    outside: u64,
    last_ns: i64,
}

impl Counts {
    /// Reads the clock between two reads of the reference.
    fn read(&mut self, hpet: &Hpet) {
        let before_ns = hpet.monotonic_ns();
        let bounds = CLOCK.readings().read_ordered_bounded(&TSC);
        let ns = bounds.map_or_else(|| now_ns(hpet), |reading| reading.ns);
        let after_ns = hpet.monotonic_ns() + hpet.resolution_ns();
        if let Some(reading) = bounds {
            let range = reading.monotonic_range();
            self.outside += u64::from(range.earliest_ns > after_ns || range.latest_ns < before_ns);
            self.by_counter += 1;
        }
        self.readings += 1;
        self.backward += u64::from(ns < self.last_ns);
        self.last_ns = ns;
    }

    /// Reads for `ms`, with or without a driver. Returns the number of readings by the counter.
    fn watch(&mut self, phase: &str, mut driver: Option<&mut Driver>, hpet: &Hpet, ms: i64) -> u64 {
        let (start_ns, by_counter) = (hpet.monotonic_ns(), self.by_counter);
        while hpet.monotonic_ns() - start_ns < ms * MS {
            if let Some(driver) = &mut driver {
                driver.serve(hpet);
            }
            self.read(hpet);
        }
        let readings = CLOCK.readings();
        say!(
            "{:>5} ms, {phase}: by the {}; last line {:?}, bounds {:?}",
            now_ns(hpet) / MS,
            if readings.read_ns(&TSC).is_some() {
                "TSC"
            } else {
                "HPET"
            },
            readings.figures().last_line,
            readings
                .read_ordered_bounded(&TSC)
                .map(|reading| reading.monotonic_range()),
        );
        self.by_counter - by_counter
    }
}

extern "C" fn main() -> ! {
    // SAFETY: the first 4 GiB are mapped, and nothing else runs here.
    let hpet = unsafe { Hpet::start() }.expect("an HPET with 64 bits at 0xfed00000, the reference");
    let counter_ticks = resolution_ticks(&TSC);
    let closed = trust::judge(counter_ticks);
    assert!(closed.is_none(), "the counter is not used: {closed:?}");
    let kind = ReferenceKind::Independent;
    let resolutions = Resolutions::new(counter_ticks, hpet.resolution_ns(), kind);
    say!(
        "TSC: moves by {counter_ticks} ticks; HPET: by {} ns",
        resolutions.reference_ns
    );

    let mut driver = Driver {
        control: Control::new(resolutions, Config::new(INTERVAL_NS)),
        due_ns: 0,
    };
    let mut counts = Counts::default();

    counts.watch("without a driver", None, &hpet, 20);
    // Wait for the first line.
    while CLOCK.readings().read_ns(&TSC).is_none() {
        driver.serve(&hpet);
    }
    let last_line = || CLOCK.readings().figures().last_line;
    let max_drift_ppb = || last_line().map(|line| line.max_drift_ppb);
    let first_max_drift_ppb = max_drift_ppb();
    let driven = counts.watch(
        "the driver comes when it is due",
        Some(&mut driver),
        &hpet,
        1_500,
    );
    let has_converged = max_drift_ppb() < first_max_drift_ppb;
    // The validity of a line is 4 intervals.
    counts.watch("the driver has stopped", None, &hpet, 1_000);
    let has_ended = CLOCK.readings().read_ns(&TSC).is_none();
    let driven_again = counts.watch("the driver is back", Some(&mut driver), &hpet, 500);

    let Counts {
        readings,
        by_counter,
        backward,
        outside,
        ..
    } = counts;
    say!(
        "{readings} readings, {by_counter} by the counter, {backward} backward, {outside} outside their bounds"
    );
    for (promise, holds) in [
        ("no reading is smaller than the one before", backward == 0),
        (
            "the reference is within the bounds of each reading",
            outside == 0,
        ),
        (
            "the clock converged: the maximum drift shrank",
            has_converged,
        ),
        ("the counter served", driven > 0),
        (
            "without a driver the line ended, and the reference served",
            has_ended,
        ),
        (
            "with the driver back, the counter served again",
            driven_again > 0,
        ),
    ] {
        assert!(holds, "this does not hold: {promise}");
        say!("passed: {promise}");
    }
    port::exit(End::Passed);
}

#[panic_handler]
fn panic(panic: &PanicInfo<'_>) -> ! {
    say!("{panic}");
    port::exit(End::Failed);
}
