//! `tickline-quanta` under the name `quanta`, on which libraries depend.

pub use tickline_quanta::*;
