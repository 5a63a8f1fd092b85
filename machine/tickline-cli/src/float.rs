//! Integers as floating-point numbers.

#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are a hundred days in ns, and more than any frequency in Hz"
)]
pub(crate) const fn as_f64(value: u64) -> f64 {
    value as f64
}

#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are a hundred days in ns"
)]
pub(crate) const fn signed_f64(value: i64) -> f64 {
    value as f64
}
