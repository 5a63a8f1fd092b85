//! Conversions that lose nothing here.

/// A length.
pub(crate) fn count(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// An index or length that is known to fit.
pub(crate) fn index(count: u64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

/// The nearest whole number; 0 for negative values and for NaN.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
pub(crate) fn round(value: f64) -> u64 {
    value.round() as u64
}
