//! Writes the tables of the records, with a row for each figure, and a column for each processor.

use serde_json::Value;

use super::markdown::{count, line, short as short_figure, time_ns, whole};
use crate::files::table_head;

/// The record of one processor.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// The name of the record's file.
    pub(super) name: String,
    pub(super) json: Value,
}

impl Record {
    /// The processor's name, family and model.
    pub(super) fn processor(&self) -> &str {
        self.json["processor"].as_str().unwrap_or("unknown")
    }
}

/// The value at a path of keys with dots; `null` if the value, or an object on the path, is `null`.
/// Panics if a field is missing, because programs and tables must agree.
fn at<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(value, |value, key| match value {
        Value::Null => value,
        _ => value
            .get(key)
            .unwrap_or_else(|| panic!("the record has no {path}")),
    })
}

pub(super) fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    at(value, path).as_str().unwrap_or("unknown")
}

fn number(value: &Value, path: &str) -> Option<f64> {
    at(value, path).as_f64()
}

/// The entry of a list in which `key` has this name.
fn entry<'a>(record: &'a Value, list: &str, key: &str, name: &str) -> Option<&'a Value> {
    at(record, list)
        .as_array()?
        .iter()
        .find(|one| one[key] == name)
}

/// A table's head: the title of the rows, and a column for each processor.
fn head_of(first: &str, records: &[Record]) -> String {
    let titles: Vec<&str> = [first]
        .into_iter()
        .chain(records.iter().map(Record::processor))
        .collect();
    table_head(&titles.join(" | "))
}

/// The README's short table.
pub(super) fn short(records: &[Record]) -> String {
    let mut block = head_of("", records);
    for (name, clock) in [
        ("`tickline::Instant::now`", "tickline Instant::now"),
        ("`std::time::Instant::now`", "std Instant::now"),
        ("`quanta::Instant::now`", "quanta Instant::now"),
        (
            "`now_ordered`: order between threads",
            "tickline now_ordered_ns",
        ),
    ] {
        block += &line(
            &format!("{name}, ns: tight loop / awaited"),
            records,
            |record| {
                let cost = entry(&record.json, "cost.clocks", "clock", clock)
                    .expect("a clock of every machine");
                Some(format!(
                    "{:.1} / {:.1}",
                    number(cost, "tight_ns")?,
                    number(cost, "awaited_ns")?
                ))
            },
        );
    }
    block += &line(
        "backward steps of `now_ordered` between threads",
        records,
        |one| order(&one.json),
    );
    let runs = |record: &Record| {
        ["accuracy_thread", "accuracy_reader"].map(|driver| record.json[driver].clone())
    };
    block += &line(
        "offset from `CLOCK_MONOTONIC`, ns: least to most",
        records,
        |record| {
            let (mut least_ns, mut most_ns) = (f64::INFINITY, f64::NEG_INFINITY);
            for run in runs(record) {
                let ends = number(&run, "least_offset_ns").zip(number(&run, "most_offset_ns"));
                let Some((least, most)) = ends else {
                    return Some("no narrow bracket".into());
                };
                (least_ns, most_ns) = (least_ns.min(least), most_ns.max(most));
            }
            Some(format!("{least_ns:+.0} to {most_ns:+.0}"))
        },
    );
    block += &line(
        "largest bound, ns; readings outside their bounds",
        records,
        |record| {
            let (mut bound_ns, mut outside) = (0.0_f64, 0.0);
            for run in runs(record) {
                bound_ns = bound_ns.max(largest_bound_ns(&run)?);
                outside += number(&run, "bound_violated")?;
            }
            Some(format!("{}; {}", whole(bound_ns), whole(outside)))
        },
    );
    block
        + &line(
            "a hello-world takes longer than with `std` by",
            records,
            |record| hello(&record.json),
        )
}

/// The largest bound to either side.
fn largest_bound_ns(run: &Value) -> Option<f64> {
    Some(number(run, "most_before_ns")?.max(number(run, "most_after_ns")?))
}

/// In whole percent: the median of 101 processes has an error of several microseconds.
fn hello(record: &Value) -> Option<String> {
    let median_us = |of: &str| number(record, &format!("startup.hello.{of}.median"));
    let (longer_us, std_us) = (median_us("difference_us")?, median_us("with_std_us")?);
    Some(format!(
        "{} % of {}",
        whole(longer_us / std_us * 100.0),
        time_ns(std_us * 1e3)
    ))
}

/// The backward steps in exchanges between threads while lines are replaced.
fn order(record: &Value) -> Option<String> {
    let why = record["order"]["skipped"]
        .as_str()
        .map(|why| format!("not tried: {why}"));
    why.or_else(|| backward(record, "order.ordered.count"))
}

