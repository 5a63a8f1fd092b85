//! The sections that `--help` and the manual show below the options. `-h` is short, and does not
//! show them. A test compares their exit codes with those of `exit.rs`.

use crate::glossary::{self, Entry};
use crate::screen::Screen;

/// The widest line of help, columns.
pub(super) const COLUMNS: usize = 100;

/// A part of the help.
#[derive(Debug)]
pub(crate) struct Section {
    pub(crate) title: Option<&'static str>,
    /// The entries of the glossary that the section lists above its lines.
    entries: Option<fn() -> Vec<Entry>>,
    /// The lines, with the indent that help shows.
    lines: &'static str,
}

impl Section {
    const fn new(title: &'static str, lines: &'static str) -> Self {
        Self {
            title: Some(title),
            entries: None,
            lines,
        }
    }

    const fn untitled(lines: &'static str) -> Self {
        Self {
            title: None,
            entries: None,
            lines,
        }
    }

    /// A list of entries of the glossary, and these lines below it.
    const fn of_entries(
        title: &'static str,
        entries: fn() -> Vec<Entry>,
        lines: &'static str,
    ) -> Self {
        Self {
            title: Some(title),
            entries: Some(entries),
            lines,
        }
    }

    /// The text, as help shows it below the title.
    pub(crate) fn text(&self) -> String {
        let listed = self.entries.map(|entries| list(&entries()));
        let text = listed.unwrap_or_default() + self.lines;
        text.trim_end().to_owned()
    }
}

/// The codes, and the sentences beside them.
fn list(entries: &[Entry]) -> String {
    let codes = entries.iter().map(|entry| entry.code.len());
    let width = codes.max().unwrap_or(0);
    let mut screen = Screen::of(COLUMNS);
    for entry in entries {
        screen.say(&format!("  {:<width$}  ", entry.code), &entry.sentence);
    }
    screen.text
}

/// The sections as `--help` shows them.
pub(crate) fn text(sections: &[Section]) -> String {
    let section = |section: &Section| match section.title {
        Some(title) => format!("{title}:\n{}", section.text()),
        None => section.text(),
    };
    let sections: Vec<String> = sections.iter().map(section).collect();
    sections.join("\n\n")
}

/// The sections of each command.
pub(crate) const COMMANDS: [(&str, &[Section]); 14] = [
    ("doctor", DOCTOR),
    ("wait", WAIT),
    ("bench", BENCH),
    ("warp", WARP),
    ("watch", WATCH),
    ("report", REPORT),
    ("who", WHO),
    ("serve", SERVE),
    ("run", RUN),
    ("explain", EXPLAIN),
    ("compare", COMPARE),
    ("flight", FLIGHT),
    ("completions", COMPLETIONS),
    ("man", MAN),
];

/// The sections of a command; none if it has none, which a test of `manual.rs` forbids.
pub(crate) fn of(command: &str) -> &'static [Section] {
    let found = COMMANDS.iter().find(|(name, _)| *name == command);
    found.map(|(_, sections)| *sections).unwrap_or_default()
}

/// The exit codes of commands that measure.
const EXIT_CODES: Section = Section::new(
    "Exit codes",
    "  0  tickline reads the counter: fast and trusted
  1  tickline works, but a gate is closed, and readings come from the OS clock
  2  an error: bad arguments, or output that could not be written
If a program that reads the output ends early, as head does, that is no error.",
);

/// The exit codes of commands that diagnose.
const EXIT_CODES_OF_A_DIAGNOSIS: Section = Section::new(
    "Exit codes",
    "  0  nothing on this machine was found slow or wrong (OK; FAST, NOT KNOWN RIGHT; UNKNOWN), and
     tickline reads the counter
  1  something is slow or wrong, or a gate is closed and readings come from the OS clock
  2  an error: bad arguments, or output that could not be written
If a program that reads the output ends early, as head does, that is no error.",
);

/// What `-h` of the program shows below the options.
pub(crate) const SHORT_OF_PROGRAM: &str =
    "Without a command, the options are those of `tickline doctor`.";

