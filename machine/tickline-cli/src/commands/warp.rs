//! `tickline warp`: compares the counters of the CPUs.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::io;

use crate::args;
use crate::cpu_list::{self, ranges};
use crate::document::Document;
use crate::exit::Exit;
use crate::measure::warp::{
    self, MAX_COMPARED_CPUS, Pattern, WHY_NOT_COMPARED, WarpPair, WarpTest,
};
use crate::output::JsonOutput;
use crate::progress::Progress;
use crate::screen::Screen;
use crate::setup::Setup;

pub(crate) fn run(args: &args::Warp) -> io::Result<Exit> {
    let setup = Setup::start_clock()?;
    let cpus = cpu_list::chosen(args.cpus.as_ref())?;
    let pattern = pattern(args.pairs, cpus.len())?;
    let output = JsonOutput::open(args.json.target.as_deref())?;
    let progress = Progress::new();
    let warp = warp::measure(&cpus, pattern, progress.part("counters", 0.0, 1.0));
    let mut document = setup.document("warp", Vec::new(), None)?;
    progress.finish();
    document.result = result(&warp);
    let exit = exit(&warp, args.cpus.as_ref());
    document.warp = Some(warp);
    output.emit(&document, &text(&document))?;
    Ok(exit)
}

/// How the command ends. CPUs that the user has excluded may remain untested.
fn exit(warp: &WarpTest, chosen: Option<&BTreeSet<u32>>) -> Exit {
    match warp.synchronised {
        Some(false) => Exit::Negative,
        Some(true) if chosen.is_some() || warp.untested_cpus.is_none() => Exit::Success,
        _ => Exit::Untested,
    }
}

fn pattern(named: Option<Pattern>, cpus: usize) -> io::Result<Pattern> {
    match named {
        Some(Pattern::All) if cpus > MAX_COMPARED_CPUS => Err(io::Error::other(format!(
            "--pairs all takes {MAX_COMPARED_CPUS} CPUs at most, and these are {cpus}: choose some \
             by --cpus, or use --pairs star"
        ))),
        named => Ok(named.unwrap_or_else(|| Pattern::by_default(cpus))),
    }
}

/// The most pairs in the table. Of more pairs, the table shows the worst.
const ROWS: usize = 28;

/// The result in one sentence.
pub(crate) fn result(warp: &WarpTest) -> String {
    let cpus = cpu_list::named(&ranges(&warp.cpus));
    let count = |synchronised| {
        warp.pairs
            .iter()
            .filter(|pair| pair.synchronised == synchronised)
            .count()
    };
    match (&warp.unknown, warp.synchronised) {
        (Some(why), _) => format!("The counters could not be compared: {why}."),
        (None, None) if warp.pairs.is_empty() => match &warp.untested_cpus {
            Some(others) => format!(
                "Untested: this comparison had {cpus} alone. Online, and not compared: {}.",
                cpu_list::named(others)
            ),
            None => format!(
                "Untested: this process may use {cpus} alone, and it is unknown which others are online."
            ),
        },
        (None, Some(true)) if warp.pairs.is_empty() => {
            format!("{cpus} alone: there is nothing to compare.")
        }
        (None, Some(true)) => {
            let (from, to, ns) = widest(warp);
            let others = warp.untested_cpus.as_ref();
            let others = others.map_or_else(String::new, |cpus| {
                format!(" Not compared: {}.", cpu_list::named(cpus))
            });
            format!(
                "The counters of {cpus} are synchronised: they differ by {ns:.0} ns at most (CPUs \
                 {from} and {to}).{others}"
            )
        }
        (None, Some(false)) => format!(
            "The counters are unsynchronised: {} of {} pairs of {cpus}; the largest warp is {:.0} ns.",
            count(Some(false)),
            warp.pairs.len(),
            warp.largest_warp_ns
        ),
        (None, None) => format!(
            "No unsynchronised counters were found, but {} of {} pairs of {cpus} could not be \
             compared: {WHY_NOT_COMPARED}.",
            count(None),
            warp.pairs.len()
        ),
    }
}

/// The pair with the largest possible difference, and that difference, ns.
fn widest(warp: &WarpTest) -> (u32, u32, f64) {
    let most = |pair: &WarpPair| pair.farthest_ns().unwrap_or(0.0);
    let widest = warp.pairs.iter().max_by(|a, b| most(a).total_cmp(&most(b)));
    widest.map_or((0, 0, 0.0), |pair| (pair.from_cpu, pair.to_cpu, most(pair)))
}