/// [`order`], and the result of the bare counter.
fn order_and_bare_counter(record: &Value) -> Option<String> {
    let found = order(record)?;
    if record["order"]["skipped"].is_string() {
        return Some(found);
    }
    Some(format!(
        "{found} exchanges (bare counter: {})",
        backward(record, "order.plain")?
    ))
}

/// The number of backward steps, and of comparisons, at a path.
fn backward(record: &Value, path: &str) -> Option<String> {
    let counted = |key: &str| number(record, &format!("{path}.{key}")).map(count);
    Some(format!(
        "{} in {}",
        counted("backward")?,
        counted("comparisons")?
    ))
}

/// The machines of the records, one on each line.
pub(super) fn machines(records: &[Record]) -> String {
    records.iter().map(machine).collect()
}

/// The machine of a record, with a link to the record.
fn machine(record: &Record) -> String {
    let (name, processor, record) = (&record.name, record.processor(), &record.json);
    let changed = if record["tree_clean"] == true {
        ""
    } else {
        " with changes"
    };
    let commit: String = text(record, "commit").chars().take(10).collect();
    format!(
        "- {processor}: {} CPUs, hypervisor {}, Linux {}, clocksource {}; {}; {}; commit {commit}{changed}: `{}`, \
         {} s. All figures: [{name}](record/{name}).\n",
        record["machine"]["cpus"],
        text(record, "machine.hypervisor"),
        text(record, "machine.kernel"),
        text(record, "machine.clocksource"),
        text(record, "rustc").split(" (").next().unwrap_or_default(),
        text(record, "date"),
        text(record, "command"),
        record["took_s"],
    )
}

/// The groups of clocks: the name in the programs' output, and the title in the table.
const GROUPS: [(&str, &str); 3] = [
    ("counter", "bare instructions"),
    ("time", "time in ns"),
    ("coarse", "coarse time"),
];

/// The table of all clocks, in the order of the first record that has each. A row has the clock's
/// cost on each processor, and the worst of its other figures.
pub(super) fn clocks(records: &[Record]) -> String {
    let mut titles = vec![String::new()];
    let (mut watched_s, mut clocks) = (0.0_f64, Vec::<(&str, &str)>::new());
    for record in records {
        let processor = record.processor();
        titles.extend([
            format!("{processor}: tight loop, ns"),
            format!("{processor}: awaited, ns"),
        ]);
        watched_s = watched_s.max(number(&record.json, "drift.watched_s").unwrap_or(0.0));
        for clock in at(&record.json, "cost.clocks")
            .as_array()
            .into_iter()
            .flatten()
        {
            let clock = (text(clock, "clock"), text(clock, "group"));
            if !clocks.iter().any(|(known, _)| *known == clock.0) {
                clocks.push(clock);
            }
        }
    }
    titles
        .extend(["first call", "process start to first reading", "drift, ppb"].map(str::to_owned));
    titles.extend([
        format!("offset changed in at most {watched_s} s"),
        "backward steps, per million".into(),
    ]);
    let mut table = table_head(&titles.join(" | "));
    for (group, title) in GROUPS {
        let in_group = clocks.iter().filter(|(_, its_group)| *its_group == group);
        let rows: String = in_group
            .map(|(clock, _)| clock_row(records, clock))
            .collect();
        if !rows.is_empty() {
            table += &format!("| *{title}* |{}\n{rows}", " |".repeat(titles.len() - 1));
        }
    }
    table
}

