//! Tests that change the process they run in: its threads, memory, signals, rights, environment,
//! descriptors, or the global clock. Each runs in a process of its own, this program started again.
#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, in functions without the attribute"
)]

#[path = "../common/mod.rs"]
mod common;

/// Makes tests of functions, which therefore have no `#[test]`: `$run` calls each in a process of
/// its own, with these variables of the environment. A function that is not in a list is dead code,
/// and the compiler says so.
macro_rules! in_processes {
    ($run:ident: $($test:ident),+ $(,)?) => {
        in_processes! { $run, &[]; $($test),+ }
    };
    ($run:ident, $environment:expr; $($test:ident),+ $(,)?) => {
        mod $run {
            $(#[test]
            fn $test() {
                crate::common::$run($environment, || super::$test());
            })+
        }
    };
}

mod allocator;
#[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
mod denied;
mod environment;
mod forks;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod killed;
mod life;
mod moved;
mod real_time;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
))]
mod seccomp;
mod shared_memory;
mod signal;
mod threads;
#[cfg(target_env = "gnu")] // musl unloads no library
mod unload;
mod young_machine;
