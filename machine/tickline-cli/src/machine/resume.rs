//! The kernel's messages of a resume.

/// Whether the kernel says that the machine has woken up.
pub(crate) fn is_resume(message: &str) -> bool {
    let has = |part| message.contains(part);
    has("PM: suspend exit")
        || has("PM: ") && has("hibernation exit")
        || has("Waking up from system sleep state")
}
