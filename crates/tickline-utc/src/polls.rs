//! The thread of a [`Utc`](crate::Utc): its requests to the sources; and the readings that need the
//! OS.

use core::time::Duration;

use tickline::backend::OsClock;
use tickline::background::{StoppableSleep, WakeCause};
use tickline::{CounterComparison, Probes, Status};
use tickline_core::clocksource::Clocksource;
use tickline_core::comparison::MAX_DIFFERENCE_NS;
use tickline_core::counter::{HardwareCounter, resolution_ticks};
use tickline_core::reference::Reference;

use crate::claim_maker::ClaimMaker;
use crate::latch::{ClaimLatch, RawMoment};
use crate::moment::{Moment, marker_word};
use crate::shared::Shared;
use crate::sys::KernelClock;
use crate::{UtcReading, UtcUnknown};

/// The attempts to read the clocks. The one that took the least time counts.
const TRIES: u32 = 8;

/// The most requests in a poll. A step, or the beginning of a slew, spoils a request, and another
/// one follows.
const REQUESTS: u32 = 3;

/// The resolution that is assumed until the counter's rate is known, ns: that of an unknown
/// clocksource.
const MAX_RESOLUTION_NS: i64 = Clocksource::Unknown
    .resolutions(HardwareCounter::CLOCKSOURCE, 0)
    .reference_ns;

/// The least difference between the counters of two CPUs that is allowed for, ns. No more is
/// allowed for without a result of tickline's own comparison: the kernel then keeps time with the
/// counter, and has compared the CPUs itself. The kernel's comparison finds a difference that is
/// larger than the time of an exchange between two CPUs: 100 ns, and some more between sockets. The
/// figure is too small where an exchange takes longer, as in a guest whose reads of the counter
/// trap (`docs/limits.md`).
const CPU_DIFFERENCE_NS: i64 = 500;

/// The largest difference that a comparison may leave possible, ns. It is assumed until the
/// counter's rate is known.
const MAX_CPU_DIFFERENCE_NS: i64 = 2 * MAX_DIFFERENCE_NS.cast_signed();

/// The stack of the thread, besides the least that libc needs. The thread reads small files and
/// asks by a socket; the largest buffers have a few KB.
pub(crate) const STACK_BYTES: usize = 256 << 10;

/// Asks the sources, and publishes their claims, until `sleep` says that the thread shall end.
pub(crate) fn run(shared: &Shared, sleep: &StoppableSleep) {
    OsClock::map_vmclock(OsClock::VMCLOCK);
    let mut polls = Polls::default();
    loop {
        let pause = polls.poll(shared, sleep);
        match sleep.wait(pause) {
            WakeCause::Timeout => {}
            WakeCause::ClockSet => polls.record_clock_set(shared),
            WakeCause::Stopped => return,
        }
    }
}

/// Reads each clock at one moment, between two readings of `CLOCK_MONOTONIC_RAW`. No clock has a
/// larger resolution than `resolution_ns`, and no two CPUs' counters differ by more than
/// `cpu_difference_ns`.
fn read_moment(
    shared: &Shared,
    clocksource: Clocksource,
    resolution_ns: i64,
    cpu_difference_ns: i64,
) -> Option<Moment> {
    let read_once = || {
        let raw_ns = OsClock::raw_ns()?;
        let ticks = shared.clock.ticks_ordered();
        let realtime_ns = OsClock.unix_ns();
        let width_ns = OsClock::raw_ns()?.saturating_sub(raw_ns);
        // Three readings are rounded down: of the first clock, of `CLOCK_REALTIME`, and of the
        // clock by which a reader extrapolates.
        let width_ns = width_ns
            .saturating_add(resolution_ns.saturating_mul(3))
            .saturating_add(cpu_difference_ns);
        let suspended_ns = OsClock.suspended_ns()?;
        let marker = marker_word();
        Some(Moment {
            ticks,
            raw_ns,
            realtime_ns,
            width_ns,
            suspended_ns,
            marker,
            clocksource,
        })
    };
    (0..TRIES)
        .filter_map(|_| read_once())
        .min_by_key(|moment| moment.width_ns)
}

