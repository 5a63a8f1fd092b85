//! Properties of the arithmetic, compared with an oracle in integers of unlimited size. Each is a
//! function that panics if the property does not hold. `random.rs` calls them with random values.

mod discipline;
mod estimate;
mod line;
mod random;
mod state;
mod wide;
