//! Why UTC is unknown, in two lengths. A row and `watch` have the code alone, perhaps of another
//! version, and room for a few words. `tickline explain` has room for the library's own text, which
//! says what to do as well.

use tickline_utc::UtcUnknown;

use crate::words::plain;

/// The reason with this code, in a few words, without advice; a code of another version as it is.
pub(crate) fn in_short(code: &str) -> String {
    let why = UtcUnknown::EXAMPLES.iter().find(|why| why.code() == code);
    why.and_then(|why| in_few_words(*why))
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

    #[test]
    fn each_reason_has_words_in_short() {
        for why in UtcUnknown::EXAMPLES {
            assert_ne!(in_short(why.code()), why.code());
        }
    }
}
