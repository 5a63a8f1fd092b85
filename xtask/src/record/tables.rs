//! The tables of the records. They have a row for each figure, and a column for each processor.

use serde_json::Value;

use super::markdown::{count, line, short as short_figure, time_ns, whole};
use crate::files::table_head;

/// The record of one processor.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// Its file's name.
    pub(super) name: String,
    pub(super) json: Value,
}

impl Record {
    /// The processor, by name, family and model.
    pub(super) fn processor(&self) -> &str {
        self.json["processor"].as_str().unwrap_or("unknown")
    }
}

/// The value at a path with dots. A missing field is an error, but `null` is a value.
pub(super) fn at<'a>(value: &'a Value, path: &str) -> Result<&'a Value, String> {
    path.split('.')
        .try_fold(value, |value, key| value.get(key))
        .ok_or_else(|| format!("the record has no {path}"))
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> Result<&'a str, String> {
    at(value, path)?.as_str().ok_or_else(|| format!("{path} is not a text in the record"))
}

fn number(value: &Value, path: &str) -> Result<f64, String> {
    at(value, path)?.as_f64().ok_or_else(|| format!("{path} is not a number in the record"))
}

/// A number; none if the record has `null` for it, or for the object that should have it.
fn number_if_any(value: &Value, path: &str) -> Result<Option<f64>, String> {
    let is_null = path.rmatch_indices('.').any(|(end, _)| at(value, &path[..end]).is_ok_and(Value::is_null));
    if is_null || at(value, path)?.is_null() { Ok(None) } else { number(value, path).map(Some) }
}

/// The entry of a list in which `key` has this name; none if the list has no such entry.
fn entry<'a>(record: &'a Value, list: &str, key: &str, name: &str) -> Result<Option<&'a Value>, String> {
    let entries =
        at(record, list)?.as_array().ok_or_else(|| format!("{list} is not a list in the record"))?;
    Ok(entries.iter().find(|one| one[key] == name))
}

/// A processor's name in a table's head. Family and model are left out if only one processor has
/// this name.
fn title<'a>(record: &'a Record, records: &[Record]) -> &'a str {
    fn name(record: &Record) -> &str {
        record.processor().split(", family").next().unwrap_or_default()
    }
    let is_alone = records.iter().filter(|other| name(other) == name(record)).count() < 2;
    if is_alone { name(record) } else { record.processor() }
}

/// A table's head: the title of the rows, and a column for each processor.
fn head_of(first: &str, records: &[Record]) -> String {
    let titles: Vec<&str> = [first].into_iter().chain(records.iter().map(|it| title(it, records))).collect();
    table_head(&titles.join(" | "))
}

/// The README's short table.
pub(super) fn short(records: &[Record]) -> Result<String, String> {
    let titles: Vec<&str> = [""].into_iter().chain(records.iter().map(Record::processor)).collect();
    let mut block = table_head(&titles.join(" | "));
    for (name, clock) in [
        ("`tickline::Instant::now`", "tickline Instant::now"),
        ("`std::time::Instant::now`", "std Instant::now"),
        ("`quanta::Instant::now`", "quanta Instant::now"),
        ("`now_ordered`: order between threads", "tickline now_ordered_ns"),
    ] {
        block += &line(&format!("{name}, ns: tight loop / awaited"), records, |record| {
            let cost = entry(&record.json, "cost.clocks", "clock", clock)?;
            let cost = cost.ok_or_else(|| format!("cost has no {clock}"))?;
            Ok(format!("{:.1} / {:.1}", number(cost, "tight_ns")?, number(cost, "awaited_ns")?))
        })?;
    }
    block += &line("backward steps of `now_ordered` between threads", records, |it| order(&it.json, false))?;
    let drivers = ["accuracy_thread", "accuracy_reader"];
    block += &line("offset from `CLOCK_MONOTONIC`, ns: least to most", records, |record| {
        let (mut least_ns, mut most_ns) = (f64::INFINITY, f64::NEG_INFINITY);
        for driver in drivers {
            let run = at(&record.json, driver)?;
            let ends = number_if_any(run, "least_offset_ns")?.zip(number_if_any(run, "most_offset_ns")?);
            let Some((least, most)) = ends else { return Ok("no narrow bracket".into()) };
            (least_ns, most_ns) = (least_ns.min(least), most_ns.max(most));
        }
        Ok(format!("{least_ns:+.0} to {most_ns:+.0}"))
    })?;
    block += &line("largest bound, ns; readings outside their bounds", records, |record| {
        let (mut bound_ns, mut outside) = (0.0_f64, 0.0);
        for driver in drivers {
            let run = at(&record.json, driver)?;
            bound_ns = bound_ns.max(number(run, "most_before_ns")?).max(number(run, "most_after_ns")?);
            outside += number(run, "bound_violated")?;
        }
        Ok(format!("{}; {}", whole(bound_ns), whole(outside)))
    })?;
    block += &line("a hello-world takes longer than with `std` by", records, |record| hello(&record.json))?;
    Ok(block)
}

