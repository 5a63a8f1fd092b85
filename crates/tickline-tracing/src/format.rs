//! Times for `tracing_subscriber::fmt`, by tickline's clock.

use core::fmt;

use tickline::UnixTime;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

#[cfg(feature = "local-time")]
mod local;

#[cfg(feature = "local-time")]
pub use local::Rfc3339Local;

/// The digits of a fraction of a second by default: microseconds, as `fmt` itself writes.
const DEFAULT_DIGITS: u8 = 6;

/// `2026-11-20T12:34:56.123456Z`: RFC 3339, UTC. Further digits are cut off, so that a time is
/// never in the future.
///
/// ```
/// use tickline_tracing::format::Rfc3339;
///
/// let layer = tracing_subscriber::fmt::layer().with_timer(Rfc3339::new().digits(9));
/// # use tracing_subscriber::layer::SubscriberExt;
/// # let _ = tracing_subscriber::registry().with(layer);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rfc3339 {
    digits: u8,
}

impl Rfc3339 {
    /// With microseconds.
    #[must_use]
    pub const fn new() -> Self {
        Self { digits: DEFAULT_DIGITS }
    }

    /// With this many digits after the second: 0 to 9. A larger number counts as 9.
    #[must_use]
    pub const fn digits(self, digits: u8) -> Self {
        Self { digits: if digits > 9 { 9 } else { digits } }
    }

    /// `time` in this format.
    #[must_use]
    pub fn text(&self, time: UnixTime) -> String {
        format!("{time:.*}", usize::from(self.digits))
    }
}

impl Default for Rfc3339 {
    fn default() -> Self {
        Self::new()
    }
}

impl FormatTime for Rfc3339 {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        write!(w, "{:.*}", usize::from(self.digits), UnixTime::now())
    }
}
