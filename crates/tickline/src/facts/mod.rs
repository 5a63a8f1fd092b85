//! Collectors of the facts that gates judge. They decide nothing, allocate nothing, and may run in a signal handler.

mod collector;
#[cfg(unix)]
mod getenv;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(unix))]
mod std_env;

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod cpu;
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
#[path = "cpu_other.rs"]
mod cpu;

pub(crate) use collector::Collector;
#[cfg(unix)]
pub(crate) use getenv::environment;
#[cfg(target_os = "linux")]
pub(crate) use linux::{clocksource, counter_readable, find_clocksource, is_available, is_isolated};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{clocksource, counter_readable, find_clocksource, is_available};
#[cfg(not(unix))]
pub(crate) use std_env::environment;

use core::sync::atomic::{AtomicU64, Ordering};

use tickline_core::compare::Comparison;
use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::gate::{Cost, Facts, Hypervisor};
use tickline_core::sample::Reference;

use crate::builder::Probes;
use crate::policy::Policy;
use crate::reference::OsClock;

/// The counter of this target. Holding one does not mean that the process may read it: that is the gates' business.
pub(crate) const COUNTER: Option<HardwareCounter> = HardwareCounter::if_present();

/// [`nominal_hz`], asked once.
static NOMINAL_HZ: AtomicU64 = AtomicU64::new(NOT_ASKED);
const NOT_ASKED: u64 = 0;
const NOT_NAMED: u64 = 1;

/// The counter's frequency as the processor, the firmware or the hypervisor names it, Hz. Minimal probes may not find out
/// whether a register may be read.
pub(crate) fn nominal_hz(probes: Probes) -> Option<u64> {
    // ORDERING: Relaxed for both, the figure is all there is, and the same whoever asks.
    let mut known = NOMINAL_HZ.load(Ordering::Relaxed);
    if known == NOT_ASKED {
        if cpu::NAMED_BESIDE_THE_COUNTER && (probes == Probes::Minimal || !counter_readable()) {
            return None;
        }
        known = cpu::nominal_hz().unwrap_or(NOT_NAMED);
        // ORDERING: as above.
        NOMINAL_HZ.store(known, Ordering::Relaxed);
    }
    Some(known).filter(|hz| *hz > NOT_NAMED)
}

/// Who runs the machine.
pub(crate) fn hypervisor() -> Hypervisor {
    cpu::hypervisor()
}

/// What the clock itself contributes to the facts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OsClockFacts {
    /// Whether the program has switched the counter off.
    pub(crate) disabled: bool,
    pub(crate) probes: Probes,
    pub(crate) policy: Policy,
    pub(crate) comparison: Comparison,
    /// Whether each CPU has a line of its own.
    pub(crate) line_per_cpu: bool,
    /// Whether the counter was found too slow before, for monotonic and for Unix time.
    pub(crate) was_slow: bool,
    pub(crate) unix_was_slow: bool,
}

/// Everything that the gates judge, in one go.
pub(crate) fn collect(own: &OsClockFacts) -> Facts {
    Collector::new().finish(own)
}

/// Calls per round, and iterations, of a cost measurement: 16 calls are 0.1 to 12 us, so one interrupt spoils one iteration at
/// most, and the fastest of 5 counts.
const CALLS: u32 = 16;
const ROUNDS: u32 = 5;

fn measure_cost(counter: &HardwareCounter) -> Cost {
    #[cfg(test)]
    if let Some(cost) = played::COST.get() {
        return cost;
    }
    let counter_ps = fastest_ps(|| {
        core::hint::black_box(counter.now());
    });
    let os_ps = fastest_ps(|| {
        core::hint::black_box(OsClock.monotonic_ns());
    });
    let os_unix_ps = fastest_ps(|| {
        core::hint::black_box(OsClock.realtime_ns());
    });
    Cost { counter_ps, os_ps, os_unix_ps }
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

/// Costs that a test plays, for judgements in its own thread.
#[cfg(test)]
pub(crate) mod played {
    use core::cell::Cell;

    use tickline_core::gate::Cost;

    std::thread_local! {
        pub(crate) static COST: Cell<Option<Cost>> = const { Cell::new(None) };
    }
}
