//! The harnesses on routines A and B, and what they print.

use serde_json::{Value, json};

use super::{Load, last_line, output, output_unbound};
use crate::step;

const BENCHES: [&str; 4] = ["harness_criterion", "harness_divan", "harness_tango", "harness_iai"];

/// By which the programs of `benches/benches/harnesses` learn the number of multiplications.
const VARIABLE: &str = "TICKLINE_HARNESS_MULTIPLICATIONS";

/// Builds all that is measured, so that no compiler runs meanwhile.
pub(super) fn build() -> Result<(), String> {
    let benches: Vec<String> = BENCHES.iter().map(|name| format!("--bench {name}")).collect();
    for line in [
        "cargo build -q --release -p tickline-criterion --example known_delays".to_owned(),
        format!("cargo bench -q --no-run -p tickline-benches {}", benches.join(" ")),
    ] {
        let status = step::command(&line).ok_or("an empty command")?.status();
        if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
            return Err(format!("`{line}`: {status:?}"));
        }
    }
    Ok(())
}

pub(super) fn measure() -> Result<Value, String> {
    let quiet = all(None)?;
    let count = quiet["criterion"]["multiplications"].as_u64().ok_or("no count of multiplications")?;
    let load = Load::start()?;
    let loaded = all(Some(count))?;
    drop(load);
    Ok(json!({ "quiet": quiet, "loaded": loaded }))
}

/// Every harness in turn. The first chooses the number of multiplications if there is none.
fn all(count: Option<u64>) -> Result<Value, String> {
    let run = |name: &str, arguments: &str| {
        format!("cargo bench -q -p tickline-benches --bench harness_{name} -- {arguments}")
    };
    let chosen = count.map(|count| count.to_string());
    let environment: Vec<(&str, &str)> = chosen.iter().map(|count| (VARIABLE, count.as_str())).collect();
    let by_criterion = last_line(&run("criterion", ""), &environment)?;
    let count = by_criterion["multiplications"].to_string();
    let environment = [(VARIABLE, count.as_str()), ("DIVAN_TIMER", "tsc"), ("NO_COLOR", "1")];
    let divan = output(&run("divan", "--color never --min-time 1 --max-time 1"), &environment)?;
    // It has two processes, each of which spins until it is its turn: they need two CPUs. It ends with
    // 1 if B is significantly slower.
    let compare = run("tango", "compare --strip-baseline a/** --strip-candidate b/** -t 1");
    let tango = output_unbound(&compare, &environment, &[0, 1])?;
    let iai = output(&run("iai", "--nocapture"), &environment)?;
    Ok(json!({
        "criterion": by_criterion,
        "divan": { "a_ns": divan_median_ns(&divan, "routine_a")?, "b_ns": divan_median_ns(&divan, "routine_b")? },
        "tango": tango_means(&tango)?,
        "iai": { "a_instructions": instructions(&iai, 0)?, "b_instructions": instructions(&iai, 1)? },
    }))
}

/// `routine_a  49.9 ns │ 52 ns │ 50.1 ns │ ..`: the third column.
fn divan_median_ns(text: &str, name: &str) -> Result<f64, String> {
    let row = text.lines().find(|line| line.contains(name) && line.contains('│'));
    let column = row.and_then(|row| row.split('│').nth(2)).and_then(time_ns);
    column.ok_or_else(|| format!("divan printed no median of {name}:\n{text}"))
}

/// `routine  [ 50.1 ns ... 51.2 ns ]  +2.20%*`.
fn tango_means(text: &str) -> Result<Value, String> {
    let parse = || {
        let (before, after) = text.lines().find(|line| line.contains(" ... "))?.split_once(" ... ")?;
        let (b, percent) = after.split_once(']')?;
        let percent = percent.trim();
        Some(json!({
            "a_ns": time_ns(before.split_once('[')?.1)?,
            "b_ns": time_ns(b)?,
            "difference_percent": percent.trim_end_matches('*').trim_end_matches('%').parse::<f64>().ok()?,
            "is_significant": percent.ends_with('*'),
        }))
    };
    parse().ok_or_else(|| format!("tango printed no comparison:\n{text}"))
}

/// `Instructions:   123|N/A`: that of one routine.
fn instructions(text: &str, index: usize) -> Result<u64, String> {
    let line = text.lines().filter(|line| line.trim_start().starts_with("Instructions:")).nth(index);
    let figure = line.and_then(|line| line.split_once(':')?.1.split('|').next()?.trim().parse().ok());
    figure.ok_or_else(|| format!("iai-callgrind printed no instructions:\n{text}"))
}

fn time_ns(text: &str) -> Option<f64> {
    let (number, unit) = text.trim().split_once(' ')?;
    let factor = match unit.trim() {
        "ps" => 1e-3,
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_output_is_read() {
        let divan = "harness  fastest │ slowest │ median  │ mean\n\
                     ├─ routine_a  49.9 ns │ 1.2 µs │ 50.12 ns │ 51 ns │ 100 │ 200\n";
        assert_eq!(divan_median_ns(divan, "routine_a"), Ok(50.12));
        assert!(divan_median_ns(divan, "routine_b").is_err());
        let tango = "routine      [  50.1 ns ...  51.2 ns ]      +2.20%*\n";
        let found = tango_means(tango).unwrap();
        assert_eq!((found["b_ns"].as_f64(), found["difference_percent"].as_f64()), (Some(51.2), Some(2.2)));
        assert_eq!(found["is_significant"], true);
        let iai =
            "a\n  Instructions:        123|N/A   (*********)\nb\n  Instructions:   125|125 (No change)\n";
        assert_eq!((instructions(iai, 0), instructions(iai, 1)), (Ok(123), Ok(125)));
        assert!(instructions(iai, 2).is_err());
    }
}
