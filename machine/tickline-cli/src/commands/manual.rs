//! `tickline completions` and `tickline man`: generates both from the arguments and their help.

use std::io::{self, Write};

use clap::{Arg, Command, CommandFactory};
use clap_mangen::roff::{Roff, bold, italic, roman};

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
    let below_options = match name {
        None => help::PROGRAM,
        Some(name) => help::of(name),
    };
    let actions = command.has_subcommands().then(|| actions(&command));
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
    } else if let Some(actions) = actions {
        actions.to_writer(&mut manual)?;
    }
    sections(below_options).to_writer(&mut manual)?;
    Ok(manual)
}

/// The actions of a command, each with the options that are its own. No action has a manual.
fn actions(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["ACTIONS"]);
    for action in command.get_subcommands() {
        let about = action.get_long_about().or_else(|| action.get_about());
        roff.control("TP", []).text([bold(action.get_name())]);
        roff.text([roman(about.map(ToString::to_string).unwrap_or_default())]);
        roff.control("RS", []);
        let is_own = |option: &&Arg| {
            let mut others = command.get_arguments();
            others.all(|other| other.get_id() != option.get_id())
        };
        for option in action.get_arguments().filter(is_own) {
            let name = option.get_long().unwrap_or_default();
            let value = option.get_value_names().unwrap_or_default().join(" ");
            let help = option.get_long_help().or_else(|| option.get_help());
            roff.control("TP", []);
            roff.text([bold(format!("--{name}")), roman(" "), italic(value)]);
            roff.text([roman(help.map(ToString::to_string).unwrap_or_default())]);
        }
        roff.control("RE", []);
    }
    roff
}

/// The sections, with their line breaks. One without a title gets the title `NOTES`.
fn sections(sections: &[Section]) -> Roff {
    let mut roff = Roff::new();
    for section in sections {
        let title = section.title.unwrap_or("Notes").to_uppercase();
        roff.control("SH", [title.as_str()]).control("nf", []);
        for line in section.text().lines() {
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
    fn the_manual_of_serve_has_its_actions_with_their_options() {
        let manual = String::from_utf8(manual(Some("serve")).unwrap()).unwrap();
        let plain = manual.replace('\\', "");
        let (_, actions) = plain.split_once(".SH ACTIONS").expect(&plain);
        for part in ["status", "--json", "--openmetrics", "off"] {
            assert!(actions.contains(part), "no {part} in {actions}");
        }
    }

    #[test]
    fn no_part_of_the_help_is_missing_in_the_manual() {
        let mut program = Args::parser();
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