fn hello(record: &Value) -> Result<String, String> {
    let of =
        |path: &str| Ok::<_, String>(time_ns(number(record, &format!("startup.hello.{path}.median"))? * 1e3));
    Ok(format!("{} (of {})", of("difference_us")?, of("with_std_us")?))
}

/// The results of exchanges between threads while the line changes. `in_full` adds the bare
/// counter's.
fn order(record: &Value, in_full: bool) -> Result<String, String> {
    let order = at(record, "order")?;
    if let Ok(why) = text(order, "skipped") {
        return Ok(format!("not tried: {why}"));
    }
    let of = |path: &str| number(order, path).map(count);
    let found = format!("{} in {}", of("ordered.count.backward")?, of("ordered.count.exchanges")?);
    if !in_full {
        return Ok(found);
    }
    Ok(format!("{found} exchanges (bare counter: {} in {})", of("plain.backward")?, of("plain.exchanges")?))
}

/// The machines of the records, a line each.
pub(super) fn machines(records: &[Record]) -> Result<String, String> {
    records.iter().map(machine).collect()
}

/// The machine of a record, with a link to the record.
fn machine(record: &Record) -> Result<String, String> {
    let (name, processor, record) = (&record.name, record.processor(), &record.json);
    let or_unknown = |key: &str| text(record, &format!("machine.{key}")).unwrap_or("unknown");
    let changed = if at(record, "tree_clean")? == true { "" } else { " with changes" };
    let commit: String = text(record, "commit")?.chars().take(10).collect();
    Ok(format!(
        "- {processor}: {} CPUs, hypervisor {}, Linux {}, clocksource {}; {}; {}; commit {commit}{changed}: `{}`, \
         {} s. All figures: [{name}](record/{name}).\n",
        number(record, "machine.cpus")?,
        or_unknown("hypervisor"),
        or_unknown("kernel"),
        or_unknown("clocksource"),
        text(record, "rustc")?.split(" (").next().unwrap_or_default(),
        text(record, "date")?,
        text(record, "command")?,
        number(record, "took_s")?,
    ))
}

/// The groups of clocks: their names in the programs' output and in the table.
const GROUPS: [(&str, &str); 3] =
    [("counter", "bare instructions"), ("time", "time in ns"), ("coarse", "coarse time")];

/// Every clock that is compared, in the order of the first record that has it: its cost on each
/// processor, and the worst of its other figures.
pub(super) fn clocks(records: &[Record]) -> Result<String, String> {
    let mut titles = vec![String::new()];
    let (mut watched_s, mut clocks) = (0.0_f64, Vec::<(&str, &str)>::new());
    for record in records {
        let title = title(record, records);
        titles.extend([format!("{title}: tight loop, ns"), format!("{title}: awaited, ns")]);
        watched_s = watched_s.max(number(&record.json, "drift.watched_s")?);
        for clock in at(&record.json, "cost.clocks")?.as_array().into_iter().flatten() {
            let clock = (text(clock, "clock")?, text(clock, "group")?);
            if !clocks.iter().any(|(known, _)| *known == clock.0) {
                clocks.push(clock);
            }
        }
    }
    titles.extend(["first call", "process start to first reading", "drift, ppb"].map(str::to_owned));
    titles.extend([format!("offset changed in {watched_s} s"), "backward steps, per million".into()]);
    let mut table = table_head(&titles.join(" | "));
    for (group, title) in GROUPS {
        let of_group = clocks.iter().filter(|(_, of)| *of == group);
        let rows =
            of_group.map(|(clock, _)| clock_row(records, clock)).collect::<Result<Vec<String>, String>>()?;
        if !rows.is_empty() {
            table += &format!("| *{title}* |{}\n{}", " |".repeat(titles.len() - 1), rows.concat());
        }
    }
    Ok(table)
}

