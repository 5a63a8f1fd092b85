//! What a finding's code means, at more length than the finding says it. `tickline explain CODE`
//! shows it, and `explain.md` has all of them.

/// The code of a finding. Each file of rules has an enumeration of its codes, and a code without an
/// explanation does not compile.
pub(crate) trait Explained {
    fn explanation(&self) -> Explanation;
}

/// The explanation of a code. A paragraph has no line ends: the code that shows it wraps it.
#[derive(Debug)]
pub(crate) struct Explanation {
    pub(crate) code: &'static str,
    /// The first sentence. It ends with the severity, in brackets.
    pub(crate) summary: &'static str,
    /// The rest of the first paragraph.
    pub(crate) text: &'static str,
    /// What follows the first paragraph.
    pub(crate) more: &'static [Block],
}

/// A paragraph, or commands in lines of their own.
#[derive(Debug)]
pub(crate) enum Block {
    Prose(&'static str),
    /// A command is not wrapped, so that users can copy it.
    Commands(&'static [&'static str]),
}

impl Explanation {
    /// The first paragraph.
    pub(crate) fn first(&self) -> String {
        format!("{} {}", self.summary, self.text)
    }
}
