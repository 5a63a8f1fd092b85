//! The environment variable when a clock starts: the global clock may have to judge again.

use super::GLOBAL;
use crate::environment::{EnvironmentSwitch, environment_switch, read_environment};
use crate::settings::Probes;

/// Reads the environment variable before a clock starts, unless a reading has read it already. A
/// reading of the global clock that could not read the variable took it for unset. If the variable
/// is `off`, that clock therefore judges again. Not for signal handlers.
pub(crate) fn learn_environment(probes: Probes) {
    if read_environment(probes) {
        GLOBAL.request_judgement();
    }
}

impl EnvironmentSwitch {
    /// The variable's value, for a [`Backend`](crate::backend::Backend) that reads the counter,
    /// which [`Off`](Self::Off) forbids. `probes` says whether the call may read files. If the
    /// variable is `off`, and the global clock had not been able to read it, that clock ends its
    /// line and judges its gates again. Not for signal handlers.
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
        environment_switch(probes)
    }
}
