//! A clock that reads a page, which a thread of this process serves from a file beside the program.

use std::thread::{self, sleep};
use std::time::Duration;

use tickline::{Clock, ClockState, LinePerCpu};
use tickline_observe::wait_until;
use tickline_page::Publisher;

use crate::subject::{ClockSubject, once, same, subject};

/// The clock; `None` if this process can't serve a page.
fn page_clock() -> Option<&'static Clock> {
    let make = || {
        let path = std::env::current_exe().ok()?.with_file_name("page");
        let own = Clock::builder()
            .line_per_cpu(LinePerCpu::Off)
            .build()
            .ok()?;
        let mut publisher = Publisher::start(own, &path).ok()?;
        thread::spawn(move || {
            while let Ok(pause) = publisher.maintain() {
                sleep(pause)
            }
        });
        let clock = tickline_page::open(&path).ok()?;
        wait_until(Duration::from_secs(3), || {
            clock.status().state == ClockState::Fast
        })
        .then_some(clock)
    };
    once!(Option<Clock>, make()).as_ref()
}

/// The reading of a page, if this process may serve one.
pub(crate) fn subjects() -> Vec<ClockSubject> {
    if page_clock().is_none() {
        return Vec::new();
    }
    vec![subject!(Time, "tickline page now_ordered_ns", {
        let clock = page_clock().expect("checked before");
        move || clock.now_ordered().as_nanos()
    }, ns same)]
}
