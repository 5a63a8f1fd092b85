//! What to run where this program cannot count calls, or not yet.

use super::obstacle::Obstacle;

/// The commands, the most useful first. `seconds` is how long to count.
pub(super) fn commands(obstacle: &Obstacle, process: Option<u32>, seconds: u64) -> Vec<String> {
    let target = process.map_or_else(|| "--all".to_owned(), |pid| pid.to_string());
    let mut commands = Vec::new();
    match obstacle {
        Obstacle::NotMounted => {
            commands.push("sudo mount -t tracefs tracefs /sys/kernel/tracing".to_owned());
            commands.push(format!("sudo tickline who {target} --secs {seconds}"));
        }
        Obstacle::Denied => commands.push(format!("sudo tickline who {target} --secs {seconds}")),
        Obstacle::NotBuilt | Obstacle::Other(_) => {}
    }
    if !matches!(obstacle, Obstacle::NotBuilt) {
        let which = process.map_or_else(|| "-a".to_owned(), |pid| format!("-p {pid}"));
        commands.push(format!("sudo perf trace -s -e '{EVENTS}' {which} -- sleep {seconds}"));
    }
    // Needs no tracepoints, but stops the program twice at each call.
    let pid = process.map_or_else(|| "PID".to_owned(), |pid| pid.to_string());
    commands.push(format!("sudo timeout -s INT {seconds} strace -f -c -e trace='{CALLS}' -p {pid}"));
    commands
}

/// The calls for `perf trace`, which refuses names that the kernel does not have.
#[cfg(target_arch = "x86_64")]
const EVENTS: &str = "clock_gettime,gettimeofday,time";
#[cfg(not(target_arch = "x86_64"))]
const EVENTS: &str = "clock_gettime,gettimeofday";

/// The calls for `strace`, which ignores an unknown name after a question mark.
const CALLS: &str = "?clock_gettime,?clock_gettime64,?gettimeofday,?time";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_fit_the_obstacle() {
        let denied = commands(&Obstacle::Denied, Some(71), 5);
        assert_eq!(denied[0], "sudo tickline who 71 --secs 5");
        assert!(denied[1].starts_with("sudo perf trace -s -e ") && denied[1].contains(" -p 71 "));
        let unmounted = commands(&Obstacle::NotMounted, None, 2);
        assert!(unmounted[0].starts_with("sudo mount -t tracefs "));
        assert_eq!(unmounted[1], "sudo tickline who --all --secs 2");
        let lacking = commands(&Obstacle::NotBuilt, None, 5);
        assert_eq!(lacking.len(), 1, "perf needs tracepoints too: {lacking:?}");
        assert!(lacking[0].contains("strace") && lacking[0].ends_with("-p PID"));
    }
}
