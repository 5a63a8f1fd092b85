//! Why UTC is unknown: [`UtcUnknown`].

use core::fmt;

use crate::{Unbounded, UtcSource};

/// Why there is no [`UtcReading`](crate::UtcReading).
///
/// ```
/// use tickline_utc::{Unbounded, UtcSource, UtcUnknown};
///
/// let why = UtcUnknown::Unsynchronised(UtcSource::Chronyd, Unbounded::FollowsItself);
/// assert_eq!(why.code(), "unsynchronised");
/// assert!(why.to_string().starts_with("chronyd does not bound UTC: it follows its own clock"));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UtcUnknown {
    /// No source has answered: none runs, the clock may not ask one (with
    /// [`Probes::Minimal`](tickline::Probes::Minimal), or on systems other than Linux), or the
    /// thread has just been started. Code: `no_source`.
    NoSource,
    /// This source has answered, but does not bound UTC at present, for this reason. If several
    /// sources have answered so, the best of them is named, also at one request that it misses.
    /// Code: `unsynchronised`.
    Unsynchronised(UtcSource, Unbounded),
    /// The last claim has ended, and there is no newer one: the source has not answered twice, the
    /// thread was held up, or the kernel slews its clock by more than 12.5 %. A claim ends 3.75 s
    /// after its request, or 2.5 intervals of the clock if that is later. Code: `expired`.
    Expired,
    /// The machine was suspended or moved, the OS clock was set, or two claims contradicted each
    /// other. Since then no source has measured, or repeated what it said before the step. By
    /// default the measurements of an NTP daemon are at most 1024 s apart (`maxpoll` 10); two may
    /// be needed. Code: `disrupted`.
    Disrupted,
    /// UTC may be within 2 s of a leap second, before or after it. Or ptp4l's grandmaster announces
    /// one in the first half of a day, and may mean the day before. Afterwards readings fail with
    /// [`Disrupted`](Self::Disrupted) until the source has measured again. Code: `leap_second`.
    LeapSecond,
    /// This process has no thread to ask the sources: it was forked from the one that called
    /// [`Utc::start`](crate::Utc::start), or the thread was killed. Call `Utc::start` again. Code:
    /// `no_thread`.
    NoThread,
}

impl UtcUnknown {
    /// A value for each code, in the order of their declaration. That for `unsynchronised` stands
    /// for all sources and causes.
    pub const EXAMPLES: &[Self] = &[
        Self::NoSource,
        Self::Unsynchronised(UtcSource::Kernel, Unbounded::KernelUnsynchronised),
        Self::Expired,
        Self::Disrupted,
        Self::LeapSecond,
        Self::NoThread,
    ];

    /// The stable code, in snake case. It has no source and no cause.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NoSource => "no_source",
            Self::Unsynchronised(..) => "unsynchronised",
            Self::Expired => "expired",
            Self::Disrupted => "disrupted",
            Self::LeapSecond => "leap_second",
            Self::NoThread => "no_thread",
        }
    }

    /// The word of a published claim; 0 for `NoSource`. The lowest byte is the reason, then follow
    /// the source and the number of its cause, and the cause's figure in the upper half.
    pub(crate) fn to_word(self) -> u64 {
        match self {
            // No claim says `NoThread`: a reader finds that out itself.
            Self::NoSource | Self::NoThread => 0,
            Self::Expired => 1,
            Self::Disrupted => 2,
            Self::LeapSecond => 3,
            Self::Unsynchronised(source, cause) => {
                let source = u64::from(source.number());
                let (number, figure) = cause.to_numbers();
                4 | source << 8 | u64::from(number) << 16 | u64::from(figure) << 32
            }
        }
    }

    /// The reason in a published claim. Folds to `NoSource` in a reading by the counter, which
    /// copies no such word.
    #[inline(always)]
    pub(crate) fn from_word(word: u64) -> Self {
        match word & 0xFF {
            1 => Self::Expired,
            2 => Self::Disrupted,
            3 => Self::LeapSecond,
            4 => Self::unsynchronised_from_word(word),
            _ => Self::NoSource,
        }
    }

    #[cold]
    fn unsynchronised_from_word(word: u64) -> Self {
        let [_, source, number, _, figure @ ..] = word.to_le_bytes();
        let source = UtcSource::from_number(source);
        let cause = Unbounded::from_numbers(number, u32::from_le_bytes(figure));
        match (source, cause) {
            (Some(source), Some(cause)) => Self::Unsynchronised(source, cause),
            _ => Self::NoSource,
        }
    }
}