/// The data that the thread keeps from one poll to the next.
#[derive(Debug, Default)]
struct Polls {
    claim_maker: ClaimMaker,
    clocksource: Option<Clocksource>,
    /// The resolution of the counter, ticks.
    resolution_ticks: Option<u64>,
    /// The last polls in a row that began without the counter's rate.
    without_rate: u32,
    /// The last polls in a row after which the kernel's slew was awaited, by one measurement.
    without_slew: u32,
    /// `CLOCK_MONOTONIC_RAW` at the poll where that measurement began, ns.
    slew_awaited_since_ns: Option<i64>,
}

impl Polls {
    /// Asks the sources, and publishes the claim. Waits at most 60 ms for each of [`REQUESTS`].
    /// Returns the time until the next poll.
    fn poll(&mut self, shared: &Shared, sleep: &StoppableSleep) -> Duration {
        self.without_rate = if self.claim_maker.is_rate_known() {
            0
        } else {
            self.without_rate.saturating_add(1)
        };
        let status = shared.clock.status();
        let interval_ns = status.interval_ns.unwrap_or(0);
        let may_ask = shared.clock.probes() == Probes::Full;
        if may_ask && self.ask_and_publish(shared, sleep, &status) == WakeCause::ClockSet {
            self.record_clock_set(shared);
            return Duration::ZERO;
        }
        self.pause(interval_ns)
    }

    /// The time until the poll after this one. While the kernel's slew is awaited, the pauses after
    /// the poll where its measurement began are 4, 8, 16, 32, 64, 128 and 256 ms long. A poll takes
    /// some time itself.
    ///
    /// A measurement begins with chronyd's first reply, and after each event that ends one: a set
    /// of the clock, a gap, and a poll at which the kernel does not say its rate. If chronyd
    /// answers, the slew is known after eight polls. However often a measurement begins, no pause
    /// is shorter than 4 ms, and only a set of the clock makes a poll come sooner. A clock that is
    /// set each 100 ms makes five polls for each set.
    fn pause(&mut self, interval_ns: u64) -> Duration {
        let since_ns = self.claim_maker.sources.chronyd.slew_awaited_since_ns();
        let is_same = since_ns == self.slew_awaited_since_ns;
        self.slew_awaited_since_ns = since_ns;
        self.without_slew = match since_ns {
            None => 0,
            Some(_) if is_same => self.without_slew.saturating_add(1),
            Some(_) => 1,
        };
        let pause = |polls: u32| ClaimMaker::pause(polls, interval_ns);
        pause(self.without_rate).min(pause(self.without_slew))
    }

    /// Asks the sources, and publishes the claim for a clock with this status, unless `sleep`
    /// reports that the clock was set, or that the thread shall end.
    fn ask_and_publish(
        &mut self,
        shared: &Shared,
        sleep: &StoppableSleep,
        status: &Status,
    ) -> WakeCause {
        // The file may be unreadable for once.
        let clocksource = match (read_clocksource(), self.clocksource) {
            (Clocksource::Unknown, Some(last)) => last,
            (read, _) => read,
        };
        self.clocksource = Some(clocksource);
        let resolution_ns = self.resolution_ns(shared, clocksource);
        let cpu_difference_ns = self.cpu_difference_ns(status.comparison);
        let now = || read_moment(shared, clocksource, resolution_ns, cpu_difference_ns);
        let interval_ns = status.interval_ns.unwrap_or(0);
        let mut ask = || {
            self.claim_maker
                .ask(interval_ns, &OsClock, now, KernelClock::read)
        };
        let answers = (0..REQUESTS).find_map(|_| ask());
        shared.set_chronyd_channel(self.claim_maker.sources.chronyd.channel);
        let Some(answers) = answers else {
            return WakeCause::Timeout;
        };
        // A source may have answered about the time before a step. So the timer is asked after the
        // answer. A later step does not concern the claim.
        let woken = sleep.wait(Duration::ZERO);
        if woken == WakeCause::Timeout {
            self.claim_maker
                .publish(answers, interval_ns, &shared.latch);
        }
        woken
    }

    /// The resolution of the kernel's clock or that of the counter, whichever is larger, ns.
    fn resolution_ns(&mut self, shared: &Shared, clocksource: Clocksource) -> i64 {
        // A process that may not read the counter must not try.
        let serves = || shared.clock.ticks_ordered().is_some();
        if self.resolution_ticks.is_none() && serves() {
            self.resolution_ticks = HardwareCounter::if_present().as_ref().map(resolution_ticks);
        }
        let ticks = self.resolution_ticks.unwrap_or(1);
        let by_counter_ns = self
            .claim_maker
            .longest_ns(ticks)
            .unwrap_or(MAX_RESOLUTION_NS);
        let by_os = clocksource.resolutions(HardwareCounter::CLOCKSOURCE, 0);
        by_os.reference_ns.max(by_counter_ns).saturating_add(1)
    }

