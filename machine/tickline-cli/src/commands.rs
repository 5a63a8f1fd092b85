//! The commands, each a function `run` of its arguments. `manual` has two. `result` is what several
//! of them show first.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod flight;
pub(crate) mod manual;
pub(crate) mod report;
mod result;
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64")),
    path = "commands/run/unsupported.rs"
)]
pub(crate) mod run;
#[cfg_attr(not(target_os = "linux"), path = "commands/serve/unsupported.rs")]
pub(crate) mod serve;
pub(crate) mod wait;
pub(crate) mod warp;
pub(crate) mod watch;
pub(crate) mod who;
