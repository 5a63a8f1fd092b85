//! Writes the tables of the records, with a row for each figure, and a column for each processor.

use super::file::{Accuracy, Count, Group, Order, Record, Spread, TracingLayer};
use super::markdown::{count, line, short as short_figure, time_ns, time_us, whole, whole_count};
use crate::files::table_head;

/// The records' processors, as a text for each.
fn processors(records: &[Record]) -> Vec<&str> {
    records.iter().map(|record| &*record.processor).collect()
}

/// A table's head: the title of the rows, and a column for each processor.
fn head_of(first: &str, records: &[Record]) -> String {
    let mut titles = vec![first];
    titles.extend(processors(records));
    table_head(&titles)
}

/// The README's short table.
pub(super) fn short(records: &[Record]) -> String {
    let mut block = head_of("", records);
    for (name, clock) in [
        ("`tickline::Instant::now`", "tickline Instant::now"),
        ("`std::time::Instant::now`", "std Instant::now"),
        ("`quanta::Instant::now`", "quanta Instant::now"),
        ("`quanta::Clock::now`", "quanta Clock::now"),
        (
            "`now_ordered`: order between threads",
            "tickline now_ordered_ns",
        ),
        (
            "`Clock::reading`: a time and its bounds",
            "tickline reading",
        ),
    ] {
        let title = format!("{name}, ns: tight loop / awaited");
        block += &line(&title, records, |record| {
            let mut clocks = record.cost.clocks.iter();
            let cost = clocks.find(|cost| cost.clock == clock);
            let cost = cost.expect("a clock of every machine");
            Some(format!("{:.1} / {:.1}", cost.tight_ns, cost.awaited_ns))
        });
    }
    let title = "backward steps of `now_ordered` between threads";
    block += &line(title, records, |record| order(&record.order));
    let title = "offset from `CLOCK_MONOTONIC`, ns: least to most";
    block += &line(title, records, |record| Some(offsets(record)));
    let title = "largest bound, ns; readings outside their bounds";
    block += &line(title, records, |record| {
        let runs = [&record.accuracy_thread, &record.accuracy_reader];
        let bound_ns = runs.map(largest_bound_ns).into_iter().max()?;
        let outside: u64 = runs.iter().map(|run| run.bound_violated).sum();
        Some(format!(
            "{}; {}",
            whole_count(bound_ns),
            whole_count(outside)
        ))
    });
    let title = "a hello-world takes longer than with `std` by";
    block + &line(title, records, hello)
}

/// The least and the most offset with either driver.
fn offsets(record: &Record) -> String {
    let mut least_ns = f64::INFINITY;
    let mut most_ns = f64::NEG_INFINITY;
    for run in [&record.accuracy_thread, &record.accuracy_reader] {
        let (Some(least), Some(most)) = (run.least_offset_ns, run.most_offset_ns) else {
            return "no narrow bracket".into();
        };
        least_ns = least_ns.min(least);
        most_ns = most_ns.max(most);
    }
    format!("{least_ns:+.0} to {most_ns:+.0}")
}

/// The largest bound to either side.
fn largest_bound_ns(run: &Accuracy) -> u64 {
    run.most_before_ns.max(run.most_after_ns)
}

/// In whole percent: the median of 101 processes has an error of several microseconds.
fn hello(record: &Record) -> Option<String> {
    let hello = &record.startup.hello;
    let longer_us = hello.difference_us?.median;
    let std_us = hello.with_std_us?.median;
    let percent = whole(longer_us / std_us * 100.0);
    Some(format!("{percent} % of {}", time_us(std_us)))
}

/// The backward steps in exchanges between threads while lines are replaced.
fn order(order: &Order) -> Option<String> {
    match &order.skipped {
        Some(why) => Some(format!("not tried: {why}")),
        None => Some(backward(order.ordered.as_ref()?.count)),
    }
}

/// [`order`], and the result of the bare counter.
fn order_and_bare_counter(record: &Record) -> Option<String> {
    let found = order(&record.order)?;
    if record.order.skipped.is_some() {
        return Some(found);
    }
    let plain = backward(record.order.plain?);
    Some(format!("{found} exchanges (bare counter: {plain})"))
}

/// The number of backward steps, and of comparisons.
fn backward(found: Count) -> String {
    format!("{} in {}", count(found.backward), count(found.comparisons))
}

/// The machines of the records, one on each line, for the page above their folder.
pub(super) fn machines(records: &[Record]) -> String {
    let machine = |record| machine(record, "record/");
    records.iter().map(machine).collect()
}

/// The same for the page in their folder.
pub(super) fn older_machines(records: &[Record]) -> String {
    records.iter().map(|record| machine(record, "")).collect()
}

