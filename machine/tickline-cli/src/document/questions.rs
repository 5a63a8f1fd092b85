//! What rules and texts ask about a document of this machine or of a recorded machine, beyond what
//! the facts alone answer (`machine/questions.rs`). A missing fact is unknown.

use tickline::Reason;

use super::Document;
use crate::clocksources::{is_counter, is_tick};
use crate::cpu_list::{self, ranges};
use crate::machine::Ntp;
use crate::machine::kernel_log::Cause;
use crate::measure::calls::{GETTIMEOFDAY, MONOTONIC, MONOTONIC_COARSE, REALTIME};
use crate::measure::costs::CostRow;
use crate::measure::served_by::ServedBy;
use crate::words::frequency;

/// The clocks from which programs read the precise time, the most frequent first.
const PRECISE: [&str; 3] = [MONOTONIC, REALTIME, GETTIMEOFDAY];

/// The vDSO's ordered counter read: the least cost of a clock that reads the counter.
const ORDERED: [&str; 3] = [
    "lfence; rdtsc",
    "dmb ishld; isb; cntvct_el0",
    "fence ir, ir; rdtime",
];

/// The bare counter read. A recorded machine may have another architecture than this program.
const BARE: [&str; 3] = ["rdtsc", "cntvct_el0", "rdtime"];

/// The largest plausible difference between two frequencies of the counter, ppm. Crystals are off
/// by at most 100 ppm, and hypervisors and firmware round to MHz.
pub(crate) const PLAUSIBLE_PPM: u64 = 5_000;

impl Document {
    pub(crate) fn cost_row(&self, clock: &str) -> Option<&CostRow> {
        self.costs.iter().find(|row| row.clock == clock)
    }

    pub(crate) fn cost_ns(&self, clock: &str) -> Option<f64> {
        self.cost_row(clock)?.cost_ns
    }

    /// The name and the cost, ns, of the bare read of the counter.
    pub(crate) fn bare_counter_read(&self) -> Option<(&'static str, f64)> {
        BARE.into_iter()
            .find_map(|name| Some((name, self.cost_ns(name)?)))
    }

    /// The first precise clock with a known answerer, and the answerer.
    pub(crate) fn precise_served_by(&self) -> Option<(&str, ServedBy)> {
        PRECISE
            .into_iter()
            .find_map(|clock| Some((clock, self.cost_row(clock)?.served_by?)))
    }

    /// Whether the vDSO answers a precise clock.
    pub(crate) fn is_answered_by_vdso(&self) -> bool {
        self.precise_served_by()
            .is_some_and(|(_, served_by)| served_by == ServedBy::Vdso)
    }

    /// The answerer of the coarse clock: the vDSO if the process uses it, whatever the clocksource.
    pub(crate) fn coarse_served_by(&self) -> Option<ServedBy> {
        self.cost_row(MONOTONIC_COARSE)?.served_by
    }

    /// The cost of a precise clock if the vDSO read the counter, ns. It is the cost of the coarse
    /// clock plus the cost of an ordered counter read, because the coarse clock does all the work
    /// of a precise clock except the read of the counter. Both costs were measured on the machine.
    pub(crate) fn attainable_cost_ns(&self) -> Option<f64> {
        if self.coarse_served_by() != Some(ServedBy::Vdso) {
            return None;
        }
        let counter_ns = ORDERED
            .into_iter()
            .find_map(|counter| self.cost_ns(counter))?;
        Some(self.cost_ns(MONOTONIC_COARSE)? + counter_ns)
    }

    /// The cost of the precise clock, ns.
    pub(crate) fn precise_cost_ns(&self) -> Option<f64> {
        PRECISE.into_iter().find_map(|clock| self.cost_ns(clock))
    }

    /// The present cost of a call, and its attainable cost, ns; `None` if a measurement error may
    /// explain the difference.
    pub(crate) fn avoidable_cost_ns(&self) -> Option<(f64, f64)> {
        /// The least ratio of two costs that counts.
        const DEARER: f64 = 1.5;
        let now_ns = self.precise_cost_ns()?;
        let then_ns = self.attainable_cost_ns()?;
        if now_ns <= DEARER * then_ns {
            return None;
        }
        Some((now_ns, then_ns))
    }

