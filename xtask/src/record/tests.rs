use serde_json::Value;

use super::*;
use crate::changes::tests::changed_after;

/// All stored records.
fn all_records() -> Vec<Record> {
    let Stored { present, older } = stored().unwrap();
    present.into_iter().chain(older).collect()
}

/// A record of the present figures.
fn a_record() -> Record {
    stored().unwrap().present.remove(0)
}

/// The file's name has the record's day and processor.
#[test]
fn each_record_is_in_the_file_of_its_name() {
    let Stored { present, older } = stored().unwrap();
    for (folder, records) in [(FOLDER, present), (OLDER, older)] {
        for record in records {
            let file = root().join(folder).join(record.file_name());
            assert!(file.is_file(), "{}", file.display());
        }
    }
}

#[test]
fn no_two_records_have_the_same_processor() {
    let mut processors: Vec<String> = all_records().into_iter().map(|one| one.processor).collect();
    processors.sort();
    for pair in processors.windows(2) {
        assert_ne!(pair[0], pair[1]);
    }
}

#[test]
fn the_pages_say_what_the_records_say() {
    let stored = stored().unwrap();
    assert!(!stored.present.is_empty());
    for (path, text) in rewritten(&stored).unwrap() {
        assert!(
            read(path).unwrap() == text,
            "{path}: run `cargo xtask record --readme`"
        );
    }
}

/// A column of a table says what the same code costs on another processor.
#[test]
fn the_columns_of_a_table_are_of_one_code() {
    let records = stored().unwrap().present;
    for pair in records.windows(2) {
        let names = pair.iter().map(Record::file_name).collect::<Vec<_>>();
        assert!(
            is_of_same_code(&pair[0], &pair[1]),
            "{names:?}: move the older one to {OLDER}"
        );
    }
}

#[test]
fn a_commit_that_is_not_known_is_of_other_code() {
    assert!(is_unchanged("HEAD", Other::Commit("HEAD")));
    assert!(!is_unchanged(
        "0123456789abcdef0123456789abcdef01234567",
        Other::Commit("HEAD")
    ));
}

#[test]
fn a_changed_test_is_no_other_code() {
    let changes = ["crates/a.rs", "crates/tests/a.rs", "crates/a/tests.rs"];
    let changes = changes.map(|path| [path, "1\n", "2\n"]);
    assert_eq!(changed_after("test", &changes, CODE), ["crates/a.rs"]);
}

/// A record is stored whole, also the figures that no table shows.
#[test]
fn a_record_that_is_written_again_loses_nothing() {
    let Stored { present, older } = stored().unwrap();
    let in_folder =
        |folder, records: Vec<Record>| records.into_iter().map(move |one| (folder, one));
    for (folder, record) in in_folder(FOLDER, present).chain(in_folder(OLDER, older)) {
        let path = format!("{folder}/{}", record.file_name());
        // Values are equal whatever the order of their fields. The order of fields in memory
        // depends on serde_json's features, and so on the crates that are built together.
        let stored: Value = serde_json::from_str(&read(path).unwrap()).unwrap();
        let written: Value = serde_json::from_str(&text(&record).unwrap()).unwrap();
        assert_eq!(written, stored);
    }
}

/// Who opens a record reads first what it is, and of which machine.
#[test]
fn a_record_begins_with_its_description_and_then_has_the_programs_in_order() {
    let text = text(&a_record()).unwrap();
    let fields: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("  \"")?.split('"').next())
        .collect();
    assert_eq!(
        fields,
        [
            "schema",
            "date",
            "command",
            "commit",
            "tree_clean",
            "rustc",
            "processor",
            "took_s",
            "machine",
            "cost",
            "startup",
            "drift",
            "drift_in_other_processes",
            "order",
            "accuracy_thread",
            "accuracy_reader",
            "spans",
            "traces",
        ]
    );
}

/// Reads a record whose file lacks a field of a section.
fn read_without(section: &str, field: &str) -> Result<Record, serde_json::Error> {
    let mut record: Value = serde_json::from_str(&text(&a_record()).unwrap()).unwrap();
    record[section].as_object_mut().unwrap().remove(field);
    serde_json::from_value(record)
}

#[test]
fn a_record_without_a_figure_of_a_table_is_refused() {
    for (section, field) in [
        ("cost", "clocks"),
        ("startup", "hello"),
        ("drift", "watched_s"),
        ("accuracy_reader", "bound_violated"),
        ("spans", "spans"),
    ] {
        let error = read_without(section, field).unwrap_err().to_string();
        assert!(
            error.contains(&format!("missing field `{field}`")),
            "{error}"
        );
    }
}

