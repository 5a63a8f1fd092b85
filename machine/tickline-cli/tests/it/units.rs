//! Tests of the systemd units and of OpenRC's script: what programs and the page's file rely on.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::server::{Server, folder};
use crate::common::{assert_fails, copy_program, skip, text, tickline, wait_for};

const UNITS: [&str; 2] = ["tickline.service", "tickline-user.service"];

/// The text of a unit.
fn unit(name: &str) -> String {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd"));
    fs::read_to_string(folder.join(name)).unwrap()
}

/// Checks that the unit has exactly these lines of `key`.
fn assert_has(name: &str, key: &str, values: &[&str]) {
    let unit = unit(name);
    let fields = unit.lines().filter_map(|line| line.split_once('='));
    let found: Vec<_> = fields
        .filter(|(found, _)| *found == key)
        .map(|(_, value)| value)
        .collect();
    assert_eq!(found, values, "{name}: {key}");
}

/// Programs keep the file mapped, so a restart must find the same file.
#[test]
fn a_restart_finds_the_same_page() {
    for name in UNITS {
        assert_has(name, "RuntimeDirectory", &["tickline"]);
        assert_has(name, "RuntimeDirectoryPreserve", &["yes"]);
    }
}

/// Programs trust a page if no other user may write to it or to its folder.
#[test]
fn nobody_else_may_write_to_the_page() {
    for name in UNITS {
        assert_has(name, "RuntimeDirectoryMode", &["0755"]);
        assert_has(name, "UMask", &["0022"]);
    }
    assert_has("tickline.service", "User", &["root"]);
}

/// Symptom: a program ordered after the unit started before the page's file was there, and kept the
/// OS clock.
#[test]
fn a_unit_is_started_when_its_server_says_that_the_page_is_there() {
    for name in UNITS {
        assert_has(name, "Type", &["notify"]);
    }
}

/// A server that finds its page switched off exits with 0.
#[test]
fn a_server_is_restarted_unless_the_page_is_switched_off() {
    for name in UNITS {
        assert_has(name, "ExecStart", &["/usr/bin/tickline serve"]);
        assert_has(name, "Restart", &["on-failure"]);
        assert_has(name, "RestartSec", &["100ms"]);
    }
}

/// The time, in s, in which the given number of starts is the limit of a unit.
fn start_limit(name: &str) -> (f64, f64) {
    let unit = unit(name);
    let value = |key: &str| {
        let mut fields = unit.lines().filter_map(|line| line.split_once('='));
        let (_, value) = fields.find(|(found, _)| *found == key).unwrap();
        value.parse::<f64>().unwrap()
    };
    (value("StartLimitIntervalSec"), value("StartLimitBurst"))
}

/// Symptom: `restart counter is at 6` after 2 s, for ever, and nothing in `systemctl --failed`.
#[test]
fn a_unit_that_fails_at_each_start_is_failed_in_the_end() {
    for name in UNITS {
        let (interval_s, burst) = start_limit(name);
        // RestartSec, and a start on a slow machine: an emulated one needed a third of a second.
        assert!(burst * 0.45 < interval_s, "{name}");
    }
}

/// Programs need the server again at once, however often it is killed. A server that waits for room
/// on a full disk, 6 s at each start, runs longer still.
#[test]
fn a_server_that_runs_for_two_seconds_before_it_ends_never_reaches_the_limit_of_starts() {
    for name in UNITS {
        let (interval_s, burst) = start_limit(name);
        assert!(interval_s < 2.0 * burst, "{name}");
    }
}

/// Symptom: a unit that systemd called active started its server ten times a second for ever.
#[test]
fn a_permanent_error_is_the_end_of_the_unit() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page");
    fs::write(&page, "junk").unwrap();
    let mut server = tickline(&["serve", "--page"]);
    let output = server.arg(&page).output().unwrap();
    let code = output.status.code().unwrap().to_string();
    assert_ne!(code, "2", "an error that may pass");
    for name in UNITS {
        // Not systemd's own 233 (EXIT_RUNTIME_DIRECTORY), which also means that /run is full.
        assert_has(name, "RestartPreventExitStatus", &[&code]);
    }
}

