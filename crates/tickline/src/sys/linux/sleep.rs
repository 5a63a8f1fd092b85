//! Linux: a sleep that ends early when the clock is set, when the machine resumes, or when another
//! thread stops it. One timer descriptor serves all three.
//!
//! A `timerfd` on `CLOCK_REALTIME`, armed with `TFD_TIMER_CANCEL_ON_SET`, becomes readable when the
//! clock is set (timerfd_create(2)), and when the machine resumes. The function for the latter is
//! `timerfd_resume` in Linux `fs/timerfd.c`. From 5.15 on `timekeeping_resume` calls it; before
//! that `hrtimers_resume` and `clock_was_set_delayed` do. The kernel may measure a suspend of less
//! than a second as 0; then it does not notify. A wait polls the timer and arms it again, which
//! reports `ECANCELED`. Nothing reads or writes the timer.
//!
//! A daemon's `closefrom` may have closed the descriptor, and its number may since be another
//! file's. So before each use the descriptor must answer `timerfd_gettime` with the odd period that
//! was set at the start. If it does not, the wait abandons it, and sleeps on a futex. std's
//! condition variable does not serve for that: it reads the clock for its deadline, through the
//! vDSO (`ROUTE_KERNEL` of `sys/reference/linux.rs`). A relative `FUTEX_WAIT` needs no clock.

use core::ptr;
use core::sync::atomic::{AtomicI32, AtomicU32, Ordering};
use core::time::Duration;
use std::io;

use tickline_core::reference::Reference;

use super::file::beyond_standard_streams;
use crate::sys::WakeCause;
use crate::sys::reference::OsClock;

/// The period that marks the timer: 11 years and some odd nanoseconds. It never expires.
const MARK: libc::timespec = libc::timespec {
    tv_sec: 347_155_200,
    tv_nsec: 749_318_257,
};

/// The sleep of a [`BackgroundThread`](crate::background::BackgroundThread). It ends early when the
/// clock is set, when the machine resumes, or when the thread shall end. Only Linux reports the
/// first two: see [`WakeCause::ClockSet`].
#[derive(Debug)]
pub struct StoppableSleep {
    /// The timer's descriptor; -1 without a timer.
    timer: AtomicI32,
    /// 1 once [`stop`](Self::stop) was called. Without a timer, [`wait`](Self::wait) sleeps on this
    /// futex.
    stopped: AtomicU32,
}

impl StoppableSleep {
    /// A sleep with a timer, which also ends when the clock is set. If the kernel refuses the
    /// timer, the sleep is a [`plain`](Self::plain) one.
    pub(crate) fn notifying_clock_set() -> Self {
        // SAFETY: the call takes no pointer.
        let timer = unsafe {
            libc::timerfd_create(libc::CLOCK_REALTIME, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC)
        };
        let timer = beyond_standard_streams(timer);
        let sleep = Self {
            timer: AtomicI32::new(timer),
            stopped: AtomicU32::new(0),
        };
        if timer >= 0 {
            arm(timer, far_expiry_now_s()).ok();
        }
        sleep
    }

    /// A sleep that makes no system call except for the futex's. It does not end when the clock is
    /// set.
    pub(crate) fn plain() -> Self {
        Self {
            timer: AtomicI32::new(-1),
            stopped: AtomicU32::new(0),
        }
    }

    /// The descriptor, if it is still this sleep's.
    fn timer(&self) -> Option<libc::c_int> {
        // ORDERING: Relaxed, a number that is checked before each use.
        let timer = self.timer.load(Ordering::Relaxed);
        if timer < 0 {
            return None;
        }
        // SAFETY: itimerspec is plain data.
        let mut set: libc::itimerspec = unsafe { core::mem::zeroed() };
        // SAFETY: `set` is valid for a write; any descriptor may be asked.
        let result = unsafe { libc::timerfd_gettime(timer, &raw mut set) };
        if result == 0
            && (set.it_interval.tv_sec, set.it_interval.tv_nsec) == (MARK.tv_sec, MARK.tv_nsec)
        {
            return Some(timer);
        }
        // ORDERING: Relaxed, a number that is checked before each use.
        self.timer.store(-1, Ordering::Relaxed);
        None
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // ORDERING: Relaxed, a flag on its own.
        self.stopped.load(Ordering::Relaxed) != 0
    }

