//! The text of `--help` and the manual below the options: exit codes and examples.

/// The exit codes of `exit.rs`, for users.
macro_rules! exit_codes {
    ($rest:literal) => {
        concat!(
            "\
Exit codes:
  0  tickline reads the counter: fast and trusted
  1  tickline works, but a gate is closed and the OS clock serves
  2  an error: bad arguments, or output that could not be written
It is no error if the reader of the output, such as head, leaves early.

",
            $rest
        )
    };
}

/// The exit codes of the commands that make a diagnosis.
macro_rules! diagnosis_exit_codes {
    ($rest:literal) => {
        concat!(
            "\
Exit codes:
  0  nothing is slow or wrong on this machine, and tickline reads the counter
  1  something is slow or wrong, or a gate is closed and the OS clock serves tickline
  2  an error: bad arguments, or output that could not be written
It is no error if the reader of the output, such as head, leaves early.

",
            $rest
        )
    };
}

pub(crate) const PROGRAM: &str = diagnosis_exit_codes!(
    "\
Files:
  A regular file is replaced once the new one is complete, which gets its mode. A device, a pipe,
  and the rows of --csv are written in place. A link is followed. It is refused if it leads nowhere,
  or if the kernel protects it (fs.protected_symlinks). /dev/stdout is the same as -.

Environment:
  TICKLINE=off  do not use the counter (default: on; any other value is ignored and reported)

JSON:
  Every command that measures takes --json. A JSON Schema in the sources describes the keys, with
  their units: crates/tickline-cli/schema/tickline-2.schema.json.

Examples:
  tickline
  tickline doctor --json -
  tickline report --out clocks.html"
);

pub(crate) const DOCTOR: &str = diagnosis_exit_codes!(
    "\
Exit codes with --check:
  0  ok: calls for the time are answered without a system call
  1  warning: slow
  2  critical: wrong
  3  unknown, or an error

Exit codes with --fix:
  0  the clocksource was switched
  1  nothing was changed: nothing can be switched, the check has failed, or the answer was no

Examples:
  tickline doctor
  tickline doctor --check
  sudo tickline doctor --fix
  tickline doctor --secs 10 --json - | jq .verdict
  tickline doctor --facts other-machine.json
  tickline doctor --openmetrics /var/lib/prometheus/node-exporter/tickline.prom"
);

pub(crate) const BENCH: &str = exit_codes!(
    "\
Examples:
  tickline bench --json before.json
  tickline bench --json after.json; tickline compare before.json after.json
  tickline bench --rounds 1000 --calls 20000000"
);

pub(crate) const WARP: &str = "\
Exit codes:
  0  the counters are synchronised
  1  they are unsynchronised
  2  an error
  3  untested: some could not be compared, or this process may not use all CPUs that are online

Examples:
  tickline warp
  tickline warp --cpus 0-3,8 --json warp.json
  tickline warp --pairs star";

pub(crate) const WATCH: &str = exit_codes!(
    "\
Examples:
  tickline watch
  tickline watch --secs 60 --csv samples.csv
  tickline watch --interval 0.2 --cpus 0-3 | tee samples.txt"
);

pub(crate) const REPORT: &str = diagnosis_exit_codes!(
    "\
The exit code of a report is also 1 if the counters of two CPUs are unsynchronised.

Examples:
  tickline report --out clocks.html
  tickline report --secs 60 --out clocks.html --json clocks.json
  ssh host tickline report --out - > host.html"
);

pub(crate) const WHO: &str = "\
Exit codes:
  0  calls were counted
  1  calls could not be counted: the reason, and other commands to run, are printed
  2  an error: bad arguments, no such process, or output that could not be written

What is seen:
  A tracepoint stands at the entry of a system call. Where the vDSO answers, a call for the time is
  no system call, costs little, and is not seen. Where the clock is slow because each call is a
  system call, all of them are seen, except those of 32-bit programs on a 64-bit kernel.
  While tickline counts, every system call of the machine takes a little longer.
  Costs are measured in a loop on an otherwise idle CPU. CPUs that read one hpet or acpi_pm at the
  same time wait for each other, so the true share may be larger.

