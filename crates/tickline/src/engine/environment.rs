//! The environment variable when a clock starts. `options.rs` has the type, and imports nothing that
//! reads the variable.

use super::GLOBAL;
use crate::options::{EnvironmentSwitch, Probes};
use crate::trust::facts;

/// Reads the environment variable before a clock starts, unless a reading has. A reading of the
/// global clock that could not read the variable took it for unset. If the variable is `off`, that
/// clock therefore judges again. Not for signal handlers.
pub(crate) fn learn_environment(probes: Probes) {
    if facts::read_environment(probes) {
        GLOBAL.request_judgement();
    }
}

impl EnvironmentSwitch {
    /// The variable's value, for a [`Backend`](crate::Backend) that reads the counter, which
    /// [`Off`](Self::Off) forbids. `probes` says whether the call may read files. Not for signal
    /// handlers.
    ///
    /// ```
    /// use tickline::{EnvironmentSwitch, Probes};
    ///
    /// let may_read_counter = EnvironmentSwitch::at_start(Probes::Full) != EnvironmentSwitch::Off;
    /// println!("the counter may be read: {may_read_counter}");
    /// ```
    #[must_use]
    pub fn at_start(probes: Probes) -> Self {
        learn_environment(probes);
        facts::environment_switch(probes)
    }
}
