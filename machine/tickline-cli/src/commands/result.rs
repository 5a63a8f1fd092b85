//! What a text about the whole machine begins with: the sentence about its clocks, and the result.

use crate::document::{Document, Level};
use crate::screen::{BAD, GOOD, SLOW, Screen};

/// Shows the sentence about the machine with its level in colour, the result, and the warning
/// about a debug build.
pub(super) fn show_result(document: &Document, screen: &mut Screen) {
    if let Some((sentence, health)) = document.headline().zip(document.health.as_ref()) {
        let style = match health.level {
            Level::Ok => GOOD,
            Level::Unsure | Level::Slow | Level::Unknown => SLOW,
            Level::Wrong => BAD,
        };
        screen.say_painted("", &sentence, sentence.find(':').unwrap_or(0), style);
    }
    screen.say("", &document.result);
    if let Some(note) = document.build_note() {
        screen.say("", note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::Health;

    fn of_health(level: Level) -> Document {
        Document {
            health: Some(Health {
                level,
                text: "the time costs 25 ns".to_owned(),
                decided_by: None,
            }),
            result: "The result.".to_owned(),
            ..Document::default()
        }
    }

    #[test]
    fn the_sentence_about_the_machine_is_above_the_result() {
        let mut screen = Screen::of(80);
        show_result(&of_health(Level::Ok), &mut screen);
        assert_eq!(
            anstream::adapter::strip_str(&screen.text).to_string(),
            "OK: the time costs 25 ns.\nThe result.\n"
        );
    }

    #[test]
    fn the_level_alone_has_a_colour() {
        let shown = |level| {
            let mut screen = Screen::of(80);
            show_result(&of_health(level), &mut screen);
            screen.text
        };
        for (level, word, style) in [
            (Level::Ok, "OK", GOOD),
            (Level::Slow, "SLOW", SLOW),
            (Level::Unknown, "UNKNOWN", SLOW),
            (Level::Wrong, "WRONG", BAD),
        ] {
            let text = shown(level);
            let painted = format!("{style}{word}{style:#}: the time");
            assert!(text.starts_with(&painted), "{text:?}");
        }
    }
}
