//! The README's tables from a record, between markers.

use serde_json::Value;

use super::FOLDER;
use super::markdown::{self, Cell, Row, count, head, short, time_ns, whole};

/// The blocks that are written, by their markers' names.
const BLOCKS: [&str; 3] = ["machine", "clocks", "tickline"];

/// Groups of clocks, as the programs call them and as the README does.
const GROUPS: [(&str, &str); 4] = [
    ("counter", "bare instructions"),
    ("time", "time in ns"),
    ("ticks", "ticks, converted later"),
    ("coarse", "coarse time"),
];

/// The record's blocks; `name` is its file's name.
pub(super) fn blocks(record: &Value, name: &str) -> Result<[(&'static str, String); 3], String> {
    let [machine, clocks, tickline] = BLOCKS;
    Ok([
        (machine, machine_block(record, name)?),
        (clocks, clocks_block(record)?),
        (tickline, tickline_block(record)?),
    ])
}

/// The README with the record's blocks.
pub(super) fn rewritten(readme: &str, record: &Value, name: &str) -> Result<String, String> {
    let mut text = readme.to_owned();
    for (block, body) in blocks(record, name)? {
        let (start, end) = place(&text, block)?;
        text.replace_range(start..end, &format!("\n{body}"));
    }
    Ok(text)
}

/// Whether every block has a place.
pub(super) fn check_markers(readme: &str) -> Result<(), String> {
    BLOCKS.iter().try_for_each(|block| place(readme, block).map(drop))
}

/// What is between a block's markers.
fn place(readme: &str, block: &str) -> Result<(usize, usize), String> {
    let find = |marker: &str| match readme.match_indices(marker).collect::<Vec<_>>()[..] {
        [(at, _)] => Ok(at),
        ref found => Err(format!("README.md: the marker {marker} is there {} times, not once", found.len())),
    };
    let (opening, closing) = (format!("<!-- record:{block} -->"), format!("<!-- /record:{block} -->"));
    let (start, end) = (find(&opening)? + opening.len(), find(&closing)?);
    if start <= end { Ok((start, end)) } else { Err(format!("README.md: {closing} comes before {opening}")) }
}

/// The value at a path with dots; what is missing is an error, `null` is a value.
fn at<'a>(value: &'a Value, path: &str) -> Result<&'a Value, String> {
    path.split('.')
        .try_fold(value, |value, key| value.get(key))
        .ok_or_else(|| format!("the record has no {path}"))
}

fn number(value: &Value, path: &str) -> Result<f64, String> {
    at(value, path)?.as_f64().ok_or_else(|| format!("{path} is not a number in the record"))
}

/// A number, or none where the record says `null`.
fn number_if_any(value: &Value, path: &str) -> Result<Option<f64>, String> {
    if at(value, path)?.is_null() { Ok(None) } else { number(value, path).map(Some) }
}

fn text<'a>(value: &'a Value, path: &str) -> Result<&'a str, String> {
    at(value, path)?.as_str().ok_or_else(|| format!("{path} is not a text in the record"))
}

/// What a section says of a clock; none if it does not try it.
fn of_clock<'a>(section: &'a Value, clock: &str) -> Result<Option<&'a Value>, String> {
    let clocks = at(section, "clocks")?.as_array().ok_or("clocks is not a list in the record")?;
    Ok(clocks.iter().find(|one| one["clock"] == clock))
}

