//! The README's short table.

use serde_json::Value;

use super::fields::{at, number, number_if_any, of_clock, text};
use super::markdown::{count, head_of, line, time_ns, whole};
use super::stored::{Record, title};

/// The short table, and the records' notes.
pub(super) fn block(records: &[Record]) -> Result<String, String> {
    let titles: Vec<String> = records.iter().map(|record| title(record, records).to_owned()).collect();
    let mut block = head_of("", &titles);
    for (name, clock) in [
        ("`tickline::Instant::now`", "tickline Instant::now"),
        ("`std::time::Instant::now`", "std Instant::now"),
        ("`quanta::Instant::now`", "quanta Instant::now"),
        ("`now_ordered`: order between threads", "tickline now_ordered_ns"),
    ] {
        block += &line(&format!("{name}, ns: tight loop / awaited"), records, |record| cost(record, clock))?;
    }
    block += &line("backward steps of `now_ordered` between threads", records, backward)?;
    block += &line("offset from `CLOCK_MONOTONIC`, ns: least to most", records, |record| {
        let [least, most] = of_both_drivers(record, ["least_offset_ns", "most_offset_ns"])?;
        let both = least[0].zip(least[1]).zip(most[0].zip(most[1]));
        Ok(both.map_or_else(
            || "no narrow bracket".into(),
            |(least, most)| format!("{:+.0} to {:+.0}", least.0.min(least.1), most.0.max(most.1)),
        ))
    })?;
    block += &line("largest claimed bound, ns; readings outside theirs", records, |record| {
        let [before, after, outside] =
            of_both_drivers(record, ["most_before_ns", "most_after_ns", "bound_violated"])?;
        let bound_ns = before.into_iter().chain(after).flatten().fold(0.0, f64::max);
        Ok(format!("{}; {}", whole(bound_ns), whole(outside.into_iter().flatten().sum())))
    })?;
    block += &line("a hello-world takes longer than with `std` by", records, |record| {
        let hello = at(&record.json, "startup.hello")?;
        let of = |path: &str| Ok::<_, String>(time_ns(number(at(hello, path)?, "median")? * 1e3));
        Ok(format!("{} (of {})", of("difference_us")?, of("with_std_us")?))
    })?;
    let notes =
        records.iter().filter_map(|record| Some((title(record, records), text(&record.json, "note").ok()?)));
    let notes: Vec<_> = notes.map(|(title, note)| format!("{title}: **{note}**.")).collect();
    if !notes.is_empty() {
        block += &format!("\n{}\n", notes.join(" "));
    }
    Ok(block)
}

/// ns a call, in a tight loop and awaited.
fn cost(record: &Record, clock: &str) -> Result<String, String> {
    let cost = of_clock(at(&record.json, "cost")?, clock)?.ok_or_else(|| format!("cost has no {clock}"))?;
    Ok(format!("{:.1} / {:.1}", number(cost, "tight_ns")?, number(cost, "awaited_ns")?))
}

/// The results of exchanges between threads while the line changes.
fn backward(record: &Record) -> Result<String, String> {
    let order = at(&record.json, "order")?;
    if let Ok(why) = text(order, "skipped") {
        return Ok(format!("not tried: {why}"));
    }
    let of = |path: &str| number(order, path).map(count);
    Ok(format!("{} in {}", of("ordered.count.backward")?, of("ordered.count.exchanges")?))
}

/// Figures of a run with each driver; none where the record says `null`.
fn of_both_drivers<const N: usize>(
    record: &Record,
    paths: [&str; N],
) -> Result<[[Option<f64>; 2]; N], String> {
    let runs: [&Value; 2] = [at(&record.json, "accuracy_thread")?, at(&record.json, "accuracy_reader")?];
    let mut figures = [[None; 2]; N];
    for (figures, path) in figures.iter_mut().zip(paths) {
        for (figure, run) in figures.iter_mut().zip(runs) {
            *figure = number_if_any(run, path)?;
        }
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::super::samples::samples;
    use super::*;

    #[test]
    fn the_short_table_says_what_the_records_say() {
        let expected = "\
|  | AMD EPYC | Intel Xeon |
|---|---|---|
| `tickline::Instant::now`, ns: tight loop / awaited | 9.0 / 17.0 | 9.0 / 17.0 |
| `std::time::Instant::now`, ns: tight loop / awaited | 25.0 / 33.0 | 25.0 / 33.0 |
| `quanta::Instant::now`, ns: tight loop / awaited | 9.5 / 17.5 | 9.5 / 17.5 |
| `now_ordered`: order between threads, ns: tight loop / awaited | 18.0 / 26.0 | 18.0 / 26.0 |
| backward steps of `now_ordered` between threads | 0 in 2.5 billion | 0 in 2.5 billion |
| offset from `CLOCK_MONOTONIC`, ns: least to most | -10 to +13 | -10 to +13 |
| largest claimed bound, ns; readings outside theirs | 25; 0 | 35; 0 |
| a hello-world takes longer than with `std` by | 5.0 us (of 800 us) | 5.0 us (of 800 us) |

Intel Xeon: **taken before**.
";
        assert_eq!(block(&samples()).unwrap(), expected);
    }
}