/// Symptom: a unit with a misspelt argument started its server 200 times.
#[test]
fn a_wrong_argument_is_the_end_of_the_unit() {
    for arguments in [
        &["serve", "--bogus"][..],
        &["serve", "--check"],
        &["serve", "bogus"],
        &["serve", "--json", "state.json"],
        // Symptom: taken for the action `status`, so the code was 2.
        &["serve", "--page", "status", "--bogus"],
    ] {
        let output = tickline(arguments).output().unwrap();
        let code = output.status.code().unwrap().to_string();
        for name in UNITS {
            assert_has(name, "RestartPreventExitStatus", &[&code]);
        }
    }
}

#[test]
fn a_wrong_argument_of_an_action_on_a_page_has_the_servers_code() {
    for action in ["status", "off", "on"] {
        let output = tickline(&["serve", action, "--bogus"]).output().unwrap();
        assert_fails(&output, 78, "--bogus");
    }
}

#[test]
fn a_server_has_no_rights_beyond_those_that_it_needs() {
    for name in UNITS {
        assert_has(name, "NoNewPrivileges", &["yes"]);
        assert_has(name, "MemoryDenyWriteExecute", &["yes"]);
    }
    assert_has("tickline.service", "CapabilityBoundingSet", &[""]);
    assert_has("tickline.service", "ProtectSystem", &["strict"]);
    assert_has("tickline.service", "PrivateNetwork", &["yes"]);
}

/// Symptom: the installed server never learnt that the guest was moved, because `PrivateDevices`
/// hid `/dev/vmclock0`. Without the `-`, no machine without a VMClock could start the unit.
#[test]
fn a_server_may_read_the_vmclock_and_no_other_device() {
    let unit = "tickline.service";
    assert_has(unit, "PrivateDevices", &["yes"]);
    assert_has(unit, "BindReadOnlyPaths", &["-/dev/vmclock0"]);
    assert_has(unit, "DeviceAllow", &["char-misc r"]);
    assert_has(unit, "DevicePolicy", &[]);
    // The user's unit hides no device.
    assert_has("tickline-user.service", "PrivateDevices", &[]);
}

/// Each line changes what the one before it allows, so their order counts.
#[test]
fn a_server_may_read_the_kernels_ntp_state_and_choose_a_cpu() {
    let of_root = [
        "@system-service",
        "~@privileged @resources",
        "adjtimex sched_setaffinity",
    ];
    assert_has("tickline.service", "SystemCallFilter", &of_root);
    let of_user = ["@system-service adjtimex"];
    assert_has("tickline-user.service", "SystemCallFilter", &of_user);
}

/// The server reads the boot's id in `/proc/sys`, which this setting would hide.
#[test]
fn the_boots_id_is_not_hidden() {
    for name in UNITS {
        assert_has(name, "ProcSubset", &[]);
    }
}

#[test]
fn systemd_accepts_the_units() {
    let folder = tempfile::tempdir().unwrap();
    for name in UNITS {
        // The program must be where the unit says, and its manual may not be installed.
        let unit = unit(name)
            .replace("/usr/bin/tickline", env!("CARGO_BIN_EXE_tickline"))
            .replace("man:tickline-serve(1) ", "");
        let copy = folder.path().join(name);
        fs::write(&copy, unit).unwrap();
        let mut verify = Command::new("systemd-analyze");
        let Ok(output) = verify.arg("verify").arg(&copy).output() else {
            return skip("there is no systemd-analyze here");
        };
        let messages = text(&output.stderr);
        let complaints: Vec<_> = messages
            .lines()
            .filter(|line| line.contains(name))
            .collect();
        assert_eq!(complaints, [""; 0], "{name}: {messages}");
        assert!(output.status.success(), "{name}: {messages}");
    }
}