fn machine_block(record: &Value, name: &str) -> Result<String, String> {
    let machine = at(record, "machine")?;
    let or_unknown = |path| text(machine, path).unwrap_or("unknown");
    let rustc = text(record, "rustc")?;
    let changed = if at(record, "tree_clean")? == true { "" } else { " with changes" };
    let commit = text(record, "commit")?;
    Ok(format!(
        "{} CPUs of {}, hypervisor {}, Linux {}, clocksource {}; {}; {}; commit {}{changed}: `{}`, {} s. All figures: \
         [{name}]({FOLDER}/{name}).\n",
        number(machine, "cpus")?,
        or_unknown("cpu"),
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

fn clocks_block(record: &Value) -> Result<String, String> {
    let cost = at(record, "cost.clocks")?.as_array().ok_or("cost.clocks is not a list in the record")?;
    let watched_s = number(record, "drift.watched_s")?;
    let mut table = head(&[
        "",
        "tight loop, ns",
        "awaited, ns",
        "two threads, ns",
        "first call",
        "process start to first reading",
        "drift, ppb (worst process)",
        &format!("offset changed in {watched_s} s"),
        "backward steps, per million",
    ]);
    for (group, title) in GROUPS {
        let of_group = cost.iter().filter(|clock| clock["group"] == group);
        let rows = of_group.map(|clock| clock_row(record, clock)).collect::<Result<Vec<Row>, String>>()?;
        if rows.is_empty() {
            continue;
        }
        table.push_str(&format!("| *{title}* |{}\n", " |".repeat(8)));
        // Instructions are what is compared with.
        let rows_of_group = if group == "counter" { markdown::rows } else { markdown::rows_with_best };
        table.push_str(&rows_of_group(&rows));
    }
    Ok(table)
}

fn clock_row(record: &Value, cost: &Value) -> Result<Row, String> {
    let name = text(cost, "clock")?;
    let mut cells = Vec::new();
    for column in ["tight", "awaited", "two_threads"] {
        let ns = number_if_any(cost, &format!("{column}_ns"))?;
        let ratio = number_if_any(cost, &format!("{column}_ratio"))?;
        cells.push(ns.zip(ratio).map(|(ns, ratio)| Cell::cost(ns, ratio)));
    }
    let startup = startup_us(record, name, "first_call_us")?;
    cells.push(startup.map(|us| Cell::new(us, time_ns(us * 1e3))));
    // In tenths of a ms: most of it is the process's own, and that varies by less.
    let startup = startup_us(record, name, "first_reading_us")?;
    cells.push(startup.map(|us| Cell::new(us, format!("{:.1} ms", us / 1e3))));
    let drift = of_clock(at(record, "drift")?, name)?;
    let drift_ppb = drift.map(|clock| number_if_any(clock, "drift_ppb")).transpose()?.flatten();
    let worst_ppb = worst_drift_ppb(record, name)?;
    cells.push(
        drift_ppb
            .zip(worst_ppb)
            .map(|(ppb, worst_ppb)| Cell::new(worst_ppb, format!("{} ({})", short(ppb), short(worst_ppb)))),
    );
    let offset_ns = drift.map(|clock| number(clock, "offset_change_ns")).transpose()?;
    cells.push(offset_ns.map(|ns| Cell::new(ns, time_ns(ns))));
    cells.push(match of_clock(at(record, "order")?, name)? {
        None => None,
        Some(clock) => {
            let (backward, handovers) = (number(clock, "count.backward")?, number(clock, "count.handovers")?);
            let per_million = backward / handovers.max(1.0) * 1e6;
            // Few, but not none.
            let rare = backward > 0.0 && short(per_million) == "0";
            Some(Cell::new(per_million, if rare { "< 0.1".into() } else { short(per_million) }))
        }
    });
    Ok((name.to_owned(), cells))
}

/// The median of a figure of a clock's start-up, us; none if it is not tried, or not there on that machine.
fn startup_us(record: &Value, clock: &str, figure: &str) -> Result<Option<f64>, String> {
    let Some(clock) = of_clock(at(record, "startup")?, clock)? else { return Ok(None) };
    let spread = at(clock, figure)?;
    if spread.is_null() { Ok(None) } else { number(spread, "median").map(Some) }
}

/// The drift that is furthest from 0 among all processes.
fn worst_drift_ppb(record: &Value, clock: &str) -> Result<Option<f64>, String> {
    let others = at(record, "drift_in_other_processes")?;
    let others = others.as_array().ok_or("drift_in_other_processes is not a list in the record")?;
    let mut worst: Option<f64> = None;
    for process in others.iter().chain([at(record, "drift")?]) {
        let Some(clock) = of_clock(process, clock)? else { continue };
        let Some(ppb) = number_if_any(clock, "drift_ppb")? else { continue };
        if worst.is_none_or(|worst| ppb.abs() > worst.abs()) {
            worst = Some(ppb);
        }
    }
    Ok(worst)
}

fn tickline_block(record: &Value) -> Result<String, String> {
    let [thread, reader] = [at(record, "accuracy_thread")?, at(record, "accuracy_reader")?];
    let both = |title: &str, figure: &dyn Fn(&Value) -> Result<String, String>| {
        Ok::<_, String>(format!("| {title} | {} | {} |\n", figure(thread)?, figure(reader)?))
    };
    let offsets = |accuracy: &Value| {
        let [least, most, mean] =
            ["least_offset_ns", "most_offset_ns", "mean_offset_ns"].map(|path| number_if_any(accuracy, path));
        let told = least?.zip(most?).zip(mean?);
        Ok(told.map_or_else(
            || "no narrow bracket".into(),
            |((least, most), mean)| format!("{least:+.0} to {most:+.0}, mean {mean:+.1}"),
        ))
    };
    let bound = |accuracy: &Value| {
        Ok(whole(number(accuracy, "most_before_ns")?.max(number(accuracy, "most_after_ns")?)))
    };
    let thread_cpu = |accuracy: &Value| {
        let percent = number_if_any(accuracy, "thread_cpu_percent")?;
        Ok(percent.map_or_else(|| "no thread".into(), |percent| format!("{percent:.2} % of a core")))
    };
    let mut block =
        head(&[&format!("{} s each", number(thread, "watched_s")?), "thread driver", "reader driver"]);
    block += &both("readings, each between two calls of `clock_gettime`", &|accuracy| {
        Ok(count(number(accuracy, "readings")?))
    })?;
    block += &both("readings outside their bracket", &|accuracy| Ok(whole(number(accuracy, "outside")?)))?;
    block += &both("offset from the bracket's middle, ns", &offsets)?;
    block += &both("largest claimed bound to either side, ns", &bound)?;
    block += &both("bound violated", &|accuracy| Ok(whole(number(accuracy, "bound_violated")?)))?;
    block += &both("CPU of the thread", &thread_cpu)?;
    block += "\n";
    block += &head(&["", ""]);
    let mut fact = |title: &str, figure: String| block += &format!("| {title} | {figure} |\n");
    fact("backward steps between threads while the line changes, `now_ordered`", order_fact(record)?);
    let us = |figure: &str| startup_us(record, "tickline now_ns", figure);
    let after = match us("counter_us")?.zip(us("slowest_call_us")?) {
        None => "not on this machine".into(),
        Some((after, slowest)) => format!(
            "{} of steady use; the slowest call on the way takes {}",
            time_ns(after * 1e3),
            time_ns(slowest * 1e3)
        ),
    };
    fact("served by the counter after", after);
    let hello = at(record, "startup.hello")?;
    let hello_us = |path: &str| Ok::<_, String>(time_ns(number(at(hello, path)?, "median")? * 1e3));
    fact(
        "a hello-world takes longer than with std by",
        format!("{} (of {})", hello_us("difference_us")?, hello_us("with_std_us")?),
    );
    let span_ns = |subject: &str| {
        let spans = at(record, "spans.spans")?.as_array().ok_or("spans.spans is not a list in the record")?;
        let span = spans.iter().find(|span| span["subject"] == subject);
        number(span.ok_or_else(|| format!("spans.spans has no {subject}"))?, "one_thread_ns")
    };
    fact(
        "a traced span: `SpanTiming` / the same over std / `FmtSpan::CLOSE`",
        format!(
            "{} ns / {} / {}",
            whole(span_ns("SpanTiming")?),
            whole(span_ns("SpanTiming over std")?),
            whole(span_ns("fmt with FmtSpan::CLOSE, to a sink")?)
        ),
    );
    Ok(block)
}

/// What the handovers under a changing line have shown.
fn order_fact(record: &Value) -> Result<String, String> {
    let order = at(record, "order")?;
    if let Ok(why) = text(order, "skipped") {
        return Ok(format!("not tried: {why}"));
    }
    let of = |path: &str| number(order, path).map(count);
    Ok(format!(
        "{} in {} handovers (bare counter: {} in {})",
        of("ordered.count.backward")?,
        of("ordered.count.handovers")?,
        of("plain.backward")?,
        of("plain.handovers")?
    ))
}

#[cfg(test)]
pub(super) use tests::sample;

#[cfg(test)]
mod tests;
