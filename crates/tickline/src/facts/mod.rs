//! Collectors of the facts that gates judge. They decide nothing, allocate nothing, and may run in a signal handler.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod cpu;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "cpu_other.rs"]
mod cpu;

#[cfg(target_os = "linux")]
pub(crate) use linux::{clocksource, counter_readable, environment};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{clocksource, counter_readable, environment};

use tickline_core::cell::{StateCell, Support};
use tickline_core::counter::{Counter, HardwareCounter, quantum_ticks};
use tickline_core::gate::{Clocksource, Cost, Facts, Switch};
use tickline_core::sample::Reference;

use crate::builder::Probes;
use crate::engine::Cell;
use crate::reference::OsClock;
use crate::status::Environment;

/// The counter of this target. Holding one does not mean that the process may read it: that is the gates' business.
pub(crate) const COUNTER: Option<HardwareCounter> = HardwareCounter::if_present();

/// What the processor offers for the cell.
pub(crate) fn cell_support() -> Support {
    cpu::cell_support()
}

/// Everything that the gates judge, for a `cell` with this `support` (asked once: CPUID is a trap under a hypervisor).
/// `disabled` says that the program has switched the counter off. Minimal `probes` ask the system nothing, and leave the
/// counter alone, since nobody has said that it may be read: the clocksource is unknown, which closes the kernel gate.
pub(crate) fn collect(disabled: bool, support: Support, cell: &Cell, probes: Probes) -> Facts {
    let full = probes == Probes::Full;
    let readable = !full || counter_readable();
    let measured = if full && readable {
        COUNTER.map(|counter| (measure_cost(&counter, support, cell), quantum_ticks(&counter)))
    } else {
        None
    };
    Facts {
        switch: match (disabled, environment()) {
            (true, _) => Switch::Disabled,
            (false, Environment::Off) => Switch::SwitchedOff,
            (false, _) => Switch::On,
        },
        counter_present: COUNTER.is_some(),
        cell: support,
        readable,
        invariant: cpu::invariant(),
        clocksource: if full { clocksource() } else { Clocksource::Unknown },
        counters_clocksource: HardwareCounter::CLOCKSOURCE,
        cost: measured.map(|(cost, _)| cost),
        quantum_ticks: measured.map(|(_, quantum)| quantum),
    }
}

/// Calls per round, and rounds, of a cost measurement: 16 calls are 0.1 to 12 us, so one interrupt spoils one round at
/// most, and the fastest of 5 counts.
const CALLS: u32 = 16;
const ROUNDS: u32 = 5;

fn measure_cost(counter: &HardwareCounter, support: Support, cell: &Cell) -> Cost {
    let guarded = support == Support::Guarded;
    let counter_ps = fastest_ps(|| {
        let ticks = counter.now();
        if guarded {
            // The slow path, which is all that a processor without atomic 16-byte loads has, looks twice.
            core::hint::black_box((cell.load_whole(), cell.load_whole()));
        }
        core::hint::black_box(ticks);
    });
    let os_ps = fastest_ps(|| {
        core::hint::black_box(OsClock.monotonic_ns());
    });
    Cost { counter_ps, os_ps }
}

/// Time of one call in the fastest round, ps; the OS clock's own cost is in both figures alike.
fn fastest_ps(call: impl Fn()) -> u64 {
    let mut fastest_ns = i64::MAX;
    for _ in 0..ROUNDS {
        let start_ns = OsClock.monotonic_ns();
        for _ in 0..CALLS {
            call();
        }
        fastest_ns = fastest_ns.min(OsClock.monotonic_ns().saturating_sub(start_ns));
    }
    u64::try_from(fastest_ns).unwrap_or(0).saturating_mul(1_000) / u64::from(CALLS)
}
