//! The kernel's messages of a suspend and of a resume.

/// Whether the kernel says that the machine has woken up.
pub(crate) fn is_resume(message: &str) -> bool {
    is_end(message) || is_waking(message)
}

/// Whether the kernel says that a suspend or a hibernation begins.
pub(crate) fn is_suspend(message: &str) -> bool {
    is_of(message, "entry")
}

/// Whether the kernel says that a suspend or a hibernation is over.
pub(crate) fn is_end(message: &str) -> bool {
    is_of(message, "exit")
}

/// Whether the kernel says that firmware has woken the machine, before its devices resume.
pub(crate) fn is_waking(message: &str) -> bool {
    message.contains("Waking up from system sleep state")
}

fn is_of(message: &str, part: &str) -> bool {
    let Some((_, text)) = message.split_once("PM: ") else {
        return false;
    };
    ["suspend ", "hibernation "]
        .iter()
        .any(|what| text.contains(&format!("{what}{part}")))
}
