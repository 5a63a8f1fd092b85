//! Times for `tracing_subscriber::fmt`, by tickline's clock.

use core::cell::Cell;
use core::fmt;

use tickline::{Instant, UnixTime};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;

#[cfg(feature = "local-time")]
mod local;

#[cfg(feature = "local-time")]
pub use local::Rfc3339Local;

/// The length of `2026-11-20T12:34:56`.
const SECOND_LEN: usize = 19;

/// The length of a `.` and nine digits.
const FRACTION_LEN: usize = 10;

/// The digits of a fraction of a second by default: microseconds, as `fmt` itself writes.
const DEFAULT_DIGITS: u8 = 6;

/// `2026-11-20T12:34:56.123456Z`: RFC 3339, UTC. Further digits are cut off, so that a time is
/// never in the future.
///
/// Each thread keeps the text up to the second, and formats it anew when another second begins.
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
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = self.write(time, &mut text);
        text
    }

    fn write(self, time: UnixTime, out: &mut dyn fmt::Write) -> fmt::Result {
        thread_local! {
            static LAST: Cell<(u64, [u8; SECOND_LEN])> = const { Cell::new((u64::MAX, [0; SECOND_LEN])) };
        }
        let seconds = time.as_secs();
        let second = match LAST.try_with(Cell::get) {
            Ok((last, text)) if last == seconds => text,
            _ => {
                let text = second_text(seconds);
                let _ = LAST.try_with(|cell| cell.set((seconds, text)));
                text
            }
        };
        let mut line = Line::new();
        line.push(&second);
        line.push_fraction(time.subsec_nanos(), self.digits);
        line.push(b"Z");
        out.write_str(line.as_str())
    }
}

impl Default for Rfc3339 {
    fn default() -> Self {
        Self::new()
    }
}

impl FormatTime for Rfc3339 {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        self.write(UnixTime::now(), w)
    }
}

/// Seconds and nanoseconds since a start, `   1.234567890s`, as
/// `tracing_subscriber::fmt::time::Uptime` writes them.
///
/// ```
/// use tickline_tracing::format::Uptime;
///
/// let layer = tracing_subscriber::fmt::layer().with_timer(Uptime::new());
/// # use tracing_subscriber::layer::SubscriberExt;
/// # let _ = tracing_subscriber::registry().with(layer);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Uptime {
    start: Instant,
}

impl Uptime {
    /// Since now.
    #[must_use]
    pub fn new() -> Self {
        Self::since(Instant::now())
    }

    /// Since `start`.
    #[must_use]
    pub const fn since(start: Instant) -> Self {
        Self { start }
    }
}

impl Default for Uptime {
    fn default() -> Self {
        Self::new()
    }
}

impl FormatTime for Uptime {
    fn format_time(&self, w: &mut Writer<'_>) -> fmt::Result {
        let since = self.start.elapsed();
        write!(w, "{:4}.{:09}s", since.as_secs(), since.subsec_nanos())
    }
}

/// Room for the longest text: a second, a fraction, and an offset such as `+05:30`.
struct Line {
    bytes: [u8; SECOND_LEN + FRACTION_LEN + 6],
    len: usize,
}

impl Line {
    fn new() -> Self {
        Self { bytes: [0; SECOND_LEN + FRACTION_LEN + 6], len: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        if let Some(room) = self.bytes.get_mut(self.len..self.len + bytes.len()) {
            room.copy_from_slice(bytes);
            self.len += bytes.len();
        }
    }

    /// The first `digits` of the nine digits of `ns`, with a dot before them; nothing for 0 digits.
    fn push_fraction(&mut self, ns: u32, digits: u8) {
        if digits == 0 {
            return;
        }
        let mut fraction = [b'.'; FRACTION_LEN];
        let mut rest = ns;
        for digit in fraction.iter_mut().skip(1).rev() {
            *digit = digit_of(rest % 10);
            rest /= 10;
        }
        self.push(fraction.get(..=usize::from(digits)).unwrap_or(&fraction));
    }

    fn as_str(&self) -> &str {
        // All of it is ASCII.
        self.bytes.get(..self.len).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

const fn digit_of(number: u32) -> u8 {
    b'0' + (number % 10) as u8
}

/// `2026-11-20T12:34:56` for `seconds` since 1970, up to the last second of [`UnixTime`].
fn second_text(seconds: u64) -> [u8; SECOND_LEN] {
    let text = UnixTime::from_secs(seconds).to_string();
    let second = text.as_bytes().first_chunk();
    // The text is long enough, because its years have four digits. So the default is never used.
    second.copied().unwrap_or(*b"1970-01-01T00:00:00")
}
