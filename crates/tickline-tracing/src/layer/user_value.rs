//! Values of the program, whose `Debug` and `Display` are code of the program.
//!
//! This code may return an error, as chrono's `format("%Q")` does; `format!` and `to_string` then
//! panic. It may also panic itself. Neither may end a thread of the program because of a trace: the
//! value's text then ends with the reason. A panic still runs the panic hook, and with `panic =
//! "abort"` it still ends the program.

use core::error::Error;
use core::fmt::{self, Write};
use core::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing_core::field::Field;

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

/// The value of a field that is an error. Its `Debug` writes the texts of the error and of its
/// sources, as `tracing_subscriber::fmt` does: `no file error.sources=[not found]`.
pub(crate) struct ErrorValue<'a> {
    field: &'static str,
    error: &'a (dyn Error + 'static),
}

/// The limit of the sources of an error that are written: one may be its own source.
const SOURCES: usize = 64;

impl<'a> ErrorValue<'a> {
    pub(crate) fn new(field: &Field, error: &'a (dyn Error + 'static)) -> Self {
        let field = field.name();
        Self { field, error }
    }
}

impl fmt::Debug for ErrorValue<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)?;
        let mut sources = iter::successors(self.error.source(), |error| (*error).source());
        let Some(first) = sources.next() else {
            return Ok(());
        };
        write!(f, " {}.sources=", self.field)?;
        let mut list = f.debug_list();
        list.entry(&format_args!("{first}"));
        for source in sources.take(SOURCES - 1) {
            list.entry(&format_args!("{source}"));
        }
        list.finish()
    }
}

/// The text of `value` by its `Debug`.
pub(crate) fn text(value: &dyn fmt::Debug) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}