/// A clock's cost on each processor, and the worst of each other figure on any processor: the
/// figure that is furthest from 0.
fn clock_row(records: &[Record], name: &str) -> String {
    let (mut cells, mut figures): (Vec<_>, [Vec<f64>; 5]) = (Vec::new(), Default::default());
    for record in records.iter().map(|record| &record.json) {
        let figure =
            |run: &Value, list: &str, path: &str| number(entry(run, list, "clock", name)?, path);
        for column in ["tight", "awaited"] {
            let cost = |unit: &str| figure(record, "cost.clocks", &format!("{column}_{unit}"));
            cells.push(
                cost("ns")
                    .zip(cost("ratio"))
                    .map(|(ns, ratio)| format!("{ns:.1} ({ratio:.2})")),
            );
        }
        figures[0].extend(figure(record, "startup.clocks", "first_call_us.median"));
        figures[1].extend(figure(record, "startup.clocks", "first_reading_us.median"));
        let others = record["drift_in_other_processes"].as_array();
        let processes = others.into_iter().flatten().chain([&record["drift"]]);
        figures[2].extend(processes.filter_map(|process| figure(process, "clocks", "drift_ppb")));
        figures[3].extend(figure(record, "drift.clocks", "offset_change_ns"));
        let backward = figure(record, "order.clocks", "count.backward");
        let comparisons = figure(record, "order.clocks", "count.comparisons");
        figures[4].extend(
            backward
                .zip(comparisons)
                .map(|(steps, all)| steps / all.max(1.0) * 1e6),
        );
    }
    let [call_us, reading_us, ppb, offset_ns, per_million] = figures.map(|all| {
        all.into_iter()
            .max_by(|one, other| one.abs().total_cmp(&other.abs()))
    });
    cells.push(call_us.map(|us| time_ns(us * 1e3)));
    // Tenths of a ms are enough, because the start of the process takes most of this time.
    cells.push(reading_us.map(|us| format!("{:.1} ms", us / 1e3)));
    cells.push(ppb.map(short_figure));
    cells.push(offset_ns.map(time_ns));
    cells.push(
        per_million.map(|per_million| match short_figure(per_million) {
            // Do not round a few backward steps to none.
            rounded if rounded == "0" && per_million > 0.0 => "< 0.1".into(),
            rounded => rounded,
        }),
    );
    line(name, &cells, Clone::clone)
}

/// The figures of tickline itself.
pub(super) fn tickline(records: &[Record]) -> String {
    let (mut runs, mut titles, mut watched_s) = (Vec::new(), Vec::new(), 0.0_f64);
    for record in records {
        for driver in ["thread", "reader"] {
            let run = &record.json[format!("accuracy_{driver}")];
            runs.push(run);
            titles.push(format!("{}: {driver} driver", record.processor()));
            watched_s = watched_s.max(number(run, "watched_s").unwrap_or(0.0));
        }
    }
    let mut block = table_head(&format!(
        "at most {watched_s} s each | {}",
        titles.join(" | ")
    ));
    block += &line(
        "readings, each between two calls of `clock_gettime`",
        &runs,
        |run| number(run, "readings").map(count),
    );
    block += &line("readings outside their bracket", &runs, |run| {
        number(run, "outside").map(whole)
    });
    block += &line("offset from the bracket's middle, ns", &runs, |run| {
        let [least, most, mean] =
            ["least_offset_ns", "most_offset_ns", "mean_offset_ns"].map(|path| number(run, path));
        let offset = least.zip(most).zip(mean);
        let offset = offset
            .map(|((least, most), mean)| format!("{least:+.0} to {most:+.0}, mean {mean:+.1}"));
        offset.or_else(|| Some("no narrow bracket".into()))
    });
    block += &line("largest bound to either side, ns", &runs, |run| {
        largest_bound_ns(run).map(whole)
    });
    block += &line("bound violated", &runs, |run| {
        number(run, "bound_violated").map(whole)
    });
    block += &line("CPU of the thread", &runs, |run| {
        let percent =
            number(run, "thread_cpu_percent").map(|percent| format!("{percent:.2} % of a core"));
        percent.or_else(|| Some("no thread".into()))
    });
    block += &format!("\n{}", head_of("", records));
    block += &line(
        "backward steps between threads while the line changes, `now_ordered`",
        records,
        |one| order_and_bare_counter(&one.json),
    );
    block += &line("served by the counter after", records, |record| {
        let clock = entry(&record.json, "startup.clocks", "clock", "tickline now_ns");
        let time = |figure: &str| Some(time_ns(number(clock?, &format!("{figure}.median"))? * 1e3));
        let times = time("counter_us").zip(time("slowest_call_us"));
        let served = times.map(|(after, slowest)| {
            format!("{after} of steady use; the slowest call on the way takes {slowest}")
        });
        served.or_else(|| Some("not on this machine".into()))
    });
    block
}

/// The table of the costs of a span, ns, on one thread and on each of two threads. The rows are
/// those of the newest record. An older record may have no figure for a row.
pub(super) fn spans(records: &[Record]) -> String {
    let mut block = head_of("ns a span: one thread / two", records);
    let newest = records
        .iter()
        .max_by_key(|record| record.json["date"].as_str());
    for span in newest
        .iter()
        .flat_map(|record| record.json["spans"]["spans"].as_array())
        .flatten()
    {
        let subject = text(span, "subject");
        block += &line(subject, records, |record| {
            let cost = entry(&record.json, "spans.spans", "subject", subject)?;
            let two = number(cost, "two_threads_ns").map_or_else(|| "-".to_owned(), whole);
            Some(format!("{} / {two}", whole(number(cost, "one_thread_ns")?)))
        });
    }
    block
}