/// The machine of a record, with a link to the record in `folder`.
fn machine(record: &Record, folder: &str) -> String {
    let name = record.file_name();
    let machine = &record.machine;
    let changed = if record.tree_clean {
        ""
    } else {
        " with changes"
    };
    let commit: String = record.commit.chars().take(10).collect();
    let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    format!(
        "- {}: {} CPUs, hypervisor {}, Linux {}, clocksource {}; {}; {}; commit {commit}{changed}: `{}`, \
         {} s. All figures: [{name}]({folder}{name}).\n",
        record.processor,
        machine.cpus,
        known(&machine.hypervisor),
        known(&machine.kernel),
        known(&machine.clocksource),
        record.rustc.split(" (").next().unwrap_or_default(),
        record.date,
        record.command,
        record.took_s,
    )
}

/// The groups of clocks with their titles in the table.
const GROUPS: [(Group, &str); 3] = [
    (Group::Counter, "bare instructions"),
    (Group::Time, "time in ns"),
    (Group::Coarse, "coarse time"),
];

/// The table of all clocks, in the order of the first record that has each. A row has the clock's
/// cost on each processor, and the worst of its other figures.
pub(super) fn clocks(records: &[Record]) -> String {
    let mut clocks = Vec::<(&str, Group)>::new();
    for cost in records.iter().flat_map(|record| &record.cost.clocks) {
        if !clocks.iter().any(|(known, _)| *known == cost.clock) {
            clocks.push((&cost.clock, cost.group));
        }
    }
    let mut titles = vec![String::new()];
    for processor in processors(records) {
        titles.push(format!("{processor}: tight loop, ns"));
        titles.push(format!("{processor}: awaited, ns"));
    }
    let watched_s = records.iter().map(|record| record.drift.watched_s).max();
    titles.extend([
        "first call".to_owned(),
        "process start to first reading".to_owned(),
        "drift, ppb".to_owned(),
        format!("offset changed in at most {} s", watched_s.unwrap_or(0)),
        "backward steps, per million".to_owned(),
    ]);
    let mut table = table_head(&titles);
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

/// The figure that is furthest from 0.
fn worst(figures: impl Iterator<Item = f64>) -> Option<f64> {
    figures.max_by(|one, other| one.abs().total_cmp(&other.abs()))
}

/// A clock's cost on each processor, and the worst of each other figure on any processor.
fn clock_row(records: &[Record], name: &str) -> String {
    let mut cells = Vec::new();
    for record in records {
        let cost = record.cost.clocks.iter().find(|cost| cost.clock == name);
        let cell = |ns: f64, ratio: f64| format!("{ns:.1} ({ratio:.2})");
        cells.push(cost.map(|cost| cell(cost.tight_ns, cost.tight_ratio)));
        cells.push(cost.map(|cost| cell(cost.awaited_ns, cost.awaited_ratio)));
    }
    let startups = || {
        let clocks = records.iter().flat_map(|record| &record.startup.clocks);
        clocks.filter(|startup| startup.clock == name)
    };
    let first_call_us = startups().filter_map(|startup| Some(startup.first_call_us?.median));
    cells.push(worst(first_call_us).map(time_us));
    let reading_us = startups().filter_map(|startup| Some(startup.first_reading_us?.median));
    // Tenths of a ms are enough, because the start of the process takes most of this time.
    cells.push(worst(reading_us).map(|us| format!("{:.1} ms", us / 1e3)));
    let drifts = records.iter().flat_map(|record| {
        let processes = record.drift_in_other_processes.iter();
        processes.chain([&record.drift]).flat_map(|run| &run.clocks)
    });
    let drifts = drifts.filter(|drift| drift.clock == name);
    cells.push(worst(drifts.filter_map(|drift| drift.drift_ppb)).map(short_figure));
    let offsets = records.iter().flat_map(|record| &record.drift.clocks);
    let offsets = offsets.filter(|drift| drift.clock == name);
    cells.push(worst(offsets.map(|drift| drift.offset_change_ns)).map(time_ns));
    let orders = records.iter().flat_map(|record| &record.order.clocks);
    let orders = orders.filter(|order| order.clock == name);
    cells.push(worst(orders.map(|order| per_million(order.count))).map(steps));
    line(name, &cells, Clone::clone)
}

/// The backward steps in a million comparisons.
#[expect(clippy::cast_precision_loss, reason = "for people")]
fn per_million(count: Count) -> f64 {
    count.backward as f64 / count.comparisons.max(1) as f64 * 1e6
}

/// A few backward steps are not rounded to none.
fn steps(per_million: f64) -> String {
    let rounded = short_figure(per_million);
    if rounded == "0" && per_million > 0.0 {
        "< 0.1".into()
    } else {
        rounded
    }
}

/// The figures of tickline itself.
pub(super) fn tickline(records: &[Record]) -> String {
    let mut runs = Vec::new();
    let mut titles = Vec::new();
    for record in records {
        for (driver, run) in [
            ("thread", &record.accuracy_thread),
            ("reader", &record.accuracy_reader),
        ] {
            runs.push(run);
            titles.push(format!("{}: {driver} driver", record.processor));
        }
    }
    let watched_s = runs.iter().map(|run| run.watched_s).max().unwrap_or(0);
    titles.insert(0, format!("at most {watched_s} s each"));
    let mut block = table_head(&titles);
    let title = "readings, each between two calls of `clock_gettime`";
    block += &line(title, &runs, |run| Some(count(run.readings)));
    let title = "readings outside their bracket";
    block += &line(title, &runs, |run| Some(whole_count(run.outside)));
    let title = "offset from the bracket's middle, ns";
    block += &line(title, &runs, |run| Some(offset(run)));
    let title = "largest bound to either side, ns";
    block += &line(title, &runs, |run| Some(whole_count(largest_bound_ns(run))));
    block += &line("bound violated", &runs, |run| {
        Some(whole_count(run.bound_violated))
    });
    block += &line("CPU of the thread", &runs, |run| Some(thread_use(run)));
    block += &format!("\n{}", head_of("", records));
    let title = "backward steps between threads while the line changes, `now_ordered`";
    block += &line(title, records, order_and_bare_counter);
    let title = "served by the counter after";
    block + &line(title, records, |record| Some(served_after(record)))
}

/// The thread's CPU time, and its wake-ups if the record has them.
fn thread_use(run: &Accuracy) -> String {
    let Some(percent) = run.thread_cpu_percent else {
        return "no thread".into();
    };
    let cpu = format!("{percent:.2} % of a core");
    match run.thread_wake_ups_per_s {
        Some(wake_ups) => format!("{cpu}, {wake_ups:.1} wake-ups a second"),
        None => cpu,
    }
}

fn offset(run: &Accuracy) -> String {
    match (run.least_offset_ns, run.most_offset_ns, run.mean_offset_ns) {
        (Some(least), Some(most), Some(mean)) => {
            format!("{least:+.0} to {most:+.0}, mean {mean:+.1}")
        }
        _ => "no narrow bracket".into(),
    }
}

/// The time until the counter serves.
fn served_after(record: &Record) -> String {
    let mut clocks = record.startup.clocks.iter();
    let clock = clocks.find(|startup| startup.clock == "tickline now_ns");
    let times = clock.and_then(|clock| clock.counter_us.zip(clock.slowest_call_us));
    let time = |spread: Spread| time_us(spread.median);
    match times {
        Some((after, slowest)) => format!(
            "{} of steady use; the slowest call on the way takes {}",
            time(after),
            time(slowest)
        ),
        None => "not on this machine".into(),
    }
}

/// The table of layers that write traces, from the newest record that has them: CPU time, ns, on
/// one thread and on each of two threads, and bytes.
pub(super) fn traces(records: &[Record]) -> String {
    let with_traces = records.iter().filter(|record| record.traces.is_some());
    let Some(record) = with_traces.max_by_key(|record| &record.date) else {
        return "No record has these figures.\n".to_owned();
    };
    let layers: Vec<_> = record.traces.iter().flat_map(|all| &all.layers).collect();
    let title = format!("{}, {}", record.processor, record.date);
    let mut block = table_head(&[
        &title,
        "span",
        "span with a field",
        "event with a field",
        "process, a record",
        "bytes, a record",
    ]);
    for layer in layers.iter().filter(|layer| layer.threads == 1) {
        let two_threads = layers
            .iter()
            .find(|two| two.threads == 2 && two.layer == layer.layer);
        let cell = |figure: fn(&TracingLayer) -> f64| {
            let two = two_threads.map_or_else(|| "-".to_owned(), |two| whole(figure(two)));
            format!("{} / {two}", whole(figure(layer)))
        };
        block += &format!(
            "| {} | {} | {} | {} | {} | {} |\n",
            layer.layer,
            cell(|layer| layer.span_ns),
            cell(|layer| layer.span_with_field_ns),
            cell(|layer| layer.event_with_field_ns),
            cell(|layer| layer.process_ns),
            layer.bytes.map_or_else(|| "-".to_owned(), whole),
        );
    }
    block
}

/// The table of the costs of a span, ns, on one thread and on each of two threads. The newest
/// record has the rows. An older record may have no figure for a row.
pub(super) fn spans(records: &[Record]) -> String {
    let mut block = head_of("ns a span: one thread / two", records);
    let newest = records.iter().max_by_key(|record| &record.date);
    for span in newest.into_iter().flat_map(|record| &record.spans.spans) {
        block += &line(&span.subject, records, |record| {
            let mut spans = record.spans.spans.iter();
            let cost = spans.find(|one| one.subject == span.subject)?;
            let two = cost.two_threads_ns.map_or_else(|| "-".to_owned(), whole);
            Some(format!("{} / {two}", whole(cost.one_thread_ns)))
        });
    }
    block
}
