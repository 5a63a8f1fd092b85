//! Compares the counters of two CPUs: two threads exchange a baton, and read their counters.
//!
//! The module is for a program that shows or logs how far the counters of a machine differ, pair by
//! pair, as `tickline warp` does. No clock needs it: a clock's thread compares by itself where it
//! matters, and [`Status::comparison`](crate::Status::comparison) has its result.
//!
//! ```
//! use tickline::exchange::{self, Exchanges};
//!
//! if let [first, .., last] = exchange::cpus()[..] {
//!     let mut exchanges = Exchanges::NONE;
//!     for _ in 0..8 {
//!         exchanges += exchange::between(first, last);
//!         if exchanges.are_enough() {
//!             let difference = exchanges.difference;
//!             let [min, max] = [difference.min_ticks, difference.max_ticks];
//!             println!("CPU {last} is {min} to {max} ticks ahead of CPU {first}");
//!             break;
//!         }
//!     }
//! }
//! ```
//!
//! Each exchange proves a bound, and the result combines all bounds. On a busy machine the two
//! threads seldom run at the same time, so a result may need a few tries. [`CounterDifference`] has
//! the arithmetic.
//!
//! [`on_cpu`] runs any function on a CPU. A call starts threads, pins them to CPUs, and waits for
//! them. It reads the counter, and makes the system calls of full probes, whatever a clock's switch
//! and probes are. tickline pins threads on Linux and Windows. Elsewhere [`cpus`] is empty, and
//! nothing can be compared.

use core::ops::AddAssign;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

pub use tickline_core::comparison::{Synchronisation, allowed_difference_ticks};

use tickline_core::comparison::CounterDifference;
use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::reference::Reference;
use tickline_core::units::ticks_between;

use crate::sys::reference::OsClock;
use crate::sys::{self, COUNTER, Thread};

/// The least number of quick round trips, over all tries, for a result. The first have cold caches.
pub const MIN_ROUND_TRIPS: u64 = 50;

/// The most round trips of a try. At 0.1 to 0.4 us each, they take less than half a millisecond.
const ROUND_TRIPS: u32 = 1_000;

/// For how long a pair may exchange once there are enough round trips, ns.
const PAIR_NS: i64 = 1_000_000;

/// The longest wait of one thread for the other, ns; the other may have to wait for its CPU. It
/// also limits the time of all exchanges of a pair, from the first round trip on.
const MAX_WAIT_NS: i64 = 200_000_000;

/// The time after which a waiting thread yields its CPU, ns. If other threads want both CPUs, the
/// two run at the same time only if neither yields at once.
const YIELD_AFTER_NS: i64 = 1_000_000;

/// Loads of the baton between two reads of the OS clock.
const LOADS_PER_CLOCK_READ: u32 = 2_000;

/// Round trips between two reads of the OS clock. If that clock is a device, reading it takes
/// longer than many round trips: with hpet under emulation there were 100 round trips in a
/// millisecond.
const TRIPS_PER_CLOCK_READ: u32 = 16;

/// Round trips are quick if they have taken no longer than this on average, since the last read of
/// the OS clock, ns. If the two threads never run at the same time, a round trip takes
/// milliseconds, and bounds the difference of the counters no better.
const QUICK_NS: i64 = 100_000;

/// The baton that the two threads exchange: a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Baton {
    /// Even: the baton is here. Odd: it is there. [`GIVEN_UP`]: a thread has given up.
    turn: AtomicU32,
    /// The giver's counter, ticks.
    given_ticks: AtomicU64,
}

const GIVEN_UP: u32 = u32::MAX;

impl Baton {
    fn give(&self, turn: u32, ticks: u64) {
        // ORDERING: Relaxed, published by the store below.
        self.given_ticks.store(ticks, Ordering::Relaxed);
        let last_turn = turn.wrapping_sub(1);
        // ORDERING: Release, pairs with the Acquire load in `get`. Relaxed on failure: the other
        // thread has given up.
        self.turn
            .compare_exchange(last_turn, turn, Ordering::Release, Ordering::Relaxed)
            .ok();
    }

    /// Ends the exchange for both threads.
    fn give_up(&self) {
        // ORDERING: Relaxed, the word publishes no other memory.
        self.turn.store(GIVEN_UP, Ordering::Relaxed);
    }

