//! Values of the program, whose `Debug` and `Display` are code of the program.
//!
//! This code may return an error, as chrono's `format("%Q")` does; `format!` and `to_string` then
//! panic. It may also panic itself. Neither may end a thread of the program because of a trace: the
//! value's text then ends with the reason. A panic still runs the panic hook, and with `panic =
//! "abort"` it still ends the program.
//!
//! Such a text may have any length, and a histogram's label keeps it for the program's life. The
//! texts of labels and for callbacks have a limit ([`MAX_TEXT`]); those in a trace have a record's.

use core::error::Error;
use core::fmt::{self, Write};
use core::iter;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tracing_core::field::Field;

pub(crate) const RETURNED_ERROR: &str = "(its Debug or Display returned an error)";
pub(crate) const PANICKED: &str = "(its Debug or Display panicked)";

/// The limit of a value's text in a label and for a callback, bytes: 16 KiB, as for the fields of a
/// span in a trace.
pub(crate) const MAX_TEXT: usize = 1 << 14;

/// A text that is cut ends with this.
pub(crate) const CUT_MARK: &str = "… (cut)";

/// The longest part of `text` of at most `limit` bytes that ends between two characters.
pub(crate) fn cut(text: &str, limit: usize) -> &str {
    let mut end = text.len().min(limit);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Writes `value` by its `Debug`. If this fails, returns the reason, with which the text must end,
/// even if it is cut. Do not call this with a lock that the value's `Debug` may take.
#[must_use]
pub(crate) fn write(value: &dyn fmt::Debug, to: &mut impl Write) -> Option<&'static str> {
    // A panic leaves the text that was written before it, which is what the caller keeps.
    let formatted = catch_unwind(AssertUnwindSafe(|| write!(to, "{value:?}")));
    match formatted {
        Ok(Ok(())) => None,
        Ok(Err(_)) => Some(RETURNED_ERROR),
        Err(payload) => {
            // The drop of anything but a text might panic again.
            if !payload.is::<&'static str>() && !payload.is::<String>() {
                core::mem::forget(payload);
            }
            Some(PANICKED)
        }
    }
}

/// The first [`MAX_TEXT`] bytes of what is written to it.
#[derive(Default)]
struct Beginning {
    text: String,
    is_cut: bool,
}

impl Write for Beginning {
    /// Never fails: `format!` does not, and a `Debug` may unwrap the results of its writes.
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if !self.is_cut {
            let fits = cut(text, MAX_TEXT - self.text.len());
            self.is_cut = fits.len() < text.len();
            self.text.push_str(fits);
        }
        Ok(())
    }
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

/// The text of `value` by its `Debug`, within the limit.
pub(crate) fn text(value: &dyn fmt::Debug) -> String {
    let mut beginning = Beginning::default();
    let failure = write(value, &mut beginning);
    let Beginning { mut text, is_cut } = beginning;
    text.push_str(failure.unwrap_or_default());
    if is_cut {
        text.push_str(CUT_MARK);
    }
    text
}

/// A copy of `text`, within the limit.
pub(crate) fn within_limit(text: &str) -> String {
    if text.len() <= MAX_TEXT {
        return text.to_owned();
    }
    [cut(text, MAX_TEXT), CUT_MARK].concat()
}
