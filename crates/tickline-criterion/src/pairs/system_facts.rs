//! Facts about disturbances of this thread, its CPU and the counter.
//!
//! A fact that the system does not provide is `None`, and disturbs no pair.

use std::fs;
use std::path::Path;

use tickline::{ClockState, Event, EventCounts};

use crate::measurement::incidents::DISTURBING;
use crate::measurement::session::Session;
use crate::measurement::time::CounterTime;
use crate::pairs::disturbance::Disturbance;

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as system;

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
use other as system;

pub(crate) use system::{bind_to_present_cpu, cpu, take_standard_streams};

/// A larger change of the frequency, %, disturbs pairs. `compare` finds a difference of this size
/// in a routine of 50 ns.
const FREQUENCY_CHANGE_PERCENT: u64 = 2;

/// The facts about a CPU and tickline's clock at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemFacts {
    pub(crate) cpu: Option<usize>,
    /// `None` if the OS clock measures.
    clock: Option<(EventCounts, ClockState)>,
    /// The time that the hypervisor gave to other guests, in units of `/proc/stat` (`USER_HZ`).
    stolen: Option<u64>,
    /// The frequency of the CPU's core, kHz.
    frequency_khz: Option<u64>,
}

impl SystemFacts {
    /// Reads the facts about `cpu`.
    pub(crate) fn read(cpu: Option<usize>, time: &CounterTime) -> Self {
        let clock = time.session().map(Session::clock_facts);
        let stolen = fs::read_to_string("/proc/stat")
            .ok()
            .and_then(|text| stolen_in(&text, cpu));
        Self {
            cpu,
            clock,
            stolen,
            frequency_khz: cpu.and_then(|cpu| frequency_khz(Path::new(CPUS), cpu)),
        }
    }

    /// Reads only the facts about tickline's clock.
    pub(crate) fn of_clock(time: &CounterTime) -> Self {
        Self {
            clock: time.session().map(Session::clock_facts),
            ..Self::default()
        }
    }

    /// The disturbance of all pairs since `earlier`, if there was one. Both are about one CPU.
    pub(crate) fn disturbed_since(&self, earlier: &Self) -> Option<Disturbance> {
        debug_assert_eq!(self.cpu, earlier.cpu);
        if let (Some((now, state)), Some((before, state_before))) = (self.clock, earlier.clock) {
            let happened = |event: &Event| now.get(*event) > before.get(*event);
            let event = DISTURBING.into_iter().find(happened).map(Event::code);
            let code = event.or_else(|| [state, state_before].into_iter().find_map(distrusted));
            if let Some(code) = code {
                return Some(Disturbance::Clock(code));
            }
        }
        if let (Some(now), Some(before)) = (self.stolen, earlier.stolen)
            && now > before
        {
            return Some(Disturbance::Stolen);
        }
        if let (Some(now), Some(before)) = (self.frequency_khz, earlier.frequency_khz)
            && now.abs_diff(before).saturating_mul(100)
                > before.saturating_mul(FREQUENCY_CHANGE_PERCENT)
        {
            return Some(Disturbance::Frequency);
        }
        None
    }
}

/// The code of a state in which the clock is not to be trusted as usual.
const fn distrusted(state: ClockState) -> Option<&'static str> {
    match state {
        ClockState::Fast => None,
        ClockState::Fallback(reason) => Some(reason.code()),
        other => Some(other.code()),
    }
}

/// The folder of the CPUs (`Documentation/ABI/testing/sysfs-devices-system-cpu` of Linux).
const CPUS: &str = "/sys/devices/system/cpu";