#[test]
fn a_record_may_lack_a_figure_that_no_table_shows() {
    assert!(read_without("order", "clock_ms").is_ok());
}

/// A field may have had another meaning then.
#[test]
fn a_record_of_another_schema_is_refused() {
    let text = text(&a_record()).unwrap();
    assert!(parsed(&text).is_ok());
    let error = parsed(&text.replace(SCHEMA, "tickline-record/2")).unwrap_err();
    assert_eq!(
        error,
        format!("its schema is tickline-record/2, not {SCHEMA}")
    );
}

/// Records with these processors and dates.
fn records_of(named: &[(&str, &str)]) -> Vec<Record> {
    let record = |(processor, date): &(&str, &str)| {
        let mut record = a_record();
        (record.processor, record.date) = ((*processor).to_owned(), (*date).to_owned());
        record
    };
    named.iter().map(record).collect()
}

/// The processors and dates of records.
fn named(records: &[Record]) -> Vec<(&str, &str)> {
    records
        .iter()
        .map(|one| (&*one.processor, &*one.date))
        .collect()
}

/// The records A and B, and an older one of C, with a new one of `processor`.
fn with_new_of(processor: &str, is_same: bool) -> Stored {
    let stored = Stored {
        present: records_of(&[("A", "2"), ("B", "2")]),
        older: records_of(&[("C", "1")]),
    };
    let new = records_of(&[(processor, "3")]).remove(0);
    with_new(stored, new, |_, _| is_same)
}

#[test]
fn a_new_record_of_the_same_code_replaces_the_one_of_its_processor_alone() {
    let Stored { present, older } = with_new_of("B", true);
    assert_eq!(named(&present), [("A", "2"), ("B", "3")]);
    assert_eq!(named(&older), [("C", "1")]);
}

#[test]
fn a_new_record_of_another_processor_is_added() {
    let Stored { present, older } = with_new_of("AB", true);
    assert_eq!(named(&present), [("A", "2"), ("AB", "3"), ("B", "2")]);
    assert_eq!(named(&older), [("C", "1")]);
}

#[test]
fn a_new_record_replaces_the_older_one_of_its_processor() {
    let Stored { present, older } = with_new_of("C", true);
    assert_eq!(named(&present), [("A", "2"), ("B", "2"), ("C", "3")]);
    assert!(older.is_empty());
}

#[test]
fn records_of_other_code_than_the_new_one_become_older_ones() {
    let Stored { present, older } = with_new_of("B", false);
    assert_eq!(named(&present), [("B", "3")]);
    assert_eq!(named(&older), [("A", "2"), ("C", "1")]);
}

#[test]
fn a_record_that_becomes_older_replaces_the_older_one_of_its_processor() {
    let stored = Stored {
        present: records_of(&[("A", "2")]),
        older: records_of(&[("A", "1"), ("B", "1")]),
    };
    let new = records_of(&[("C", "3")]).remove(0);
    let Stored { older, .. } = with_new(stored, new, |_, _| false);
    assert_eq!(named(&older), [("A", "2"), ("B", "1")]);
}

/// Whoever reads a table must see which code was measured.
#[test]
fn the_machine_of_a_record_names_its_commit_and_whether_it_had_changes() {
    let mut record = a_record();
    record.commit = "0123456789abcdef".to_owned();
    for (tree_clean, expected) in [
        (true, "; commit 0123456789: `cargo xtask record"),
        (false, "; commit 0123456789 with changes: `"),
    ] {
        record.tree_clean = tree_clean;
        let line = tables::machines(std::slice::from_ref(&record));
        assert!(line.contains(expected), "{line}");
    }
}

#[test]
fn a_machine_whose_kernel_is_not_known_says_so() {
    let mut record = a_record();
    record.machine.kernel = None;
    let line = tables::machines(&[record]);
    assert!(line.contains("Linux unknown,"), "{line}");
}

fn row<'a>(table: &'a str, title: &str) -> &'a str {
    let start = format!("| {title} | ");
    let row = table.lines().find_map(|line| line.strip_prefix(&start));
    row.unwrap_or_else(|| panic!("{title} is not in\n{table}"))
}

#[test]
fn order_that_was_not_tried_is_no_order() {
    let mut record = a_record();
    record.order.skipped = Some("one CPU can't be ahead of another".to_owned());
    record.order.ordered = None;
    record.order.plain = None;
    let records = [record];
    let why = "not tried: one CPU can't be ahead of another |";
    let title = "backward steps of `now_ordered` between threads";
    assert_eq!(row(&tables::short(&records), title), why);
    let title = "backward steps between threads while the line changes, `now_ordered`";
    assert_eq!(row(&tables::tickline(&records), title), why);
}

