//! What `--help` and the manual say below the options: what each command ends with, and examples.

/// What `exit.rs` means to users.
macro_rules! exit_codes {
    ($rest:literal) => {
        concat!(
            "\
Exit codes:
  0  tickline reads the counter: fast and trusted
  1  tickline works, but a gate is closed and the OS clock serves
  2  an error: bad arguments, or output that could not be written
A reader that leaves early, such as head, is no error.

",
            $rest
        )
    };
}

pub(crate) const PROGRAM: &str = exit_codes!(
    "\
Environment:
  TICKLINE=off  do not use the counter (on: do, the default; anything else is ignored, and said)

JSON:
  Every command that measures takes --json. The keys, with their units, are described by a JSON Schema in the sources,
  crates/tickline-cli/schema/tickline-1.schema.json.

Examples:
  tickline
  tickline doctor --json -
  tickline report --out clocks.html"
);

pub(crate) const DOCTOR: &str = exit_codes!(
    "\
Examples:
  tickline doctor
  tickline doctor --secs 10 --json - | jq .verdict
  tickline doctor --facts other-machine.json"
);

pub(crate) const BENCH: &str = exit_codes!(
    "\
Examples:
  tickline bench --json before.json
  tickline bench --compare before.json
  tickline bench --rounds 1000 --calls 20000000"
);

pub(crate) const WARP: &str = "\
Exit codes:
  0  the counters are in step
  1  they are apart, or could not all be compared
  2  an error

Examples:
  tickline warp
  tickline warp --cpus 0-3,8 --json warp.json
  tickline warp --pairs star";

pub(crate) const WATCH: &str = exit_codes!(
    "\
Examples:
  tickline watch
  tickline watch --secs 60 --csv looks.csv
  tickline watch --interval 0.2 --cpus 0-3 | tee looks.txt"
);

pub(crate) const REPORT: &str = exit_codes!(
    "\
A report ends with 1, too, if it finds the counters of two CPUs apart.

Examples:
  tickline report --out clocks.html
  tickline report --secs 60 --out clocks.html --json clocks.json
  ssh host tickline report --out - > host.html"
);

pub(crate) const COMPLETIONS: &str = "\
Examples:
  tickline completions bash > ~/.local/share/bash-completion/completions/tickline
  tickline completions fish > ~/.config/fish/completions/tickline.fish";

pub(crate) const MAN: &str = "\
Examples:
  tickline man | man -l -
  tickline man report > tickline-report.1";
