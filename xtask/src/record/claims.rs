//! The figures of prose, compared with the stored ones. `docs/README.md` lists them.

use super::file::Cost;
use super::{Record, Stored, stored};
use crate::files::read;

/// The pages that a user reads first.
const README: &str = "README.md";
const CRATE_README: &str = "crates/tickline/README.md";
const CRATE_PAGE: &str = "crates/tickline/src/lib.rs";
const COMING_FROM: &str = "crates/tickline/docs/coming_from.md";
const BENCHES: &str = "benches/README.md";
const GUESTS: &str = "docs/guests.md";
const PROGRAMS: &str = "machine/docs/programs.md";
const OPERATORS: &str = "machine/docs/operators.md";

/// The page's text on one line, without the marks of comments.
fn prose(page: &str) -> String {
    let text = read(page).unwrap();
    let words = text.split_whitespace();
    words
        .filter(|word| *word != "//!")
        .collect::<Vec<_>>()
        .join(" ")
}

/// The text between the first `before` and the next `after`.
fn between(page: &str, before: &str, after: &str) -> String {
    let text = prose(page);
    let found = text
        .split_once(before)
        .and_then(|(_, rest)| rest.split_once(after));
    let (found, _) = found.unwrap_or_else(|| panic!("{page} says no '{before}...{after}'"));
    found.to_owned()
}

/// The number between `before` and `after`.
fn figure(page: &str, before: &str, after: &str) -> f64 {
    let found = between(page, before, after);
    found
        .parse()
        .unwrap_or_else(|_| panic!("{page}: '{before}{found}{after}' has no number"))
}

/// The costs of a call.
fn cost<'a>(record: &'a Record, clock: &str) -> &'a Cost {
    let mut clocks = record.cost.clocks.iter();
    let cost = clocks.find(|cost| cost.clock == clock);
    cost.expect("a clock of every record")
}

/// The cost of a call in a tight loop, ns.
fn tight_ns(record: &Record, clock: &str) -> f64 {
    cost(record, clock).tight_ns
}

/// The least and the most of these figures.
fn range(figures: impl Iterator<Item = f64>) -> (f64, f64) {
    figures.fold((f64::MAX, 0.0), |(least, most), figure| {
        (figure.min(least), figure.max(most))
    })
}

/// On the processors of all records, because the price is that of the counter instruction.
#[test]
fn a_reading_costs_what_the_first_lines_say() {
    let Stored { present, older } = stored().unwrap();
    let records = present.iter().chain(&older);
    let (least_ns, most_ns) =
        range(records.map(|record| tight_ns(record, "tickline Instant::now")));
    for page in [README, CRATE_README, CRATE_PAGE] {
        let said = between(page, "eads the time in ", " ns");
        assert_eq!(said, format!("{least_ns:.0} to {most_ns:.0}"), "{page}");
    }
}

#[test]
fn an_awaited_reading_costs_what_the_readmes_say() {
    let Stored { present, older } = stored().unwrap();
    let records = present.iter().chain(&older);
    let (least_ns, most_ns) =
        range(records.map(|record| cost(record, "tickline Instant::now").awaited_ns));
    for page in [README, CRATE_README] {
        let said = between(page, "or in ", " ns if each result is awaited");
        assert_eq!(said, format!("{least_ns:.0} to {most_ns:.0}"), "{page}");
    }
}

/// The range of the ratio between `tickline Instant::now` and std's clock over all records, as the
/// guide says it.
fn range_of_stds_time(ns: impl Fn(&Cost) -> f64) -> String {
    let Stored { present, older } = stored().unwrap();
    let ratios = present.iter().chain(&older).map(|record| {
        ns(cost(record, "tickline Instant::now")) / ns(cost(record, "std Instant::now"))
    });
    let (least, most) = range(ratios);
    format!("{least:.1} to {most:.1}")
}

#[test]
fn a_reading_takes_the_share_of_stds_time_that_the_guide_says() {
    let tight = between(COMING_FROM, "`now` takes ", " times as long");
    assert_eq!(tight, range_of_stds_time(|cost| cost.tight_ns));
    let awaited = between(
        COMING_FROM,
        "in a tight loop, and ",
        " times if each result",
    );
    assert_eq!(awaited, range_of_stds_time(|cost| cost.awaited_ns));
}

#[test]
fn a_reading_with_bounds_costs_what_the_readme_says() {
    let Stored { present, older } = stored().unwrap();
    let records = present.iter().chain(&older);
    let (least_ns, most_ns) = range(records.map(|record| tight_ns(record, "tickline reading")));
    let said = between(README, "how wrong the time can be, in ", " ns.");
    assert_eq!(said, format!("{least_ns:.0} to {most_ns:.0}"));
}

