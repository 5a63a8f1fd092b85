//! The measurements behind the documentation's figures. Nothing else should run on the machine meanwhile.

use crate::step::Step;

/// Every measurement.
pub(crate) fn steps() -> Vec<Step> {
    vec![
        Step::new("build", "cargo build --release -q -p tickline-benches"),
        Step::new("cost", "target/release/ratios"),
        Step::new("cost of a span", "target/release/spans --rounds 600"),
        Step::new("start-up", "target/release/startup"),
        Step::new("accuracy, thread driver", "target/release/accuracy --secs 60 --driver thread"),
        Step::new("accuracy, reader driver", "target/release/accuracy --secs 60 --driver reader"),
        Step::new("order between threads", "target/release/order --secs 60"),
    ]
}
