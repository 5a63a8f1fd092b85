//! Compares the guests' reports with the expectations. Makes a row for each program and guest.

use serde::Deserialize;
use serde_json::{Value, json};

use super::{Guest, Program, Row, Run};
use crate::vm;

/// At most one in this many of the counted calls may still be a system call, because of the
/// program's own start of a thread, or a timer.
const REMAINING: u64 = 20;

pub(super) const TITLES: &str = "guest | program | native ns | `run` ns | preload ns | ratio | system calls | back | \
                                 outside ns | handed over";

/// The rows of one guest, for each program and for the guest itself.
pub(super) fn rows(guest: &Guest, programs: &[Program], run: &Run) -> Vec<Row> {
    let mut rows: Vec<Row> = programs.iter().map(|program| row(guest, run, program)).collect();
    let phase = |name: &str| run.lines.iter().find(|line| line["phase"] == name).unwrap_or(&Value::Null);
    let mut faults: Vec<String> = run.broken.iter().cloned().collect();
    if phase("machine")["clocksource"] != *guest.clocksource {
        faults.push(format!("the clocksource is {}", phase("machine")["clocksource"]));
    }
    let served = &phase("states")["served"];
    if *served != json!([false, true, false, true, false, true]) {
        faults.push(format!("served after killed, started, stopped, continued, ended, started: {served}"));
    }
    let cells = [&[guest.name.clone(), "the guest".to_owned()][..], &vec![String::new(); 8]].concat();
    rows.push(Row { cells, notes: Vec::new(), faults });
    rows
}

/// One clock's calls in one mode, in the order of the guest's list.
#[derive(Deserialize)]
struct Calls {
    count: u64,
    back: u64,
    first_ns: u64,
    last_ns: u64,
    resolution_ns: u64,
    before_ns: u64,
    after_ns: u64,
}

impl Calls {
    fn of(entry: &Value) -> Option<Self> {
        Self::deserialize(entry).ok()
    }

    #[expect(clippy::cast_precision_loss, reason = "for people")]
    fn ns_a_call(&self) -> f64 {
        self.last_ns.saturating_sub(self.first_ns) as f64 / self.count.max(1) as f64
    }

    /// How far the clock was below the OS clock before, and above the OS clock after its calls, ns.
    fn outside_ns(&self) -> (u64, u64) {
        let below = self.before_ns.saturating_sub(self.first_ns + self.resolution_ns);
        (below, self.last_ns.saturating_sub(self.after_ns))
    }
}

/// The cost of a call, ns, in the fastest batch of one answer. For a server: the cost of a request.
fn ns_a_call(program: &Program, answer: &Value) -> Option<f64> {
    if program.is_server {
        return Some(Calls::of(&answer["realtime"])?.ns_a_call());
    }
    Some(answer["batch"][1].as_f64()? / answer["batch"][0].as_f64()?)
}

/// The backward steps of one mode's readings, and how far they were below and above the OS clock,
/// ns.
fn readings(
    run: &Run,
    program: &Program,
    mode: &str,
    asked: &[Value],
    fault: &mut impl FnMut(String),
) -> (u64, (u64, u64)) {
    let (mut back, mut outside) = (0, (0, 0));
    for clock in ["monotonic", "realtime"] {
        let all: Vec<Calls> = asked.iter().filter_map(|answer| Calls::of(&answer[clock])).collect();
        if all.is_empty() && !(program.is_server && clock == "monotonic") {
            fault(format!("no times of clock {clock}"));
        }
        let lead = if clock == "monotonic" { "lead_ns" } else { "unix_lead_ns" };
        // The lead changes from line to line, so the largest of this guest counts.
        let stated = run.lines.iter().filter_map(|line| line[lead].as_u64()).max().unwrap_or(0);
        let lead_ns = if mode == "native" { 0 } else { stated };
        for calls in &all {
            let (below, above) = calls.outside_ns();
            if calls.count != program.calls || calls.back > 0 || below > 0 || above > lead_ns {
                fault(format!(
                    "{clock}: {} calls of {}, {} back, {below} ns below the OS clock, {above} ns above it \
                     (lead {lead_ns} ns)",
                    calls.count, program.calls, calls.back
                ));
            }
            back += calls.back;
            outside = (outside.0.max(below), outside.1.max(above));
        }
    }
    (back, outside)
}

/// Whether system calls for the time remain where a page serves them, or are missing where none
/// does.
fn fault_of_calls(mode: &str, counted: &Value) -> Option<String> {
    match (counted["calls"].as_u64(), counted["served_clocks"].as_u64()) {
        (Some(calls), Some(left)) if mode == "native" && left < calls => {
            Some(format!("strace has seen {left} system calls for {calls} readings"))
        }
        (Some(calls), Some(left)) if mode != "native" && left > calls / REMAINING => {
            let server = counted["server"].as_str().unwrap_or_default().trim().replace('\n', "; ");
            Some(format!("{left} system calls for {calls} readings remain; the server said '{server}'"))
        }
        (Some(_), Some(_)) => None,
        _ => Some("nothing was counted".to_owned()),
    }
}