#[test]
fn an_ordered_reading_costs_as_much_more_as_the_crates_page_says() {
    let Stored { present, older } = stored().unwrap();
    let (least_ns, most_ns) = range(present.iter().chain(&older).map(|record| {
        tight_ns(record, "tickline now_ordered_ns") - tight_ns(record, "tickline now_ns")
    }));
    let said = between(CRATE_PAGE, "`now_ordered`, which takes ", " ns more");
    assert_eq!(said, format!("{least_ns:.0} to {most_ns:.0}"));
}

#[test]
fn readings_are_as_near_to_the_os_clock_as_the_crates_readme_says() {
    let said_ns = figure(CRATE_README, "to within about ", " ns of the OS clock");
    for record in stored().unwrap().present {
        for run in [&record.accuracy_thread, &record.accuracy_reader] {
            let offsets = [run.least_offset_ns, run.most_offset_ns];
            let far = offsets
                .into_iter()
                .flatten()
                .find(|ns| ns.abs() > said_ns + 1.0);
            assert_eq!(far, None, "ns on {}", record.processor);
        }
    }
}

/// The drift of quanta in each process of all records, us a second, without its sign, from the least
/// on. Of all records, because the code of quanta is not ours.
fn drifts_of_quanta_us() -> Vec<f64> {
    let Stored { present, older } = stored().unwrap();
    let records = present.iter().chain(&older);
    let processes = records
        .flat_map(|record| std::iter::once(&record.drift).chain(&record.drift_in_other_processes));
    let clocks = processes.flat_map(|drift| &drift.clocks);
    let of_quanta = clocks.filter(|drift| drift.clock == "quanta Instant::now");
    let mut drifts_us: Vec<f64> = of_quanta
        .filter_map(|drift| drift.drift_ppb)
        .map(|ppb| ppb.abs() / 1e3)
        .collect();
    drifts_us.sort_by(f64::total_cmp);
    drifts_us
}

#[test]
fn quanta_drifts_as_far_as_the_readme_says() {
    let said_us = figure(README, "so it drifts: by up to ", " us a second");
    let most_us = *drifts_of_quanta_us().last().expect("a process");
    assert!((said_us - most_us).abs() <= 0.5, "{most_us} us");
}

#[test]
fn quanta_drifts_in_half_of_the_processes_as_the_readme_says() {
    let said_us = figure(README, "process of all records, by about ", " us a second");
    let drifts_us = drifts_of_quanta_us();
    let median_us = drifts_us[drifts_us.len() / 2];
    assert!((said_us - median_us).abs() <= 0.5, "{median_us} us");
}

/// The cells of a table's rows.
fn rows(page: &str) -> Vec<Vec<String>> {
    let text = read(page).unwrap();
    let rows = text.lines().filter_map(|line| line.strip_prefix("| "));
    let cells = |row: &str| {
        row.trim_end_matches(" |")
            .split(" | ")
            .map(str::to_owned)
            .collect()
    };
    rows.map(cells).collect()
}

/// How many times as fast a reading is as `clock_gettime`, in each guest that keeps time with a slow
/// timer and whose readings use the counter throughout.
fn ratios_of_guests() -> Vec<f64> {
    let is_slow = |row: &Vec<String>| {
        matches!(row.get(2).map(String::as_str), Some("hpet" | "acpi_pm"))
            && row[4..6] == ["fast", "fast"]
    };
    let rows = rows(GUESTS).into_iter().filter(is_slow);
    rows.filter_map(|row| row.last()?.strip_suffix('x')?.parse().ok())
        .collect()
}

#[test]
fn readings_in_guests_are_as_much_faster_as_the_pages_say() {
    let ratios = ratios_of_guests();
    assert!(ratios.len() > 5, "{ratios:?}");
    let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let most = ratios.iter().copied().fold(0.0, f64::max);
    for (page, before) in [
        (README, "by the counter was "),
        (BENCHES, "in such a guest, they are "),
    ] {
        let said = between(page, before, " times as fast as `clock_gettime`");
        assert_eq!(said, format!("{least:.0} to {most:.0}"), "{page}");
    }
}

/// "About 1.2 times" is 1.0 to 1.4.
#[test]
fn readings_without_the_counter_take_as_long_as_the_pages_say() {
    let rows = rows(GUESTS).into_iter();
    let by_os_clock = rows.filter(|row| {
        row.get(4..6)
            .is_some_and(|states| states.iter().all(|state| state.starts_with("fallback")))
    });
    let times: Vec<f64> = by_os_clock
        .filter_map(|row| row.last()?.strip_suffix('x')?.parse().ok())
        .map(|ratio: f64| ratio.recip())
        .collect();
    assert!(times.len() > 3, "{times:?}");
    for (page, before) in [
        (README, "a reading then takes about "),
        (CRATE_PAGE, "and take about "),
    ] {
        let said = figure(page, before, " times as long as a direct call");
        for time in &times {
            assert!((said - time).abs() <= 0.2, "{page}: {time}");
        }
    }
}

