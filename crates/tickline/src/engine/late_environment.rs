//! The environment variable when a clock starts: the global clock may have to judge again.

use super::GLOBAL;
use crate::environment::{EnvironmentSwitch, ReadEnvironment, read_environment};
use crate::settings::Probes;

/// Reads the variable, unless it was read before, and returns its value. If the variable is `off`,
/// and the global clock had not been able to read it, that clock ends its line and judges its gates
/// again. Not for signal handlers.
pub(crate) fn obey_environment(probes: Probes) -> EnvironmentSwitch {
    match read_environment(probes) {
        ReadEnvironment::Before(switch) => switch,
        ReadEnvironment::Now(switch) => {
            if switch == EnvironmentSwitch::Off {
                GLOBAL.request_judgement();
            }
            switch
        }
    }
}

// Here and not in `environment.rs`, which the engine imports, and which would then import the
// engine.
impl EnvironmentSwitch {
    /// Reads the variable, unless it was read before, and returns the value at the start of the
    /// process. For a [`Backend`](crate::backend::Backend) that reads the counter, which
    /// [`Off`](Self::Off) forbids. `probes` says whether the call may read files. If the variable
    /// is `off`, and the global clock had not been able to read it, that clock ends its line and
    /// judges its gates again. Not for signal handlers.
    ///
    /// ```
    /// use tickline::{EnvironmentSwitch, Probes};
    ///
    /// let may_read_counter = EnvironmentSwitch::read(Probes::Full) != EnvironmentSwitch::Off;
    /// println!("the counter may be read: {may_read_counter}");
    /// ```
    #[must_use]
    pub fn read(probes: Probes) -> Self {
        obey_environment(probes)
    }
}
