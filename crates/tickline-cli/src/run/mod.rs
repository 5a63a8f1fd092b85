//! `tickline run`: a program, and its children, with the clock of the machine's page.
//!
//! arguments -> the reasons why not (`launch`, `privileges`) -> a helper that traces the program's
//! first step (`tracer`), and maps the library into it (`inject`) -> the program in place of this
//! process

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod image;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod inject;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod launch;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod nowhere;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod outcome;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod privileges;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracee;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod tracer;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub(crate) use launch::run;
#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub(crate) use nowhere::run;