/// The title of the row with the least and the most offset.
const OFFSETS: &str = "offset from `CLOCK_MONOTONIC`, ns: least to most";

#[test]
fn the_short_table_has_the_worst_of_both_drivers() {
    let mut record = a_record();
    for (run, least_ns, most_ns, bound_ns, violated) in [
        (&mut record.accuracy_thread, -12.0, 3.0, 40, 1),
        (&mut record.accuracy_reader, -2.0, 14.0, 1_200, 2),
    ] {
        run.least_offset_ns = Some(least_ns);
        run.most_offset_ns = Some(most_ns);
        run.most_before_ns = 7;
        run.most_after_ns = bound_ns;
        run.bound_violated = violated;
    }
    let table = tables::short(&[record]);
    assert_eq!(row(&table, OFFSETS), "-12 to +14 |");
    let bounds = "largest bound, ns; readings outside their bounds";
    assert_eq!(row(&table, bounds), "1,200; 3 |");
}

#[test]
fn an_offset_without_a_narrow_bracket_is_no_offset() {
    let mut record = a_record();
    record.accuracy_reader.least_offset_ns = None;
    let table = tables::short(&[record]);
    assert_eq!(row(&table, OFFSETS), "no narrow bracket |");
}

#[test]
fn the_cost_of_the_thread_has_its_wake_ups_where_the_record_has_them() {
    let mut record = all_records().remove(0);
    record.accuracy_thread.thread_cpu_percent = Some(0.031);
    for (wake_ups_per_s, cost) in [
        (None, "0.03 % of a core"),
        (Some(2.04), "0.03 % of a core, 2.0 wake-ups a second"),
    ] {
        record.accuracy_thread.thread_wake_ups_per_s = wake_ups_per_s;
        let table = tables::tickline(std::slice::from_ref(&record));
        let expected = format!("{cost} | no thread |");
        assert_eq!(row(&table, "CPU of the thread"), expected);
    }
}

/// Two pages state what the clock's thread costs at the default interval.
#[test]
fn the_stated_cost_of_the_thread_is_that_of_all_records() {
    for page in [
        "crates/tickline/src/clock/builder.rs",
        "crates/tickline-criterion/src/lib.rs",
    ] {
        assert!(
            read(page).unwrap().contains("0.02 to 0.04 % of a core"),
            "{page}"
        );
    }
    for record in all_records() {
        let run = &record.accuracy_thread;
        let percent = run.thread_cpu_percent.expect("a thread");
        assert!(
            (0.015..0.045).contains(&percent),
            "{percent} % on {}",
            record.processor
        );
        if let Some(wake_ups) = run.thread_wake_ups_per_s {
            assert!(
                (1.9..2.1).contains(&wake_ups),
                "{wake_ups} wake-ups a second"
            );
        }
    }
}

/// Clocks calibrate anew in each process, so one process may have been lucky.
#[test]
fn a_clock_shows_its_worst_figure_on_any_machine_and_in_any_process() {
    let mut records = all_records();
    records.truncate(2);
    let name = "tickline now_ns";
    let drift = |record: &mut Record, process: Option<usize>, ppb: f64| {
        let run = match process {
            Some(index) => &mut record.drift_in_other_processes[index],
            None => &mut record.drift,
        };
        let mut clocks = run.clocks.iter_mut();
        clocks.find(|one| one.clock == name).unwrap().drift_ppb = Some(ppb);
    };
    drift(&mut records[0], None, 5.5);
    drift(&mut records[1], Some(3), -8.25);
    for record in &mut records {
        let clocks = record.order.clocks.iter_mut();
        for order in clocks.filter(|order| order.clock == name) {
            order.count.backward = 1;
            order.count.comparisons = 100_000_000;
        }
    }
    let table = tables::clocks(&records);
    let cells: Vec<&str> = row(&table, name)
        .trim_end_matches(" |")
        .split(" | ")
        .collect();
    // Two costs of each machine come first.
    assert_eq!(cells.len(), 4 + 5);
    assert_eq!(cells[6], "-8.3");
    assert_eq!(cells[8], "< 0.1", "a step is not rounded to none");
}

#[test]
fn a_clock_that_only_one_machine_has_leaves_the_other_cells_empty() {
    let mut records = all_records();
    records.truncate(2);
    records[0].cost.clocks.retain(|cost| cost.clock != "rdtscp");
    let table = tables::clocks(&records);
    assert!(row(&table, "rdtscp").starts_with(" |  | "), "{table}");
}
