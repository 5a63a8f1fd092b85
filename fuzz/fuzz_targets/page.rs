//! Reads any bytes as a page, with any bytes as the clocks' answers. A reading must end, must wait
//! no longer than allowed, and must not be below the OS clock that it asked. A page that is not
//! valid must not be read at all.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tickline-page/tests/processes/cases.rs"]
#[allow(dead_code, reason = "the comparison with C has more uses")]
mod cases;

use cases::Case;

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    // Everything that the input does not set is plausible. The header stays, or the input sets it.
    let mut bytes = Case::random(how.into()).to_bytes();
    let (clocks, page) = rest.split_at(rest.len().min(Case::CLOCKS.len()));
    let start = if how & 1 == 0 { 0 } else { 64 };
    for (range, from) in [(Case::CLOCKS, clocks), (start..Case::PAGE_BYTES, page)] {
        bytes[range].iter_mut().zip(from).for_each(|(to, from)| *to = *from);
    }
    let case = Case::from_bytes(bytes);
    let output = case.run();
    output.judge(&case);
    assert!(output.refusal != 0 || bytes[..8] == *b"tickline", "it is no page");
});
