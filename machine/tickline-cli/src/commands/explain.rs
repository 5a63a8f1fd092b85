//! `tickline explain CODE`: prints what the code of a finding, a state, an event, a reason or a
//! phase means.

use std::io;

use crate::args;
use crate::diagnose::explanations;
use crate::document::{Block, Explanation};
use crate::exit::Exit;
use crate::glossary;
use crate::output::{line_to_stderr, text_to_stdout};
use crate::screen::{Screen, bold};
use crate::sudo;
use crate::words::plain;

/// The most codes that a message names in its line. More are in columns below it.
const MOST_IN_LINE: usize = 3;

pub(crate) fn run(args: &args::Explain) -> io::Result<Exit> {
    let mut screen = Screen::for_stdout();
    match &args.code {
        Some(code) => {
            if !explain(code, &sudo::this_program(), &mut screen) {
                return refuse(code);
            }
        }
        None if args.all => {
            for explanation in explanations() {
                screen.say(&format!("{:<25} ", explanation.code), explanation.summary);
            }
        }
        None => {
            screen.in_columns(&codes());
            screen.line("");
            screen.say(
                "",
                "`tickline explain CODE` explains one, and `tickline explain --all` has a sentence \
                 about each. It also explains the states, events, gates and reasons that other \
                 commands show, and the phases of a page. `tickline doctor --check --accept CODE` \
                 does not count a finding.",
            );
        }
    }
    text_to_stdout(&screen.text)?;
    Ok(Exit::Success)
}

/// The codes of findings.
fn codes() -> Vec<&'static str> {
    explanations().iter().map(|known| known.code).collect()
}

/// Refuses a word that is no code.
fn refuse(word: &str) -> io::Result<Exit> {
    let near = near(word);
    if near.len() <= MOST_IN_LINE {
        return Err(io::Error::other(unknown(word, &near)));
    }
    let mut screen = Screen::for_stdout();
    screen.in_columns(&near);
    line_to_stderr(&format!(
        "tickline: {} codes contain {}:",
        near.len(),
        plain(word)
    ));
    line_to_stderr(screen.text.trim_end());
    Ok(Exit::Error)
}

/// The message for a word that is no code; `near` are codes that are like it.
fn unknown(word: &str, near: &[&str]) -> String {
    if near.is_empty() {
        format!("\"{word}\" is not a code: `tickline explain` lists all codes of findings")
    } else {
        let near = near.join(" or ");
        format!("\"{word}\" is not a code: did you mean {near}?")
    }
}

/// The codes that are like a word: the nearest by typing errors, or else those that contain it.
fn near(word: &str) -> Vec<&'static str> {
    /// The least likeness of a word with typing errors. Two different codes have less.
    const LEAST: f64 = 0.6;
    let word = word.to_lowercase().replace('-', "_");
    let likeness = |code: &str| strsim::normalized_damerau_levenshtein(&word, code);
    let mut known = codes();
    for code in glossary::all().iter().map(|entry| entry.code) {
        if !known.contains(&code) {
            known.push(code);
        }
    }
    let nearest = known
        .iter()
        .copied()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|code| likeness(code) >= LEAST);
    match nearest {
        Some(code) => vec![code],
        None if word.is_empty() => Vec::new(),
        None => {
            known.retain(|code| code.contains(&word));
            known
        }
    }
}

/// Explains each meaning of the code. Returns whether it has one. `program` is the name by which
/// `sudo` finds this program.
fn explain(code: &str, program: &str, screen: &mut Screen) -> bool {
    let explanations = explanations();
    let finding = explanations.iter().find(|known| known.code == code);
    let mut others = glossary::all();
    others.retain(|entry| entry.code == code);
    if finding.is_none() && others.is_empty() {
        return false;
    }
    screen.line(&bold(code));
    match (finding, others.as_slice()) {
        (None, [entry]) => {
            screen.line("");
            screen.say("", &format!("{}: {}.", entry.kind, entry.sentence));
        }
        (Some(explanation), []) => {
            screen.line("");
            explain_finding(explanation, program, screen);
        }
        _ => {
            if let Some(explanation) = finding {
                screen.heading("Finding:");
                explain_finding(explanation, program, screen);
            }
            for entry in others {
                screen.heading(&format!("{}:", entry.kind));
                screen.say("", &format!("{}.", entry.sentence));
            }
        }
    }
    true
}

