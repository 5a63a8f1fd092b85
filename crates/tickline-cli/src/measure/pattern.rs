//! Which pairs of CPUs are compared.

use serde::{Deserialize, Serialize};

/// Which pairs are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, clap::ValueEnum)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Pattern {
    /// Every CPU with every other
    #[default]
    All,
    /// The first CPU with every other
    Star,
}