/// The ratios of these programs in the guests whose names begin with `clocksource`.
fn ratios_of_programs(clocksource: &str, programs: &[&str]) -> Vec<f64> {
    let rows = rows(PROGRAMS).into_iter();
    rows.filter(|row| row[0].starts_with(clocksource) && programs.contains(&&*row[1]))
        .filter_map(|row| row.get(5)?.parse().ok())
        .collect()
}

/// The smaller ratio of a program in these guests.
fn ratio_of_program(clocksource: &str, program: &str) -> String {
    let (least, _) = range(ratios_of_programs(clocksource, &[program]).into_iter());
    format!("{least:.1}")
}

#[test]
fn programs_gain_what_the_operators_guide_says() {
    for programs in [["Go", "Java", "PHP"], ["Python", "Node", "Ruby"]] {
        let row = format!("| {} (the smaller of two guests) | ", programs.join(", "));
        let of = |clocksource| {
            programs
                .map(|one| ratio_of_program(clocksource, one))
                .join(", ")
        };
        let expected = format!("{} | {} |", of("hpet"), of("acpi_pm"));
        let text = read(OPERATORS).unwrap();
        let said = text.lines().find_map(|line| line.strip_prefix(&row));
        assert_eq!(said, Some(&*expected), "{OPERATORS}: {row}");
    }
}

/// The ratios of Postgres' own figures in the guests whose names begin with `clocksource`: native
/// divided by `run`. `column` is that of the table in `programs.md`.
fn ratios_of_postgres(clocksource: &str, column: usize) -> Vec<f64> {
    let rows = rows(PROGRAMS).into_iter();
    let cells = rows
        .filter(|row| row[0].starts_with(clocksource) && row.len() == 4)
        .filter_map(|row| {
            let mut times = row[column].split(" / ").map(str::parse);
            let native: f64 = times.next()?.ok()?;
            let run: f64 = times.next()?.ok()?;
            Some(native / run)
        });
    cells.collect()
}

/// The row of the operators' guide that begins so must have these ranges, for hpet and acpi_pm.
fn assert_operators_row(row: &str, ratios: impl Fn(&str) -> Vec<f64>, decimals: usize) {
    let said_range = |clocksource| {
        let (least, most) = range(ratios(clocksource).into_iter());
        assert!(most > 0.0, "{PROGRAMS}: {clocksource}");
        format!("{least:.decimals$} to {most:.decimals$}")
    };
    let expected = format!("{} | {} |", said_range("hpet"), said_range("acpi_pm"));
    let text = read(OPERATORS).unwrap();
    let row = format!("| {row} | ");
    let said = text.lines().find_map(|line| line.strip_prefix(&row));
    assert_eq!(said, Some(&*expected), "{OPERATORS}: {row}");
}

#[test]
fn a_call_in_a_loop_gains_what_the_operators_guide_says() {
    let ratios = |clocksource: &str| {
        let mut ratios = ratios_of_programs(clocksource, &["static C", "musl C"]);
        ratios.extend(ratios_of_postgres(clocksource, 1));
        ratios
    };
    assert_operators_row(
        "a call in a loop: C, Postgres's `pg_test_timing`",
        ratios,
        0,
    );
}

#[test]
fn explain_analyze_gains_what_the_operators_guide_says() {
    let row = "Postgres's `EXPLAIN ANALYZE` of a million rows";
    assert_operators_row(row, |clocksource| ratios_of_postgres(clocksource, 2), 1);
}

#[test]
fn a_row_of_postgres_gains_what_the_operators_guide_says() {
    let ratios = |clocksource: &str| ratios_of_programs(clocksource, &["Postgres"]);
    assert_operators_row("Postgres's `clock_timestamp()` for each row", ratios, 1);
}

#[test]
fn a_request_gains_what_the_operators_guide_says() {
    let ratios = |clocksource: &str| ratios_of_programs(clocksource, &["Redis", "nginx"]);
    assert_operators_row("a request to Redis or nginx", ratios, 1);
}

#[test]
fn the_list_of_figures_names_each_comparison() {
    let list = read("docs/README.md").unwrap();
    let source = read("xtask/src/record/claims.rs").unwrap();
    let tests = source.split("#[test]\nfn ").skip(1);
    let comparisons = tests
        .filter_map(|test| Some(test.split_once("()")?.0))
        .filter(|test| *test != "the_list_of_figures_names_each_comparison");
    for comparison in comparisons {
        assert!(
            list.contains(&format!("`{comparison}`")),
            "docs/README.md: {comparison}"
        );
    }
}
