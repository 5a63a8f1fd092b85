//! The daemons that follow the guest's NTP server.

use std::fs;
use std::io;
use std::process::{Command, Stdio};

use crate::system::Killed;

/// The log of the daemon that runs.
pub(super) const LOG: &str = "/run/daemon.log";

/// The folder of clock-bound's segments.
pub(super) const SEGMENTS: &str = "/var/run/clockbound";

/// chronyd's settings: four requests a second (chrony.conf(5)). The server's time is exact, so
/// chronyd need not reject it for its jitter.
const SETTINGS: &str = "server 127.0.0.1 iburst minpoll -2 maxpoll -2\n\
                        pidfile /run/chronyd.pid\nmaxdistance 1000\n";

pub(super) fn start_chronyd(settings: &str) -> io::Result<Killed> {
    start_chronyd_with(&[], settings)
}

/// Starts chronyd with these options.
pub(super) fn start_chronyd_with(options: &[&str], settings: &str) -> io::Result<Killed> {
    fs::write("/run/chrony.conf", format!("{SETTINGS}{settings}\n"))?;
    let usual = ["-d", "-u", "root", "-f", "/run/chrony.conf"];
    start("/usr/sbin/chronyd", &[&usual, options].concat())
}

pub(super) fn start_clock_bound() -> io::Result<Killed> {
    fs::create_dir_all(SEGMENTS)?;
    fs::write(
        "/run/clockbound.toml",
        "[[sources.ntp]]\nserver = \"127.0.0.1\"\n",
    )?;
    start("/usr/bin/clockbound", &["-c", "/run/clockbound.toml"])
}

/// Starts ntpd-rs, with a request each second.
pub(super) fn start_ntpd_rs() -> io::Result<Killed> {
    fs::write(
        "/run/ntp.toml",
        "[observability]\nlog-level = \"info\"\n\
         [synchronization]\nminimum-agreeing-sources = 1\n\
         [source-defaults]\npoll-interval-limits = { min = 0, max = 0 }\ninitial-poll-interval = 0\n\
         [[source]]\nmode = \"server\"\naddress = \"127.0.0.1\"\n",
    )?;
    start("/usr/bin/ntp-daemon", &["-c", "/run/ntp.toml"])
}

fn start(program: &str, arguments: &[&str]) -> io::Result<Killed> {
    let log = fs::File::create(LOG)?;
    let mut daemon = Command::new(program);
    daemon
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .map(Killed)
}
