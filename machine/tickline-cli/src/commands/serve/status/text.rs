//! The state of a page as text.

use std::borrow::Cow;
use std::time::Duration;

use tickline_page::lease::{FAST_RATE_PPB, LeasePhase};

use super::super::fast_rate;
use super::no_line::WhyNoLine;
use super::{PagePhase, PageReport, PageServer};
use crate::machine::page::{Halt, Process, Reader};
use crate::screen::Screen;
use crate::words::rate;

impl PageReport {
    /// The state as text. Each line begins with a label.
    pub(in crate::commands::serve) fn text(&self) -> String {
        let mut screen = Screen::for_stdout();
        say(
            &mut screen,
            "page",
            &format!("{}, of user {}", self.page, self.owner),
        );
        say(&mut screen, "server", &self.server_words());
        say(
            &mut screen,
            "phase",
            &format!("{}: {}", self.phase.code(), self.meaning()),
        );
        match self.why_no_line {
            Some(WhyNoLine::Machine(reason)) => say(
                &mut screen,
                "reason",
                &format!("{}: {reason}; `tickline doctor` says more", reason.code()),
            ),
            Some(WhyNoLine::Server(reason)) => say(&mut screen, "reason", reason),
            None => {}
        }
        self.say_lease(&mut screen);
        self.say_lead(&mut screen);
        self.say_rate(&mut screen);
        self.say_readers(&mut screen);
        if !self.serving && !self.switched_off {
            say(&mut screen, "next", &self.next);
        }
        screen.text
    }

    /// Says how long the leases last, and when they end.
    fn say_lease(&self, screen: &mut Screen) {
        let (Some(age_ns), Some(left_ns), Some(lease_ns)) =
            (self.age_ns, self.lease_left_ns, self.lease_ns)
        else {
            return;
        };
        let [age, left, lease] = [age_ns, left_ns, lease_ns].map(|ns| {
            format!(
                "{:.3} s",
                Duration::from_nanos(ns.unsigned_abs()).as_secs_f64()
            )
        });
        let end = match left_ns {
            0.. => format!("in use for {age}; all leases end in {left}"),
            _ => format!("all leases ended {left} ago"),
        };
        say(screen, "lease", &format!("{lease}; {end}"));
    }

    /// Says how far the line may be above the OS clock, and where it is now.
    fn say_lead(&self, screen: &mut Screen) {
        if let Some(limit_ns) = self.lead_limit_ns
            && self.serving
        {
            let unix = match self.unix_lead_limit_ns {
                Some(unix_ns) => format!("Unix time at most {unix_ns} ns"),
                None => "Unix time comes from the OS".to_owned(),
            };
            say(
                screen,
                "lead",
                &format!("at most {limit_ns} ns above the OS clock; {unix}"),
            );
        }
        if let Some(now_ns) = self.lead_now_ns {
            let side = if now_ns < 0 { "below" } else { "above" };
            let distance_ns = now_ns.unsigned_abs();
            say(
                screen,
                "now",
                &format!("{distance_ns} ns {side} the OS clock"),
            );
        }
    }

    /// Says how the kernel corrects the rate of its clock, if it does.
    fn say_rate(&self, screen: &mut Screen) {
        let Some(rate_ppb) = self.rate_ppb else {
            return;
        };
        if rate_ppb == 0 {
            return;
        }
        let is_fast = rate_ppb.unsigned_abs() > FAST_RATE_PPB;
        let then = if is_fast {
            format!(": no line is published while that is above {}", fast_rate())
        } else {
            String::new()
        };
        say(
            screen,
            "rate",
            &format!(
                "the kernel corrects the rate of its clock by {}{then}",
                rate(rate_ppb)
            ),
        );
    }

    /// The server, and who keeps it from running.
    fn server_words(&self) -> String {
        let server = self.server.words();
        match (&self.server, self.server_halt) {
            (PageServer::Process(pid), Some(Halt::Signal)) => format!(
                "{server}, which a signal has stopped (state T): `kill -CONT {pid}`, as its user or \
                 root, lets it go on"
            ),
            (_, Some(Halt::Debugger)) => {
                format!("{server}, which a debugger has stopped (state t)")
            }
            _ => server,
        }
    }

