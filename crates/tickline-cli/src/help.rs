//! The text of `--help` and the manual below the options: exit codes and examples, in `help/`. The exit
//! codes are those of `exit.rs`.

/// Texts, one after the other.
macro_rules! help {
    ($($name:literal),+) => {
        concat!($(include_str!(concat!("help/", $name, ".txt"))),+)
    };
}

pub(crate) const PROGRAM: &str = help!("exit_codes_of_a_diagnosis", "program");
pub(crate) const DOCTOR: &str = help!("exit_codes_of_a_diagnosis", "doctor");
pub(crate) const BENCH: &str = help!("exit_codes", "bench");
pub(crate) const WARP: &str = help!("warp");
pub(crate) const WATCH: &str = help!("exit_codes", "watch");
pub(crate) const REPORT: &str = help!("exit_codes_of_a_diagnosis", "report");
pub(crate) const WHO: &str = help!("who");
pub(crate) const SERVE: &str = help!("serve");
pub(crate) const COMPARE: &str = help!("compare");
pub(crate) const COMPLETIONS: &str = help!("completions");
pub(crate) const MAN: &str = help!("man");
pub(crate) const RUN: &str = help!("run");