pub(crate) const PROGRAM: &[Section] = &[
    EXIT_CODES_OF_A_DIAGNOSIS,
    Section::new(
        "Files",
        "  To write a regular file, the program makes a new file with the owner, group and mode of the old
  file, and then replaces the old file by it. It writes to devices, pipes and descriptors
  (/dev/fd/3), and the rows of --csv, in place. It follows links, except those that lead nowhere or
  that the kernel protects (fs.protected_symlinks). /dev/stdout and /dev/fd/1 are the same as -.",
    ),
    Section::new(
        "Environment",
        "  TICKLINE=off     do not use the counter (default: on; the doctor reports any other value)
  NO_COLOR=1       no colours (default: colours on a terminal)
  COLUMNS=N        width of texts (default: that of the terminal, 80 if unknown; 100 without one)
  TERM=dumb        no progress bar (default: a bar where standard error is a terminal)
  XDG_RUNTIME_DIR  the folder of the page of this user
`tickline run --help` has the variables that choose a page and a clock for a program.",
    ),
    Section::new(
        "JSON",
        "  Every command that measures takes --json. A JSON Schema describes the keys, with their units: in
  the package /usr/share/doc/tickline/tickline-2.schema.json, in the sources
  machine/tickline-cli/schema/tickline-2.schema.json.",
    ),
    Section::new(
        "Examples",
        "  tickline
  tickline doctor --json -
  tickline report --out clocks.html",
    ),
];

pub(crate) const DOCTOR: &[Section] = &[
    EXIT_CODES_OF_A_DIAGNOSIS,
    Section::new(
        "Exit codes with --check",
        "  0  OK: no call for the time is a system call, and Unix time is within a known distance of UTC
  1  warning: SLOW; or FAST, NOT KNOWN RIGHT, because no NTP daemon claims that Unix time is within
     --max-error of UTC
  2  critical: WRONG, such as a known offset beyond --max-error
  3  unknown: the NTP state, or who answers calls for the time, is not known; or an error
The findings of --accept do not count.",
    ),
    Section::new(
        "Exit codes with --fix",
        "  0  the clocksource was switched
  1  the clocksource is as before: no other one helps, this is a container, the check failed, you
     answered no, or the switch was undone, because the clock then ran at another rate
  2  an error: without --yes, if standard input is not a terminal; no right to switch; the switch
     failed",
    ),
    Section::new(
        "Examples",
        "  tickline doctor
  tickline doctor --check --max-error 100ms
  tickline doctor --check --accept tsc_not_chosen,ntp_unsynchronised
  sudo tickline doctor --fix
  tickline doctor --duration 10s --json - | jq .health.text
  tickline doctor --facts other-machine.json
  tickline doctor --openmetrics /var/lib/prometheus/node-exporter/tickline.prom",
    ),
];

pub(crate) const WAIT: &[Section] = &[
    Section::new(
        "Exit codes",
        "  0  Unix time is within --max-error of UTC, by the same rules as with doctor --check
  1  at --timeout, Unix time is still not known to be within --max-error of UTC
  2  an error
The costs of the clocks, and which clock tickline reads, do not matter.",
    ),
    Section::new(
        "Examples",
        "  tickline wait --max-error 250ms --timeout 60s && start-the-database",
    ),
];

pub(crate) const BENCH: &[Section] = &[
    EXIT_CODES,
    Section::new(
        "Examples",
        "  tickline bench --json before.json
  tickline bench --json after.json; tickline compare before.json after.json
  tickline bench --rounds 1000 --calls 20000000",
    ),
];

pub(crate) const WARP: &[Section] = &[
    Section::new(
        "Exit codes",
        "  0  the counters are synchronised
  1  they are unsynchronised
  2  an error
  3  untested: some counters could not be compared, or this process may not use all online CPUs",
    ),
    Section::new(
        "Examples",
        "  tickline warp
  tickline warp --cpus 0-3,8 --json warp.json
  tickline warp --pairs star",
    ),
];

pub(crate) const WATCH: &[Section] = &[
    EXIT_CODES,
    Section::of_entries("States", glossary::states_of_watch, ""),
    Section::of_entries(
        "Events",
        glossary::events,
        "A line converts the counter into time: y = m*x + b. `tickline explain WORD` also explains these
words.",
    ),
    Section::new(
        "Examples",
        "  tickline watch
  tickline watch --duration 60s --csv samples.csv
  tickline watch --interval 200ms --cpus 0-3 | tee samples.txt",
    ),
];

pub(crate) const REPORT: &[Section] = &[
    EXIT_CODES_OF_A_DIAGNOSIS,
    Section::untitled(
        "The exit code of a report is also 1 if the counters of two CPUs are unsynchronised.",
    ),
    Section::new(
        "Examples",
        "  tickline report --out clocks.html
  tickline report --duration 60s --out clocks.html --json clocks.json
  ssh host tickline report > host.html",
    ),
];

