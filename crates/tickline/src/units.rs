//! Nanoseconds as one integer or another.

/// Nanoseconds in a second.
pub(crate) const NS_PER_S: u64 = 1_000_000_000;

/// The same bits as a signed number.
#[inline]
pub(crate) const fn signed(bits: u64) -> i64 {
    i64::from_ne_bytes(bits.to_ne_bytes())
}

/// The same bits as an unsigned number.
#[inline]
pub(crate) const fn unsigned(bits: i64) -> u64 {
    u64::from_ne_bytes(bits.to_ne_bytes())
}
