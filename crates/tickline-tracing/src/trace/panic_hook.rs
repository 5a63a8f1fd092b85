//! A hook for what must be written when a thread panics.

/// Calls `call` when a thread panics, after the present panic hook has run.
pub(crate) fn after_panics(call: impl Fn() + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        call();
    }));
}
