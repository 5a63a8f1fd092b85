//! `tickline explain CODE`: what a finding means, by the section of `explain.md`.

use std::io;

use crate::args;
use crate::exit::Exit;
use crate::output::text_to_stdout;
use crate::wrap::{Screen, bold};

const TEXT: &str = include_str!("../explain.md");

/// The codes, and the section of each.
pub(crate) fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEXT.split("\n## ").skip(1).filter_map(|section| section.split_once("\n\n"))
}

pub(crate) fn run(args: &args::Explain) -> io::Result<Exit> {
    let mut screen = Screen::of_stdout();
    let Some(code) = &args.code else {
        for (code, text) in sections() {
            // The first sentence ends with the severity, in brackets.
            let sentence = text.split_inclusive(").").next().unwrap_or_default();
            screen.say(&format!("{code:<25} "), sentence);
        }
        text_to_stdout(&screen.text)?;
        return Ok(Exit::Success);
    };
    let Some((_, text)) = sections().find(|(known, _)| known == code) else { return Err(unknown(code)) };
    screen.line(&bold(code));
    for paragraph in text.trim_end().split("\n\n") {
        screen.line("");
        match paragraph.starts_with(' ') {
            // Commands stay whole, to be copied.
            true => screen.line(paragraph),
            false => screen.say("", paragraph),
        }
    }
    text_to_stdout(&screen.text)?;
    Ok(Exit::Success)
}

fn unknown(code: &str) -> io::Error {
    let codes: Vec<&str> = sections().map(|(code, _)| code).collect();
    io::Error::other(format!("{code} is not the code of a finding; all: {}", codes.join(", ")))
}
