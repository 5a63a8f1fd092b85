//! The global clock, looked at again and again: by this thread, wherever it runs, and on each CPU by a visitor.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use tickline::exchange;
use tickline::{Clock, Events, State, Status};

use super::track::{self, Point};

/// Over how long the skew is measured, s: a look is good to 10 or 20 ns, so this is good to some ppb.
pub(crate) const SKEW_S: f64 = 10.0;

/// Looks behind a skew, at least.
const SKEW_LOOKS: usize = 3;

/// How often a visitor sees whether it is to stop.
const NAP: Duration = Duration::from_millis(50);

/// One look, and what the clock said about itself then.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    /// Unix time, s.
    pub(crate) unix_s: f64,
    pub(crate) point: Point,
    /// What served the reading.
    pub(crate) state: State,
    /// By how much the offset grows, over the last 10 s in which the counter served, ppb; `None` with less than three looks.
    pub(crate) skew_ppb: Option<f64>,
    pub(crate) status: Status,
    /// How often each event has happened since the start.
    pub(crate) events: Vec<(&'static str, u64)>,
    /// The newest look on each CPU.
    pub(crate) cpus: Vec<CpuLook>,
}

/// A look on one CPU.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuLook {
    pub(crate) cpu: u32,
    pub(crate) point: Point,
    pub(crate) state: State,
}

/// A straight line by least squares through (s, ns), whose slope is in ns per s: ppb.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Slope {
    count: f64,
    at: f64,
    value: f64,
    at_at: f64,
    at_value: f64,
}

impl Slope {
    pub(crate) fn add(&mut self, at_s: f64, value_ns: f64) {
        self.count += 1.0;
        self.at += at_s;
        self.value += value_ns;
        self.at_at += at_s * at_s;
        self.at_value += at_s * value_ns;
    }

    /// `None` if the points do not make a line.
    pub(crate) fn ppb(&self) -> Option<f64> {
        let spread = self.count * self.at_at - self.at * self.at;
        (self.count >= 3.0 && spread > 0.0)
            .then(|| (self.count * self.at_value - self.at * self.value) / spread)
    }
}

/// Whoever looks.
#[derive(Debug)]
pub(crate) struct Watcher {
    start: Instant,
    before: Events,
    recent: VecDeque<(f64, f64)>,
    visitor: Visitor,
}

impl Watcher {
    /// Looks on `cpus` as well, every `interval`.
    pub(crate) fn new(cpus: Vec<u32>, interval: Duration) -> Self {
        let start = Instant::now();
        Self {
            start,
            before: Clock::global().status().events,
            recent: VecDeque::new(),
            visitor: Visitor::start(cpus, interval, start),
        }
    }

    pub(crate) fn look(&mut self) -> Sample {
        let clock = Clock::global();
        let at_s = self.start.elapsed().as_secs_f64();
        let (point, state) = track::look(clock, at_s);
        let status = clock.status();
        if state == State::Fast {
            self.recent.push_back((at_s, point.offset_ns));
        } else {
            // What the OS clock serves has no rate of its own.
            self.recent.clear();
        }
        while self.recent.len() > SKEW_LOOKS && self.recent[0].0 < at_s - SKEW_S {
            self.recent.pop_front();
        }
        let mut slope = Slope::default();
        self.recent.iter().for_each(|(at_s, offset_ns)| slope.add(*at_s, *offset_ns));
        let events = status.events.iter().zip(self.before.iter());
        let events = events.map(|((event, now), (_, before))| (event.name(), now.saturating_sub(before)));
        let unix = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Sample {
            unix_s: unix.as_secs_f64(),
            point,
            state,
            skew_ppb: slope.ppb(),
            events: events.collect(),
            cpus: self.visitor.looks(),
            status,
        }
    }

    /// The newest look on each CPU.
    pub(crate) fn visits(&self) -> Vec<CpuLook> {
        self.visitor.looks()
    }
}

/// A thread that visits CPUs in turn. It may have to wait for one that is busy, so nobody waits for it: at the end it is told,
/// and left.
#[derive(Debug)]
struct Visitor {
    stop: Arc<AtomicBool>,
    looks: Arc<Mutex<Vec<CpuLook>>>,
}