impl fmt::Display for UtcUnknown {
    /// A text for people, without a full stop.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoSource => {
                "no source of UTC has answered: there is no clock-bound, chronyd, ptp4l or synchronised kernel, the \
                 thread has just been started, or the clock may not ask (`tickline doctor`)"
            }
            Self::Unsynchronised(source, cause) => {
                let (cause, remedy) = cause.words();
                return write!(f, "{source} does not bound UTC: {cause}; {remedy}");
            }
            Self::Expired => {
                "the last claim of the source of UTC has ended: a claim holds for at most 3.75 s or 2.5 intervals of the \
                 clock after its request, the longer of the two. Does the source still answer? (`tickline doctor`)"
            }
            Self::Disrupted => {
                "the clock was disrupted by a suspend, a move of the machine, a step or contradictory claims: wait \
                 for the source's next two measurements, at most 1024 s apart by an NTP daemon's defaults"
            }
            Self::LeapSecond => {
                "UTC may be within 2 s of a leap second, or ptp4l's grandmaster still announces the last one: wait \
                 until it is over by 2 s, and the source of UTC has measured again"
            }
            Self::NoThread => {
                "this process has no thread to ask the sources of UTC: it was forked, or the thread was killed; call \
                 Utc::start() again"
            }
        })
    }
}

impl std::error::Error for UtcUnknown {}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the reason that is declared after this one; `None` after the last one. A new
    /// reason does not compile without an arm.
    fn next_example(why: &UtcUnknown) -> Option<UtcUnknown> {
        match why {
            UtcUnknown::NoSource => Some(UtcUnknown::Unsynchronised(
                UtcSource::Kernel,
                Unbounded::KernelUnsynchronised,
            )),
            UtcUnknown::Unsynchronised(..) => Some(UtcUnknown::Expired),
            UtcUnknown::Expired => Some(UtcUnknown::Disrupted),
            UtcUnknown::Disrupted => Some(UtcUnknown::LeapSecond),
            UtcUnknown::LeapSecond => Some(UtcUnknown::NoThread),
            UtcUnknown::NoThread => None,
        }
    }

    #[test]
    fn each_reason_is_among_the_examples_in_the_order_of_declaration() {
        let walked = core::iter::successors(Some(UtcUnknown::NoSource), next_example);
        assert_eq!(walked.collect::<Vec<_>>(), UtcUnknown::EXAMPLES);
    }

    #[test]
    fn each_reason_of_a_claim_survives_its_word() {
        let by = |source, cause| UtcUnknown::Unsynchronised(source, cause);
        let with_figures = [
            by(
                UtcSource::ClockBound,
                Unbounded::ClockBoundStatus { status: u32::MAX },
            ),
            by(UtcSource::Chronyd, Unbounded::by_rate(-300_000_001)),
            by(UtcSource::Ptp4l, Unbounded::OtherClockClass { class: 255 }),
        ];
        let examples = UtcUnknown::EXAMPLES.iter().copied();
        let of_claims = examples.filter(|why| *why != UtcUnknown::NoThread);
        for why in of_claims.chain(with_figures) {
            assert_eq!(UtcUnknown::from_word(why.to_word()), why);
        }
    }

    /// Symptom: the text named five causes, and neither the one that held nor the source.
    #[test]
    fn the_text_of_an_unsynchronised_source_has_the_source_its_cause_and_a_remedy() {
        let why = UtcUnknown::Unsynchronised(UtcSource::Chronyd, Unbounded::FollowsNothing);
        assert_eq!(
            why.to_string(),
            "chronyd does not bound UTC: it follows no clock; `chronyc sources` shows which servers it reaches"
        );
    }
}