    /// Sleeps for `time`, or until the clock is set, the machine resumes, or the thread shall end.
    /// Each of these ends a wait even if it came before: a wait of no time asks whether it did.
    pub fn wait(&self, time: Duration) -> WakeCause {
        let was_set = if self.is_stopped() {
            false
        } else if let Some(timer) = self.timer() {
            self.poll(timer, time)
        } else {
            // A stop before this is not missed: the word is not 0 any more.
            // The kernel's timespec for this call has the width of long, whatever libc's has.
            let timeout: [libc::c_long; 2] = [
                narrowed(time.as_secs()),
                narrowed(time.subsec_nanos().into()),
            ];
            futex(&self.stopped, libc::FUTEX_WAIT, 0, Some(&timeout));
            false
        };
        if self.is_stopped() {
            WakeCause::Stopped
        } else if was_set {
            WakeCause::ClockSet
        } else {
            WakeCause::Timeout
        }
    }

    /// Sleeps on the timer. Returns whether the clock was set.
    fn poll(&self, timer: libc::c_int, time: Duration) -> bool {
        let mut poll = libc::pollfd {
            fd: timer,
            events: libc::POLLIN,
            revents: 0,
        };
        let timeout = timespec(time);
        // SAFETY: one pollfd and a timeout, both valid; no signal mask.
        unsafe { libc::ppoll(&raw mut poll, 1, &raw const timeout, ptr::null()) };
        poll.revents != 0
            && self.timer().is_some_and(|timer| {
                let expiry_s = far_expiry_now_s();
                tells_set_clock(arm(timer, expiry_s), expiry_s)
            })
    }

    /// Ends the present and every later [`wait`](Self::wait). If other code has closed the timer,
    /// the present wait goes on to its end.
    pub(crate) fn stop(&self) {
        // ORDERING: Relaxed, a flag on its own. The kernel sees the flag before it searches for
        // sleepers.
        self.stopped.store(1, Ordering::Relaxed);
        futex(&self.stopped, libc::FUTEX_WAKE, 1, None);
        if let Some(timer) = self.timer() {
            arm(timer, 1).ok();
        }
    }

    /// Closes the timer, for a process in which no thread sleeps on it.
    pub(crate) fn close(&self) {
        if let Some(timer) = self.timer() {
            // ORDERING: Relaxed, as in `timer`.
            self.timer.store(-1, Ordering::Relaxed);
            // SAFETY: the descriptor is this sleep's, as was just checked, and nothing uses it
            // after this.
            unsafe { libc::close(timer) };
        }
    }
}

impl Drop for StoppableSleep {
    fn drop(&mut self) {
        self.close();
    }
}

/// Far enough in the future to never come, s since 1970: the year 2262, the end of 64-bit
/// nanoseconds.
const FAR_S: u64 = 9_223_372_036;

/// The last second of a `time_t` of 32 bits, in 2038.
const LAST_32_BIT_S: u64 = i32::MAX as u64;

/// The expiry that disarms a timer (timerfd_settime(2)).
const DISARMED: u64 = 0;

/// The expiry of a timer that shall only report that the clock was set, s since 1970. `last_s` is
/// the last second of libc's type, and `now_s` the present, which is 0 or negative if it does not
/// fit that type.
///
/// From the last second on, an armed timer would always be readable, and the thread would spin. So
/// it is disarmed. The kernel makes it readable after the clock was set all the same
/// (`timerfd_setup_cancel` in `fs/timerfd.c` does not ask for the expiry).
fn far_expiry_s(last_s: u64, now_s: impl FnOnce() -> i64) -> u64 {
    if last_s >= FAR_S {
        return FAR_S;
    }
    match u64::try_from(now_s()) {
        Ok(now_s) if 0 < now_s && now_s < last_s => last_s,
        _ => DISARMED,
    }
}

/// [`far_expiry_s`] now. Reads the clock only where `time_t` has 32 bits.
fn far_expiry_now_s() -> u64 {
    let is_narrow = size_of_val(&MARK.tv_sec) < size_of::<i64>();
    let last_s = if is_narrow { LAST_32_BIT_S } else { u64::MAX };
    far_expiry_s(last_s, || OsClock.unix_ns() / 1_000_000_000)
}

