//! The full tables of `benches/README.md`: all figures of each processor's record.

use serde_json::Value;

use super::fields::{at, number, number_if_any, of_clock, startup_us, text, worst_drift_ppb};
use super::markdown::{self, Cell, Row, count, head, head_of, line, short, time_ns, whole};
use super::stored::{Record, title};

/// Groups of clocks, as the programs call them and as the table does.
const GROUPS: [(&str, &str); 3] =
    [("counter", "bare instructions"), ("time", "time in ns"), ("coarse", "coarse time")];

/// The machines that the records were taken on, a line each.
pub(super) fn machines_block(records: &[Record]) -> Result<String, String> {
    records.iter().map(machine_line).collect()
}

/// What a record was taken on, and where it is.
fn machine_line(record: &Record) -> Result<String, String> {
    let (name, processor, record) = (&record.name, record.processor(), &record.json);
    let machine = at(record, "machine")?;
    let or_unknown = |path| text(machine, path).unwrap_or("unknown");
    let rustc = text(record, "rustc")?;
    let changed = if at(record, "tree_clean")? == true { "" } else { " with changes" };
    let commit = text(record, "commit")?;
    let note = text(record, "note").map_or_else(|_| String::new(), |note| format!(", **{note}**"));
    Ok(format!(
        "- {processor}{note}: {} CPUs, hypervisor {}, Linux {}, clocksource {}; {}; {}; commit {}{changed}: `{}`, {} s. \
         All figures: [{name}](record/{name}).\n",
        number(machine, "cpus")?,
        or_unknown("hypervisor"),
        or_unknown("kernel"),
        or_unknown("clocksource"),
        rustc.split(" (").next().unwrap_or(rustc),
        text(record, "date")?,
        commit.get(..10).unwrap_or(commit),
        text(record, "command")?,
        number(record, "took_s")?,
    ))
}

/// The clocks that any record compares, by their names, with their groups; in the order of the
/// first record that has them.
fn clocks(records: &[Record]) -> Result<Vec<(&str, &str)>, String> {
    let mut clocks: Vec<(&str, &str)> = Vec::new();
    for record in records {
        let cost = at(&record.json, "cost.clocks")?;
        for clock in cost.as_array().ok_or("cost.clocks is not a list in the record")? {
            let name = text(clock, "clock")?;
            if !clocks.iter().any(|(known, _)| *known == name) {
                clocks.push((name, text(clock, "group")?));
            }
        }
    }
    Ok(clocks)
}

/// Every clock that is compared: its cost on each processor, and the worst of its other figures.
pub(super) fn clocks_block(records: &[Record]) -> Result<String, String> {
    let mut titles = vec![String::new()];
    for record in records {
        let title = title(record, records);
        titles.extend([format!("{title}: tight loop, ns"), format!("{title}: awaited, ns")]);
    }
    let watched = records.iter().map(|record| number(&record.json, "drift.watched_s"));
    let watched_s = watched.collect::<Result<Vec<f64>, String>>()?.into_iter().fold(0.0, f64::max);
    titles.extend([
        "first call".into(),
        "process start to first reading".into(),
        "drift, ppb".into(),
        format!("offset changed in {watched_s} s"),
        "backward steps, per million".into(),
    ]);
    let clocks = clocks(records)?;
    let mut table = head(&titles.iter().map(String::as_str).collect::<Vec<_>>());
    for (group, title) in GROUPS {
        let of_group = clocks.iter().filter(|(_, of)| *of == group);
        let rows =
            of_group.map(|(clock, _)| clock_row(records, clock)).collect::<Result<Vec<Row>, String>>()?;
        if rows.is_empty() {
            continue;
        }
        table.push_str(&format!("| *{title}* |{}\n", " |".repeat(titles.len() - 1)));
        // Instructions are what is compared with.
        let rows_of_group = if group == "counter" { markdown::rows } else { markdown::rows_with_best };
        table.push_str(&rows_of_group(&rows));
    }
    Ok(table)
}

/// A clock's cost on each processor, and the worst of each other figure on any of them.
fn clock_row(records: &[Record], name: &str) -> Result<Row, String> {
    let mut cells = Vec::new();
    for record in records {
        let cost = of_clock(at(&record.json, "cost")?, name)?;
        for column in ["tight", "awaited"] {
            let figure = |unit: &str| {
                Ok::<_, String>(
                    cost.map(|cost| number_if_any(cost, &format!("{column}_{unit}"))).transpose()?.flatten(),
                )
            };
            cells.push(figure("ns")?.zip(figure("ratio")?).map(|(ns, ratio)| Cell::cost(ns, ratio)));
        }
    }
    let worst = |figure: &dyn Fn(&Value) -> Result<Option<f64>, String>| {
        let mut worst: Option<f64> = None;
        for record in records {
            if let Some(figure) = figure(&record.json)? {
                worst = Some(worst.filter(|worst| worst.abs() >= figure.abs()).unwrap_or(figure));
            }
        }
        Ok::<_, String>(worst)
    };
    let first_call_us = worst(&|record| startup_us(record, name, "first_call_us"))?;
    cells.push(first_call_us.map(|us| Cell::new(us, time_ns(us * 1e3))));
    // In tenths of a ms, because most of it is the process's own start.
    let first_reading_us = worst(&|record| startup_us(record, name, "first_reading_us"))?;
    cells.push(first_reading_us.map(|us| Cell::new(us, format!("{:.1} ms", us / 1e3))));
    let drift_ppb = worst(&|record| worst_drift_ppb(record, name))?;
    cells.push(drift_ppb.map(|ppb| Cell::new(ppb, short(ppb))));
    let offset_ns = worst(&|record| {
        let drift = of_clock(at(record, "drift")?, name)?;
        drift.map(|clock| number(clock, "offset_change_ns")).transpose()
    })?;
    cells.push(offset_ns.map(|ns| Cell::new(ns, time_ns(ns))));
    let backward_per_million = worst(&|record| {
        let Some(clock) = of_clock(at(record, "order")?, name)? else { return Ok(None) };
        Ok(Some(number(clock, "count.backward")? / number(clock, "count.exchanges")?.max(1.0) * 1e6))
    })?;
    cells.push(backward_per_million.map(|per_million| {
        // Few, but more than none.
        let rare = per_million > 0.0 && short(per_million) == "0";
        Cell::new(per_million, if rare { "< 0.1".into() } else { short(per_million) })
    }));
    Ok((name.to_owned(), cells))
}

