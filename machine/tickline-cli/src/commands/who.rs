//! `tickline who`: counts the system calls for the time by process, and computes their cost.
//!
//! `measure::who` counts the calls by process and clock. `call_costs` has the cost of each call.

mod call_costs;
mod text;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::call_costs::{cost_ns, fixed_ns};
use crate::args;
use crate::document::Document;
use crate::exit::Exit;
use crate::float::as_f64;
use crate::measure::costs;
use crate::measure::who::{CallCounts, Caller, NotCounted, User, WhoSummary, count};
use crate::output::JsonOutput;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::sudo;

pub(crate) fn run(args: &args::Who) -> io::Result<Exit> {
    let setup = Setup::start()?;
    if let Some(pid) = args.process {
        check_process(pid)?;
    }
    let output = JsonOutput::open(args.json.target.as_deref())?;
    let progress = Progress::new();
    let counted = count(
        args.process,
        args.duration,
        progress.part("calls", 0.0, 0.8),
    );
    // Measure the costs after the count, because tracepoints make each system call costlier. If no
    // call was counted, nobody needs them.
    let costs = if counted.is_ok() {
        costs::settle();
        costs::measure(
            &setup.calls(),
            costs::ROUNDS,
            progress.part("costs", 0.8, 1.0),
        )
    } else {
        Vec::new()
    };
    let mut document = setup.document("who", costs, None)?;
    document.add_diagnosis();
    let exit = if counted.is_ok() {
        Exit::Success
    } else {
        Exit::Negative
    };
    let who = counted
        .map(|counted| summary(counted, &document))
        .unwrap_or_else(|obstacle| {
            let user = User::of_this_process();
            let process = args.process;
            let duration = args.duration;
            let program = sudo::this_program();
            WhoSummary {
                not_counted: Some(NotCounted {
                    obstacle: obstacle.to_string(),
                    fixing_commands: obstacle.fixing_commands(user, process, duration, &program),
                    other_tools: obstacle.other_tools(process, duration),
                    container_options: obstacle.container_options(),
                }),
                ..WhoSummary::default()
            }
        });
    progress.finish();
    document.who = Some(WhoSummary {
        process: args.process,
        ..who
    });
    output.emit(&document, &text::text(&document))?;
    Ok(exit)
}

/// Checks that the process exists, by `/proc`. Without `/proc`, any process passes.
///
/// # Errors
///
/// If there is no such process, or if this is the number of a thread, which has no count of its
/// own.
fn check_process(pid: u32) -> io::Result<()> {
    let process = PathBuf::from(format!("/proc/{pid}"));
    if Path::new("/proc/self").exists() && !process.exists() {
        return Err(io::Error::other(format!("there is no process {pid}")));
    }
    // The file begins with the process's name, which may be any bytes.
    let status = fs::read(process.join("status")).unwrap_or_default();
    match String::from_utf8_lossy(&status)
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:\t"))
        .filter(|tgid| *tgid != pid.to_string())
    {
        Some(tgid) => Err(io::Error::other(format!(
            "{pid} is a thread of process {tgid}: name the process"
        ))),
        None => Ok(()),
    }
}

/// The summary of the calls, each with its cost on this machine.
fn summary(counted: CallCounts, document: &Document) -> WhoSummary {
    let seconds = counted.who.counted_s.unwrap_or(1.0);
    let every = counted.who.sampled_every.unwrap_or(1);
    let callers = counted.samples.into_iter().map(|((pid, call), samples)| {
        let calls_per_second = as_f64(samples.count * every) / seconds;
        let percent = |ns: f64| calls_per_second * ns / 1e9 * 100.0;
        let cost_ns = cost_ns(call, document);
        let fixed_ns = fixed_ns(call, cost_ns, document);
        Caller {
            pid,
            process: samples.process,
            clock: call.name(),
            calls_per_second,
            cost_ns,
            core_percent: cost_ns.map(percent),
            fixed_ns,
            fixed_core_percent: fixed_ns.map(percent),
        }
    });
    let mut callers: Vec<Caller> = callers.collect();
    let weight = |caller: &Caller| (caller.core_percent.unwrap_or(0.0), caller.calls_per_second);
    callers.sort_by(|a, b| {
        weight(b)
            .partial_cmp(&weight(a))
            .unwrap_or(std::cmp::Ordering::Equal)
    });
    WhoSummary {
        callers,
        ..counted.who
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use super::*;

    /// Symptom: a thread counted as a process without calls, if its process's name was not UTF-8.
    #[test]
    fn a_thread_is_refused_whatever_the_name_of_its_process() {
        let error = std::thread::spawn(|| {
            fs::write("/proc/thread-self/comm", b"a\xffb").unwrap();
            let thread = rustix::thread::gettid().as_raw_pid();
            check_process(thread.cast_unsigned())
                .unwrap_err()
                .to_string()
        });
        let error = error.join().unwrap();
        let expected = format!("is a thread of process {}", std::process::id());
        assert!(error.contains(&expected), "{error}");
    }
}
