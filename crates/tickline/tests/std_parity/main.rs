//! Snippets of programs that use `std::time`: each is compiled and run with std's types, and, word
//! for word, with tickline's. `docs/coming_from.md` names what differs.

#![allow(
    clippy::duplicate_mod,
    clippy::useless_conversion,
    clippy::needless_question_mark,
    clippy::useless_vec,
    reason = "programs write so, and the same text is compiled with the types of each crate"
)]

mod with_std;
mod with_tickline;