pub(crate) const WHO: &[Section] = &[
    Section::new(
        "Exit codes",
        "  0  calls were counted
  1  tickline could not count calls; it prints the reason, and other commands to run
  2  an error: bad arguments, no such process, or output that could not be written",
    ),
    Section::new(
        "What is counted",
        "  tickline counts at a tracepoint, at the entry of a system call. If the vDSO answers a call for
  the time, the call is no system call: it costs little, and tickline does not see it. If each call
  is a system call, tickline sees all calls, except those of 32-bit programs on a 64-bit kernel.
  While tickline counts, every system call of the machine takes a little longer. The cost of a call
  is that of the fastest of many rounds in a loop. CPUs that read one hpet or acpi_pm at the same
  time wait for each other, so the true share of CPU time may be larger. On a busy machine the count
  may last longer than --duration. The output says how long it lasted, and the rates are for that
  time.",
    ),
    Section::new(
        "Examples",
        "  sudo tickline who
  sudo tickline who 4711 --duration 10s
  sudo tickline who --json - | jq .who.callers",
    ),
];

pub(crate) const SERVE: &[Section] = &[
    Section::new(
        "Exit codes",
        "  0  the server was stopped, or the page is switched off; with status: the page serves a line
  1  with status: the page serves no line, and programs ask the OS clock
  2  another start may help: the page could not be served for 6 s, as with a full disk or another
     server, or its file was deleted, replaced or changed while it was served. Also for a clock that
     cannot start or stands still; with status, off and on: for any error but a wrong argument
  78 an error that remains until somebody fixes its cause: an argument is wrong, the page is not
     trusted, or its file is not a page, was truncated, or is in a folder that is missing or cannot
     be written to. The units do not restart such a server",
    ),
    Section::new(
        "How it ends",
        "  SIGTERM, SIGINT, SIGHUP   the server lets its leases run out, within a second, and exits. No
                            program sees monotonic time step back; Unix time may step back during a
                            slew. Under nohup the server ignores SIGHUP
  a second signal, SIGKILL  the server ends at once, and the leases run out by themselves. A signal
                            within 100 ms of the first counts as the same. A server that is stuck,
                            as in a write to a full pipe, ends by SIGKILL alone
  the action off            the server ends at once, and readings may step back by the lead that
                            status shows. The page stays off until the action on, or the next
                            boot. A server that starts before that says so, and exits with 0
A server that starts again continues in the same page. The action on starts no server.",
    ),
    Section::new(
        "Who may serve",
        "  Programs trust a page if it and its folder belong to root or to their own user, and no other user
  may write to either. So a page of root serves all programs, and a page of another user serves only
  the programs of that user. In a container that has users of its own, mount the page read-only.
  The page stays one file for as long as the machine runs: do not delete it while programs read it.
  Only the owner and root may open the lock, FILE.lock.",
    ),
    Section::new(
        "Environment",
        "  XDG_RUNTIME_DIR  the folder of the page of a user other than root, unless --page names a page
  TICKLINE=off     the server does not use the counter, so it publishes no line
  NOTIFY_SOCKET    the server sends READY=1 there when programs can attach to the page, also if it
                   has no line yet (sd_notify(3))
TICKLINE_PAGE is for programs that read a page, not for this command: name the page by --page.",
    ),
    Section::new(
        "JSON",
        "  status takes --json. A JSON Schema describes the keys, with their units: in the package
  /usr/share/doc/tickline/tickline-serve-1.schema.json, in the sources
  machine/tickline-cli/schema/tickline-serve-1.schema.json.",
    ),
    Section::new(
        "Examples",
        "  tickline serve
  tickline serve status
  tickline serve status --json - | jq .readers
  tickline serve status --openmetrics /var/lib/prometheus/node-exporter/tickline_page.prom
  sudo tickline serve off
  sudo tickline serve on
  tickline serve --page /run/user/1000/tickline.page",
    ),
];

