//! The panic of a constructor of [`UnixTime`](super::UnixTime), with the value and the limit. A
//! `const` can't format numbers, so this module writes their digits.

/// Panics because `value` is above `limit`. Both are in `unit`.
#[cold]
#[track_caller]
pub(super) const fn panic_too_late(value: u64, limit: u64, unit: &str) -> ! {
    let text = Text::EMPTY
        .with("a Unix time of ")
        .with_number(value)
        .with(unit)
        .with(" is beyond the limit of ")
        .with_number(limit)
        .with(unit)
        .with("; UnixTime::UNIX_EPOCH.checked_add() returns None instead");
    panic!("{}", text.as_str())
}

/// A text that a `const` can write.
#[derive(Clone, Copy)]
struct Text {
    bytes: [u8; 160],
    length: usize,
}

impl Text {
    const EMPTY: Self = Self {
        bytes: [0; 160],
        length: 0,
    };

    const fn with_byte(mut self, byte: u8) -> Self {
        self.bytes[self.length] = byte;
        self.length += 1;
        self
    }

    const fn with(mut self, text: &str) -> Self {
        let mut rest = text.as_bytes();
        while let [byte, others @ ..] = rest {
            self = self.with_byte(*byte);
            rest = others;
        }
        self
    }

    const fn with_number(mut self, number: u64) -> Self {
        if number >= 10 {
            self = self.with_number(number / 10);
        }
        self.with_byte(b'0' + (number % 10) as u8)
    }

    const fn as_str(&self) -> &str {
        match core::str::from_utf8(self.bytes.split_at(self.length).0) {
            Ok(text) => text,
            Err(_) => "a Unix time beyond the limit",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_text_has_room() {
        let panic = std::panic::catch_unwind(|| panic_too_late(u64::MAX, u64::MAX, " us"));
        let text = panic.unwrap_err().downcast::<String>().unwrap();
        assert_eq!(
            *text,
            "a Unix time of 18446744073709551615 us is beyond the limit of 18446744073709551615 us; \
             UnixTime::UNIX_EPOCH.checked_add() returns None instead"
        );
    }
}
