//! Two threads on two CPUs that hand a token to and fro: what their counters say about each other.
//!
//! Each is a thread of its own, pinned, so that no mask needs to be put back; they hand over for a millisecond at the most
//! (`tickline_core::compare` has the arithmetic). On a busy machine the two may not get to run at once for long. What little
//! they find out counts all the same, as no exchange is ever wrong, and tries add up.
//!
//! Hidden, not private: the program `tickline` looks at all pairs in the foreground by the same code. No part of the public
//! interface; it may change with any version.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread;

use tickline_core::compare::Difference;
use tickline_core::counter::{Counter, HardwareCounter};
use tickline_core::sample::Reference;
use tickline_core::units::ticks_between;

use crate::sys;
use crate::sys::reference::OsClock;

/// Exchanges to and fro: at 0.1 to 0.4 us each, a thousand take less than half a millisecond.
const ROUNDS: u32 = 1_000;

/// For how long a pair may hand over, ns.
const PAIR_NS: i64 = 1_000_000;

/// For how long one waits for the other, which may have to wait for its CPU, ns.
const PATIENCE_NS: i64 = 200_000_000;

/// Looks at a token before one sees to the time.
const SPINS: u32 = 2_000;

/// What two threads hand over: a cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Token {
    /// Even: here. Odd: there. [`GIVEN_UP`]: one of the two has.
    turn: AtomicU32,
    /// What the giver's counter said, ticks.
    given_ticks: AtomicU64,
}

const GIVEN_UP: u32 = u32::MAX;

impl Token {
    fn give(&self, turn: u32, ticks: u64) {
        // ORDERING: Relaxed, published by the store below.
        self.given_ticks.store(ticks, Ordering::Relaxed);
        // ORDERING: Release, pairs with the Acquire load in `get`. A failure means that the other has given up.
        self.turn.compare_exchange(turn.wrapping_sub(1), turn, Ordering::Release, Ordering::Relaxed).ok();
    }

    /// The token of `turn`: what the giver's counter said, and what ours says now.
    fn get(&self, turn: u32, counter: HardwareCounter) -> Option<(u64, u64)> {
        let mut deadline_ns = None;
        loop {
            for _ in 0..SPINS {
                // ORDERING: Acquire, pairs with the Release store in `give`.
                match self.turn.load(Ordering::Acquire) {
                    GIVEN_UP => return None,
                    found if found == turn => {
                        let got_ticks = counter.now_ordered();
                        // ORDERING: Relaxed, ordered by the load above.
                        return Some((self.given_ticks.load(Ordering::Relaxed), got_ticks));
                    }
                    _ => core::hint::spin_loop(),
                }
            }
            let now_ns = OsClock.monotonic_ns();
            if now_ns > *deadline_ns.get_or_insert(now_ns.saturating_add(PATIENCE_NS)) {
                // ORDERING: Relaxed, the word is all there is.
                self.turn.store(GIVEN_UP, Ordering::Relaxed);
                return None;
            }
            thread::yield_now();
        }
    }
}

/// What exchanges between two CPUs, here and there, have found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exchanges {
    /// The other counter minus this one.
    pub difference: Difference,
    /// How many there were, to and fro counted apart.
    pub count: u64,
    /// How many of them seemed to go back in time: the getter's counter was below the giver's.
    pub backward: u64,
}

impl Exchanges {
    /// None yet.
    pub const NONE: Self = Self { difference: Difference::UNKNOWN, count: 0, backward: 0 };

    fn sent(&mut self, given_ticks: u64, got_ticks: u64) {
        self.difference.sent(given_ticks, got_ticks);
        self.note(given_ticks, got_ticks);
    }

    fn received(&mut self, given_ticks: u64, got_ticks: u64) {
        self.difference.received(given_ticks, got_ticks);
        self.note(given_ticks, got_ticks);
    }

    fn note(&mut self, given_ticks: u64, got_ticks: u64) {
        self.count = self.count.saturating_add(1);
        self.backward = self.backward.saturating_add(u64::from(ticks_between(given_ticks, got_ticks) < 0));
    }

    fn add(&mut self, other: &Self) {
        self.difference.least_ticks = self.difference.least_ticks.max(other.difference.least_ticks);
        self.difference.most_ticks = self.difference.most_ticks.min(other.difference.most_ticks);
        self.count = self.count.saturating_add(other.count);
        self.backward = self.backward.saturating_add(other.backward);
    }
}