fn explain_finding(explanation: &Explanation, program: &str, screen: &mut Screen) {
    screen.say("", &explanation.first());
    for block in explanation.more {
        screen.line("");
        match block {
            Block::Prose(text) => screen.say("", text),
            Block::Commands(commands) => {
                for command in *commands {
                    let command = sudo::with_program(command, program);
                    screen.line(&format!("    {command}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

    use super::*;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/explain.md");

    const HEAD: &str = "\
        This page explains each code of `tickline doctor`; `tickline explain CODE` prints the \
        section of one code. The doctor's output has the evidence for a finding on the machine, \
        and the fix. *Wrong* means that times are wrong, or that a call for the time kills the \
        process. *Unsure* means that no daemon claims the time to be right. *Slow* means that a \
        call for the time costs more than necessary. A *note* is worth knowing, but no fault. \
        `tickline doctor --check --accept CODE` leaves a known finding out of the status.";

    /// All explanations as one page.
    fn page() -> String {
        let options = Options::new(100)
            .break_words(false)
            .word_separator(WordSeparator::AsciiSpace)
            .word_splitter(WordSplitter::NoHyphenation)
            .wrap_algorithm(WrapAlgorithm::FirstFit);
        let prose = |text: &str| textwrap::fill(text, &options) + "\n";
        let mut page = format!("# Findings\n\n{}", prose(HEAD));
        for explanation in explanations() {
            page += &format!("\n## {}\n\n", explanation.code);
            page += &prose(&explanation.first());
            for block in explanation.more {
                page += "\n";
                match block {
                    Block::Prose(text) => page += &prose(text),
                    Block::Commands(commands) => {
                        for command in *commands {
                            page += &format!("    {command}\n");
                        }
                    }
                }
            }
        }
        page
    }

    /// Symptom: "after an                inserted one", in a string whose lines had been joined.
    #[test]
    fn no_explanation_has_two_spaces_between_words() {
        for explanation in explanations() {
            let text = explanation.text;
            assert!(!text.contains("  "), "{}: {text}", explanation.code);
        }
    }

    /// `TICKLINE_WRITE=1 cargo test -p tickline-cli explain` writes the page.
    #[test]
    fn the_page_has_the_explanations() {
        let page = page();
        if std::env::var_os("TICKLINE_WRITE").is_some() {
            fs::write(PAGE, &page).unwrap();
        }
        assert!(
            fs::read_to_string(PAGE).unwrap() == page,
            "{PAGE} is not what the rules say: TICKLINE_WRITE=1 rewrites it"
        );
    }

    /// Symptom: `explain tsc_skwe` listed all codes.
    #[test]
    fn a_word_that_is_no_code_is_answered_with_the_codes_that_are_like_it() {
        for (word, like_it) in [
            ("tsc_skwe", &["tsc_skew"][..]),
            ("TSC-SKEW", &["tsc_skew"]),
            ("clocksource_slov", &["clocksource_slow"]),
            ("interposed", &["clock_interposed"]),
            ("expirry", &["expiry"]),
            ("interp", &["clock_interposed"]),
            ("nonsense", &[]),
            ("", &[]),
        ] {
            assert_eq!(near(word), like_it, "{word}");
        }
        let text = unknown("tsc_skwe", &near("tsc_skwe"));
        assert_eq!(text, "\"tsc_skwe\" is not a code: did you mean tsc_skew?");
        let text = unknown("nonsense", &[]);
        assert_eq!(
            text,
            "\"nonsense\" is not a code: `tickline explain` lists all codes of findings"
        );
    }

    /// The text for a code, without styles, if `sudo` finds the program by its usual name.
    fn explained(code: &str) -> String {
        explained_with(code, sudo::NAME)
    }

    /// The text for a code, without styles, if `sudo` finds the program by this name.
    fn explained_with(code: &str, program: &str) -> String {
        let mut screen = Screen::of(100);
        assert!(explain(code, program, &mut screen), "{code}");
        anstream::adapter::strip_str(&screen.text).to_string()
    }

    #[test]
    fn a_code_of_a_finding_is_explained_with_its_paragraphs_and_commands() {
        for explanation in explanations() {
            let text = explained(explanation.code);
            assert!(
                text.starts_with(&format!("{}\n\n", explanation.code)),
                "{text}"
            );
            let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
            let shown = words(&text);
            assert!(shown.contains(&words(&explanation.first())), "{text}");
            for block in explanation.more {
                match block {
                    Block::Prose(prose) => assert!(shown.contains(&words(prose)), "{text}"),
                    Block::Commands(commands) => {
                        for command in *commands {
                            assert!(text.contains(&format!("\n    {command}\n")), "{text}");
                        }
                    }
                }
            }
            assert!(!text.ends_with("\n\n"), "{text:?}");
            assert!(!text.contains("\n\n\n"), "{text:?}");
        }
    }

    /// Symptom: "command not found" of the second command.
    #[test]
    fn a_command_is_run_by_the_name_by_which_sudo_finds_the_program() {
        let text = explained_with("tsc_not_chosen", "/a/tickline");
        let commands = "\n    tickline warp\n    sudo /a/tickline doctor --fix\n";
        assert!(text.contains(commands), "{text}");
    }

    #[test]
    fn a_code_with_one_meaning_has_one_line() {
        for entry in glossary::all() {
            let kinds = glossary::all();
            let kinds = kinds.iter().filter(|other| other.code == entry.code);
            if kinds.count() == 1 && !codes().contains(&entry.code) {
                let text = explained(entry.code);
                let words: Vec<_> = text.split_whitespace().collect();
                let expected = format!("{} {}: {}.", entry.code, entry.kind, entry.sentence);
                assert_eq!(words.join(" "), expected);
            }
        }
    }

    /// Symptom: the reason of UTC and the phase of a page, to which an alert points, were one
    /// paragraph.
    #[test]
    fn each_meaning_of_a_code_has_a_heading() {
        let text = explained("expired");
        for kind in ["Reason why UTC is not known", "Phase of a page"] {
            assert!(text.contains(&format!("\n\n{kind}:\n")), "{text}");
        }
        for explanation in explanations() {
            let is_other = |entry: &glossary::Entry| entry.code == explanation.code;
            let has_others = glossary::all().iter().any(is_other);
            let text = explained(explanation.code);
            let expected = format!("{}\n\nFinding:\n", explanation.code);
            assert_eq!(text.starts_with(&expected), has_others, "{text}");
        }
    }

    #[test]
    fn an_unknown_code_has_no_text() {
        let mut screen = Screen::of(100);
        assert!(!explain("nonsense", sudo::NAME, &mut screen));
        assert_eq!(screen.text, "");
    }

    #[test]
    fn a_summary_ends_with_the_severity() {
        for explanation in explanations() {
            assert!(explanation.summary.ends_with(")."), "{}", explanation.code);
        }
    }

    #[test]
    fn no_two_codes_have_one_name() {
        let names = explanations()
            .into_iter()
            .map(|explanation| explanation.code);
        assert_eq!(names.collect::<BTreeSet<_>>().len(), explanations().len());
    }
}