/// The value of a variable of OpenRC's script.
fn openrc(variable: &str) -> String {
    let script = include_str!("../../openrc/tickline");
    let mut fields = script.lines().filter_map(|line| line.split_once('='));
    let (_, value) = fields.find(|(found, _)| *found == variable).unwrap();
    value.trim_matches('"').to_owned()
}

/// Symptom: a log without dates, which grew by 6 MB a day after `serve off`.
#[test]
fn openrc_logs_to_the_systems_log() {
    for logger in ["output_logger", "error_logger"] {
        assert_eq!(openrc(logger), "logger -t tickline");
    }
}

/// supervise-daemon forgets the starts that are older than the period, so a shorter one would never
/// end. Symptom: a server that ended at each start was "started" for ever.
#[test]
fn openrc_gives_up_a_server_that_ends_at_each_start() {
    let [delay, most, period] = ["respawn_delay", "respawn_max", "respawn_period"]
        .map(|variable| openrc(variable).parse::<u32>().unwrap());
    // A start waits so long, in s, while another server serves.
    let longest_run = 6;
    // OpenRC 0.62 and later makes each delay a little longer than the one before it
    // (respawn_delay_step), so the period has room for twice the time.
    assert!(
        most > 0 && 2 * (delay + longest_run) * most < period,
        "{delay} {most} {period}"
    );
}

/// What a function of OpenRC's script prints, and its exit code, if `tickline serve status` says
/// `told` and OpenRC's own `default_status` returns `code`.
fn call_openrc(function: &str, told: &str, code: i32) -> (String, Option<i32>) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/openrc/tickline");
    let call = format!(
        ". {script}; command=say; say() {{ echo '{told}'; false; }}; eerror() {{ echo \"$1\"; }}; \
         default_status() {{ return {code}; }}; {function}"
    );
    let output = Command::new("sh").args(["-c", &call]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    (text(&output.stdout), output.status.code())
}

/// Symptoms: `rc-service tickline status` said "started", and no more, while the page was off, and
/// "stopped", and no more, when OpenRC had given up.
#[test]
fn openrcs_status_says_what_the_page_gives_in_every_state_of_the_service() {
    for (told, expected) in [
        ("phase   off: switched off", "page: off: switched off\n"),
        ("tickline: there is no page", "page: there is no page\n"),
    ] {
        // Started, stopped, crashed (openrc-run.sh).
        for code in [0, 3, 32] {
            let found = call_openrc("status", told, code);
            assert_eq!(found, (expected.to_owned(), Some(code)));
        }
    }
}

/// Symptom: the state of another page, after which the terminal's width cut "switched off".
#[test]
fn openrc_asks_for_the_page_that_its_server_serves() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/openrc/tickline");
    let call =
        format!(". {script}; command=say; say() {{ echo \"phase $COLUMNS $*\"; }}; page_state");
    let output = Command::new("sh").args(["-c", &call]).output().unwrap();
    let expected = "page: 200 serve status --page /run/tickline/page.v1\n";
    assert_eq!(text(&output.stdout), expected);
}

/// Symptom: a start succeeded, and half a minute later the service was stopped.
#[test]
fn openrc_starts_no_server_of_a_page_that_is_switched_off() {
    let told = "phase   off: switched off: run `tickline serve on`".replace('`', "");
    let (shown, code) = call_openrc("start_pre", &told, 0);
    assert!(shown.contains("tickline serve on"), "{shown}");
    assert_eq!(code, Some(1));
}

#[test]
fn openrc_starts_a_server_of_any_other_page() {
    for told in [
        "tickline: no page is served",
        "phase   off: no server publishes a line",
        "phase   no_line: there is no line",
    ] {
        assert_eq!(call_openrc("start_pre", told, 0), (String::new(), Some(0)));
    }
}

/// The text and the exit code of OpenRC's `start_post`. The page's file is there after the given
/// number of pauses.
fn wait_as_openrc(pauses: u32) -> (String, Option<i32>) {
    let folder = tempfile::tempdir().unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/openrc/tickline");
    let call = format!(
        ". {script}; page={}/page; eerror() {{ echo \"$1\"; }}; left={pauses}; \
         sleep() {{ left=$((left - 1)); [ $left != 0 ] || : >\"$page\"; }}; start_post",
        folder.path().display()
    );
    let output = Command::new("sh").args(["-c", &call]).output().unwrap();
    assert_eq!(text(&output.stderr), "");
    (text(&output.stdout), output.status.code())
}

