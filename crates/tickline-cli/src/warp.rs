//! `tickline warp`: compares the counters of the CPUs.

mod text;

pub(crate) use text::{HEADS, pairs, verdict};

use std::io;

use crate::args;
use crate::cpu_list::{self, CpuList};
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::pattern::Pattern;
use crate::measure::warp::{self, MOST_CPUS, MOST_FOR_ALL_PAIRS, Warp};
use crate::output::Outputs;
use crate::progress::Progress;
use crate::rights;
use crate::wrap::Layout;

pub(crate) fn run(args: &args::Warp) -> io::Result<Exit> {
    let guard = rights::start_clock();
    // The comparison needs to know whether the process may read the counter.
    rights::await_judgement();
    let cpus = cpu_list::chosen(args.cpus.as_ref())?;
    let pattern = pattern(args.pairs, cpus.len())?;
    let outputs = Outputs::open(&args.json)?;
    let progress = Progress::new();
    let warp = warp::measure(&cpus, pattern, progress.part("counters", 0.0, 1.0));
    let mut document = Document::new("warp");
    drop(guard);
    progress.finish();
    let warp = warp.among(document.machine.online_cpus.as_deref());
    document.verdict = verdict(&warp);
    let exit = exit(&warp, args.cpus.as_ref());
    document.warp = Some(warp);
    outputs.emit(&document, |out| text::write(&document, Layout::of_stdout(), out))?;
    Ok(exit)
}

/// The result for scripts. CPUs that were neither chosen nor compared leave it unknown.
fn exit(warp: &Warp, chosen: Option<&CpuList>) -> Exit {
    match warp.synchronised {
        Some(false) => Exit::Negative,
        Some(true) if chosen.is_some() || warp.untested_cpus.is_none() => Exit::Success,
        _ => Exit::Unknown,
    }
}

/// The requested pattern; by default all pairs, unless these are too many.
pub(crate) fn pattern(asked: Option<Pattern>, cpus: usize) -> io::Result<Pattern> {
    match asked {
        Some(Pattern::All) if cpus > MOST_CPUS => Err(io::Error::other(format!(
            "--pairs all takes {MOST_CPUS} CPUs at most, and these are {cpus}: choose some by --cpus, or use --pairs star"
        ))),
        Some(pattern) => Ok(pattern),
        None if cpus > MOST_FOR_ALL_PAIRS => Ok(Pattern::Star),
        None => Ok(Pattern::All),
    }
}
