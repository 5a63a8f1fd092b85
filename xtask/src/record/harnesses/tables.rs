//! The tables of `tickline-criterion`.

use std::fmt::Write;

use serde_json::Value;

use crate::record::fields::{at, number, text};
use crate::record::stored::Record;

/// A table for each record that has the part, below a line that says where it comes from.
fn tables(
    records: &[Record],
    part: &str,
    table: fn(&Value) -> Result<String, String>,
) -> Result<String, String> {
    let mut block = String::new();
    for record in records {
        let Some(part) = record.json.get(part) else { continue };
        let tree = if at(part, "tree_clean")?.as_bool() == Some(true) { "" } else { " and changes" };
        let commit: String = text(part, "commit")?.chars().take(10).collect();
        write!(
            block,
            "{}, {} CPUs, {}, {}, {}, commit {commit}{tree}, `{}`:\n\n{}\n",
            record.processor(),
            number(part, "cpus")?,
            text(part, "kernel")?,
            text(part, "rustc")?.split(" (").next().unwrap_or_default(),
            text(part, "date")?,
            text(part, "command")?,
            table(at(part, "figures")?)?,
        )
        .map_err(|error| error.to_string())?;
    }
    Ok(block.trim_end().to_owned() + "\n")
}

/// Errors of known delays, ns.
pub(in crate::record) fn delays_block(records: &[Record]) -> Result<String, String> {
    tables(records, "delays", |figures| {
        let mut table = String::from(
            "| | truth | `WallTime`: mean | median | divan: mean | median | pairs: mean | p50 | less call | \
             under load: `WallTime`: mean | median | divan: mean | median | pairs: mean | p50 | less call |\n",
        ) + &format!("|{}\n", "---|".repeat(16));
        let rows = |setting: &str| {
            let rows = at(figures, setting)?["rows"].as_array();
            rows.cloned().ok_or_else(|| format!("{setting} has no rows"))
        };
        for (quiet, loaded) in rows("quiet")?.iter().zip(&rows("loaded")?) {
            let name = match text(quiet, "routine")? {
                "empty" => "an empty closure",
                "0 ns" => "an empty function",
                other => other,
            };
            let mut row = format!("| {name} | {:.1} |", number(quiet, "truth_ns")?);
            for of in [quiet, loaded] {
                for key in [
                    "wall_time_mean_error_ns",
                    "wall_time_median_error_ns",
                    "divan_mean_error_ns",
                    "divan_median_error_ns",
                    "pairs_mean_error_ns",
                    "pairs_p50_error_ns",
                    "pairs_p50_error_less_call_ns",
                ] {
                    row += &format!(" {:+.1} |", number(of, key)? + 0.0);
                }
            }
            table += &(row + "\n");
        }
        Ok(table)
    })
}

/// How often `compare` finds a difference.
pub(in crate::record) fn compare_block(records: &[Record]) -> Result<String, String> {
    tables(records, "compare", |figures| {
        let figures = at(figures, "loaded")?;
        let runs = number(figures, "runs")?;
        let mut table = format!(
            "| {runs} runs of {:.1} s; B takes {:+.2} % by long runs | found different | interval excludes 0 | \
             difference, %: least | median | most | couples | disturbed |\n|{}\n",
            number(figures, "measurement_ms")? / 1e3,
            number(figures, "truth_percent")?,
            "---|".repeat(8)
        );
        for (name, key) in [("A against A", "a_against_a"), ("A against B", "a_against_b")] {
            let of = |path: &str| number(at(figures, key)?, path);
            table += &format!(
                "| {name} | {} | {} | {:+.3} | {:+.3} | {:+.3} | {} | {} |\n",
                of("different")?,
                of("excludes_zero")?,
                of("least_percent")?,
                of("median_percent")?,
                of("most_percent")?,
                of("couples")?,
                of("disturbed")?
            );
        }
        Ok(table)
    })
}

/// What each harness says of A, and of B against A.
pub(in crate::record) fn harnesses_block(records: &[Record]) -> Result<String, String> {
    tables(records, "harnesses", |figures| {
        let mut table = String::from(
            "| | A, ns | B against A | under load: A, ns | B against A |\n|---|---|---|---|---|\n",
        );
        for (name, path) in [
            ("*truth: long runs*", "criterion.truth"),
            ("criterion, `WallTime`, `iter`", "criterion.wall_time"),
            ("criterion, `CounterTime`, `iter`", "criterion.counter_time"),
            ("`bench_pairs`, p50 of single calls", "criterion.pairs"),
            ("`compare`", "criterion.compare"),
            ("divan, `DIVAN_TIMER=tsc`", "divan"),
            ("tango-bench", "tango"),
        ] {
            let mut row = format!("| {name} |");
            for setting in ["quiet", "loaded"] {
                let of = at(figures, &format!("{setting}.{path}"))?;
                let (a_ns, b_ns) = (number(of, "a_ns")?, number(of, "b_ns")?);
                let percent = number(of, "difference_percent").unwrap_or((b_ns / a_ns - 1.0) * 100.0);
                row += &format!(" {a_ns:.1} | {percent:+.2} %{} |", interval(of));
            }
            table += &(row + "\n");
        }
        let mut row = String::from("| iai-callgrind, instructions |");
        for setting in ["quiet", "loaded"] {
            let of = |key: &str| number(figures, &format!("{setting}.iai.{key}"));
            let (a, b) = (of("a_instructions")?, of("b_instructions")?);
            row += &format!(" {a} instructions | {:+} |", b - a);
        }
        Ok(table + &row + "\n")
    })
}

/// The interval of a comparison, or whether its harness calls the difference significant.
fn interval(of: &Value) -> String {
    let ends = number(of, "low_percent").ok().zip(number(of, "high_percent").ok());
    match (ends, of.get("is_significant").and_then(Value::as_bool)) {
        (Some((low, high)), _) => format!(", {low:+.2} to {high:+.2}"),
        (None, Some(true)) => ", significant".into(),
        (None, Some(false)) => ", not significant".into(),
        (None, None) => String::new(),
    }
}
