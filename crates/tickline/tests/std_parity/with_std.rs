//! The snippets with std's types.

use std::time::{Instant as I, SystemTime as S};

#[path = "snippets.rs"]
mod snippets;
