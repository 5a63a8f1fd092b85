//! Builds system call filters (seccomp(2)) for programs under test, from seccompiler's JSON.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{BpfProgram, Error, compile_from_json};
use serde_json::{Value, json};

/// A filter that does `action` if one of the rules matches.
pub fn filter(action: &Value, rules: &Value) -> Result<BpfProgram, Error> {
    let architecture = std::env::consts::ARCH.try_into().expect("see the cfg");
    let filter = json!({ "mismatch_action": "allow", "match_action": action, "filter": rules });
    let programs = compile_from_json(json!({ "it": filter }).to_string().as_bytes(), architecture);
    programs.map(|mut programs| programs.remove("it").expect("the filter of this name"))
}

/// Puts the program under the filter from its start.
pub fn put_under(command: &mut Command, filter: BpfProgram) {
    // SAFETY: between fork and exec the child may not allocate. The closure makes two system calls,
    // and only an error would allocate, which does not occur for a filter that the kernel accepts.
    unsafe {
        command.pre_exec(move || seccompiler::apply_filter(&filter).map_err(io::Error::other))
    };
}