/// Has two CPUs hand over, and adds what was found to `exchanges`. Returns how often it went to and fro: 0 if one of the threads
/// did not get there. The process must be allowed to read the counter.
pub fn compare(counter: HardwareCounter, here: u32, there: u32, handovers: &mut Exchanges) -> u32 {
    let token = Token::default();
    let found = thread::scope(|scope| {
        let builder = || thread::Builder::new().name("tickline-warp".to_owned());
        let other = builder()
            .spawn_scoped(scope, || {
                if !sys::pin_this_thread(there) {
                    // ORDERING: Relaxed, the word is all there is.
                    token.turn.store(GIVEN_UP, Ordering::Relaxed);
                }
                answer(&token, counter)
            })
            .ok()?;
        let this = builder().spawn_scoped(scope, || {
            if !sys::pin_this_thread(here) {
                // ORDERING: as above.
                token.turn.store(GIVEN_UP, Ordering::Relaxed);
            }
            ask(&token, counter)
        });
        if this.is_err() {
            // ORDERING: as above.
            token.turn.store(GIVEN_UP, Ordering::Relaxed);
        }
        let (received, rounds) = this.ok()?.join().ok()?;
        let sent = other.join().ok()?;
        Some((received, sent, rounds))
    });
    let Some((received, sent, rounds)) = found else { return 0 };
    handovers.add(&received);
    handovers.add(&sent);
    rounds
}

fn ask(token: &Token, counter: HardwareCounter) -> (Exchanges, u32) {
    let mut handovers = Exchanges::NONE;
    let mut started_ns = None;
    for round in 0..ROUNDS {
        token.give(2 * round + 1, counter.now_ordered());
        let Some((given_ticks, got_ticks)) = token.get(2 * round + 2, counter) else {
            return (handovers, round);
        };
        handovers.received(given_ticks, got_ticks);
        let now_ns = OsClock.monotonic_ns();
        // The first exchange waits until the other thread runs.
        if now_ns.saturating_sub(*started_ns.get_or_insert(now_ns)) > PAIR_NS {
            // ORDERING: Relaxed, the word is all there is.
            token.turn.store(GIVEN_UP, Ordering::Relaxed);
            return (handovers, round);
        }
    }
    (handovers, ROUNDS)
}

fn answer(token: &Token, counter: HardwareCounter) -> Exchanges {
    let mut handovers = Exchanges::NONE;
    for round in 0..ROUNDS {
        let Some((given_ticks, got_ticks)) = token.get(2 * round + 1, counter) else { break };
        handovers.sent(given_ticks, got_ticks);
        token.give(2 * round + 2, counter.now_ordered());
    }
    handovers
}

/// The CPUs on which a thread of this process may run now, without those that the scheduler leaves alone; in ascending order.
/// Empty if the system does not say.
#[must_use]
pub fn cpus() -> Vec<u32> {
    sys::comparable_cpus()
}

/// What `work` returns on `cpu`, in a thread that runs there alone; `None` if there is no such CPU, or not for this process.
pub fn on_cpu<T: Send>(cpu: u32, work: impl FnOnce() -> T + Send) -> Option<T> {
    thread::scope(|scope| {
        let pinned = move || sys::pin_this_thread(cpu).then(work);
        let thread = thread::Builder::new().name("tickline-visit".to_owned()).spawn_scoped(scope, pinned);
        thread.ok()?.join().ok()?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::COUNTER;

    #[test]
    fn a_token_that_nobody_gives_is_given_up() {
        let Some(counter) = COUNTER.filter(|_| crate::sys::counter_readable()) else {
            eprintln!("SKIPPED: no counter that may be read");
            return;
        };
        let token = Token::default();
        assert_eq!(token.get(1, counter), None);
        assert_eq!(token.get(1, counter), None, "and stays so");
    }

    #[test]
    fn a_step_back_is_counted_and_widens_nothing() {
        let mut handovers = Exchanges::NONE;
        handovers.sent(1_000, 1_060);
        handovers.received(2_000, 2_070);
        assert_eq!((handovers.count, handovers.backward), (2, 0));
        let mut more = Exchanges::NONE;
        more.sent(3_000, 2_990);
        handovers.add(&more);
        assert_eq!((handovers.count, handovers.backward), (3, 1));
        assert_eq!(handovers.difference, Difference { least_ticks: -70, most_ticks: -10 });
    }

    #[test]
    fn work_is_done_on_the_cpu_that_was_named_or_not_at_all() {
        assert_eq!(on_cpu(u32::MAX, || ()), None);
        let Some(&cpu) = cpus().last() else {
            eprintln!("SKIPPED: a kernel that does not say where threads may run, or isolated CPUs only");
            return;
        };
        match on_cpu(cpu, sys::CpuMask::of_this_thread) {
            Some(Some(mask)) => assert_eq!((0..8_192).filter(|cpu| mask.contains(*cpu)).count(), 1),
            Some(None) => eprintln!("SKIPPED: a system that does not say where a thread may run"),
            None => panic!("CPU {cpu} was named as one of this process's"),
        }
    }
}