/// The figures of tickline itself.
pub(super) fn tickline_block(records: &[Record]) -> Result<String, String> {
    let mut runs = Vec::new();
    let (mut titles, mut watched_s) = (Vec::new(), 0.0_f64);
    for record in records {
        for driver in ["thread", "reader"] {
            let run = at(&record.json, &format!("accuracy_{driver}"))?;
            runs.push(run);
            titles.push(format!("{}: {driver} driver", title(record, records)));
            watched_s = watched_s.max(number(run, "watched_s")?);
        }
    }
    let mut block = head_of(&format!("{watched_s} s each"), &titles);
    block += &line("readings, each between two calls of `clock_gettime`", &runs, |run| {
        Ok(count(number(run, "readings")?))
    })?;
    block += &line("readings outside their bracket", &runs, |run| Ok(whole(number(run, "outside")?)))?;
    block += &line("offset from the bracket's middle, ns", &runs, |run| {
        let [least, most, mean] =
            ["least_offset_ns", "most_offset_ns", "mean_offset_ns"].map(|path| number_if_any(run, path));
        let offset = least?.zip(most?).zip(mean?);
        Ok(offset.map_or_else(
            || "no narrow bracket".into(),
            |((least, most), mean)| format!("{least:+.0} to {most:+.0}, mean {mean:+.1}"),
        ))
    })?;
    block += &line("largest claimed bound to either side, ns", &runs, |run| {
        Ok(whole(number(run, "most_before_ns")?.max(number(run, "most_after_ns")?)))
    })?;
    block += &line("bound violated", &runs, |run| Ok(whole(number(run, "bound_violated")?)))?;
    block += &line("CPU of the thread", &runs, |run| {
        let percent = number_if_any(run, "thread_cpu_percent")?;
        Ok(percent.map_or_else(|| "no thread".into(), |percent| format!("{percent:.2} % of a core")))
    })?;
    block += "\n";
    let titles: Vec<String> = records.iter().map(|record| title(record, records).to_owned()).collect();
    let records: Vec<&Value> = records.iter().map(|record| &record.json).collect();
    block += &head_of("", &titles);
    block +=
        &line("backward steps between threads while the line changes, `now_ordered`", &records, |record| {
            order_fact(record)
        })?;
    block += &line("served by the counter after", &records, |record| {
        let us = |figure: &str| startup_us(record, "tickline now_ns", figure);
        Ok(match us("counter_us")?.zip(us("slowest_call_us")?) {
            None => "not on this machine".into(),
            Some((after, slowest)) => format!(
                "{} of steady use; the slowest call on the way takes {}",
                time_ns(after * 1e3),
                time_ns(slowest * 1e3)
            ),
        })
    })?;
    block += &line("a hello-world takes longer than with std by", &records, |record| {
        let hello = at(record, "startup.hello")?;
        let hello_us = |path: &str| Ok::<_, String>(time_ns(number(at(hello, path)?, "median")? * 1e3));
        Ok(format!("{} (of {})", hello_us("difference_us")?, hello_us("with_std_us")?))
    })?;
    block +=
        &line("a traced span: `SpanTiming` / the same over std / `FmtSpan::CLOSE`", &records, |record| {
            let span_ns = |subject: &str| {
                let spans =
                    at(record, "spans.spans")?.as_array().ok_or("spans.spans is not a list in the record")?;
                let span = spans.iter().find(|span| span["subject"] == subject);
                number(span.ok_or_else(|| format!("spans.spans has no {subject}"))?, "one_thread_ns")
            };
            Ok(format!(
                "{} ns / {} / {}",
                whole(span_ns("SpanTiming")?),
                whole(span_ns("SpanTiming over std")?),
                whole(span_ns("fmt with FmtSpan::CLOSE, to a sink")?)
            ))
        })?;
    Ok(block)
}

/// The results of exchanges between threads while the line changes.
fn order_fact(record: &Value) -> Result<String, String> {
    let order = at(record, "order")?;
    if let Ok(why) = text(order, "skipped") {
        return Ok(format!("not tried: {why}"));
    }
    let of = |path: &str| number(order, path).map(count);
    Ok(format!(
        "{} in {} exchanges (bare counter: {} in {})",
        of("ordered.count.backward")?,
        of("ordered.count.exchanges")?,
        of("plain.backward")?,
        of("plain.exchanges")?
    ))
}

#[cfg(test)]
mod tests;
