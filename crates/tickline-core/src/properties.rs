//! Properties of the arithmetic, against an oracle in integers without limits, as functions that
//! panic where one does not hold. `random.rs` feeds them with random values.

mod discipline;
mod estimate;
mod line;
mod random;
mod state;
mod wide;
