//! Finds the kernel's tracepoints at the entry of the system calls for the time, in tracefs
//! (`Documentation/trace/events.rst` of the kernel). If they cannot be used, names other commands
//! to run.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::machine;

/// The mount points of tracefs: its own since Linux 4.1, and the one below debugfs before.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The system calls for the time on 64-bit kernels.
const CALLS: [&str; 3] = ["clock_gettime", "gettimeofday", "time"];

/// The argument that names the clock.
const ARGUMENT: &str = "which_clock";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tracepoint {
    /// The system call.
    pub(super) call: &'static str,
    /// The tracepoint's number for perf_event_open(2).
    pub(super) id: u64,
    /// The offset of the clock's number in the event's data, bytes; `None` for calls that have no
    /// such argument.
    pub(super) clock_at: Option<usize>,
}

/// Every tracepoint that this kernel has.
pub(super) fn all() -> Result<Vec<Tracepoint>, Obstacle> {
    let mut found = MOUNT_POINTS.map(|place| tracepoints_in(&Path::new(place).join("events")));
    // Prefer tracepoints, and then the more specific obstacle.
    found.sort_by_key(|found| (found.is_err(), *found == Err(Obstacle::NotMounted)));
    found
        .into_iter()
        .next()
        .unwrap_or(Err(Obstacle::NotMounted))
}

/// The tracepoints in the folder of events.
fn tracepoints_in(events: &Path) -> Result<Vec<Tracepoint>, Obstacle> {
    if let Err(error) = fs::read_dir(events) {
        let denied = error.kind() == io::ErrorKind::PermissionDenied;
        return Err(if denied {
            Obstacle::Denied
        } else {
            Obstacle::NotMounted
        });
    }
    let found: Vec<Tracepoint> = CALLS
        .into_iter()
        .filter_map(|call| tracepoint(events, call))
        .collect();
    if found.is_empty() {
        Err(Obstacle::NotBuilt)
    } else {
        Ok(found)
    }
}

fn tracepoint(events: &Path, call: &'static str) -> Option<Tracepoint> {
    let folder: PathBuf = events.join(format!("syscalls/sys_enter_{call}"));
    let id = fs::read_to_string(folder.join("id"))
        .ok()?
        .trim()
        .parse()
        .ok()?;
    let format = fs::read_to_string(folder.join("format")).ok()?;
    Some(Tracepoint {
        call,
        id,
        clock_at: offset(&format, ARGUMENT),
    })
}

/// The offset of a field, from a `format` file.
fn offset(format: &str, field: &str) -> Option<usize> {
    let line = format.lines().find(|line| {
        let declared = line
            .trim()
            .strip_prefix("field:")
            .and_then(|line| line.split(';').next());
        declared.is_some_and(|declared| declared.ends_with(&format!(" {field}")))
    })?;
    line.split(';')
        .find_map(|part| part.trim().strip_prefix("offset:"))?
        .parse()
        .ok()
}

/// Why calls could not be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// tracefs is not mounted, or empty.
    NotMounted,
    /// This user may not read tracefs, or may not count.
    Denied,
    /// The kernel was built without CONFIG_FTRACE_SYSCALLS.
    NotBuilt,
    /// Another obstacle, in words.
    Other(String),
}

/// Who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Root, with whose id a process may still lack rights in a container.
    Root,
    /// Another user.
    Other,
}

impl User {
    /// The user who runs this process.
    pub(crate) fn of_this_process() -> Self {
        if machine::is_root() {
            Self::Root
        } else {
            Self::Other
        }
    }
}

/// The options with which a container may count.
const CONTAINER_OPTIONS: &str =
    "--privileged --pid=host -v /sys/kernel/tracing:/sys/kernel/tracing";