    /// How many processes can't be examined, and why; empty if there are none.
    fn unknown_words(&self) -> String {
        let unknown = &self.readers_unknown;
        if unknown.is_empty() {
            return String::new();
        }
        let count = match unknown.len() {
            1 => "1 process is unknown".to_owned(),
            count => format!("{count} processes are unknown"),
        };
        if self.may_examine_others {
            return format!(
                "; {count}, which the kernel refuses to show though this user has CAP_SYS_PTRACE: \
                 {}",
                listed(unknown)
            );
        }
        // To another user nearly every process is unknown, so their numbers say nothing.
        let them = if unknown.len() == 1 { "it" } else { "them" };
        format!("; {count}: this user may not trace {them} {NEEDED}")
    }

    /// Says which processes read the page, and which were to read it, and do not.
    fn say_readers(&self, screen: &mut Screen) {
        let unknown = self.unknown_words();
        let hidden = if self.readers_hidden {
            "; /proc hides other users' processes (hidepid)"
        } else {
            ""
        };
        say(
            screen,
            "readers",
            &format!("{}{unknown}{hidden}", self.readers.len()),
        );
        for Reader {
            pid,
            name,
            by_library,
        } in self.readers.iter().take(MAX_READERS)
        {
            let how = if *by_library {
                ""
            } else {
                ", which reads the page itself"
            };
            say(screen, "", &format!("{pid} {name}{how}"));
        }
        let more = self.readers.len().saturating_sub(MAX_READERS);
        if more > 0 {
            say(screen, "", &format!("and {more} more"));
        }
        let library_only = "with the library, but not with this page";
        say_processes(screen, library_only, &self.library_only);
        let run_only = "started by tickline run, but without the page and the library";
        say_processes(screen, run_only, &self.run_only);
    }

    /// The meaning of the phase for programs.
    fn meaning(&self) -> Cow<'static, str> {
        let text = match self.phase {
            PagePhase::Expired => "the leases have run out; programs ask the OS clock",
            PagePhase::Stored(LeasePhase::Off) if self.switched_off => {
                let text = format!(
                    "switched off: run {}, then start a server; programs ask the OS clock",
                    self.on
                );
                return text.into();
            }
            PagePhase::Stored(LeasePhase::Off) => {
                "no server publishes a line; programs ask the OS clock"
            }
            PagePhase::Stored(LeasePhase::NoLine | LeasePhase::FirstPublication) => {
                "there is no line; programs ask the OS clock"
            }
            PagePhase::Stored(LeasePhase::Doubted) => {
                "the line may be wrong; programs also ask the OS clock, and return the later time"
            }
            PagePhase::Stored(_) => "programs take the time from the page",
        };
        text.into()
    }
}

impl PageServer {
    fn words(&self) -> String {
        match (self, self.unknown()) {
            (Self::Process(pid), _) => format!("process {pid}"),
            (_, Some(reason)) => format!("unknown: {reason}"),
            (_, None) => "none runs".to_owned(),
        }
    }
}

/// Shows which processes are so; nothing if there are none.
fn say_processes(screen: &mut Screen, how: &str, processes: &[Process]) {
    if !processes.is_empty() {
        say(screen, "", &format!("{how}: {}", listed(processes)));
    }
}

/// The numbers and names of the first processes, and how many more there are. A process may have
/// chosen an empty name.
fn listed(processes: &[Process]) -> String {
    let shown = processes.iter().take(MAX_READERS);
    let shown: Vec<_> = shown
        .map(|Process { pid, name }| format!("{pid} {name}").trim_end().to_owned())
        .collect();
    let more = match processes.len().saturating_sub(MAX_READERS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    shown.join(", ") + &more
}

/// Shows a text with its label, or a further text of the label above.
fn say(screen: &mut Screen, label: &str, text: &str) {
    screen.say(&format!("{label:<7} "), text);
}

/// The right that shows the mappings of all processes: `/proc/PID/maps` needs the right to trace
/// the process (`PTRACE_MODE_READ`, ptrace(2)). Root lacks it where a container or a sandbox has
/// taken the capability away.
const NEEDED: &str = "(root needs CAP_SYS_PTRACE)";

/// The most readers on the screen, below some ten other lines.
const MAX_READERS: usize = 12;

#[cfg(test)]
mod tests;
