//! The snippets with tickline's types.

use tickline::{Instant as I, UnixTime as S};

#[path = "snippets.rs"]
mod snippets;
