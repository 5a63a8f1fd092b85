//! Why UTC is unknown, in two lengths. A row and `watch` have the code alone, perhaps of another
//! version, and room for a few words. `tickline explain` has room for the library's own text, which
//! says what to do as well.

use tickline_utc::{Unbounded, UtcSource, UtcUnknown};

use crate::words::plain;

/// A reason for each code, in the library's order. That for `unsynchronised` stands for all its
/// sources and causes.
pub(crate) const ALL: [UtcUnknown; 6] = [
    UtcUnknown::NoSource,
    UtcUnknown::Unsynchronised(UtcSource::Kernel, Unbounded::KernelUnsynchronised),
    UtcUnknown::Expired,
    UtcUnknown::Disrupted,
    UtcUnknown::LeapSecond,
    UtcUnknown::NoThread,
];

/// The reason with this code, in a few words, without advice; a code of another version as it is.
pub(crate) fn in_short(code: &str) -> String {
    let why = ALL.into_iter().find(|why| why.code() == code);
    why.and_then(in_few_words)
        .map_or_else(|| plain(code), str::to_owned)
}

/// `None` for a reason that the library has added; a test finds it.
fn in_few_words(why: UtcUnknown) -> Option<&'static str> {
    Some(match why {
        UtcUnknown::NoSource => "no source has answered",
        UtcUnknown::Unsynchronised(..) => "the clock is not synchronised",
        UtcUnknown::Expired => "the last claim has ended",
        UtcUnknown::Disrupted => "the clock was disrupted",
        UtcUnknown::LeapSecond => "a leap second is near",
        UtcUnknown::NoThread => "the program has no thread to ask the sources",
        _ => return None,
    })
}

/// The reason for all sources and causes with its code, with advice.
pub(crate) fn in_full(why: UtcUnknown) -> String {
    if let UtcUnknown::Unsynchronised(..) = why {
        return "the source of UTC answers, but does not bound UTC: it is not synchronised, states \
                too large an error or rate, or has no clock that bounds UTC. The error of the call \
                names the source and the cause; `tickline doctor` shows the state of each source"
            .to_owned();
    }
    why.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The list of the library's public items has each reason.
    #[test]
    fn each_reason_of_the_library_is_listed_here() {
        const ITEMS: &str = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../docs/api/tickline-utc.txt"
        );
        let items = std::fs::read_to_string(ITEMS).expect("the repository's list");
        let name = |text: &str| text.split('(').next().map(str::to_owned);
        let mut in_library: Vec<_> = items
            .lines()
            .filter_map(|line| name(line.strip_prefix("pub tickline_utc::UtcUnknown::")?))
            .collect();
        let mut listed: Vec<_> = ALL
            .iter()
            .filter_map(|why| name(&format!("{why:?}")))
            .collect();
        in_library.sort();
        listed.sort();
        assert_eq!(listed, in_library);
    }

    #[test]
    fn each_reason_has_words_in_short() {
        for why in ALL {
            assert_ne!(in_short(why.code()), why.code());
        }
    }
}