impl Obstacle {
    /// The options that may remove the obstacle in a container. They give it no other kernel.
    pub(crate) fn container_options(&self) -> Option<&'static str> {
        matches!(self, Self::Denied | Self::NotMounted).then_some(CONTAINER_OPTIONS)
    }

    /// The commands by which `user` removes the obstacle, and counts again by `program`, in their
    /// order. `duration` is the time to count.
    pub(crate) fn fixing_commands(
        &self,
        user: User,
        process: Option<u32>,
        duration: Duration,
        program: &str,
    ) -> Vec<String> {
        // An image has no sudo.
        let sudo = match user {
            User::Root => "",
            User::Other => "sudo ",
        };
        let target = process.map_or_else(String::new, |pid| format!(" {pid}"));
        let seconds = duration.as_secs_f64();
        let mount = format!("{sudo}mount -t tracefs tracefs /sys/kernel/tracing");
        let again = format!("{sudo}{program} who{target} --duration {seconds}s");
        match (self, user) {
            (Self::NotMounted, _) => vec![mount, again],
            (Self::Denied, User::Other) => vec![again],
            _ => Vec::new(),
        }
    }

    /// The commands that count by other tools, the most useful first.
    pub(crate) fn other_tools(&self, process: Option<u32>, duration: Duration) -> Vec<String> {
        let seconds = duration.as_secs_f64();
        let mut commands = Vec::new();
        if !matches!(self, Self::NotBuilt) {
            let target = process.map_or_else(|| "-a".to_owned(), |pid| format!("-p {pid}"));
            commands.push(format!(
                "sudo perf trace -s -e '{EVENTS}' {target} -- sleep {seconds}"
            ));
        }
        // strace needs no tracepoints, but stops the program twice at each call.
        let pid = process.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
        commands.push(format!(
            "sudo timeout -s INT {seconds} strace -f -c -e trace='{STRACE_CALLS}' -p {pid}"
        ));
        commands
    }
}

/// The calls for `perf trace`, which refuses names that the kernel does not have.
#[cfg(target_arch = "x86_64")]
const EVENTS: &str = "clock_gettime,gettimeofday,time";
#[cfg(not(target_arch = "x86_64"))]
const EVENTS: &str = "clock_gettime,gettimeofday";

/// The calls for `strace`. The question mark makes strace ignore an unknown name.
const STRACE_CALLS: &str = "?clock_gettime,?clock_gettime64,?gettimeofday,?time";

impl From<io::Error> for Obstacle {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Self::Denied,
            _ => Self::Other(format!("the kernel refused a counter: {error}")),
        }
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotMounted => {
                f.write_str("tracefs, which names the kernel's tracepoints, is not mounted")
            }
            Self::Denied => f.write_str(
                "this user may not count the calls of others at the kernel's tracepoints: that \
                 takes root, or CAP_PERFMON with a readable tracefs, and a container, the kernel's \
                 lockdown or SELinux may refuse it to root",
            ),
            Self::NotBuilt => f.write_str(
                "this kernel has no tracepoints at system calls (CONFIG_FTRACE_SYSCALLS)",
            ),
            Self::Other(text) => f.write_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the file of Linux 6.1 on x86_64.
    const FORMAT: &str = "\
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int __syscall_nr;\toffset:8;\tsize:4;\tsigned:1;
\tfield:const clockid_t which_clock;\toffset:16;\tsize:8;\tsigned:0;
\tfield:struct __kernel_timespec * tp;\toffset:24;\tsize:8;\tsigned:0;