/// Arms `timer` for `expiry_s` seconds after 1970 (a time in the past: at once), or disarms it.
fn arm(timer: libc::c_int, expiry_s: u64) -> Result<(), i32> {
    let value = libc::itimerspec {
        it_interval: MARK,
        it_value: libc::timespec {
            tv_sec: narrowed(expiry_s),
            tv_nsec: 0,
        },
    };
    let flags = libc::TFD_TIMER_ABSTIME | libc::TFD_TIMER_CANCEL_ON_SET;
    // SAFETY: the value is valid, the old one is not asked for.
    let result = unsafe { libc::timerfd_settime(timer, flags, &raw const value, ptr::null_mut()) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error().raw_os_error().unwrap_or(0))
    }
}

/// Whether the clock was set, by the result of arming a readable timer again (Linux
/// `fs/timerfd.c`, `timerfd_setup`: the timer is armed even where the answer is ECANCELED).
/// Disarming it reports nothing; only a set clock makes a disarmed timer readable.
fn tells_set_clock(armed: Result<(), i32>, expiry_s: u64) -> bool {
    armed == Err(libc::ECANCELED) || expiry_s == DISARMED
}

/// A futex operation on `word`, within this process. `timeout`: s and ns.
pub(super) fn futex(
    word: &AtomicU32,
    operation: libc::c_int,
    value: u32,
    timeout: Option<&[libc::c_long; 2]>,
) {
    let timeout = timeout.map_or(ptr::null(), |timeout| timeout.as_ptr());
    // SAFETY: the word, and the timeout if there is one, are valid for the call. The kernel goes to
    // sleep only if the word still has that value, and waking touches no memory.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            value,
            timeout,
        )
    };
}

