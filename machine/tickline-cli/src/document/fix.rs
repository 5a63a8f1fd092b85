//! The fix for a finding, in words and as commands.

use serde::Serialize;

/// The fix for a finding.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Fix {
    /// The fix in words: the command, the kernel's parameter, the hypervisor's setting.
    #[serde(rename = "fix")]
    pub(crate) text: String,
    /// The fix as commands, step by step; null if an administrator must decide, or if the commands
    /// for another machine are unknown.
    pub(crate) steps: Option<Steps>,
    /// Whether there is no fix, and therefore no gain. The text then says why.
    #[serde(skip)]
    pub(crate) is_none: bool,
}

impl From<String> for Fix {
    fn from(text: String) -> Self {
        Self::new(text, None)
    }
}

impl From<&str> for Fix {
    fn from(text: &str) -> Self {
        Self::new(text, None)
    }
}

impl Fix {
    /// The fix in words, and as commands if they are known.
    pub(crate) fn new(text: impl Into<String>, steps: Option<Steps>) -> Self {
        Self {
            text: text.into(),
            steps,
            is_none: false,
        }
    }

    /// States that there is no fix, for this reason.
    pub(crate) fn none(why: &str) -> Self {
        Self {
            text: format!("none: {why}"),
            steps: None,
            is_none: true,
        }
    }

    /// The fix with another text and the same commands.
    pub(crate) fn reworded(self, words: impl FnOnce(&str) -> String) -> Self {
        Self {
            text: words(&self.text),
            ..self
        }
    }

    /// The parts of the text. A long text is split at its semicolons outside of brackets.
    pub(crate) fn parts(&self) -> Vec<String> {
        /// The length of a long text, bytes: three lines.
        const LONG: usize = 250;
        let mut brackets = 0_u32;
        let ends_part = |character| {
            match character {
                '(' => brackets += 1,
                ')' => brackets = brackets.saturating_sub(1),
                _ => {}
            }
            character == ';' && brackets == 0
        };
        let parts: Vec<&str> = self.text.split(ends_part).map(str::trim).collect();
        if self.text.len() < LONG || parts.len() == 1 {
            return vec![self.text.clone()];
        }
        (1..)
            .zip(parts)
            .map(|(number, part): (u32, _)| format!("{number}. {part}"))
            .collect()
    }
}

/// The machine on which the user runs the commands of a fix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum Place {
    /// On the machine that the finding is about.
    #[default]
    Here,
    /// On the host, below the hypervisor.
    Host,
}

/// The commands of a fix, for a POSIX shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Steps {
    /// The machine on which the user runs the commands: `here`, the machine itself, or `host`, the
    /// host of a guest.
    pub(crate) place: Place,
    /// The command that must succeed first; null if no check is necessary.
    pub(crate) check: Option<String>,
    /// The command that mends the fault until the next restart; null if only a restart mends it.
    pub(crate) now: Option<String>,
    /// The command that mends the fault from the next restart on; null if the kernel's command line
    /// has the parameter already.
    pub(crate) keep: Option<String>,
    /// The command that undoes `now` at once.
    pub(crate) undo: Option<String>,
    /// The command that undoes `keep`.
    pub(crate) undo_keep: Option<String>,
    /// The clocksource to which `now` switches. `doctor --fix` makes this switch itself.
    #[serde(skip)]
    pub(crate) clocksource: Option<String>,
}

impl Steps {
    /// The name and the command of each step.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let steps = [
            ("check", &self.check),
            ("now", &self.now),
            ("undo", &self.undo),
            ("keep", &self.keep),
            ("undo keep", &self.undo_keep),
        ];
        steps
            .into_iter()
            .filter_map(|(name, command)| Some((name, command.as_deref()?)))
    }
}
