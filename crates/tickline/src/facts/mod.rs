//! Collectors of the facts that gates judge. They decide nothing, allocate nothing, and may run in a signal handler.

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

#[cfg(unix)]
pub(crate) use getenv::environment;
#[cfg(target_os = "linux")]
pub(crate) use linux::{clocksource, counter_readable, is_available, is_isolated};
#[cfg(not(target_os = "linux"))]
pub(crate) use other::{clocksource, counter_readable, is_available};
#[cfg(not(unix))]
pub(crate) use std_env::environment;

use core::sync::atomic::{AtomicU64, Ordering};

use tickline_core::cell::{Envelope, StateCell, Support};
use tickline_core::compare::Comparison;
use tickline_core::counter::{Counter, HardwareCounter, quantum_ticks};
use tickline_core::gate::{Clocksource, Cost, Facts, Hypervisor, Switch};
use tickline_core::line::{Line, Slope};
use tickline_core::sample::Reference;
use tickline_core::shared::Shared;
use tickline_core::word::{MAX_EXPONENT, Slot, Word};

use crate::builder::Probes;
use crate::engine::Cell;
use crate::policy::Policy;
use crate::reference::OsClock;
use crate::status::Environment;

/// The counter of this target. Holding one does not mean that the process may read it: that is the gates' business.
pub(crate) const COUNTER: Option<HardwareCounter> = HardwareCounter::if_present();

/// What the processor offers for the cell.
pub(crate) fn cell_support() -> Support {
    cpu::cell_support()
}

/// [`nominal_hz`], asked once: CPUID is a trap under a hypervisor.
static NOMINAL_HZ: AtomicU64 = AtomicU64::new(NOT_ASKED);
const NOT_ASKED: u64 = 0;
const NOT_NAMED: u64 = 1;

/// The counter's frequency as the processor, the firmware or the hypervisor names it, Hz.
pub(crate) fn nominal_hz() -> Option<u64> {
    // ORDERING: Relaxed for both, the figure is all there is, and the same whoever asks.
    let mut known = NOMINAL_HZ.load(Ordering::Relaxed);
    if known == NOT_ASKED {
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
pub(crate) struct Own {
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
    /// What the processor offers for the cell, asked once: CPUID is a trap under a hypervisor.
    pub(crate) support: Support,
}

/// Everything that the gates judge. Minimal probes ask the system nothing, and leave the counter alone, since nobody has said
/// that it may be read, unless it was read before, to compare the CPUs' counters.
pub(crate) fn collect(own: &Own) -> Facts {
    let full = own.probes == Probes::Full;
    let readable = !full || counter_readable();
    let compared = full || matches!(own.comparison, Comparison::InStep { .. } | Comparison::Apart(_));
    let measured = if readable && compared {
        COUNTER.map(|counter| (measure_cost(&counter, own.support), quantum_ticks(&counter)))
    } else {
        None
    };
    let counters_clocksource = HardwareCounter::CLOCKSOURCE;
    Facts {
        switch: match (own.disabled, environment()) {
            (true, _) => Switch::Disabled,
            (false, Environment::Off) => Switch::SwitchedOff,
            (false, _) => Switch::On,
        },
        trust: own.policy.trust,
        invariant_waived: own.policy.invariant_waived,
        counter_present: COUNTER.is_some(),
        cell: own.support,
        readable,
        invariant: cpu::invariant(),
        hypervisor: hypervisor(),
        clocksource: if full { clocksource() } else { Clocksource::Unknown },
        counters_clocksource,
        available: if full { is_available(counters_clocksource) } else { None },
        comparison: if compared { own.comparison } else { Comparison::Pending },
        line_per_cpu: own.line_per_cpu,
        cost: measured.map(|(cost, _)| cost),
        was_slow: own.was_slow,
        unix_was_slow: own.unix_was_slow,
        quantum_ticks: measured.map(|(_, quantum)| quantum),
    }
}

/// Calls per round, and rounds, of a cost measurement: 16 calls are 0.1 to 12 us, so one interrupt spoils one round at
/// most, and the fastest of 5 counts.
const CALLS: u32 = 16;
const ROUNDS: u32 = 5;

fn measure_cost(counter: &HardwareCounter, support: Support) -> Cost {
    #[cfg(test)]
    if let Some(cost) = played::COST.get() {
        return cost;
    }
    let counter_ps = if support == Support::Guarded {
        measure_guarded_ps(counter)
    } else {
        fastest_ps(|| {
            core::hint::black_box(counter.now());
        })
    };
    let os_ps = fastest_ps(|| {
        core::hint::black_box(OsClock.monotonic_ns());
    });
    let os_unix_ps = fastest_ps(|| {
        core::hint::black_box(OsClock.realtime_ns());
    });
    Cost { counter_ps, os_ps, os_unix_ps }
}

/// The slow path, which is all that a processor without atomic 16-byte loads has, on a line made up for it.
fn measure_guarded_ps(counter: &HardwareCounter) -> u64 {
    let probe = Shared::new(Cell::new());
    probe.cell.restrict(Support::Guarded);
    let ticks = counter.now();
    let line = Line { start_ticks: ticks, base_ns: 0, slope: Slope::from_bits(1) };
    let word = Word::live(ticks, MAX_EXPONENT, Slot::B, true);
    probe.cell.publish(probe.cell.load_whole(), word, &line, &Envelope::default());
    fastest_ps(|| {
        core::hint::black_box(probe.read_slow(counter, &OsClock));
    })
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
