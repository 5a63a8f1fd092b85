//! See `crates/tickline-core/src/properties/conversion.rs`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tickline_core_fuzzed::properties::conversion::Input;

fuzz_target!(|input: Input| input.check());