    /// Waits for the baton of `turn`. Returns the giver's counter, and this thread's counter by
    /// `now_ordered`; `None` once a thread has given up.
    fn get(&self, turn: u32, now_ordered: impl Fn() -> u64) -> Option<Arrival> {
        let mut since_ns = None;
        let mut running_since_ns = None;
        loop {
            for _ in 0..LOADS_PER_CLOCK_READ {
                // ORDERING: Acquire, pairs with the Release store in `give`.
                match self.turn.load(Ordering::Acquire) {
                    GIVEN_UP => return None,
                    found if found == turn => {
                        let got_ticks = now_ordered();
                        // ORDERING: Relaxed, ordered by the load above.
                        let given_ticks = self.given_ticks.load(Ordering::Relaxed);
                        let came_at_once = since_ns.is_none();
                        return Some(Arrival {
                            given_ticks,
                            got_ticks,
                            came_at_once,
                        });
                    }
                    _ => core::hint::spin_loop(),
                }
            }
            let now_ns = OsClock.monotonic_ns();
            if now_ns.saturating_sub(*since_ns.get_or_insert(now_ns)) > MAX_WAIT_NS {
                self.give_up();
                return None;
            }
            if now_ns.saturating_sub(*running_since_ns.get_or_insert(now_ns)) > YIELD_AFTER_NS {
                std::thread::yield_now();
                running_since_ns = None;
            }
        }
    }
}

/// The arrival of a baton.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Arrival {
    /// The giver's counter, ticks.
    given_ticks: u64,
    /// The getter's counter, ticks.
    got_ticks: u64,
    /// Whether the getter found the baton within its first loads.
    came_at_once: bool,
}

/// The result of exchanges between two CPUs, here and there. `+=` combines results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exchanges {
    /// The counter there minus the counter here, ticks.
    pub difference: CounterDifference,
    /// The number of round trips of the baton without a wait for a CPU.
    pub round_trips: u64,
    /// The number of exchanges: two for each round trip.
    pub count: u64,
    /// The number of exchanges in which the getter's counter was below the giver's.
    pub backward: u64,
}

impl AddAssign for Exchanges {
    fn add_assign(&mut self, other: Self) {
        let CounterDifference {
            min_ticks,
            max_ticks,
        } = &mut self.difference;
        *min_ticks = other.difference.min_ticks.max(*min_ticks);
        *max_ticks = other.difference.max_ticks.min(*max_ticks);
        self.round_trips = self.round_trips.saturating_add(other.round_trips);
        self.count = self.count.saturating_add(other.count);
        self.backward = self.backward.saturating_add(other.backward);
    }
}

impl Exchanges {
    /// The result before any exchange.
    pub const NONE: Self = Self {
        difference: CounterDifference::UNKNOWN,
        round_trips: 0,
        count: 0,
        backward: 0,
    };

    /// Whether there were enough round trips for a result.
    #[must_use]
    pub const fn are_enough(&self) -> bool {
        self.round_trips >= MIN_ROUND_TRIPS
    }

    /// Whether the two counters are [synchronised](CounterDifference::synchronisation). `Unknown`
    /// also if there were too few round trips for a result.
    #[must_use]
    pub fn synchronisation(&self, resolution_ticks: u64, allowed_ticks: u64) -> Synchronisation {
        if self.are_enough() {
            self.difference
                .synchronisation(resolution_ticks, allowed_ticks)
        } else {
            Synchronisation::Unknown
        }
    }

    /// Adds an exchange by `add`, [`CounterDifference::add_sent`] or
    /// [`CounterDifference::add_received`].
    fn add(&mut self, add: fn(&mut CounterDifference, u64, u64), given_ticks: u64, got_ticks: u64) {
        add(&mut self.difference, given_ticks, got_ticks);
        self.count = self.count.saturating_add(1);
        self.backward = self
            .backward
            .saturating_add(u64::from(ticks_between(given_ticks, got_ticks) < 0));
    }
}

/// Makes exchanges between two CPUs: for 1 ms, or for 200 ms if both are busy, or for 800 ms at
/// worst. Returns [`Exchanges::NONE`] if a thread can't run on its CPU, or if the process may not
/// read a counter.
#[must_use]
pub fn between(here: u32, there: u32) -> Exchanges {
    let Some(counter) = COUNTER else {
        return Exchanges::NONE;
    };
    if !sys::may_read_counter() {
        return Exchanges::NONE;
    }
    let baton = Arc::new(Baton::default());
    let start = |cpu, exchange: fn(&Baton, HardwareCounter) -> Exchanges| {
        let inside = Arc::clone(&baton);
        let found = Arc::new(OnceLock::new());
        let found_inside = Arc::clone(&found);
        let thread = Thread::spawn(Some(c"tickline-peer"), move || {
            if !sys::pin_this_thread(cpu) {
                inside.give_up();
            }
            found_inside.set(exchange(&inside, counter)).ok();
        });
        thread
            .inspect_err(|_| baton.give_up())
            .map(|thread| (thread, found))
            .ok()
    };
    let found = [start(there, follow), start(here, lead)].map(|peer| {
        let (thread, found) = peer?;
        thread.join();
        found.get().copied()
    });
    let [Some(mut exchanges), Some(others)] = found else {
        return Exchanges::NONE;
    };
    exchanges += others;
    exchanges
}