impl Visitor {
    fn start(cpus: Vec<u32>, interval: Duration, start: Instant) -> Self {
        let this = Self { stop: Arc::default(), looks: Arc::default() };
        let (stop, looks) = (Arc::clone(&this.stop), Arc::clone(&this.looks));
        let visit = move || {
            // ORDERING: Relaxed, a flag that is looked at again and again.
            while !stop.load(Ordering::Relaxed) {
                let round = Instant::now();
                for cpu in &cpus {
                    if let Some(look) = look_on(*cpu, start) {
                        note(&mut looks.lock().unwrap_or_else(PoisonError::into_inner), look);
                    }
                }
                // ORDERING: as above.
                while round.elapsed() < interval && !stop.load(Ordering::Relaxed) {
                    thread::sleep(interval.saturating_sub(round.elapsed()).min(NAP));
                }
            }
        };
        // Without a thread to be had, there are no looks on the CPUs.
        thread::Builder::new().name("tickline-visits".to_owned()).spawn(visit).ok();
        this
    }

    fn looks(&self) -> Vec<CpuLook> {
        self.looks.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Visitor {
    fn drop(&mut self) {
        // ORDERING: Relaxed, pairs with the loads in `start`.
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// A look on `cpu`; `None` if it is not to be had now.
fn look_on(cpu: u32, start: Instant) -> Option<CpuLook> {
    exchange::on_cpu(cpu, || {
        let (point, state) = track::look(Clock::global(), start.elapsed().as_secs_f64());
        CpuLook { cpu, point, state }
    })
}

/// Puts a look in the place of the CPU's last one.
fn note(looks: &mut Vec<CpuLook>, look: CpuLook) {
    match looks.binary_search_by_key(&look.cpu, |known| known.cpu) {
        Ok(place) => looks[place] = look,
        Err(place) => looks.insert(place, look),
    }
}

/// The state in a word.
pub(crate) const fn state_name(state: State) -> &'static str {
    match state {
        State::Fast => "fast",
        State::Disrupted => "disrupted",
        State::Fallback(_) => "fallback",
        _ => "calibrating",
    }
}

/// The reason for a fallback, as a stable code.
pub(crate) const fn reason_code(state: State) -> Option<&'static str> {
    match state {
        State::Fallback(reason) => Some(reason.code()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slope_is_that_of_the_points() {
        let mut slope = Slope::default();
        assert_eq!(slope.ppb(), None);
        for at in 0..50_i32 {
            let noise = if at % 2 == 0 { 1.0 } else { -1.0 };
            slope.add(f64::from(at), 40.0 - 3.0 * f64::from(at) + noise);
        }
        assert!((slope.ppb().unwrap() + 3.0).abs() < 0.01, "{:?}", slope.ppb());
        let mut still = Slope::default();
        (0..5).for_each(|_| still.add(1.0, 2.0));
        assert_eq!(still.ppb(), None, "points at one time make no line");
    }

    #[test]
    fn looks_are_kept_by_cpu() {
        let (point, state) = track::look(Clock::global(), 0.0);
        let mut looks = Vec::new();
        for cpu in [3, 1, 2, 1] {
            note(&mut looks, CpuLook { cpu, point, state });
        }
        assert_eq!(looks.iter().map(|look| look.cpu).collect::<Vec<_>>(), [1, 2, 3]);
    }

    #[test]
    fn a_watcher_looks_here_and_on_each_cpu() {
        let cpus: Vec<u32> = exchange::cpus().into_iter().take(2).collect();
        let mut watcher = Watcher::new(cpus.clone(), Duration::from_millis(10));
        let start = Instant::now();
        let mut samples = vec![watcher.look()];
        // Patience for a busy machine, where a visitor waits for its CPU.
        while (samples.len() < 3 || samples.last().is_some_and(|last| last.cpus.len() < cpus.len()))
            && start.elapsed() < Duration::from_secs(30)
        {
            thread::sleep(Duration::from_millis(10));
            samples.push(watcher.look());
        }
        assert!(samples.windows(2).all(|pair| pair[0].point.at_s < pair[1].point.at_s));
        let last = samples.last().unwrap();
        assert_eq!(last.cpus.iter().map(|look| look.cpu).collect::<Vec<_>>(), cpus);
        assert!(samples[0].skew_ppb.is_none() && (last.state == State::Fast || last.skew_ppb.is_none()));
        assert!(last.unix_s > 1.6e9, "{}", last.unix_s);
    }
}
