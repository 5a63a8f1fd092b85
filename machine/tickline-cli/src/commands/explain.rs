//! `tickline explain CODE`: prints the section of `explain.md` about a finding.

use std::io;

use crate::args;
use crate::exit::Exit;
use crate::output::text_to_stdout;
use crate::screen::{Screen, bold};

const TEXT: &str = include_str!("../../explain.md");

/// Each code with its section.
pub(crate) fn sections() -> impl Iterator<Item = (&'static str, &'static str)> {
    TEXT.split("\n## ")
        .skip(1)
        .filter_map(|section| section.split_once("\n\n"))
}

pub(crate) fn run(args: &args::Explain) -> io::Result<Exit> {
    let mut screen = Screen::for_stdout();
    match &args.code {
        Some(code) => explain(code, &mut screen)?,
        None => sections().for_each(|(code, text)| {
            // The first sentence ends with the severity, in brackets.
            let sentence = text.split_inclusive(").").next().unwrap_or_default();
            screen.say(&format!("{code:<25} "), sentence);
        }),
    }
    text_to_stdout(&screen.text)?;
    Ok(Exit::Success)
}

fn explain(code: &str, screen: &mut Screen) -> io::Result<()> {
    let Some((_, text)) = sections().find(|(known, _)| *known == code) else {
        let codes: Vec<&str> = sections().map(|(code, _)| code).collect();
        let text = format!(
            "{code} is not the code of a finding; all: {}",
            codes.join(", ")
        );
        return Err(io::Error::other(text));
    };
    screen.line(&bold(code));
    for paragraph in text.trim_end().split("\n\n") {
        screen.line("");
        match paragraph.starts_with(' ') {
            // A command is not wrapped, so that users can copy it.
            true => screen.line(paragraph),
            false => screen.say("", paragraph),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    /// The text of all files in a folder below `src/`, without folders in it.
    fn sources(folder: &str) -> String {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("src")
            .join(folder);
        let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        files
            .filter(|file| file.file_type().unwrap().is_file())
            .map(|file| fs::read_to_string(file.path()).unwrap())
            .collect()
    }

    /// The codes of all findings that the rules make.
    fn codes(rules: &str) -> BTreeSet<&str> {
        let mut codes = BTreeSet::new();
        for constructor in ["wrong", "slow", "unsure", "note"] {
            for after in rules.split(&format!("Finding::{constructor}(")).skip(1) {
                let code = after.trim_start().strip_prefix('"');
                let code = code.expect("the code of a finding is a literal");
                codes.insert(code.split('"').next().unwrap());
            }
        }
        codes
    }

    #[test]
    fn each_code_has_its_section() {
        let rules = sources("diagnose");
        let explained: Vec<_> = sections().map(|(code, _)| code).collect();
        assert_eq!(
            explained,
            Vec::from_iter(codes(&rules)),
            "explain.md has a section for each, in this order"
        );
    }

    #[test]
    fn each_code_has_a_test() {
        let tests = sources("diagnose/tests");
        for (code, _) in sections() {
            assert!(tests.contains(&format!("\"{code}\"")), "{code}");
        }
    }
}