/// Symptom: OpenRC started the next service before the page's file was there.
#[test]
fn openrc_ends_a_start_when_the_page_is_there() {
    for pauses in [1, 60] {
        assert_eq!(wait_as_openrc(pauses), (String::new(), Some(0)));
    }
}

/// With another code OpenRC would call the service stopped, though its supervisor goes on.
#[test]
fn openrc_waits_for_a_page_no_longer_than_ten_seconds() {
    let (shown, code) = wait_as_openrc(101);
    assert!(shown.contains("/page after 10 s"), "{shown}");
    assert_eq!(code, Some(0));
}

/// Symptom: no runbook, no alerts and no script of OpenRC on the host.
#[test]
fn the_package_has_what_an_operator_needs() {
    let manifest = include_str!("../../Cargo.toml");
    for file in [
        "explain.md",
        "facts.sh",
        "openrc/tickline",
        "../docs/alerts.yaml",
        "../docs/dashboard.json",
        "../docs/kubernetes.yaml",
    ] {
        let asset = format!("[\"{file}\", \"usr/share/doc/tickline/");
        assert!(manifest.contains(&asset), "{file}");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        assert!(path.is_file(), "{}", path.display());
    }
}

/// Symptom: of four schemas, the host had one.
#[test]
fn the_package_has_each_schema() {
    let manifest = include_str!("../../Cargo.toml");
    assert!(manifest.contains(r#"["schema/*.schema.json", "usr/share/doc/tickline/", "644"]"#));
}

/// Symptom: after a purge, lines of cron wrote an error each minute, and two alerts fired for ever.
#[test]
fn the_removal_lists_files_that_run_the_program() {
    let script = include_str!("../../debian/postrm");
    let (_, pattern) = script.split_once("grep -rlsE -D skip '").unwrap();
    let (pattern, _) = pattern.split_once('\'').unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, line) in [
        ("cron", "*/5 * * * * root tickline doctor --openmetrics F"),
        (
            "status",
            "* * * * * root tickline serve status --openmetrics F",
        ),
        ("unit", "ExecStart=/usr/bin/tickline run -- server"),
        ("wait", "tickline wait --max-error 250ms && start-server"),
        // Symptom: of the commands that measure, only the doctor was found.
        ("check", "0 * * * * root tickline --check"),
        (
            "report",
            "@daily root tickline report --out /srv/clocks.html",
        ),
        ("watch", "@reboot root tickline watch --csv /srv/clock.csv"),
        ("flight", "ExecStopPost=tickline flight /srv/recorder"),
        ("completions", "eval \"$(tickline completions bash)\""),
        ("openrc", "command=/usr/bin/tickline"),
        ("library", "LD_PRELOAD=/usr/lib/libtickline_preload.so"),
        ("other", "tickline is not installed"),
    ] {
        fs::write(folder.path().join(name), line).unwrap();
    }
    let mut grep = Command::new("grep");
    let output = grep
        .args(["-rlsE", pattern, "."])
        .current_dir(folder.path());
    let listed = text(&output.output().unwrap().stdout);
    let mut listed: Vec<&str> = listed.lines().collect();
    listed.sort_unstable();
    assert_eq!(
        listed,
        [
            "./check",
            "./completions",
            "./cron",
            "./flight",
            "./library",
            "./openrc",
            "./report",
            "./status",
            "./unit",
            "./wait",
            "./watch"
        ]
    );
}

/// Symptom: the guide's command did not find a start behind `tickline wait`, and the script did.
#[test]
fn the_guides_removal_finds_what_the_packages_removal_lists() {
    let script = include_str!("../../debian/postrm");
    let (_, pattern) = script.split_once("grep -rlsE -D skip ").unwrap();
    let (pattern, _) = pattern.split_once(" /etc").unwrap();
    let guide = include_str!("../../../docs/operators.md");
    assert!(
        guide.contains(&format!("sudo grep -rE {pattern} /etc\n")),
        "{pattern}"
    );
}

/// Symptom: OpenRC's script, which names the program and `serve` in two lines, remained.
#[test]
fn the_guides_removal_finds_openrcs_script() {
    let guide = include_str!("../../../docs/operators.md");
    let (_, pattern) = guide.split_once("sudo grep -rE '").unwrap();
    let (pattern, _) = pattern.split_once('\'').unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/openrc/tickline");
    let output = Command::new("grep")
        .args(["-E", pattern, script])
        .output()
        .unwrap();
    let found = text(&output.stdout);
    assert!(found.contains("command=/usr/bin/tickline"), "{found}");
}

/// A server whose program has a path of its own, as the package's has, and was removed.
struct RemovedProgram {
    folder: TempDir,
    program: PathBuf,
    servers: Vec<Server>,
}

impl RemovedProgram {
    /// Starts this many servers, and removes their program.
    fn of_servers(count: usize) -> Self {
        let (folder, page) = folder();
        let program = folder.path().join("tickline");
        copy_program(Path::new(env!("CARGO_BIN_EXE_tickline")), &program);
        let start = |number: usize| {
            let page = page.with_extension(number.to_string());
            let mut server = Command::new(&program);
            server.args(["serve", "--page"]).arg(&page);
            let server = Server(server.stderr(Stdio::null()).spawn().unwrap());
            wait_for("the page is there", || page.exists().then_some(()));
            server
        };
        let servers = (0..count).map(start).collect();
        fs::remove_file(&program).unwrap();
        Self {
            folder,
            program,
            servers,
        }
    }

    /// The package's script, after these functions, with this program in place of the package's.
    fn script(&self, functions: &str) -> Command {
        let program = self.program.to_str().unwrap();
        let script = include_str!("../../debian/postrm").replace("/usr/bin/tickline", program);
        let mut sh = Command::new("sh");
        let script = format!("{functions}\n{script}");
        sh.args(["-c", &script, "postrm", "remove"]);
        sh
    }

    /// The lines that name the processes of the servers.
    fn lines(&self) -> Vec<String> {
        let servers = self.servers.iter().map(|server| {
            let process = server.0.id();
            // As the script does, because a user may have no name here.
            let mut stat = Command::new("stat");
            let stat = stat.args(["-c", "%U"]).arg(format!("/proc/{process}"));
            let user = text(&stat.output().unwrap().stdout);
            format!("  {}: process {process}\n", user.trim_end())
        });
        servers.collect()
    }
}

/// Symptom: after a purge, the server of a user's page went on, and nobody was told.
#[test]
fn the_removal_names_the_users_whose_servers_go_on() {
    let removed = RemovedProgram::of_servers(1);
    let shown = text(&removed.script("").output().unwrap().stdout);
    let expected = format!(
        "These users still run tickline:\n{}",
        removed.lines().concat()
    );
    assert!(shown.contains(&expected), "{shown}");
}

#[test]
fn the_removal_names_no_user_who_runs_nothing() {
    let mut removed = RemovedProgram::of_servers(1);
    removed.servers.clear();
    let shown = text(&removed.script("").output().unwrap().stdout);
    assert!(!shown.contains("still run"), "{shown}");
}

/// Symptom: a process that ended between two commands of the script hid those after it.
#[test]
fn the_removal_names_servers_after_a_process_that_has_just_ended() {
    let removed = RemovedProgram::of_servers(2);
    // The first process whose user the script asks for has ended.
    let asked = removed.folder.path().join("asked");
    let stat = format!(
        "stat() {{ [ -e {0} ] && echo somebody && return; : >{0}; return 1; }}",
        asked.display()
    );
    let shown = text(&removed.script(&stat).output().unwrap().stdout);
    assert!(shown.contains("  somebody: process "), "{shown}");
}
