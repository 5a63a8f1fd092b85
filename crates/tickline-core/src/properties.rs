//! Properties of the arithmetic for random values of every size, compared with an oracle in
//! integers of unlimited size.
//!
//! A failure prints the smallest case found, and writes its seed to a `.proptest-regressions`
//! beside the source file, which is tried first from then on: commit it. `PROPTEST_CASES=100000`
//! tries more (cheap properties multiply it).

mod discipline;
mod estimate;
mod line;
mod state;
mod wide;

use crate::line::Slope;
use crate::units::FixedNs;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// For cases that take microseconds. An error may show in only one case of a thousand.
const CHEAP: u32 = 16;

/// Proptest's number of cases (256, or that of the environment) times `diligence`. Targets whose
/// tests may run in an emulator do not multiply it, because integers are the same everywhere.
fn config(diligence: u32) -> ProptestConfig {
    let usual = ProptestConfig::default();
    let diligence = if cfg!(target_arch = "x86_64") {
        diligence
    } else {
        1
    };
    ProptestConfig {
        cases: usual.cases.saturating_mul(diligence),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource(
            "proptest-regressions",
        ))),
        ..usual
    }
}

/// Numbers of all sizes, each equally likely, and numbers at powers of two.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => (any::<u64>(), 0..64_u32).prop_map(|(bits, shift)| bits >> shift),
        1 => (0..64_u32).prop_map(|shift| 1 << shift),
        1 => (0..64_u32).prop_map(|shift| u64::MAX >> shift),
    ]
}

fn signed_number() -> impl Strategy<Value = i64> {
    prop_oneof![
        (number(), any::<bool>()).prop_map(|(bits, negative)| {
            let size = (bits >> 1).cast_signed();
            if negative { -size } else { size }
        }),
        Just(i64::MIN),
    ]
}

fn fixed() -> impl Strategy<Value = FixedNs> {
    prop_oneof![
        4 => (signed_number(), -2..3_i128).prop_map(|(ns, more)| above(FixedNs::from_ns(ns), more)),
        6 => (any::<i128>(), 0..128_u32).prop_map(|(bits, shift)| FixedNs::from_bits(bits >> shift)),
        1 => (0..3_i128).prop_map(|more| FixedNs::from_bits(i128::MIN + more)),
    ]
}

fn above(fixed: FixedNs, more: i128) -> FixedNs {
    fixed.saturating_add(FixedNs::from_bits(more))
}

fn slope() -> impl Strategy<Value = Slope> {
    number().prop_map(|bits| Slope { bits })
}