/// A clock's cost on each processor, and the worst of each other figure on any processor. The worst
/// figure is the one that is furthest from 0.
fn clock_row(records: &[Record], name: &str) -> Result<String, String> {
    let mut cells = Vec::new();
    for record in records {
        let cost = entry(&record.json, "cost.clocks", "clock", name)?;
        for column in ["tight", "awaited"] {
            let figure = |unit: &str| match cost {
                Some(cost) => number_if_any(cost, &format!("{column}_{unit}")),
                None => Ok(None),
            };
            cells
                .push(figure("ns")?.zip(figure("ratio")?).map(|(ns, ratio)| format!("{ns:.1} ({ratio:.2})")));
        }
    }
    let mut figures: [Vec<f64>; 5] = Default::default();
    for record in records.iter().map(|record| &record.json) {
        let figure = |of: &Value, list: &str, path: &str| match entry(of, list, "clock", name)? {
            Some(clock) => number_if_any(clock, path),
            None => Ok::<_, String>(None),
        };
        figures[0].extend(figure(record, "startup.clocks", "first_call_us.median")?);
        figures[1].extend(figure(record, "startup.clocks", "first_reading_us.median")?);
        let others = at(record, "drift_in_other_processes")?.as_array();
        for process in others.into_iter().flatten().chain([at(record, "drift")?]) {
            figures[2].extend(figure(process, "clocks", "drift_ppb")?);
        }
        figures[3].extend(figure(record, "drift.clocks", "offset_change_ns")?);
        let backward = figure(record, "order.clocks", "count.backward")?;
        let exchanges = figure(record, "order.clocks", "count.exchanges")?;
        figures[4].extend(backward.zip(exchanges).map(|(backward, of)| backward / of.max(1.0) * 1e6));
    }
    let [call_us, reading_us, ppb, offset_ns, per_million] =
        figures.map(|all| all.into_iter().max_by(|one, other| one.abs().total_cmp(&other.abs())));
    cells.push(call_us.map(|us| time_ns(us * 1e3)));
    // Tenths of a ms are enough, because most of this time is the process's own start.
    cells.push(reading_us.map(|us| format!("{:.1} ms", us / 1e3)));
    cells.push(ppb.map(short_figure));
    cells.push(offset_ns.map(time_ns));
    cells.push(per_million.map(|per_million| match short_figure(per_million) {
        // Show that there were some.
        rounded if rounded == "0" && per_million > 0.0 => "< 0.1".into(),
        rounded => rounded,
    }));
    line(name, &cells, |cell| Ok(cell.clone().unwrap_or_default()))
}

/// The figures of tickline itself.
pub(super) fn tickline(records: &[Record]) -> Result<String, String> {
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
    let mut block = table_head(&format!("{watched_s} s each | {}", titles.join(" | ")));
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
    block += &line("largest bound to either side, ns", &runs, |run| {
        Ok(whole(number(run, "most_before_ns")?.max(number(run, "most_after_ns")?)))
    })?;
    block += &line("bound violated", &runs, |run| Ok(whole(number(run, "bound_violated")?)))?;
    block += &line("CPU of the thread", &runs, |run| {
        let percent = number_if_any(run, "thread_cpu_percent")?;
        Ok(percent.map_or_else(|| "no thread".into(), |percent| format!("{percent:.2} % of a core")))
    })?;
    block += &format!("\n{}", head_of("", records));
    block += &line("backward steps between threads while the line changes, `now_ordered`", records, |it| {
        order(&it.json, true)
    })?;
    block += &line("served by the counter after", records, |record| {
        let clock = entry(&record.json, "startup.clocks", "clock", "tickline now_ns")?;
        let us = |figure: &str| clock.and_then(|clock| number(clock, &format!("{figure}.median")).ok());
        Ok(us("counter_us").zip(us("slowest_call_us")).map_or_else(
            || "not on this machine".into(),
            |(after, slowest)| {
                let [after, slowest] = [after, slowest].map(|us| time_ns(us * 1e3));
                format!("{after} of steady use; the slowest call on the way takes {slowest}")
            },
        ))
    })?;
    block += &line("a hello-world takes longer than with std by", records, |record| hello(&record.json))?;
    block +=
        &line("a traced span: `SpanTiming` / the same over std / `FmtSpan::CLOSE`", records, |record| {
            let span = |subject: &str| {
                let span = entry(&record.json, "spans.spans", "subject", subject)?;
                number(span.ok_or_else(|| format!("spans.spans has no {subject}"))?, "one_thread_ns")
                    .map(whole)
            };
            let [ours, std, fmt] =
                ["SpanTiming", "SpanTiming over std", "fmt with FmtSpan::CLOSE, to a sink"].map(span);
            Ok(format!("{} ns / {} / {}", ours?, std?, fmt?))
        })?;
    Ok(block)
}

/// The cost of a span, ns, on one thread, and on each of two, in the order of the newest record. A
/// record that is older than a row has no figure in this row.
pub(super) fn spans(records: &[Record]) -> Result<String, String> {
    let mut block = head_of("ns a span: one thread / two", records);
    let newest = records.iter().max_by_key(|record| record.json["date"].as_str());
    for span in newest.iter().flat_map(|record| record.json["spans"]["spans"].as_array()).flatten() {
        let subject = text(span, "subject")?;
        block += &line(subject, records, |record| {
            let Some(cost) = entry(&record.json, "spans.spans", "subject", subject)? else {
                return Ok(String::new());
            };
            let two = number_if_any(cost, "two_threads_ns")?.map_or_else(|| "-".to_owned(), whole);
            Ok(format!("{} / {two}", whole(number(cost, "one_thread_ns")?)))
        })?;
    }
    Ok(block)
}
