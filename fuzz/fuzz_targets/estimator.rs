//! See `crates/tickline-core/src/properties/estimator.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickline_core_fuzzed::properties::estimator::Input;

fuzz_target!(|input: Input| input.check());