/// The thread here: gives first, and counts the round trips.
fn lead(baton: &Baton, counter: HardwareCounter) -> Exchanges {
    let now = || counter.now_ordered();
    let mut exchanges = Exchanges::NONE;
    let mut started_ns = None;
    let mut clock_read_ns = None;
    let mut trips = 0;
    for trip in 0..ROUND_TRIPS {
        baton.give(2 * trip + 1, now());
        let Some(Arrival {
            given_ticks,
            got_ticks,
            came_at_once,
        }) = baton.get(2 * trip + 2, now)
        else {
            break;
        };
        exchanges.add(CounterDifference::add_received, given_ticks, got_ticks);
        trips += 1;
        // The first round trip includes the start of the other thread.
        if came_at_once && trips < TRIPS_PER_CLOCK_READ && clock_read_ns.is_some() {
            continue;
        }
        let now_ns = OsClock.monotonic_ns();
        let took_ns = clock_read_ns.map_or(i64::MAX, |clock_read_ns| {
            now_ns.saturating_sub(clock_read_ns)
        });
        if took_ns <= QUICK_NS.saturating_mul(trips.into()) {
            exchanges.round_trips = exchanges.round_trips.saturating_add(trips.into());
        }
        clock_read_ns = Some(now_ns);
        trips = 0;
        let limit_ns = if exchanges.are_enough() {
            PAIR_NS
        } else {
            MAX_WAIT_NS
        };
        if now_ns.saturating_sub(*started_ns.get_or_insert(now_ns)) > limit_ns {
            baton.give_up();
            break;
        }
    }
    exchanges
}

/// The thread there: returns each baton.
fn follow(baton: &Baton, counter: HardwareCounter) -> Exchanges {
    let now = || counter.now_ordered();
    let mut exchanges = Exchanges::NONE;
    for trip in 0..ROUND_TRIPS {
        let Some(Arrival {
            given_ticks,
            got_ticks,
            ..
        }) = baton.get(2 * trip + 1, now)
        else {
            break;
        };
        exchanges.add(CounterDifference::add_sent, given_ticks, got_ticks);
        baton.give(2 * trip + 2, now());
    }
    exchanges
}

