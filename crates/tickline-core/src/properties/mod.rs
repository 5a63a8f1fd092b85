//! Properties of the arithmetic, against an oracle in integers without limits, as functions that
//! panic where one does not hold. `random.rs` feeds them with random values, and the fuzz targets
//! in `fuzz/`, by `conversion.rs` and `estimator.rs`, with inputs that reach new code.

pub(crate) mod discipline;
pub(crate) mod estimate;
pub(crate) mod line;
pub(crate) mod state;
pub(crate) mod wide;

#[cfg(feature = "fuzzed")]
pub mod conversion;
#[cfg(feature = "fuzzed")]
pub mod estimator;
#[cfg(test)]
mod random;