fn text(document: &Document) -> String {
    let mut screen = Screen::for_stdout();
    screen.say("", &document.result);
    let Some(warp) = document.warp.as_ref().filter(|warp| !warp.pairs.is_empty()) else {
        return screen.text;
    };
    let hz = warp.frequency_hz.unwrap_or_default();
    let resolution_ns = warp.resolution_ns.unwrap_or_default();
    let counter = format!(
        "Counter: {:.3} MHz, with a resolution of {resolution_ns:.1} ns; smaller differences count as none.",
        hz / 1e6
    );
    screen.say("", &counter);
    let (title, rows) = pairs(warp);
    screen.heading(&title);
    screen.table(&HEADS, &rows);
    screen.text
}

/// The headings of [`pairs`].
pub(crate) const HEADS: [&str; 6] = [
    "CPUs",
    "exchanges",
    "warps",
    "largest warp ns",
    "offset ns",
    "",
];

/// The table of the pairs: its title, and its rows.
pub(crate) fn pairs(warp: &WarpTest) -> (String, Vec<Vec<String>>) {
    let mut pairs: Vec<&WarpPair> = warp.pairs.iter().collect();
    let pattern = match warp.pattern {
        Pattern::All => "all pairs",
        Pattern::Star => "the first CPU with each other",
    };
    let mut title = format!("Pairs: {pattern}");
    if pairs.len() > ROWS {
        pairs.sort_by(|a, b| {
            severity_key(b)
                .partial_cmp(&severity_key(a))
                .unwrap_or(Ordering::Equal)
        });
        pairs.truncate(ROWS);
        title += &format!(
            "; the worst {ROWS} of {} (the JSON has them all)",
            warp.pairs.len()
        );
    }
    (title, pairs.into_iter().map(row).collect())
}

fn row(pair: &WarpPair) -> Vec<String> {
    let offset = match (pair.offset_least_ns, pair.offset_most_ns) {
        (Some(least), Some(most)) => format!("{least:+.1} to {most:+.1}"),
        _ => "too few exchanges".to_owned(),
    };
    let found = match pair.synchronised {
        Some(false) => "unsynchronised",
        None if pair.offset_least_ns.is_some() => "too slow to tell",
        _ => "",
    };
    vec![
        format!("{} and {}", pair.from_cpu, pair.to_cpu),
        pair.exchanges.to_string(),
        pair.warps.to_string(),
        format!("{:.1}", pair.largest_warp_ns),
        offset,
        found.to_owned(),
    ]
}