    /// The largest difference between two CPUs' counters after this comparison, ns.
    fn cpu_difference_ns(&self, comparison: CounterComparison) -> i64 {
        let CounterComparison::Synchronised {
            max_difference_ticks,
            ..
        } = comparison
        else {
            return CPU_DIFFERENCE_NS;
        };
        self.claim_maker
            .longest_ns(max_difference_ticks)
            .unwrap_or(MAX_CPU_DIFFERENCE_NS)
            .max(CPU_DIFFERENCE_NS)
    }

    /// Withdraws the claim until a source is believed, because the machine resumed, or the OS clock
    /// was set. The counter may have stood still during a suspend, and the kernel may have set its
    /// clock before the last request, but told nobody yet.
    fn record_clock_set(&mut self, shared: &Shared) {
        self.claim_maker.record_clock_set();
        shared.latch.withdraw(UtcUnknown::Disrupted);
    }
}

fn read_clocksource() -> Clocksource {
    let file = Clocksource::CURRENT_FILE.to_str().unwrap_or_default();
    std::fs::read(file).map_or(Clocksource::Unknown, |name| Clocksource::from_name(&name))
}

/// A reading without the counter: the counter does not serve, or the claim has ended by it.
#[cold]
pub(crate) fn bounds_by_os(latch: &ClaimLatch) -> Result<UtcReading, UtcUnknown> {
    latch.read_by_raw(|| {
        let raw_ns = OsClock::raw_ns()?;
        // Read afterwards, so that they show a move or a suspend before that reading.
        Some(RawMoment {
            raw_ns,
            marker: marker_word(),
            suspended_ns: OsClock.suspended_ns(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim_maker::tests::{maker_after, report_of};
    use crate::source::chronyd::tests::{maker_after_first_reply, reply_at};

    #[test]
    fn a_claim_ends_if_the_clock_is_set() {
        let shared = Shared::new(tickline::Clock::global());
        let now = || {
            Some(RawMoment {
                raw_ns: 0,
                marker: 0,
                suspended_ns: None,
            })
        };
        Polls::default().record_clock_set(&shared);
        assert_eq!(shared.latch.read_by_raw(now), Err(UtcUnknown::Disrupted));
    }

    /// Before the first pause.
    fn polls_after_first_reply() -> Polls {
        Polls {
            claim_maker: maker_after_first_reply(),
            ..Polls::default()
        }
    }

    /// Symptom: where reading the clocks takes 10 us, the claim of 12 ms after the start grew by
    /// 500 us until the next one, a second later.
    #[test]
    fn until_the_slew_is_known_the_time_from_poll_to_poll_doubles() {
        let mut polls = polls_after_first_reply();
        let pauses_ms = [(); 9].map(|()| polls.pause(0).as_millis());
        assert_eq!(pauses_ms, [4, 8, 16, 32, 64, 128, 256, 512, 1_000]);
    }

    /// The rate gets lost again in a suspend, for example.
    #[test]
    fn a_rate_that_gets_lost_while_a_slew_is_long_awaited_is_measured_soon() {
        let mut polls = polls_after_first_reply();
        assert_eq!([(); 9].map(|()| polls.pause(0).as_millis())[8], 1_000);
        polls.without_rate = 1;
        assert_eq!(polls.pause(0).as_millis(), 4);
    }

    /// The time until the poll after this one, ms, at which chronyd replies.
    fn pause_after_reply_ms(polls: &mut Polls, ms: i64) -> i64 {
        reply_at(&mut polls.claim_maker, ms);
        i64::try_from(polls.pause(0).as_millis()).expect("a second at most")
    }

    /// The polls of the first 252 ms, at each of which chronyd has replied.
    fn first_polls() -> Polls {
        let mut polls = polls_after_first_reply();
        assert_eq!(polls.pause(0).as_millis(), 4);
        let pauses_ms = [4, 12, 28, 60, 124, 252].map(|ms| pause_after_reply_ms(&mut polls, ms));
        assert_eq!(pauses_ms, [8, 16, 32, 64, 128, 256]);
        polls
    }

    /// Symptom: after the clock was set 300 ms after the start, the next poll came 512 ms later,
    /// and the claim grew by 256 us until then.
    #[test]
    fn after_the_clock_was_set_the_next_poll_comes_soon() {
        let mut polls = first_polls();
        polls.claim_maker.record_clock_set();
        assert_eq!(pause_after_reply_ms(&mut polls, 300), 4);
    }

    #[test]
    fn after_a_gap_the_next_poll_comes_soon() {
        assert_eq!(pause_after_reply_ms(&mut first_polls(), 5_000), 4);
    }

    #[test]
    fn a_clock_that_is_set_each_100_ms_makes_five_polls_for_each_set() {
        let mut polls = polls_after_first_reply();
        for set_ms in [100, 200, 300, 400, 500, 600] {
            polls.claim_maker.record_clock_set();
            let mut poll_ms = set_ms;
            let mut count = 0;
            while poll_ms < set_ms + 100 {
                count += 1;
                poll_ms += pause_after_reply_ms(&mut polls, poll_ms);
            }
            assert_eq!(count, 5, "{set_ms}");
        }
    }

    /// The thread would otherwise ask as fast as it can.
    #[test]
    fn no_pause_is_shorter_than_4_ms_although_each_poll_begins_a_measurement() {
        let mut polls = polls_after_first_reply();
        for ms in 1..50 {
            polls.claim_maker.record_clock_set();
            assert_eq!(pause_after_reply_ms(&mut polls, ms), 4, "{ms}");
        }
    }

    #[test]
    fn if_no_slew_is_awaited_the_next_poll_comes_in_a_second() {
        assert_eq!(Polls::default().pause(0).as_millis(), 1_000);
    }

    /// A clock that serves no reading by the counter.
    fn shared_without_line() -> Shared {
        let clock = tickline::Clock::builder().driver(tickline::Driver::Manual);
        Shared::new(&clock.build().expect("a clock without a thread"))
    }

    #[test]
    fn without_a_rate_the_resolution_is_that_of_an_unknown_clock() {
        let shared = shared_without_line();
        let tsc = Clocksource::Tsc;
        let resolution_ns = Polls::default().resolution_ns(&shared, tsc);
        assert_eq!(resolution_ns, MAX_RESOLUTION_NS + 1);
    }

    /// The difference that is allowed for after this comparison, of a counter of 3 GHz.
    fn difference_ns(comparison: CounterComparison) -> i64 {
        let polls = Polls {
            claim_maker: maker_after(&[report_of(0, 0); 2]),
            ..Polls::default()
        };
        polls.cpu_difference_ns(comparison)
    }

    /// The counters of two CPUs differ by this at most, ticks.
    fn differing_by(max_difference_ticks: u64) -> CounterComparison {
        CounterComparison::Synchronised {
            cpus: 2,
            max_difference_ticks,
        }
    }

    /// Symptom: half a microsecond was allowed for where an exchange takes longer.
    #[test]
    fn the_difference_is_what_the_comparison_has_reached() {
        assert_eq!(difference_ns(differing_by(6_000)), 2_000);
    }

    #[test]
    fn the_difference_is_never_less_than_the_kernels_own_test_leaves() {
        let without = difference_ns(CounterComparison::Pending);
        let found = [difference_ns(differing_by(300)), without];
        assert_eq!(found, [CPU_DIFFERENCE_NS; 2]);
    }

    #[test]
    fn without_a_rate_the_difference_is_the_largest_that_a_comparison_leaves() {
        let found = Polls::default().cpu_difference_ns(differing_by(1));
        assert_eq!(found, MAX_CPU_DIFFERENCE_NS);
    }

    /// A process that may not read the counter would get a signal.
    #[test]
    fn a_counter_that_serves_no_reading_is_not_read() {
        let mut polls = Polls::default();
        polls.resolution_ns(&shared_without_line(), Clocksource::Tsc);
        assert_eq!(polls.resolution_ticks, None);
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri has no CLOCK_MONOTONIC_RAW")]
    fn a_moment_is_read_where_the_kernel_has_its_clocks() {
        let shared = shared_without_line();
        let moment = read_moment(&shared, Clocksource::Tsc, 7, 3_000);
        let has_clocks = OsClock::raw_ns().is_some() && OsClock.suspended_ns().is_some();
        assert_eq!(moment.is_some(), has_clocks);
        let is_wide = |moment: Moment| moment.width_ns >= 3 * 7 + 3_000;
        assert!(moment.is_none_or(is_wide));
    }
}
