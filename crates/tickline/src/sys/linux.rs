//! Linux.

pub(crate) mod affinity;
pub(crate) mod file;
pub(crate) mod fork;
pub(crate) mod mark;
pub(crate) mod parking;
pub(crate) mod process;
pub(crate) mod sleep;
pub(crate) mod thread;
