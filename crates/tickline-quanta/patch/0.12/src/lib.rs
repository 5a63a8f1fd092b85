//! `tickline-quanta` under the name that libraries ask for.

pub use tickline_quanta::*;