pub(crate) const RUN: &[Section] = &[
    Section::new(
        "Exit codes",
        "  those of CMD, and:
  2    an argument of run itself is wrong
  126  CMD cannot be executed
  127  CMD was not found",
    ),
    Section::new(
        "Environment",
        "  TICKLINE_PAGE=FILE     the page, unless --page names one
  TICKLINE_SERVE=always  the same as --always
  TICKLINE=off           the program asks the kernel
  XDG_RUNTIME_DIR        the folder of the page of this user
  LD_PRELOAD             run adds libtickline_preload.so to it, for the dynamic programs that CMD
                         runs
  TICKLINE_RUN           run sets it to the process number of CMD, for the lists readers and
                         run_only of serve status
  INVOCATION_ID          systemd sets it in a unit. If the unit has a filter of system calls, run
                         traces no program, and a static program asks the kernel
The library reads the first three, too. For CMD, run sets TICKLINE_PAGE; with --always, or where the
vDSO does not read kvm-clock, also TICKLINE_SERVE. If only LD_PRELOAD loads the library,
TICKLINE_PAGE must be an absolute path, and the default is /run/tickline/page.v1.",
    ),
    Section::new(
        "Examples",
        "  tickline run -- pg_test_timing
  tickline run --quiet java -jar server.jar",
    ),
];

pub(crate) const EXPLAIN: &[Section] = &[
    Section::new(
        "Exit codes",
        "  0  the code was explained, or the codes were listed
  2  there is no such code; codes that are like it are named",
    ),
    Section::new(
        "Examples",
        "  tickline explain tsc_skew
  tickline explain expiry
  tickline explain
  tickline explain --all",
    ),
];