Examples:
  tickline who
  tickline who 4711 --secs 10
  sudo tickline who --json - | jq .who.callers";

pub(crate) const SERVE: &str = "\
Exit codes:
  0  the server was stopped, or the page is switched off; with status: a line is served
  1  with status: no line is served, and programs ask the OS clock
  2  an error: another process serves the page, the page is not trusted, the file is no page, or it
     cannot be made, or was truncated; with status, off and on: there is no page

How it ends:
  At SIGTERM, SIGINT or SIGHUP the server lets its leases run out, within a second, and exits. No
  program sees time step back. A second signal ends it at once; the leases then run out by
  themselves, as they do after SIGKILL. A server that starts again goes on in the same page.
  The action off does not wait: readings may step back by the lead that status shows. The server
  ends. The page stays off, whoever starts a server, until the action on, or the next boot: a server
  that finds it off says so, and exits with 0. After on, start a server.

Who may serve:
  Programs trust a page if it and its folder belong to root or to their own user, and nobody else
  may write to either. A page of root is for all programs, that of another user for programs of
  that user. In a container whose users are its own, mount the page read-only.
  The page stays one file for as long as the machine runs: do not delete it while programs read it.
  The lock PATH.lock is for the owner alone.

JSON:
  status --json writes the schema tickline-serve/1: page, owner (number of the user), server_pid,
  server_unknown (why it is not known), phase (off, cold, opening, live, unsure), switched_off,
  serving, generation, age_ns (of the line in use), lease_ns, lease_left_ns, lead_ns (readings are
  at most this far above the OS clock, at its present rate), unix_lead_ns, both unknown while unsure,
  ahead_ns (the line is at least this far above it now), rate_ppb (the correction of its rate by the
  kernel), readers (processes that have the page mapped: pid, name, by_library), readers_unknown
  (processes that may not be looked into), time_namespace. A key that is not known is null.

Examples:
  tickline serve
  tickline serve status
  tickline serve status --json - | jq .readers
  sudo tickline serve off
  sudo tickline serve on && sudo systemctl start tickline
  tickline serve --page /run/user/1000/tickline.page";

pub(crate) const COMPARE: &str = "\
Exit codes:
  0  no fact and no finding differs, and no cost differs by more than --above
  1  something differs
  2  an error: a file that cannot be read, or is no document of this program

What is compared:
  The findings are made anew, by the rules of this program. A fact that only one document knows is
  listed, but is no difference. Measured rates of the counter are equal within 100 ppm. The messages
  of the kernel and the figures of NTP are left out.
  --json writes the schema tickline-compare/1: both files, above_percent, the number of equal facts
  and figures, and the lists differences and known_once of { name, unit, first, second, ratio }. The
  ratio is the second figure divided by the first. Its JSON Schema is
  crates/tickline-cli/schema/tickline-compare-1.schema.json.

Examples:
  tickline compare monday.json friday.json
  tickline compare --above 25% web1.json web2.json
  tickline compare --json - web1.json web2.json | jq .differences";

pub(crate) const COMPLETIONS: &str = "\
Examples:
  tickline completions bash > ~/.local/share/bash-completion/completions/tickline
  tickline completions fish > ~/.config/fish/completions/tickline.fish";

pub(crate) const MAN: &str = "\
Examples:
  tickline man | man -l -
  tickline man report > tickline-report.1";

pub(crate) const RUN: &str = "\
Exit codes:
  those of CMD, and:
  2    an argument of run itself is wrong
  126  CMD cannot be executed
  127  CMD is not there

Environment:
  LD_PRELOAD  gets libtickline_preload.so, for the dynamic programs that CMD runs
  TICKLINE=off  the program asks the kernel

Examples:
  tickline run -- pg_test_timing
  tickline run --quiet java -jar server.jar";
