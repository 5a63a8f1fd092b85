//! What is measured, and nothing about what it means.

pub(crate) mod calls;
pub(crate) mod costs;
pub(crate) mod latency;
pub(crate) mod migration;
pub(crate) mod pattern;
pub(crate) mod resolution;
pub(crate) mod served;
pub(crate) mod served_by;
pub(crate) mod track;
pub(crate) mod warp;
pub(crate) mod watch;
