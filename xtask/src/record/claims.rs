//! The figures of prose, compared with the stored ones. `docs/README.md` lists them.
//!
//! A test finds a figure by its phrase: the page's words, with `#` in the figure's place. If you
//! write the page in other words, write the phrase in the same words.

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

/// The list of figures, without their values. It names the test of each.
const LIST: &str = "docs/README.md";

/// The page's text on one line, without the marks of comments.
fn prose(page: &str) -> String {
    let text = read(page).unwrap();
    let words = text.split_whitespace();
    words
        .filter(|word| *word != "//!")
        .collect::<Vec<_>>()
        .join(" ")
}

/// The figure of a text, as written, in the place of the `#` in this phrase.
fn found<'a>(text: &'a str, phrase: &str) -> Option<&'a str> {
    let (before, after) = phrase.split_once('#').expect("a place for the figure");
    let (_, rest) = text.split_once(before)?;
    rest.split_once(after).map(|(figure, _)| figure)
}

/// The page's figure, as written.
#[track_caller]
fn said(page: &str, phrase: &str) -> String {
    let figure = found(&prose(page), phrase).map(str::to_owned);
    figure.unwrap_or_else(|| {
        panic!(
            "{page} does not say `{phrase}` with a figure for #. In other words now? Write them \
             into this test of xtask/src/record/claims.rs. No figure any more? Remove the phrase \
             there, and the figure from {LIST}."
        )
    })
}

/// The page's figure, as a number.
#[track_caller]
fn figure(page: &str, phrase: &str) -> f64 {
    let said = said(page, phrase);
    said.parse()
        .unwrap_or_else(|_| panic!("{page}: `{said}` in `{phrase}` is not a number"))
}

/// Asserts that each page says this figure.
#[track_caller]
fn assert_said(phrases: &[(&str, &str)], stored: &str) {
    for (page, phrase) in phrases {
        let said = said(page, phrase);
        assert_eq!(
            said, stored,
            "{page}, `{phrase}`: write the stored figure there"
        );
    }
}

/// A range, in whole numbers.
fn whole((least, most): (f64, f64)) -> String {
    format!("{least:.0} to {most:.0}")
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
    let costs_ns = range(records.map(|record| tight_ns(record, "tickline Instant::now")));
    let phrases = [
        (README, "It reads the time in # ns in a tight loop"),
        (
            CRATE_README,
            "tickline reads the time in # ns in a tight loop",
        ),
        (
            CRATE_PAGE,
            "It reads the time in # ns from the CPU's timestamp counter (in a tight loop",
        ),
    ];
    assert_said(&phrases, &whole(costs_ns));
}

#[test]
fn an_awaited_reading_costs_what_the_readmes_say() {
    let Stored { present, older } = stored().unwrap();
    let records = present.iter().chain(&older);
    let costs_ns = range(records.map(|record| cost(record, "tickline Instant::now").awaited_ns));
    let phrases = [
        (
            README,
            "depending on the processor, or in # ns if each result is awaited",
        ),
        (
            CRATE_README,
            "depending on the processor, or in # ns if each result is awaited",
        ),
    ];
    assert_said(&phrases, &whole(costs_ns));
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
    let phrase = "`now` takes # times as long as std's `now` in a tight loop";
    let expected = range_of_stds_time(|cost| cost.tight_ns);
    assert_said(&[(COMING_FROM, phrase)], &expected);
}

#[test]
fn an_awaited_reading_takes_the_share_of_stds_time_that_the_guide_says() {
    let phrase = "`now` in a tight loop, and # times if each result is awaited";
    let expected = range_of_stds_time(|cost| cost.awaited_ns);
    assert_said(&[(COMING_FROM, phrase)], &expected);
}

#[test]
fn a_reading_with_bounds_costs_what_the_readme_says() {
    let Stored { present, older } = stored().unwrap();
    let records = present.iter().chain(&older);
    let costs_ns = range(records.map(|record| tight_ns(record, "tickline reading")));
    let phrase = "`Clock::reading` also says how wrong the time can be. A call of it takes # ns in a \
                  tight loop.";
    assert_said(&[(README, phrase)], &whole(costs_ns));
}

#[test]
fn an_ordered_reading_costs_as_much_more_as_the_crates_page_says() {
    let Stored { present, older } = stored().unwrap();
    let costs_ns = range(present.iter().chain(&older).map(|record| {
        tight_ns(record, "tickline now_ordered_ns") - tight_ns(record, "tickline now_ns")
    }));
    let phrase = "`now_ordered`, which takes # ns more";
    assert_said(&[(CRATE_PAGE, phrase)], &whole(costs_ns));
}

