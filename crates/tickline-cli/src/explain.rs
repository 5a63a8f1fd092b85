//! `tickline explain CODE`: what a finding means, by the section of `explain.md`.

use std::io;

use crate::args;
use crate::exit::Exit;
use crate::output::text_to_stdout;
use crate::wrap::{Layout, heading};

const TEXT: &str = include_str!("../explain.md");

/// The codes, and the section of each.
pub(crate) fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEXT.split("\n## ").skip(1).filter_map(|section| section.split_once("\n\n"))
}

pub(crate) fn run(args: &args::Explain) -> io::Result<Exit> {
    let layout = Layout::of_stdout();
    let Some(code) = &args.code else {
        // The first sentence ends with the severity, in brackets.
        let sentence = |text: &'static str| text.split_inclusive(").").next().unwrap_or_default();
        let line = |(code, text)| layout.wrap(&format!("{code:<25} "), sentence(text));
        text_to_stdout(|out| sections().try_for_each(|section| writeln!(out, "{}", line(section))))?;
        return Ok(Exit::Success);
    };
    let Some((_, text)) = sections().find(|(known, _)| known == code) else { return Err(unknown(code)) };
    text_to_stdout(|out| {
        writeln!(out, "{}", heading(code))?;
        text.trim_end().split("\n\n").try_for_each(|paragraph| match paragraph.starts_with(' ') {
            // Commands stay whole, to be copied.
            true => writeln!(out, "\n{paragraph}"),
            false => writeln!(out, "\n{}", layout.wrap("", paragraph)),
        })
    })?;
    Ok(Exit::Success)
}

fn unknown(code: &str) -> io::Error {
    let codes: Vec<&str> = sections().map(|(code, _)| code).collect();
    io::Error::other(format!("{code} is not the code of a finding; all: {}", codes.join(", ")))
}
