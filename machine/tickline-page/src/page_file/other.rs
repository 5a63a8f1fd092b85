//! The errors of a page's file on a system that has no pages: not Linux.

mod error;
mod file_error;

pub use error::{PageError, PageErrorCause};
pub use file_error::FileError;
