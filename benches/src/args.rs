//! Reads arguments of the form `--name value`, without depending on a parser.

/// The value after `--name`, or `default`.
///
/// # Panics
///
/// If it is not a number.
#[must_use]
pub fn number(name: &str, default: u64) -> u64 {
    let Some(text) = text(name) else {
        return default;
    };
    text.parse()
        .unwrap_or_else(|_| panic!("--{name} {text} is not a whole number"))
}

/// The value after `--name`.
#[must_use]
pub fn text(name: &str) -> Option<String> {
    let flag = format!("--{name}");
    std::env::args()
        .skip_while(|argument| *argument != flag)
        .nth(1)
}