/// The sort key of the table: unsynchronised, then unknown, then synchronised pairs.
fn severity_key(pair: &WarpPair) -> (u8, f64) {
    match pair.synchronised {
        Some(false) => (2, pair.largest_warp_ns),
        None => (1, 0.0),
        Some(true) => (0, pair.farthest_ns().unwrap_or(0.0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::example::warp;

    #[test]
    fn the_longest_rows_are_a_table_on_80_columns() {
        let pair = |synchronised| WarpPair {
            from_cpu: 1_022,
            to_cpu: 1_023,
            exchanges: 123_456,
            warps: 12_345,
            largest_warp_ns: 123_456.7,
            offset_least_ns: Some(-123_456.7),
            offset_most_ns: Some(123_456.7),
            synchronised,
        };
        let mut warp = warp(Some(false), 1);
        warp.pairs = vec![pair(Some(false)), pair(None)];
        let mut screen = Screen::of(80);
        screen.table(&HEADS, &pairs(&warp).1);
        assert!(screen.text.starts_with("  CPUs    "), "{}", screen.text);
    }

    #[test]
    fn all_pairs_are_compared_of_few_cpus_or_of_many_on_request() {
        assert_eq!(pattern(None, 64).unwrap(), Pattern::All);
        assert_eq!(pattern(None, 65).unwrap(), Pattern::Star);
        let all = Some(Pattern::All);
        assert_eq!(pattern(all, MAX_COMPARED_CPUS).unwrap(), Pattern::All);
        assert_eq!(pattern(Some(Pattern::Star), 8_192).unwrap(), Pattern::Star);
        let error = pattern(all, MAX_COMPARED_CPUS + 1).unwrap_err().to_string();
        assert!(
            error.contains("takes 1024 CPUs at most, and these are 1025"),
            "{error}"
        );
    }

    #[track_caller]
    fn assert_says(warp: &WarpTest, part: &str) {
        let text = result(warp);
        assert!(text.contains(part), "no {part} in {text}");
    }

    #[test]
    fn synchronised_cpus_have_their_greatest_difference() {
        let part = "CPUs 0-3 are synchronised: they differ by 40 ns at most";
        assert_says(&warp(Some(true), 3), part);
    }

    #[test]
    fn unsynchronised_pairs_are_counted_with_the_largest_warp() {
        let part = "3 of 3 pairs of CPUs 0-3; the largest warp is 3000 ns";
        assert_says(&warp(Some(false), 3), part);
    }

    #[test]
    fn pairs_that_could_not_be_compared_are_counted() {
        let part = "3 of 3 pairs of CPUs 0-3 could not be compared";
        assert_says(&warp(None, 3), part);
    }

    #[test]
    fn one_cpu_has_nothing_to_compare() {
        let part = "CPU 0 alone: there is nothing to compare";
        assert_says(&warp(Some(true), 0), part);
    }

    #[test]
    fn cpus_that_were_not_compared_are_named() {
        let some = WarpTest {
            untested_cpus: Some("4-7".to_owned()),
            ..warp(Some(true), 3)
        };
        assert!(result(&some).ends_with("Not compared: CPUs 4-7."));
    }

    #[test]
    fn one_cpu_of_several_is_untested() {
        let alone = WarpTest {
            untested_cpus: Some("1".to_owned()),
            ..warp(None, 0)
        };
        let text = result(&alone);
        assert!(text.starts_with("Untested: "), "{text}");
    }

    #[test]
    fn a_comparison_that_failed_says_why() {
        let none = WarpTest {
            unknown: Some("no counter".to_owned()),
            ..warp(None, 0)
        };
        let expected = "The counters could not be compared: no counter.";
        assert_eq!(result(&none), expected);
    }

    #[test]
    fn warp_shows_the_worst_of_many_pairs() {
        let (title, rows) = pairs(&warp(Some(false), 500));
        assert!(title.contains("the worst 28 of 500"), "{title}");
        assert_eq!((rows.len(), rows[0][3].as_str()), (ROWS, "500000.0"));
    }

    #[test]
    fn as_many_pairs_as_rows_are_all_shown_in_their_order() {
        let rows = u32::try_from(ROWS).unwrap();
        let (title, rows) = pairs(&warp(Some(false), rows));
        assert_eq!(title, "Pairs: the first CPU with each other");
        assert_eq!((rows.len(), rows[0][3].as_str()), (ROWS, "1000.0"));
    }

    #[test]
    fn unsynchronised_counters_have_an_exit_code_of_their_own() {
        assert_eq!(exit(&warp(Some(false), 1), None), Exit::Negative);
    }

    #[test]
    fn the_text_has_the_counter_and_each_pair() {
        let document = Document {
            result: "The result.".to_owned(),
            warp: Some(WarpTest {
                frequency_hz: Some(2_596_120_000.0),
                resolution_ns: Some(0.4),
                ..warp(Some(true), 1)
            }),
            ..Document::default()
        };
        let text = text(&document);
        for part in [
            "The result.\n",
            "Counter: 2596.120 MHz, with a resolution of 0.4 ns",
            "Pairs: the first CPU with each other",
            "0 and 1",
            "-30.0 to +40.0",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains("unsynchronised"), "{text}");
    }

    #[test]
    fn an_unsynchronised_pair_is_marked_in_the_table() {
        let (_, rows) = pairs(&warp(Some(false), 1));
        assert_eq!(rows[0].last().unwrap(), "unsynchronised");
        let (_, rows) = pairs(&warp(Some(true), 1));
        assert_eq!(rows[0].last().unwrap(), "");
    }

    #[test]
    fn without_pairs_the_text_is_the_result_alone() {
        let document = Document {
            result: "The result.".to_owned(),
            warp: Some(warp(None, 0)),
            ..Document::default()
        };
        assert_eq!(text(&document), "The result.\n");
    }

    #[test]
    fn untested_cpus_leave_the_result_unknown_unless_the_user_has_excluded_them() {
        let mut warp = warp(Some(true), 1);
        assert_eq!(exit(&warp, None), Exit::Success);
        warp.untested_cpus = Some("2-7".to_owned());
        assert_eq!(exit(&warp, None), Exit::Untested);
        assert_eq!(exit(&warp, Some(&BTreeSet::from([0, 1]))), Exit::Success);
    }
}