fn row(guest: &Guest, run: &Run, program: &Program) -> Row {
    let mode = |mode: &str| {
        let is_it = |line: &&Value| {
            line["phase"] == "program" && line["program"] == *program.name && line["mode"] == mode
        };
        run.lines.iter().find(is_it).unwrap_or(&Value::Null)
    };
    let mut faults = Vec::new();
    let (mut times, mut counts, mut back, mut outside) = (Vec::new(), Vec::new(), 0, (0, 0));
    let mut counted_calls = 0;
    for name in ["native", "run", "preload"] {
        let seen = mode(name);
        if program.is_static && name == "preload" {
            times.push(None);
            continue;
        }
        let mut fault = |what: String| faults.push(format!("{name}: {what}"));
        if seen["exit_code"] != 0 {
            fault(format!("exit code {}, error {}, said {}", seen["exit_code"], seen["error"], seen["said"]));
        }
        let asked = seen["timed"].as_array().map_or(&[][..], Vec::as_slice);
        let (stepped, beside) = readings(run, program, name, asked, &mut fault);
        back += stepped;
        outside = (outside.0.max(beside.0), outside.1.max(beside.1));
        let counted = &seen["counted"];
        let (calls, left) = (counted["calls"].as_u64(), counted["served_clocks"].as_u64());
        counts.push(left.map_or_else(|| "-".to_owned(), |left| left.to_string()));
        counted_calls = calls.unwrap_or(counted_calls);
        if let Some(what) = fault_of_calls(name, counted) {
            fault(what);
        }
        if name == "run"
            && !program.is_server
            && seen["said"].as_str().is_none_or(|said| !said.contains(" the clock of "))
        {
            fault(format!("`tickline run` says {}", seen["said"]));
        }
        times.push(asked.iter().filter_map(|answer| ns_a_call(program, answer)).min_by(f64::total_cmp));
    }
    let ratio = times[0].zip(times[1]).map(|(native, served)| native / served);
    let least = program.least * if guest.clocksource == "acpi_pm" { 0.75 } else { 1.0 };
    if least > 0.0 && ratio.is_none_or(|ratio| ratio < least) {
        let found = ratio.map_or_else(|| "not known how many".to_owned(), |ratio| format!("{ratio:.1}"));
        faults.push(format!("{found} times as fast, expected {least}"));
    }
    let handed_over = handed_over(run, program, &mut faults);
    let ns = |time: &Option<f64>| time.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0}"));
    let mut cells = vec![guest.name.clone(), program.name.clone()];
    cells.extend(times.iter().map(ns));
    cells.push(ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.1}")));
    cells.push(format!("{} of {counted_calls}", counts.join(" / ")));
    cells.push(back.to_string());
    cells.push(format!("-{} +{}", outside.0, outside.1));
    cells.push(handed_over);
    let modes = ["native", "run", "preload"].map(|name| mode(name)["timed"].clone());
    let notes = figures(program, &modes, &mut faults).into_iter().collect();
    Row { cells, notes, faults }
}

/// Postgres' own measurements, natively, under `run` and with the library, judged by the project's
/// goals for them.
fn figures(program: &Program, modes: &[Value; 3], faults: &mut Vec<String>) -> Option<String> {
    const FASTER: f64 = 8.0;
    const ON_TO_OFF: f64 = 1.5;
    if program.name != "Postgres" {
        return None;
    }
    let number = |mode: usize, key: &str| {
        let answers = modes[mode].as_array().into_iter().flatten();
        answers.filter_map(|answer| answer["figures"][key].as_f64()).fold(f64::NAN, f64::min)
    };
    let faster = number(0, "pg_test_timing_ns") / number(1, "pg_test_timing_ns");
    if faster.is_nan() || faster < FASTER {
        faults.push(format!("pg_test_timing is {faster:.1} times as fast, expected {FASTER}"));
    }
    let on_to_off = number(1, "explain_on_ms") / number(1, "explain_off_ms");
    if on_to_off.is_nan() || on_to_off > ON_TO_OFF {
        faults.push(format!(
            "EXPLAIN ANALYZE takes {on_to_off:.2} times as long with its timing, expected {ON_TO_OFF}"
        ));
    }
    let all = |key: &str| [0, 1, 2].map(|mode| format!("{:.0}", number(mode, key))).join(" / ");
    Some(format!(
        "pg_test_timing {} ns; EXPLAIN ANALYZE of a million rows {} ms, without its timing {} ms",
        all("pg_test_timing_ns"),
        all("explain_on_ms"),
        all("explain_off_ms")
    ))
}

/// The checks of a program that runs while the server is killed, started and stopped.
pub(super) const HANDED_OVER: [&str; 4] = [
    "error is nothing # it has answered to the end",
    "answers >= 5 # more than once",
    "backward = 0 # its time never steps back",
    "below_others = 0 # nor is it below what another program had returned",
];

fn handed_over(run: &Run, program: &Program, faults: &mut Vec<String>) -> String {
    if !program.is_handed_over {
        return "-".to_owned();
    }
    let is_it = |line: &&Value| line["phase"] == "handover" && line["program"] == *program.name;
    let Some(seen) = run.lines.iter().find(is_it) else {
        faults.push("it was not handed over".to_owned());
        return "-".to_owned();
    };
    faults.extend(vm::judge::faults(seen, &HANDED_OVER));
    let back = seen["backward"].as_u64().zip(seen["below_others"].as_u64()).map(|(own, others)| own + others);
    back.map_or_else(|| "-".to_owned(), |back| format!("{} calls, {back} back", seen["calls"]))
}