    /// Whether the kernel accepts the TSC, and no comparison has found unsynchronised counters.
    pub(crate) fn may_use_tsc(&self) -> bool {
        self.machine.accepts_tsc() == Some(true) && !self.are_unsynchronised()
    }

    /// The best clocksource on offer that the vDSO reads, except the TSC and the present
    /// clocksource.
    pub(crate) fn other_for_vdso(&self) -> Option<&'static str> {
        const READ: [&str; 4] = [
            "arch_sys_counter",
            "riscv_clocksource",
            "hyperv_clocksource_tsc_page",
            "kvm-clock",
        ];
        if self.are_unsynchronised() {
            return None;
        }
        let has_warp = self
            .machine
            .rejection()
            .is_some_and(|rejection| rejection.cause == Cause::Warp);
        READ.into_iter()
            .filter(|name| !(has_warp && is_counter(name)))
            .find(|name| {
                self.machine.lists_clocksource(name) && self.machine.clocksource() != Some(name)
            })
    }

    /// The counter's nominal frequency in the document, Hz, which may be that of another machine.
    /// Unlike `Machine::nominal_hz`, this asks no processor and no firmware. The hypervisor's word
    /// comes first. In a guest leaf 15h describes the host; older versions of the program recorded
    /// it all the same.
    pub(crate) fn recorded_nominal_hz(&self) -> Option<u64> {
        let recorded_hz = self.clock.nominal_frequency_hz;
        let Some(cpuid) = &self.machine.cpuid else {
            return recorded_hz;
        };
        if let Some(khz) = cpuid.hypervisor_khz {
            return Some(u64::from(khz) * 1_000);
        }
        if self.machine.is_guest() == Some(true) && cpuid.leaf_15h_hz.is_some() {
            return None;
        }
        recorded_hz
    }

    /// Why the kernel's clocks run at a wrong rate with the TSC, or would, by the kernel's log and
    /// the measured frequency, in words; `None` if nothing shows it.
    pub(crate) fn tsc_frequency_doubt(&self) -> Option<String> {
        if self.machine.clocksource().is_some_and(is_tick) {
            return None;
        }
        let measured_hz = self.clock.frequency_hz?;
        let measured = frequency(measured_hz);
        if let Some(hz) = self.machine.tsc_hz_by_kernel()
            && self.is_implausible(measured_hz, hz)
        {
            let hz = frequency(hz);
            return Some(format!(
                "the kernel's log gives the TSC {hz}; {measured} were measured against \
                 CLOCK_MONOTONIC"
            ));
        }
        let hz = self.machine.passed_over_tsc_hz()?;
        if self.recorded_nominal_hz().is_some() || !self.is_implausible(measured_hz, hz) {
            return None;
        }
        let hz = frequency(hz);
        Some(format!(
            "a calibration that the kernel passed over gives the TSC {hz}; {measured} were \
             measured against CLOCK_MONOTONIC"
        ))
    }

    /// Whether the measured frequency is too far from another.
    pub(crate) fn is_implausible(&self, measured_hz: u64, hz: u64) -> bool {
        // A fast slew of CLOCK_MONOTONIC changes the measured frequency. It is a finding of its
        // own.
        let rate_ppb = self.machine.ntp.as_ref().map_or(0, Ntp::rate_ppb);
        rate_ppb.unsigned_abs() / 1_000 <= PLAUSIBLE_PPM
            && hz.abs_diff(measured_hz) > hz / 1_000_000 * PLAUSIBLE_PPM
    }

    /// Whether the TSC may be good: neither CPUID nor a comparison of the CPUs says otherwise.
    pub(crate) fn may_have_good_tsc(&self) -> bool {
        self.machine.has_invariant_tsc() != Some(false) && !self.are_unsynchronised()
    }

    /// Whether the counters of all CPUs were compared and found synchronised.
    pub(crate) fn are_synchronised(&self) -> bool {
        let Some(online_cpus) = self.machine.online_cpus.as_deref() else {
            return false;
        };
        if self.are_unsynchronised() {
            return false;
        }
        // tickline's clock compares only the CPUs that its process may use.
        let count = match cpu_list::parse(online_cpus) {
            Ok(cpus) => u32::try_from(cpus.len()).ok(),
            Err(_) => None,
        };
        let by_clock = count.is_some() && count == self.machine.synchronised_cpus;
        let by_pairs = self.warp.as_ref().is_some_and(|warp| {
            warp.synchronised == Some(true) && ranges(&warp.cpus) == online_cpus
        });
        by_clock || by_pairs
    }

    /// Whether a comparison has found unsynchronised counters.
    pub(crate) fn are_unsynchronised(&self) -> bool {
        self.are_unsynchronised_by_clock() || self.unsynchronised_pairs().is_some()
    }

    /// Whether the comparison by tickline's clock has found unsynchronised counters.
    pub(crate) fn are_unsynchronised_by_clock(&self) -> bool {
        self.machine.counter_difference_ticks.is_some()
            || self.reason.as_deref() == Some(Reason::Unsynchronised.code())
    }

    /// The worst unsynchronised pair of CPUs that `warp` or `report` has found, in words.
    pub(crate) fn unsynchronised_pairs(&self) -> Option<String> {
        let warp = self.unsynchronised_warp_test()?;
        let found: Vec<_> = warp
            .pairs
            .iter()
            .filter(|pair| pair.synchronised == Some(false))
            .collect();
        let worst = found
            .iter()
            .max_by(|a, b| a.largest_warp_ns.total_cmp(&b.largest_warp_ns));
        Some(match worst {
            Some(worst) => format!(
                "CPU {} and CPU {} are unsynchronised by at least {:.0} ns (unsynchronised pairs: {} of {})",
                worst.from_cpu,
                worst.to_cpu,
                worst.largest_warp_ns,
                found.len(),
                warp.pairs.len()
            ),
            None => "a comparison of the CPUs' counters, pair by pair".to_owned(),
        })
    }

    /// The result of the comparisons of the counters, in words.
    pub(crate) fn counters_in_words(&self) -> String {
        if !self.are_unsynchronised_by_clock()
            && let Some(pairs) = self.unsynchronised_pairs()
        {
            return pairs;
        }
        self.machine.counters.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::warp::{WarpPair, WarpTest};

    /// A machine with two pairs of CPUs, of which `warp` has found one unsynchronised.
    fn unsynchronised() -> Document {
        let pair = |to_cpu, synchronised, largest_warp_ns| WarpPair {
            to_cpu,
            synchronised: Some(synchronised),
            largest_warp_ns,
            ..WarpPair::default()
        };
        let mut document = Document {
            warp: Some(WarpTest {
                synchronised: Some(false),
                pairs: vec![pair(1, true, 0.0), pair(2, false, 700.4)],
                ..WarpTest::default()
            }),
            ..Document::default()
        };
        document.machine.counters = "synchronised on 3 CPUs".to_owned();
        document
    }

    /// Otherwise the costs of this architecture would be asked for by a name that no document has.
    #[test]
    #[cfg(any(
        target_arch = "x86_64",
        target_arch = "aarch64",
        target_arch = "riscv64"
    ))]
    fn the_counter_of_this_architecture_is_asked_for_by_its_names() {
        use tickline_core::counter::HardwareCounter;
        assert!(BARE.contains(&HardwareCounter::NAME));
        assert!(ORDERED.contains(&HardwareCounter::NAME_ORDERED));
    }

    #[test]
    fn the_worst_pair_is_told_where_the_clock_has_found_none() {
        assert_eq!(
            unsynchronised().counters_in_words(),
            "CPU 0 and CPU 2 are unsynchronised by at least 700 ns (unsynchronised pairs: 1 of 2)"
        );
    }

    #[test]
    fn what_the_clock_has_found_comes_first() {
        let mut document = unsynchronised();
        document.machine.counter_difference_ticks = Some(900);
        assert_eq!(document.counters_in_words(), "synchronised on 3 CPUs");
    }

    #[test]
    fn without_a_comparison_by_pairs_the_clocks_is_told() {
        let mut document = unsynchronised();
        document.warp = None;
        assert_eq!(document.counters_in_words(), "synchronised on 3 CPUs");
    }
}
