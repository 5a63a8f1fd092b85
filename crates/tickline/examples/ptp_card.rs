//! A backend of one's own: a `Clock` by the PTP hardware clock of a network card, which `ptp4l`
//! synchronises with the machines of a network.
//!
//! `cargo run --release --example ptp_card [/dev/ptp0]`
//!
//! Its output has: "readings come from", "in order", "Unix time by the card".
//!
//! The parts of a program that get the time from a `Clock` work on the card's time without a
//! change. If the machine has no such card, or the process may not open it, the kernel's
//! `CLOCK_TAI` stands in for the card. If a card fails while the program runs, the OS clock goes on
//! from there, and the clock's state says so.
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

#[cfg(target_os = "linux")]
mod card {
    use std::fs::File;
    use std::os::fd::AsFd as _;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::time::Duration;

    use rustix::time::{DynamicClockId, clock_gettime_dynamic};
    use tickline::backend::Backend;
    use tickline::{Clock, ClockState, Instant, Reading, UnixTime};

    /// The clock of a card, and the point at which its time became the program's.
    #[derive(Debug)]
    pub(crate) struct PtpCard {
        /// `None`: the kernel's `CLOCK_TAI` stands in for a card.
        device: Option<File>,
        /// The clock that goes on if the card fails.
        os: Clock,
        /// An instant of `os`, and the card's time at that moment, ns.
        start: Instant,
        card_at_start_ns: u64,
        /// The card's time minus Unix time: whole seconds, 37 for a card that shows TAI.
        offset: Duration,
        /// The largest instant that a call has returned, ns: a card may be set back.
        largest_ns: AtomicU64,
        has_failed: AtomicBool,
    }

    /// The time of the card, ns; `None` if it does not answer.
    fn card_ns(device: Option<&File>) -> Option<u64> {
        let clock = device.map_or(DynamicClockId::Tai, |file| {
            DynamicClockId::Dynamic(file.as_fd())
        });
        let time = clock_gettime_dynamic(clock).ok()?;
        let seconds = u64::try_from(time.tv_sec).ok()?;
        seconds
            .checked_mul(1_000_000_000)?
            .checked_add(u64::try_from(time.tv_nsec).ok()?)
    }

    impl PtpCard {
        /// The card at `path`, or the kernel's clock in its place. The error says why neither has
        /// a time.
        pub(crate) fn open(path: &str) -> Result<Self, &'static str> {
            let device = File::open(path)
                .ok()
                .filter(|file| card_ns(Some(file)).is_some());
            let os = Clock::default();
            let start = os.now_ordered();
            let unix = os.unix_now();
            let card_at_start_ns = card_ns(device.as_ref()).ok_or("the kernel has no CLOCK_TAI")?;
            let ahead_ns = card_at_start_ns.saturating_sub(unix.as_nanos());
            Ok(Self {
                device,
                os,
                start,
                card_at_start_ns,
                offset: Duration::from_secs(ahead_ns.saturating_add(500_000_000) / 1_000_000_000),
                largest_ns: AtomicU64::new(start.as_nanos()),
                has_failed: AtomicBool::new(false),
            })
        }

        pub(crate) fn has_device(&self) -> bool {
            self.device.is_some()
        }

        /// The time since the start by the card, or by the OS clock if the card does not answer.
        fn passed(&self) -> Duration {
            let by_card = card_ns(self.device.as_ref())
                .map(|ns| Duration::from_nanos(ns.saturating_sub(self.card_at_start_ns)));
            // ORDERING: Relaxed, a flag for people.
            self.has_failed.store(by_card.is_none(), Ordering::Relaxed);
            by_card.unwrap_or_else(|| self.os.now_ordered() - self.start)
        }
    }

    impl Backend for PtpCard {
        /// In order, also if the card is set back: the larger of its time and the last one.
        fn now(&self) -> Instant {
            let now = self
                .start
                .checked_add(self.passed())
                .unwrap_or(Instant::MAX);
            let ns = now.as_nanos();
            // ORDERING: Relaxed: a call that begins after another one was complete finds that
            // call's value, or a larger one, because both change one location.
            let before_ns = self.largest_ns.fetch_max(ns, Ordering::Relaxed);
            Instant::from_nanos(ns.max(before_ns))
        }

        fn unix_now(&self) -> UnixTime {
            let at_start = UnixTime::from_nanos(self.card_at_start_ns);
            at_start
                .checked_add(self.passed())
                .and_then(|time| time.checked_sub(self.offset))
                .unwrap_or(UnixTime::UNIX_EPOCH)
        }

        /// The card showed `now` at some moment of the call. At the end of the call it shows at
        /// most the call's duration more: that is the upper bound.
        fn reading(&self) -> Reading<Instant> {
            let begin = self.os.now_ordered();
            let now = self.now();
            let spent = self.os.now_ordered() - begin;
            Reading::new(now, now..=now.checked_add(spent).unwrap_or(now))
        }

        fn unix_reading(&self) -> Reading<UnixTime> {
            let begin = self.os.now_ordered();
            let now = self.unix_now();
            let spent = self.os.now_ordered() - begin;
            Reading::new(now, now..=now.checked_add(spent).unwrap_or(now))
        }

        fn state(&self) -> ClockState {
            // ORDERING: Relaxed, as in `passed`.
            if self.has_failed.load(Ordering::Relaxed) {
                ClockState::BackendFallback("the card does not answer")
            } else {
                ClockState::Backend
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use std::sync::Arc;
    use std::time::Duration;

    use tickline::{Clock, Instant};

    /// A part of a program, which does not know the clock.
    fn time_a_request(clock: &Clock) -> Duration {
        let start = clock.now();
        std::thread::sleep(Duration::from_millis(20));
        clock.now() - start
    }

    let path = std::env::args().nth(1).unwrap_or("/dev/ptp0".to_owned());
    let card = card::PtpCard::open(&path)?;
    if card.has_device() {
        println!("the card {path} serves");
    } else {
        println!("no card answers at {path}: the kernel's CLOCK_TAI stands in for it");
    }
    let clock = Clock::from_backend(Arc::new(card));
    println!("{}", clock.status().state);
    println!("a request by the card's time: {:?}", time_a_request(&clock));

    let mut last = Instant::ZERO;
    for _ in 0..10_000 {
        let now = clock.now_ordered();
        assert!(now >= last, "{now:?} after {last:?}");
        last = now;
    }
    let reading = clock.reading();
    println!(
        "10,000 readings in order; the bounds of the last one are {:?} apart",
        reading.width()
    );

    let card_unix = clock.unix_now();
    let os_unix = Clock::global().unix_now();
    println!("Unix time by the card: {card_unix}, by the OS clock: {os_unix}");
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("PTP cards are files of Linux");
}