/// The number in libc's type, which has 32 bits on some targets: then at most 2^31 - 1.
fn narrowed<T: TryFrom<u64> + From<i32>>(number: u64) -> T {
    T::try_from(number).unwrap_or_else(|_| i32::MAX.into())
}

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: narrowed(time.as_secs()),
        tv_nsec: narrowed(u64::from(time.subsec_nanos())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn both() -> [StoppableSleep; 2] {
        [
            StoppableSleep::notifying_clock_set(),
            StoppableSleep::plain(),
        ]
    }

    #[test]
    fn a_wait_ends_by_itself() {
        for sleep in both() {
            let start = Instant::now();
            assert_eq!(sleep.wait(Duration::from_millis(3)), WakeCause::Timeout);
            assert!(start.elapsed() >= Duration::from_millis(3));
        }
    }

    #[test]
    fn a_stop_ends_a_wait_that_has_begun() {
        for sleep in both() {
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| sleep.wait(Duration::from_secs(3_600)));
                std::thread::sleep(Duration::from_millis(20));
                sleep.stop();
                assert_eq!(waiter.join().unwrap(), WakeCause::Stopped);
            });
        }
    }

    #[test]
    fn a_stop_ends_every_later_wait() {
        for sleep in both() {
            sleep.stop();
            for _ in 0..2 {
                assert_eq!(sleep.wait(Duration::from_secs(3_600)), WakeCause::Stopped);
            }
        }
    }

    const LAST_S: i64 = i32::MAX as i64;

    /// The expiry where `time_t` has 32 bits, at this time.
    fn narrow_expiry_s(now_s: i64) -> u64 {
        far_expiry_s(LAST_32_BIT_S, || now_s)
    }

    #[test]
    fn a_narrow_timer_expires_in_its_last_second() {
        assert_eq!([1, LAST_S - 1].map(narrow_expiry_s), [LAST_32_BIT_S; 2]);
    }

    #[test]
    fn a_narrow_timer_is_disarmed_from_its_last_second_on() {
        // As libc tells it; wrapped.
        let present_s = [LAST_S, LAST_S + 1, i64::from(i32::MIN)];
        assert_eq!(present_s.map(narrow_expiry_s), [DISARMED; 3]);
    }

    #[test]
    fn a_narrow_timer_is_disarmed_if_the_present_is_unknown() {
        assert_eq!(narrow_expiry_s(0), DISARMED);
    }

    #[test]
    fn a_wide_timer_expires_in_the_far_future_whatever_the_present_is() {
        let never = || unreachable!("the clock is not read");
        assert_eq!(far_expiry_s(u64::MAX, never), FAR_S);
    }

    #[test]
    fn a_timer_that_was_cancelled_tells_that_the_clock_was_set() {
        assert!(tells_set_clock(Err(libc::ECANCELED), FAR_S));
    }

    #[test]
    fn a_timer_that_is_armed_again_tells_of_no_set_clock() {
        assert!(!tells_set_clock(Ok(()), FAR_S));
    }

    #[test]
    fn a_timer_that_cannot_be_armed_tells_of_no_set_clock() {
        assert!(!tells_set_clock(Err(libc::EINVAL), FAR_S));
    }

    #[test]
    fn a_readable_timer_that_is_disarmed_tells_that_the_clock_was_set() {
        assert!(tells_set_clock(Ok(()), DISARMED));
    }

    /// A sleep whose timer is disarmed, and this timer.
    fn disarmed() -> (StoppableSleep, libc::c_int) {
        let sleep = StoppableSleep::notifying_clock_set();
        let timer = sleep.timer().expect("a timer");
        arm(timer, DISARMED).unwrap();
        (sleep, timer)
    }

    #[test]
    fn a_wait_with_a_disarmed_timer_ends_by_itself() {
        let (sleep, _) = disarmed();
        let start = Instant::now();
        assert_eq!(sleep.wait(Duration::from_millis(3)), WakeCause::Timeout);
        assert!(start.elapsed() >= Duration::from_millis(3));
    }

    #[test]
    fn a_stop_ends_a_wait_with_a_disarmed_timer() {
        let (sleep, _) = disarmed();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| sleep.wait(Duration::from_secs(3_600)));
            std::thread::sleep(Duration::from_millis(20));
            sleep.stop();
            assert_eq!(waiter.join().unwrap(), WakeCause::Stopped);
        });
    }

    #[test]
    fn a_sleep_keeps_its_disarmed_timer() {
        let (sleep, timer) = disarmed();
        assert_eq!(sleep.wait(Duration::from_millis(3)), WakeCause::Timeout);
        assert_eq!(sleep.timer(), Some(timer));
    }

    /// Whether `sleep` has the number of a descriptor, which may be another file's.
    fn has_descriptor(sleep: &StoppableSleep) -> bool {
        // ORDERING: Relaxed: one thread.
        sleep.timer.load(Ordering::Relaxed) >= 0
    }

    #[test]
    fn a_plain_sleep_has_no_descriptor() {
        assert!(!has_descriptor(&StoppableSleep::plain()));
    }

    #[test]
    fn a_sleep_that_is_closed_has_no_descriptor() {
        let sleep = StoppableSleep::notifying_clock_set();
        assert!(has_descriptor(&sleep));
        sleep.close();
        assert!(!has_descriptor(&sleep));
    }

    #[test]
    fn a_sleep_abandons_a_descriptor_that_is_not_its_timer() {
        // SAFETY: a copy of the standard error stream, which only this test has.
        let others = unsafe { libc::dup(libc::STDERR_FILENO) };
        let sleep = StoppableSleep {
            timer: AtomicI32::new(others),
            stopped: AtomicU32::new(0),
        };
        assert_eq!(sleep.timer(), None);
        assert!(!has_descriptor(&sleep));
        // SAFETY: the copy from above, which nothing uses any more.
        assert_eq!(unsafe { libc::close(others) }, 0, "the sleep left it open");
    }

    /// As in a program that has closed its standard input.
    #[test]
    fn a_timer_may_have_the_descriptor_0() {
        let original = StoppableSleep::notifying_clock_set();
        let timer = original.timer().expect("a timer");
        let with_0 = StoppableSleep {
            timer: AtomicI32::new(0),
            stopped: AtomicU32::new(0),
        };
        // SAFETY: copies the standard input, which the tests do not read.
        let input = unsafe { libc::dup(0) };
        assert!(input >= 0, "no standard input");
        // SAFETY: replaces the standard input by a timer, which stays open.
        assert_eq!(unsafe { libc::dup2(timer, 0) }, 0);
        let found = with_0.timer();
        // SAFETY: puts the standard input back.
        assert_eq!(unsafe { libc::dup2(input, 0) }, 0);
        // SAFETY: closes the copy, which only this test has.
        unsafe { libc::close(input) };
        core::mem::forget(with_0); // it would close the standard input
        assert_eq!(found, Some(0));
    }
}