pub(crate) const COMPARE: &[Section] = &[
    Section::new(
        "Exit codes",
        "  0  no fact and no finding differs, and no cost differs by more than --above
  1  something differs
  2  an error: a file that cannot be read, or is not a document of this program. Of more than two
     files, the others are compared, and the code is 1 if they differ. Fewer than two documents that
     can be read are an error",
    ),
    Section::new(
        "More than two files",
        "  A machine differs from the rest in a fact if more than half of the machines that know the fact
  agree on another value. The text puts the machines with the same differences into a group. It
  shows at most 10 groups, the worst first, and of each at most 12 names and 6 facts. Below the
  groups are the facts on which no majority agrees, and the facts that have another value on each
  machine. The latter do not count as differences. A file that cannot be read is left out, and named
  with the reason, also on standard error. --json has all, by the schema
  tickline-compare-fleet-1.schema.json.",
    ),
    Section::new(
        "What is compared",
        "  The program diagnoses both documents again, by its own rules. It lists a fact that only one
  document has, but does not count it as a difference. Rates of the counter count as equal if they
  differ by at most 100 ppm. It compares neither the messages of the kernel nor the figures of NTP.
  A JSON Schema describes the keys of --json, with their units: in the package
  /usr/share/doc/tickline/tickline-compare-1.schema.json, in the sources
  machine/tickline-cli/schema/tickline-compare-1.schema.json.",
    ),
    Section::new(
        "Examples",
        "  tickline compare monday.json friday.json
  tickline compare --above 25% web1.json web2.json
  tickline compare --json - web1.json web2.json | jq .differences
  tickline compare fleet/*.json",
    ),
];

pub(crate) const FLIGHT: &[Section] = &[
    Section::new(
        "Exit codes",
        "  0  the trace is written
  1  the trace is written, but without some records that are damaged, or that are missing because
     the file is cut short
  2  an error: a file that cannot be read, is not a file of a flight recorder, or is also TRACE",
    ),
    Section::new(
        "What is in the trace",
        "  The trace has the last moments of the process, up to its end: events, and spans, even those that
  had not ended. https://ui.perfetto.dev opens it in either format. A mark on each thread says
  how far back its records reach. The trace leaves out a request that began before the mark, if that
  request may have ended. If more threads ran at once than the file has rings, the trace has nothing
  of the others, and no request without an end.

  The line at the end counts the records that newer ones have overwritten, as a ring does. It also
  counts what the trace lacks:
  damaged                 records that are not whole
  cut                     texts of values that were too long
  undecided               requests that may have ended
  ring missing            rings behind the end of the file, which is cut short
  thread without a ring   threads for which the file had no ring: in_file(..).threads(..) makes more
  callsite without names  names that were too long or damaged, or for which the file had no room;
                          such spans and events are called ?",
    ),
    Section::new(
        "Examples",
        "  tickline flight /dev/shm/server.flight --out trace.json
  tickline flight server.flight.old | gzip > trace.json.gz",
    ),
];

pub(crate) const COMPLETIONS: &[Section] = &[Section::new(
    "Examples",
    "  tickline completions bash > ~/.local/share/bash-completion/completions/tickline
  tickline completions fish > ~/.config/fish/completions/tickline.fish",
)];

pub(crate) const MAN: &[Section] = &[Section::new(
    "Examples",
    "  tickline man | man -l -
  tickline man report > tickline-report.1",
)];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::{Exit, PluginStatus};

    /// `args.rs` makes help no wider than this. Symptom: a terminal broke a line in its midst.
    #[test]
    fn the_lines_of_help_fit_on_the_widest_screen() {
        let of_commands = COMMANDS.iter().map(|(_, sections)| *sections);
        let sections = of_commands.chain([PROGRAM]).flatten();
        for text in sections.map(Section::text) {
            for line in text.lines() {
                assert!(line.chars().count() <= COLUMNS, "{line}");
            }
        }
    }

    /// The section of `watch` with this title.
    fn of_watch(title: &str) -> String {
        let found = WATCH.iter().find(|section| section.title == Some(title));
        found.expect(title).text()
    }

    #[test]
    fn the_help_of_watch_lists_only_states_that_it_shows() {
        let states = of_watch("States");
        let codes = states
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let codes: Vec<_> = codes.collect();
        assert_eq!(codes, ["calibrating", "fast", "disrupted", "fallback"]);
    }

    #[test]
    fn a_sentence_of_several_lines_stays_beside_its_code() {
        let events = of_watch("Events");
        let expiry = "
  expiry             a line has ended before the next one, as happens on a busy machine; readings
                     came from the OS clock, so none was wrong
";
        assert!(events.contains(expiry), "{events}");
    }

    /// The exit codes that a section lists. The further lines about a code have a wider indent.
    fn listed_codes(section: &Section) -> Vec<u8> {
        let code = |line: &str| {
            let (code, _) = line.strip_prefix("  ")?.split_once(' ')?;
            code.parse::<u8>().ok()
        };
        section.text().lines().filter_map(code).collect()
    }

    fn assert_lists(sections: &[Section], title: &str, exits: &[Exit]) {
        let found = sections.iter().find(|section| section.title == Some(title));
        let section = found.expect(title);
        let expected: Vec<u8> = exits.iter().copied().map(Exit::code).collect();
        assert_eq!(listed_codes(section), expected, "{section:?}");
    }

    #[test]
    fn the_help_lists_the_codes_with_which_the_program_ends() {
        const CODES: &str = "Exit codes";
        const USUAL: [Exit; 3] = [Exit::Success, Exit::Negative, Exit::Error];
        for sections in [
            PROGRAM, DOCTOR, WAIT, BENCH, WATCH, REPORT, WHO, COMPARE, FLIGHT,
        ] {
            assert_lists(sections, CODES, &USUAL);
        }
        assert_lists(EXPLAIN, CODES, &[Exit::Success, Exit::Error]);
        let [yes, no, error] = USUAL;
        assert_lists(WARP, CODES, &[yes, no, error, Exit::Untested]);
        assert_lists(DOCTOR, "Exit codes with --fix", &USUAL);
        let of_plugin = [
            PluginStatus::Ok,
            PluginStatus::Warning,
            PluginStatus::Critical,
            PluginStatus::Unknown,
        ];
        let of_plugin = of_plugin.map(Exit::Plugin);
        assert_lists(DOCTOR, "Exit codes with --check", &of_plugin);
        #[cfg(target_os = "linux")]
        assert_lists(SERVE, CODES, &[yes, no, error, Exit::Permanent]);
        #[cfg(all(target_os = "linux", target_arch = "x86_64"))]
        assert_lists(RUN, CODES, &[error, Exit::NotExecuted, Exit::NotFound]);
    }

    /// Symptom: only other documents named these variables.
    #[test]
    #[cfg(target_os = "linux")]
    fn the_help_of_run_names_each_variable_that_chooses_its_clock() {
        use tickline_page::program::{ALWAYS, OFF, PAGE_VARIABLE, SERVE_VARIABLE, SWITCH_VARIABLE};
        let help = text(RUN);
        let page = format!("  {PAGE_VARIABLE}=");
        let serve = format!("  {SERVE_VARIABLE}={ALWAYS} ");
        let switch = format!("  {SWITCH_VARIABLE}={OFF} ");
        for variable in [page, serve, switch] {
            assert!(help.contains(&variable), "no {variable} in:\n{help}");
        }
    }
}
