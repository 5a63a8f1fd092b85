//! Any bytes as a page, and as the clocks' answers: a reading ends, waits no longer than it may, is
//! not below the OS clock that it asked, and a page that does not count is not read at all.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tickline-page/tests/processes/cases.rs"]
#[allow(dead_code, reason = "the comparison with C has more uses")]
mod cases;

use cases::Case;

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    // What the input does not say is plausible. A header is kept, or the input's.
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