print fmt: \"which_clock: 0x%08lx, tp: 0x%08lx\"
";

    #[test]
    fn tracepoints_are_those_that_the_kernel_has() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(
            tracepoints_in(&folder.path().join("events")),
            Err(Obstacle::NotMounted)
        );
        assert_eq!(tracepoints_in(folder.path()), Err(Obstacle::NotBuilt));
        for (call, id, format) in [
            ("clock_gettime", "320\n", FORMAT),
            ("gettimeofday", "330\n", "field:int which_clock;\toffset:x;"),
            ("time", "no number", ""),
        ] {
            let folder = folder
                .path()
                .join("syscalls")
                .join(format!("sys_enter_{call}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("id"), id).unwrap();
            fs::write(folder.join("format"), format).unwrap();
        }
        let expected = [
            Tracepoint {
                call: "clock_gettime",
                id: 320,
                clock_at: Some(16),
            },
            Tracepoint {
                call: "gettimeofday",
                id: 330,
                clock_at: None,
            },
        ];
        assert_eq!(tracepoints_in(folder.path()).as_deref(), Ok(&expected[..]));
    }

    const COUNTED: Duration = Duration::from_secs(5);

    #[test]
    fn the_commands_fit_the_obstacle() {
        let denied = Obstacle::from(io::Error::from_raw_os_error(13));
        let other = Obstacle::from(io::Error::from_raw_os_error(24));
        for (obstacle, process, begins) in [
            (
                denied,
                Some(71),
                &[
                    "sudo /opt/tickline who 71 --duration 5s",
                    "sudo perf trace -s -e ",
                ][..],
            ),
            (
                Obstacle::NotMounted,
                None,
                &[
                    "sudo mount -t tracefs ",
                    "sudo /opt/tickline who --duration 5s",
                    "sudo perf ",
                ],
            ),
            // perf also needs tracepoints.
            (Obstacle::NotBuilt, None, &[]),
            (other, None, &["sudo perf "]),
        ] {
            let program = "/opt/tickline";
            let fixing = obstacle.fixing_commands(User::Other, process, COUNTED, program);
            let commands = [fixing, obstacle.other_tools(process, COUNTED)].concat();
            let begins: Vec<_> = begins.iter().chain(&["sudo timeout -s INT "]).collect();
            assert_eq!(commands.len(), begins.len(), "{commands:?}");
            for (command, begin) in commands.iter().zip(begins) {
                assert!(command.starts_with(begin), "{commands:?}");
            }
        }
    }

    /// Symptom: root, whom a container's seccomp profile refused, was to run it with sudo.
    #[test]
    fn root_who_may_not_count_is_not_told_to_count_as_root() {
        let fixing = Obstacle::Denied.fixing_commands(User::Root, None, COUNTED, "tickline");
        assert_eq!(fixing, Vec::<String>::new());
    }

    /// Symptom: `sudo mount` alone, which an image does not have and a container may not do.
    #[test]
    fn root_without_tracefs_mounts_it_without_sudo() {
        let fixing = Obstacle::NotMounted.fixing_commands(User::Root, None, COUNTED, "tickline");
        assert_eq!(
            fixing,
            [
                "mount -t tracefs tracefs /sys/kernel/tracing",
                "tickline who --duration 5s"
            ]
        );
    }

    /// Symptom: a container whose kernel has no such tracepoints was to be started with options.
    #[test]
    fn only_a_refusal_and_a_missing_mount_have_options_for_a_container() {
        for obstacle in [Obstacle::Denied, Obstacle::NotMounted] {
            assert_eq!(obstacle.container_options(), Some(CONTAINER_OPTIONS));
        }
        let other = Obstacle::Other("no memory".to_owned());
        for obstacle in [Obstacle::NotBuilt, other] {
            assert_eq!(obstacle.container_options(), None);
        }
    }

    /// Symptom: on a host, root heard only of a container.
    #[test]
    fn a_refusal_names_what_may_refuse_root() {
        let text = Obstacle::Denied.to_string();
        let who = "a container, the kernel's lockdown or SELinux";
        assert!(text.contains(who), "{text}");
    }

    #[test]
    fn the_commands_count_for_the_same_time() {
        let duration = Duration::from_millis(1_500);
        let fixing = Obstacle::Denied.fixing_commands(User::Other, None, duration, "tickline");
        assert_eq!(fixing, ["sudo tickline who --duration 1.5s"]);
        for command in Obstacle::Denied.other_tools(None, duration) {
            assert!(command.contains(" 1.5"), "{command}");
        }
    }

    #[test]
    fn an_obstacle_says_what_is_missing() {
        for (obstacle, part) in [
            (Obstacle::NotMounted, "is not mounted"),
            (Obstacle::Denied, "root, or CAP_PERFMON"),
            (Obstacle::NotBuilt, "CONFIG_FTRACE_SYSCALLS"),
            (Obstacle::Other("no memory".to_owned()), "no memory"),
        ] {
            let text = obstacle.to_string();
            assert!(text.contains(part), "{text}");
        }
    }
}
