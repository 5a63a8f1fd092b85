//! Other forms in which serde stores a [`UnixTime`](crate::UnixTime). Needs the feature `serde`.
//!
//! Without a choice, a time is a number of nanoseconds: exact in Rust, and 8 bytes in a binary
//! format. But times of today are above 2^53, the last number up to which JavaScript, `jq` and
//! other programs that keep numbers in an `f64` read JSON exactly. Such programs round a time to
//! 256 ns. For them, store a text ([`rfc3339`]), or [`as_micros`](crate::UnixTime::as_micros),
//! which stays below 2^53 until 2255.

/// A [`UnixTime`](crate::UnixTime) as a text of RFC 3339 in UTC, with nine digits. Deserialising
/// accepts what [`UnixTime`'s `FromStr`](crate::UnixTime#impl-FromStr-for-UnixTime) accepts, also
/// an offset.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use tickline::UnixTime;
///
/// #[derive(Serialize, Deserialize)]
/// struct Entry {
///     #[serde(with = "tickline::serde::rfc3339")]
///     written: UnixTime,
///     // Without `default`, a text that lacks the field is an error, as with any `with`.
///     #[serde(default, with = "tickline::serde::rfc3339::option")]
///     expires: Option<UnixTime>,
/// }
///
/// # fn main() -> Result<(), serde_json::Error> {
/// let text = r#"{"written":"2026-01-01T02:00:00+02:00"}"#;
/// let entry: Entry = serde_json::from_str(text)?;
/// assert_eq!(entry.written, UnixTime::from_secs(1_767_225_600));
/// assert_eq!(
///     serde_json::to_string(&entry)?,
///     r#"{"written":"2026-01-01T00:00:00.000000000Z","expires":null}"#
/// );
/// # Ok(())
/// # }
/// ```
pub mod rfc3339 {
    use core::fmt;

    use serde::de::{Deserialize, Deserializer, Error, Visitor};
    use serde::ser::{Serialize, Serializer};

    use crate::unix_time::UnixTime;

    /// Writes the text.
    ///
    /// # Errors
    ///
    /// The serializer's errors.
    pub fn serialize<S: Serializer>(time: &UnixTime, serializer: S) -> Result<S::Ok, S::Error> {
        Text(*time).serialize(serializer)
    }

    /// Reads the text.
    ///
    /// # Errors
    ///
    /// The deserializer's errors. One of them has the text of
    /// [`UnixTimeParseError`](crate::UnixTimeParseError).
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<UnixTime, D::Error> {
        Text::deserialize(deserializer).map(|text| text.0)
    }

    /// The same for an `Option<UnixTime>`: the text, or the format's `null`.
    pub mod option {
        use super::{Deserialize, Deserializer, Serialize, Serializer, Text, UnixTime};

        /// Writes the text, or none.
        ///
        /// # Errors
        ///
        /// The serializer's errors.
        pub fn serialize<S: Serializer>(
            time: &Option<UnixTime>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            time.map(Text).serialize(serializer)
        }

        /// Reads the text, or none.
        ///
        /// # Errors
        ///
        /// As [`rfc3339::deserialize`](super::deserialize).
        pub fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<UnixTime>, D::Error> {
            let text = Option::<Text>::deserialize(deserializer)?;
            Ok(text.map(|text| text.0))
        }
    }

    /// A time that serde stores as a text.
    struct Text(UnixTime);

    impl Serialize for Text {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_str(&self.0)
        }
    }

    impl<'de> Deserialize<'de> for Text {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_str(TextVisitor)
        }
    }

    struct TextVisitor;

    impl Visitor<'_> for TextVisitor {
        type Value = Text;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a text of RFC 3339")
        }

        fn visit_str<E: Error>(self, text: &str) -> Result<Text, E> {
            text.parse().map(Text).map_err(E::custom)
        }
    }
}
