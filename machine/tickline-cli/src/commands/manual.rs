//! `tickline completions` and `tickline man`: generates both from the arguments and their help.

use std::io::{self, Write};

use clap::{Command, CommandFactory};
use clap_mangen::roff::{Roff, roman};

use crate::args::help::{self, Section};
use crate::args::{Args, Completions, Man};
use crate::exit::Exit;
use crate::output::to_stdout;

/// Prints completions.
pub(crate) fn completions(args: &Completions) -> io::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Args::command(), "tickline", &mut script);
    to_stdout(&script)?;
    Ok(Exit::Success)
}

/// Prints a manual.
pub(crate) fn man(args: &Man) -> io::Result<Exit> {
    to_stdout(manual(args.command.as_deref())?)?;
    Ok(Exit::Success)
}

/// The manual of the program, or of the command `name`.
fn manual(name: Option<&str>) -> io::Result<Vec<u8>> {
    let mut program = Args::command().disable_help_subcommand(true);
    program.build();
    let command = match name {
        None => program,
        Some(name) => match program.find_subcommand(name) {
            Some(command) => command.clone(),
            None => {
                let known: Vec<&str> = program.get_subcommands().map(Command::get_name).collect();
                return Err(io::Error::other(format!(
                    "{name} is not a command; all: {}",
                    known.join(", ")
                )));
            }
        },
    };
    let full_name = command
        .get_display_name()
        .unwrap_or("tickline")
        .to_uppercase();
    let man = clap_mangen::Man::new(command);
    let mut manual = Vec::new();
    // The manual shows the version instead of a date. Without an empty date, `Man` would print the
    // next field as the date.
    writeln!(
        manual,
        ".TH {full_name} 1 \"\" \"tickline {}\" tickline",
        env!("CARGO_PKG_VERSION")
    )?;
    man.render_name_section(&mut manual)?;
    man.render_synopsis_section(&mut manual)?;
    man.render_description_section(&mut manual)?;
    man.render_options_section(&mut manual)?;
    if name.is_none() {
        man.render_subcommands_section(&mut manual)?;
    }
    sections(help::of(name)).to_writer(&mut manual)?;
    Ok(manual)
}

/// The sections, with their line breaks. One without a title gets the title `NOTES`.
fn sections(sections: &[Section]) -> Roff {
    let mut roff = Roff::new();
    for section in sections {
        let title = section.title.unwrap_or("Notes").to_uppercase();
        roff.control("SH", [title.as_str()]).control("nf", []);
        for line in section.text.lines() {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn completions_of_every_shell_offer_every_command() {
        let mut program = Args::command();
        program.build();
        for shell in clap_complete::Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Args::command(), "tickline", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in program.get_subcommands().map(Command::get_name) {
                assert!(script.contains(command), "{shell}: no {command}");
            }
            assert!(script.contains("openmetrics"), "{shell}: no option");
        }
    }

    #[test]
    fn the_help_of_the_program_and_of_commands_that_measure_has_exit_codes() {
        for name in [
            None,
            Some("doctor"),
            Some("bench"),
            Some("warp"),
            Some("watch"),
        ] {
            let mut titles = help::of(name).iter().filter_map(|section| section.title);
            assert!(titles.any(|title| title == "Exit codes"), "{name:?}");
        }
    }

    #[test]
    fn no_part_of_the_help_is_missing_in_the_manual() {
        let mut program = Args::command();
        program.build();
        let names = program
            .get_subcommands()
            .map(Command::get_name)
            .filter(|name| *name != "help");
        for name in std::iter::once(None).chain(names.map(Some)) {
            let manual = String::from_utf8(manual(name).unwrap()).unwrap();
            let command = name.map_or(&program, |name| program.find_subcommand(name).unwrap());
            let help = command
                .get_after_long_help()
                .unwrap_or_else(|| panic!("{name:?} has no examples"))
                .to_string();
            let (_, examples) = help.split_once("Examples:\n  ").expect(&help);
            let first = examples.strip_prefix("sudo ").unwrap_or(examples);
            assert!(first.starts_with("tickline"), "{help}");
            assert!(manual.contains(".SH EXAMPLES"), "{manual}");
            // The manual without roff's escapes.
            let plain = manual.replace('\\', "");
            for line in help
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty() && !line.ends_with(':'))
            {
                assert!(plain.contains(line), "{line} is missing in:\n{manual}");
            }
        }
    }
}
