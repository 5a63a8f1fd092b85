//! Filters of system calls (seccomp(2)) for programs under test.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
};

/// The calls whose argument compares so with a value.
pub fn argument(number: u8, compares: SeccompCmpOp, value: u64) -> SeccompRule {
    let condition = SeccompCondition::new(number, SeccompCmpArgLen::Dword, compares, value);
    SeccompRule::new(vec![condition.expect("a condition")]).expect("a rule")
}

/// Does `action` at these calls, where one of their rules holds, if they have any.
pub fn filter(
    calls: impl IntoIterator<Item = (libc::c_long, Vec<SeccompRule>)>,
    action: SeccompAction,
) -> BpfProgram {
    let architecture = std::env::consts::ARCH.try_into().expect("see the cfg");
    let calls = calls.into_iter().collect();
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, architecture);
    filter.and_then(BpfProgram::try_from).expect("a filter")
}

/// The program begins under the filter.
pub fn put_under(command: &mut Command, filter: BpfProgram) {
    // SAFETY: between fork and exec the child may not allocate: this makes two system calls.
    // Only an error would allocate, and a filter that the kernel accepts gives none.
    unsafe { command.pre_exec(move || seccompiler::apply_filter(&filter).map_err(io::Error::other)) };
}