/// The CPUs on which a thread of this process may run now, without isolated ones, in ascending
/// order. Empty if the system does not say.
#[must_use]
pub fn cpus() -> Vec<u32> {
    sys::comparable_cpus()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Calls `work` in a thread that is pinned to `cpu`, and returns its result. `None` if the process
/// may not use such a CPU, or if `work` panics. A forked child may call this, too.
pub fn on_cpu<T: Send + 'static>(cpu: u32, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let found = Arc::new(Mutex::new(None));
    let found_inside = Arc::clone(&found);
    let thread = Thread::spawn(Some(c"tickline-cpus"), move || {
        if sys::pin_this_thread(cpu) {
            let result = work();
            *lock(&found_inside) = Some(result);
        }
    });
    thread.ok()?.join();
    lock(&found).take()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::skip;

    #[test]
    fn ordering_a_baton_comes_with_its_givers_counter() {
        for _ in 0..8 {
            let baton = Baton::default();
            std::thread::scope(|scope| {
                scope.spawn(|| baton.give(1, 7));
                assert_eq!(baton.get(1, || 8).map(|got| got.given_ticks), Some(7));
            });
        }
    }

    #[test]
    fn a_wait_for_a_baton_that_never_comes_ends() {
        let baton = Baton::default();
        assert_eq!(baton.get(1, || 8), None);
        assert_eq!(baton.get(1, || 8), None, "and stays so");
    }

    /// An exchange that found too little has waited, or all its round trips but a few were slow.
    #[test]
    fn an_exchange_does_not_end_early() {
        let Some(counter) = COUNTER else {
            return skip("no counter");
        };
        if !sys::may_read_counter() {
            return skip("no counter that may be read");
        }
        let baton = Baton::default();
        let begin_ns = OsClock.monotonic_ns();
        let exchanges = std::thread::scope(|scope| {
            scope.spawn(|| follow(&baton, counter));
            lead(&baton, counter)
        });
        let took_ns = OsClock.monotonic_ns() - begin_ns;
        let slow_trips = i64::from(ROUND_TRIPS) - MIN_ROUND_TRIPS.cast_signed();
        let has_tried = took_ns >= MAX_WAIT_NS.min(QUICK_NS * slow_trips);
        assert!(exchanges.are_enough() || has_tried, "{exchanges:?}");
    }

    #[test]
    fn the_cpus_are_those_whose_counters_can_be_compared() {
        assert_eq!(cpus(), sys::comparable_cpus());
    }

    /// Two threads of one CPU never run at once, so their exchanges take milliseconds. Symptom:
    /// enough of them counted as a proof that the counters are synchronised, to within a
    /// millisecond.
    #[test]
    fn threads_that_never_meet_compare_nothing() {
        let Some(&here) = cpus().first() else {
            return skip("no CPU that is known");
        };
        if COUNTER.is_none() || !sys::may_read_counter() {
            return skip("no counter that may be read");
        }
        let mut exchanges = Exchanges::NONE;
        (0..2).for_each(|_| exchanges += between(here, here));
        assert!(!exchanges.are_enough(), "{exchanges:?}");
    }

    /// These threads need milliseconds for a round trip, so all round trips would take seconds.
    #[test]
    fn threads_that_never_meet_stop_after_a_while() {
        let Some(&here) = cpus().first() else {
            return skip("no CPU that is known");
        };
        if COUNTER.is_none() || !sys::may_read_counter() {
            return skip("no counter that may be read");
        }
        let all = u64::from(2 * ROUND_TRIPS);
        let count = between(here, here).count;
        assert!(count < all, "{count} exchanges");
    }

    #[test]
    fn fifty_round_trips_are_enough_for_a_result() {
        let after = |round_trips| Exchanges {
            round_trips,
            ..Exchanges::NONE
        };
        assert!(!after(49).are_enough());
        assert!(after(50).are_enough());
    }

    #[test]
    fn too_few_round_trips_show_nothing() {
        let after = |round_trips| Exchanges {
            round_trips,
            difference: CounterDifference {
                min_ticks: -60,
                max_ticks: 90,
            },
            ..Exchanges::NONE
        };
        let found = [49, 50].map(|trips| after(trips).synchronisation(0, 90));
        assert_eq!(
            found,
            [Synchronisation::Unknown, Synchronisation::Synchronised]
        );
    }

    /// Two exchanges without a step back, and their sum with one that has a step of 10 ticks.
    fn exchanges_before_and_after_a_step_back() -> [Exchanges; 2] {
        let mut before = Exchanges::NONE;
        before.add(CounterDifference::add_sent, 1_000, 1_060);
        before.add(CounterDifference::add_received, 2_000, 2_070);
        let mut more = Exchanges::NONE;
        more.add(CounterDifference::add_sent, 3_000, 2_990);
        let mut after = before;
        after += more;
        [before, after]
    }

    #[test]
    fn a_step_back_is_counted() {
        let counts = exchanges_before_and_after_a_step_back()
            .map(|exchanges| (exchanges.count, exchanges.backward));
        assert_eq!(counts, [(2, 0), (3, 1)]);
    }

    #[test]
    fn a_step_back_narrows_the_difference() {
        let [_, exchanges] = exchanges_before_and_after_a_step_back();
        assert_eq!(
            exchanges.difference,
            CounterDifference {
                min_ticks: -70,
                max_ticks: -10
            }
        );
    }

    #[test]
    fn on_a_cpu_that_does_not_exist_no_work_is_done() {
        assert_eq!(on_cpu(u32::MAX, || ()), None);
    }

    #[test]
    fn with_a_cpu_that_does_not_exist_there_is_no_exchange() {
        let exchanges = [between(0, u32::MAX), between(u32::MAX, 0)];
        assert_eq!(exchanges, [Exchanges::NONE; 2]);
    }

    #[test]
    fn work_is_done_on_the_cpu_that_was_named() {
        let Some(&cpu) = cpus().last() else {
            return skip("a kernel that does not say where threads may run, or isolated CPUs only");
        };
        assert_eq!(on_cpu(cpu, cpus), Some(cpus()), "of all threads");
        match on_cpu(cpu, sys::CpuMask::for_current_thread) {
            Some(Some(mask)) => assert_eq!((0..8_192).filter(|cpu| mask.contains(*cpu)).count(), 1),
            Some(None) => skip("a system that does not say where a thread may run"),
            None => panic!("CPU {cpu} was named as one of this process's"),
        }
    }
}
