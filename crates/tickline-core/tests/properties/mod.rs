//! Properties of the arithmetic, as functions that panic where one does not hold. `arithmetic.rs`
//! feeds them with random values, and the fuzz targets in `fuzz/` with inputs that reach new
//! code.

pub(crate) mod discipline;
pub(crate) mod estimate;
pub(crate) mod line;
pub(crate) mod state;
pub(crate) mod wide;
