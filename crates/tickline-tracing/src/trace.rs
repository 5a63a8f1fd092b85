//! Records of spans and events, for trace files and flight recorders.
//!
//! Each thread writes its records ([`record`]) to a [`ring`] of its own, without a lock. [`local`]
//! has the rest of a thread's state. A [`Recorder`](recorder::Recorder) knows the rings of all
//! threads. [`crate::chrome`] takes records out while the program runs; [`crate::flight`] copies
//! them on request, or reads what another process has left in a [`file`].

pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod json;
pub(crate) mod local;
pub(crate) mod memory;
pub(crate) mod record;
pub(crate) mod recorder;
pub(crate) mod ring;
mod thread;

/// Calls `call` when a thread panics, after the present panic hook has run.
pub(crate) fn after_panics(call: impl Fn() + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        call();
    }));
}
