//! Reads any bytes as a page, with any bytes as the clocks' answers. A reading must end, must wait
//! no longer than allowed, and must not be below the OS clock that it read. A reader must refuse a
//! page that is not valid.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../machine/tickline-page/tests/processes/cases.rs"]
#[allow(dead_code, reason = "the comparison with C uses more items")]
mod cases;

use cases::Case;

fuzz_target!(|data: &[u8]| {
    let Some((&seed, rest)) = data.split_first() else {
        return;
    };
    // The random case is plausible, and the input overwrites a part of it. The seed decides whether
    // that part includes the header.
    let mut bytes = Case::random(seed.into()).to_bytes();
    let (clocks, page) = rest.split_at(rest.len().min(Case::CLOCKS.len()));
    let start = if seed & 1 == 0 { 0 } else { 64 };
    for (range, from) in [(Case::CLOCKS, clocks), (start..Case::PAGE_BYTES, page)] {
        bytes[range]
            .iter_mut()
            .zip(from)
            .for_each(|(to, from)| *to = *from);
    }
    let case = Case::from_bytes(bytes);
    let output = case.run();
    output.judge(&case);
    assert!(
        output.refusal != 0 || bytes[..8] == *b"tickline",
        "the reader accepted what is not a page"
    );
});
