//! One guest with Debian: boots it, and collects its report.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::root::{Disks, INIT_PATH};
use crate::vm::qemu;
use crate::vm::scenario::PROCESSOR;

/// A guest that says nothing for so long hangs. Postgres takes a minute to fill its table.
const SILENCE: Duration = Duration::from_secs(300);

/// Postgres, Java and Node at once.
const MEMORY_MB: &str = "2048";

/// A guest.
#[derive(Debug)]
pub(super) struct Guest {
    pub(super) name: &'static str,
    pub(super) clocksource: &'static str,
    pub(super) cpus: u8,
    pub(super) act: &'static str,
}

/// What it has reported, and why it ended before its end, if it did.
pub(super) struct Run {
    pub(super) lines: Vec<Value>,
    pub(super) broken: Option<String>,
}

struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Boots it, and waits until it reports its end. Prints each line by `show`.
pub(super) fn run(guest: &Guest, disks: &Disks, show: impl Fn(&Value)) -> Run {
    let mut lines = Vec::new();
    let broken = collect(guest, disks, &mut lines, show).err().map(|error| error.to_string());
    Run { lines, broken }
}

fn collect(guest: &Guest, disks: &Disks, lines: &mut Vec<Value>, show: impl Fn(&Value)) -> io::Result<()> {
    let mut machine = Machine(spawn(guest, disks)?);
    let output = machine.0.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut silent_since = Instant::now();
    loop {
        match receiver.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                let value: Value = serde_json::from_str(&line)
                    .map_err(|_| io::Error::other(format!("the guest said '{line}'")))?;
                show(&value);
                let phase = value["phase"].as_str().unwrap_or_default().to_owned();
                let why = value["error"].to_string();
                lines.push(value);
                match phase.as_str() {
                    "end" => return Ok(()),
                    "error" => return Err(io::Error::other(format!("the guest gave up: {why}"))),
                    _ => silent_since = Instant::now(),
                }
            }
            Err(RecvTimeoutError::Timeout) if silent_since.elapsed() < SILENCE => {}
            Err(RecvTimeoutError::Timeout) => {
                return Err(io::Error::other(format!("no word for {} s", SILENCE.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("it ended before its end")),
        }
    }
}

fn spawn(guest: &Guest, disks: &Disks) -> io::Result<Child> {
    let folder = crate::vm::folder();
    let drive = |disk: &std::path::Path| format!("file={},if=virtio,format=raw,snapshot=on", disk.display());
    let errors = fs::File::create(folder.join(format!("programs-{}.errors", guest.name)))?;
    qemu::machine(PROCESSOR, guest.cpus, MEMORY_MB)
        .arg("-serial")
        .arg(format!("file:{}", folder.join(format!("programs-{}.console", guest.name)).display()))
        .args(["-serial", "stdio", "-drive", &drive(&disks.root), "-drive", &drive(&disks.own)])
        .arg("-kernel")
        .arg(&disks.kernel)
        .arg("-initrd")
        .arg(&disks.initramfs)
        .arg("-append")
        .arg(format!(
            "console=ttyS0 panic=-1 root=/dev/vda rw tsc=reliable clocksource={} init={INIT_PATH} tickline.act={}",
            guest.clocksource, guest.act
        ))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(errors)
        .spawn()
}