/// The frequency of a CPU's core, kHz.
fn frequency_khz(cpus: &Path, cpu: usize) -> Option<u64> {
    let path = cpus.join(format!("cpu{cpu}/cpufreq/scaling_cur_freq"));
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The time that the hypervisor took from `cpu`, or from all CPUs if the CPU is unknown, in units
/// of `USER_HZ`: the eighth number in the CPU's line of `/proc/stat`, or in the first line, which
/// is for all CPUs (proc_stat(5)).
fn stolen_in(text: &str, cpu: Option<usize>) -> Option<u64> {
    let name = cpu.map_or_else(|| "cpu".to_owned(), |cpu| format!("cpu{cpu}"));
    let mut fields = text.lines().map(str::split_whitespace);
    fields.find_map(|mut fields| (fields.next()? == name).then(|| fields.nth(7)?.parse().ok())?)
}

#[cfg(test)]
mod tests {
    use tickline::{Clock, Driver, Reason};
    use tickline_observe::skip;

    use super::*;

    fn clock() -> Clock {
        Clock::builder()
            .driver(Driver::Manual)
            .build()
            .expect("a clock")
    }

    fn known() -> SystemFacts {
        let clock = Some((clock().status().events, ClockState::Fast));
        SystemFacts {
            cpu: None,
            clock,
            stolen: Some(7),
            frequency_khz: Some(2_000_000),
        }
    }

    #[test]
    fn facts_that_are_unknown_disturb_nothing() {
        let unknown = SystemFacts::default();
        for (now, before) in [(unknown, known()), (known(), unknown), (known(), known())] {
            assert_eq!(now.disturbed_since(&before), None);
        }
    }

    #[test]
    fn one_stolen_tick_disturbs() {
        let now = SystemFacts {
            stolen: Some(8),
            ..known()
        };
        assert_eq!(now.disturbed_since(&known()), Some(Disturbance::Stolen));
    }

    /// The disturbance after the frequency has changed from 2 GHz.
    fn by_frequency(khz: u64) -> Option<Disturbance> {
        let now = SystemFacts {
            frequency_khz: Some(khz),
            ..known()
        };
        now.disturbed_since(&known())
    }

    #[test]
    fn two_percent_of_the_frequency_disturb_nothing() {
        assert_eq!([1_960_000, 2_040_000].map(by_frequency), [None; 2]);
    }

    #[test]
    fn more_than_two_percent_of_the_frequency_disturb() {
        let disturbance = Some(Disturbance::Frequency);
        assert_eq!([1_959_000, 2_041_000].map(by_frequency), [disturbance; 2]);
    }

    fn facts_of(clock: &Clock, state: ClockState) -> SystemFacts {
        SystemFacts {
            clock: Some((clock.status().events, state)),
            ..SystemFacts::default()
        }
    }

    #[test]
    fn a_gate_that_is_closed_at_either_end_disturbs() {
        let clock = clock();
        let open = facts_of(&clock, ClockState::Fast);
        let closed = facts_of(&clock, ClockState::Fallback(Reason::DisabledByProgram));
        for (now, before) in [(closed, open), (open, closed)] {
            let code = Reason::DisabledByProgram.code();
            assert_eq!(now.disturbed_since(&before), Some(Disturbance::Clock(code)));
        }
    }

    #[test]
    fn a_gate_that_closes_disturbs_a_pair() {
        let clock = clock();
        let before = facts_of(&clock, ClockState::Fast);
        clock.maintain();
        clock.disable();
        if clock.status().events.get(Event::GateClosed) == 0 {
            return skip("the counter does not serve here, so no gate closes");
        }
        assert_eq!(
            facts_of(&clock, ClockState::Fast).disturbed_since(&before),
            Some(Disturbance::Clock("gate_closed"))
        );
    }

    #[test]
    fn the_clock_has_facts_if_it_measures() {
        let time = CounterTime::builder().quiet().build_or_wall_time();
        let facts = SystemFacts::of_clock(&time);
        assert_eq!(facts.clock.is_some(), time.session().is_some());
    }

    #[test]
    fn the_frequency_is_read_for_the_cpu() {
        let folder = format!("tickline-cpus-{}", std::process::id());
        let cpus = std::env::temp_dir().join(folder);
        let of_cpu_3 = cpus.join("cpu3/cpufreq");
        fs::create_dir_all(&of_cpu_3).expect("a folder");
        fs::write(of_cpu_3.join("scaling_cur_freq"), "2400000\n").expect("a file");
        let found = [3, 4].map(|cpu| frequency_khz(&cpus, cpu));
        fs::remove_dir_all(&cpus).expect("an own folder");
        assert_eq!(found, [Some(2_400_000), None]);
    }

    #[test]
    fn stolen_time_is_read_for_the_cpu() {
        let text = "cpu  10 0 20 30 40 0 5 9 0 0\ncpu0 5 0 10 15 20 0 2 3 0 0\ncpu1 5 0 10 15 20 0 3 6 0 0\n\
                    cpu10 1 2 3 4\nintr 7\n";
        assert_eq!(stolen_in(text, None), Some(9));
        assert_eq!(stolen_in(text, Some(0)), Some(3));
        assert_eq!(stolen_in(text, Some(1)), Some(6));
        assert_eq!(stolen_in(text, Some(10)), None, "an old kernel");
        assert_eq!(stolen_in(text, Some(2)), None);
    }
}
