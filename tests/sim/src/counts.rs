//! Counts of a run, of clocks and of leases.

/// Defines a type of counts. Each has a name, and a function that adds the counts of two runs.
macro_rules! counts {
    ($(#[$about:meta])* $type:ident; $($(#[$doc:meta])* $name:ident: $of:ident, $together:ident;)*) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct $type {
            $($(#[$doc])* pub $name: $of,)*
        }

        impl $type {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$name = $of::$together(self.$name, other.$name);)*
            }

            /// Every figure with its name.
            #[must_use]
            pub fn list(&self) -> Vec<(&'static str, i128)> {
                vec![$((stringify!($name), self.$name.into())),*]
            }
        }
    };
}
pub(crate) use counts;

counts! {
    /// Counts of a run.
    Counts;
    /// Steps of all actors.
    steps: u64, saturating_add;
    /// Simulated time, ns.
    simulated_ns: u64, saturating_add;
    /// Faults that took place.
    faults: u64, saturating_add;
    /// Readings from a line, by the fast path or the slow path.
    by_line: u64, saturating_add;
    /// Readings from the reference.
    by_reference: u64, saturating_add;
    /// Iterations of the control loop.
    iterations: u64, saturating_add;
    /// Published lines, first lines included.
    publications: u64, saturating_add;
    /// States that recurred after other states.
    again: u64, saturating_add;
    /// High-water marks below a returned time, left by a thread that had loaded the state in an
    /// earlier life of this state.
    low_marks: u64, saturating_add;
    /// Calibrations that failed because their thread was moved to another CPU.
    lost: u64, saturating_add;
    /// Bounds whose assumption held. All these bounds held, too.
    bounds_checked: u64, saturating_add;
    /// The largest offset long after the last fault, ns.
    calm_offset_ns: u64, max;
    /// The largest offset at any time, ns.
    offset_ns: u64, max;
}
