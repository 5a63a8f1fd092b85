//! Tests of the public API, alone and run by criterion.

mod compare;
mod directory;
mod measuring;
mod messages;
mod pairs;
