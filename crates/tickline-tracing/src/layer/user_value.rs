//! Values of the program, whose `Debug` and `Display` are code of the program.
//!
//! This code may return an error, as chrono's `format("%Q")` does; `format!` and `to_string` then
//! panic. It may also panic itself. Neither may end a thread of the program because of a trace: the
//! value's text then ends with the reason. A panic still runs the panic hook, and with `panic =
//! "abort"` it still ends the program.

use core::fmt::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

pub(crate) const RETURNED_ERROR: &str = "(its Debug or Display returned an error)";
pub(crate) const PANICKED: &str = "(its Debug or Display panicked)";

/// Writes `value` by its `Debug`. Do not call this with a lock that the value's `Debug` may take.
pub(crate) fn write(value: &dyn fmt::Debug, to: &mut impl Write) {
    // A panic leaves the text that was written before it, which is what the caller keeps.
    let formatted = catch_unwind(AssertUnwindSafe(|| write!(to, "{value:?}")));
    let failure = match formatted {
        Ok(Ok(())) => return,
        Ok(Err(_)) => RETURNED_ERROR,
        Err(payload) => {
            // The drop of anything but a text might panic again.
            if !payload.is::<&'static str>() && !payload.is::<String>() {
                core::mem::forget(payload);
            }
            PANICKED
        }
    };
    _ = to.write_str(failure);
}

/// The text of `value` by its `Debug`.
pub(crate) fn text(value: &dyn fmt::Debug) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}
