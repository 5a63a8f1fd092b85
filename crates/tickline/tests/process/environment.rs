//! `TICKLINE`, and programs that change their environment.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use tickline::{Clock, Driver, Environment, Probes, Reason, State};

use crate::common::fork::CANNOT;
use crate::common::{alone, in_child, skip, skipped_in_an_emulator};

in_processes! { in_child: the_environment_may_change_after_a_start }

thread_local! {
    /// Whether this thread may call `getenv`: it is the one that changes the environment.
    static MAY_ASK: Cell<bool> = const { Cell::new(false) };
}

/// How often another thread asked for tickline's variable.
static ASKED: AtomicU32 = AtomicU32::new(0);

unsafe extern "C" {
    static environ: *const *const c_char;
}

/// Takes the place of libc's in this program, std's calls included.
// SAFETY: it is what `getenv` promises to be.
#[unsafe(no_mangle)]
extern "C" fn getenv(name: *const c_char) -> *const c_char {
    // SAFETY: the caller passes a C string.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    if name == b"TICKLINE" && !MAY_ASK.get() {
        ASKED.fetch_add(1, Ordering::Relaxed);
    }
    // SAFETY: libc's list, which ends with null. It may not move while this walks through it.
    let mut place = unsafe { environ };
    while !place.is_null() {
        // SAFETY: not behind the end of the list.
        let entry = unsafe { *place };
        if entry.is_null() {
            break;
        }
        // SAFETY: the list's entries are C strings.
        let bytes = unsafe { CStr::from_ptr(entry) }.to_bytes();
        if bytes.strip_prefix(name).is_some_and(|rest| rest.starts_with(b"=")) {
            // SAFETY: behind the name and the sign.
            return unsafe { entry.add(name.len() + 1) };
        }
        // SAFETY: this entry was not the last.
        place = unsafe { place.add(1) };
    }
    std::ptr::null()
}

/// Symptom: `start()` followed by `set_var` crashed in 56 of 1,800 runs. The thread walked the
/// environment by `getenv` while `set_var` moved it. A crash is a matter of chance, so this also
/// counts the calls.
fn the_environment_may_change_after_a_start() {
    // So many that to walk through them takes as long as to change one.
    const VARIABLES: usize = 3_000;
    MAY_ASK.set(true);
    let set = |number: usize| {
        // SAFETY: nothing in this process reads the environment but through std. That is what is
        // tested.
        unsafe { std::env::set_var(format!("TICKLINE_TEST_{number}"), "x") };
    };
    (0..VARIABLES).for_each(set);
    let mut variables = VARIABLES;
    for _ in 0..50 {
        let guard = tickline::start().unwrap();
        let clock = Clock::builder().start().unwrap();
        // What `set_var` leaves of the old list is filled with what is no address.
        let mut garbage = Vec::new();
        for _ in 0..8 {
            set(variables);
            garbage.push(vec![0xAA_u8; (variables + 2) * size_of::<usize>()]);
            variables += 1;
        }
        drop((guard, clock, garbage)); // the threads have judged the gates
    }
    assert_eq!(ASKED.load(Ordering::Relaxed), 0, "calls of getenv without std's lock");
}

/// The variable counts as the process was started with it, for readings and for starts.
#[test]
fn the_environment_is_that_of_the_start() {
    in_child(&[("TICKLINE", "off")], || {
        // SAFETY: this process has no other thread that reads the environment.
        unsafe { std::env::set_var("TICKLINE", "on") };
        let clock = Clock::builder().driver(Driver::Manual).start().unwrap();
        clock.maintain();
        assert_eq!(clock.status().environment, Environment::Off);
        assert!(
            matches!(clock.status().state, State::Fallback(Reason::DisabledByEnvironment)),
            "{:?}",
            clock.status()
        );
    });
}

/// With minimal probes nothing opens a file, and the thread that starts the clock asks std.
#[test]
fn minimal_probes_read_the_variable_through_std() {
    in_child(&[("TICKLINE", "off")], || {
        let clock = Clock::builder().driver(Driver::Manual).probes(Probes::Minimal).start().unwrap();
        clock.maintain();
        assert_eq!(clock.status().environment, Environment::Off);
    });
}

const PRIVILEGED: &str = "TICKLINE_TEST_PRIVILEGED";

/// A set-user-id program is not steered by the user who calls it.
#[test]
fn a_set_user_id_process_ignores_the_variable() {
    if skipped_in_an_emulator() {
        return;
    }
    if std::env::var_os(PRIVILEGED).is_some() {
        return ignores_the_variable();
    }
    // SAFETY: takes nothing.
    if unsafe { libc::geteuid() } != 0 {
        return skip("only root can make a program that runs with another user's rights");
    }
    let folder = std::env::temp_dir().join(format!("tickline-set-user-id-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let program = folder.join("program");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
    let output = Command::new(&program)
        .args(alone("environment::a_set_user_id_process_ignores_the_variable"))
        .envs([(PRIVILEGED, "1"), ("TICKLINE", "off")])
        .current_dir("/")
        .uid(65_534)
        .output();
    std::fs::remove_dir_all(&folder).unwrap();
    match output {
        Err(error) => skip(&format!("nobody may not run a program of the temporary folder: {error}")),
        Ok(output) if output.status.code() == Some(CANNOT) => {
            skip("set-user-id has no effect in the temporary folder");
        }
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(text.contains("1 passed"), "{text}{}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

fn ignores_the_variable() {
    // SAFETY: takes a number.
    if unsafe { libc::getauxval(libc::AT_SECURE) } == 0 {
        // SAFETY: ends the process at once; set-user-id has no effect in that folder.
        unsafe { libc::_exit(CANNOT) };
    }
    assert_eq!(std::env::var("TICKLINE").as_deref(), Ok("off"));
    std::hint::black_box(tickline::now_ns());
    assert_eq!(Clock::global().status().environment, Environment::Unset);
    let _guard = tickline::start().unwrap();
    assert_eq!(Clock::global().status().environment, Environment::Unset);
}