#[test]
fn readings_are_as_near_to_the_os_clock_as_the_crates_readme_says() {
    let said_ns = figure(CRATE_README, "to within about # ns of the OS clock");
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

/// How many times as long each of quanta's two readings takes as `tickline Instant::now`, on each
/// processor of all records.
fn ratios_of_quanta(ns: impl Fn(&Cost) -> f64) -> Vec<[f64; 2]> {
    let Stored { present, older } = stored().unwrap();
    let ratios = present.iter().chain(&older).map(|record| {
        let own_ns = ns(cost(record, "tickline Instant::now"));
        ["quanta Instant::now", "quanta Clock::now"].map(|clock| ns(cost(record, clock)) / own_ns)
    });
    ratios.collect()
}

/// By how many percent these readings take longer: the least and the most.
fn percent_more(ratios: Vec<[f64; 2]>) -> (f64, f64) {
    let (least, most) = range(ratios.into_iter().flatten());
    ((least - 1.0) * 100.0, (most - 1.0) * 100.0)
}

#[test]
fn readings_of_quanta_take_as_much_longer_as_the_readme_says() {
    let (_, most) = percent_more(ratios_of_quanta(|cost| cost.tight_ns));
    let phrase = "quanta's readings take up to # % longer than `tickline::Instant::now` in a tight";
    assert_said(&[(README, phrase)], &format!("{most:.0}"));
}

/// "As long" is within 1 %.
#[test]
fn readings_of_quanta_take_as_long_on_as_many_processors_as_the_readme_says() {
    let ratios = ratios_of_quanta(|cost| cost.tight_ns);
    let is_as_long = |ratios: &&[f64; 2]| ratios.iter().all(|ratio| (ratio - 1.0).abs() < 0.01);
    let as_long = ratios.iter().filter(is_as_long).count();
    let expected = format!("{as_long} of {}", ratios.len());
    let phrase = "in a tight loop. On # processors they take as long.";
    assert_said(&[(README, phrase)], &expected);
}

#[test]
fn awaited_readings_of_quanta_take_as_much_longer_as_the_readme_says() {
    let percent = percent_more(ratios_of_quanta(|cost| cost.awaited_ns));
    let phrase = "awaited, they take # % longer. quanta calibrates";
    assert_said(&[(README, phrase)], &whole(percent));
}

/// The drift of quanta in each process of all records, us a second, without its sign, from the
/// least on. Of all records, because the code of quanta is not ours.
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
    let said_us = figure(
        README,
        "a second or less, in the worst one by # us a second.",
    );
    let most_us = *drifts_of_quanta_us().last().expect("a process");
    assert!((said_us - most_us).abs() <= 0.5, "{most_us} us");
}

#[test]
fn quanta_drifts_in_half_of_the_processes_as_the_readme_says() {
    let said_us = figure(
        README,
        "In half of the measured processes it drifts by about # us a second or less",
    );
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

/// How many times as fast a reading is as `clock_gettime`, in each guest that keeps time with a
/// slow timer and whose readings use the counter throughout.
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
    let phrases = [
        (
            README,
            "a reading by the counter was # times as fast as `clock_gettime`",
        ),
        (
            BENCHES,
            "in such a guest, they are # times as fast as `clock_gettime`",
        ),
    ];
    assert_said(&phrases, &whole(range(ratios.into_iter())));
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
    for (page, phrase) in [
        (
            README,
            "a reading then takes about # times as long as a direct call of it",
        ),
        (
            CRATE_PAGE,
            "or about # times as long where the call is a system call",
        ),
    ] {
        let said = figure(page, phrase);
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
fn a_phrase_has_its_figure_in_the_place_of_the_mark() {
    let text = "It takes 9 ns, or 17 ns if awaited.";
    assert_eq!(found(text, "It takes # ns, or"), Some("9"));
    assert_eq!(found(text, "It needs # ns, or"), None);
}

#[test]
fn the_list_of_figures_names_each_comparison() {
    let no_comparisons = [
        "a_phrase_has_its_figure_in_the_place_of_the_mark",
        "the_list_of_figures_names_each_comparison",
    ];
    let list = read(LIST).unwrap();
    let source = read("xtask/src/record/claims.rs").unwrap();
    let tests = source.split("#[test]\nfn ").skip(1);
    let comparisons = tests
        .filter_map(|test| Some(test.split_once("()")?.0))
        .filter(|test| !no_comparisons.contains(test));
    for comparison in comparisons {
        assert!(
            list.contains(&format!("`{comparison}`")),
            "{LIST}: {comparison}"
        );
    }
}
