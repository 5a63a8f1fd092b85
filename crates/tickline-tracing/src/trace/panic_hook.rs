//! A hook for what must be done when a thread panics.

use std::panic::PanicHookInfo;

/// Calls `first` when a thread panics, then the present panic hook, and then `last`.
pub(crate) fn around_panics(
    first: impl Fn(&PanicHookInfo<'_>) + Send + Sync + 'static,
    last: impl Fn() + Send + Sync + 'static,
) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        first(panic);
        before(panic);
        last();
    }));
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::Mutex;
    use std::thread;

    use super::around_panics;

    /// The calls of hooks on the thread of the test.
    static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    #[test]
    fn the_programs_panic_hook_is_called_between_both() {
        let this = thread::current().id();
        let add = move |name| {
            if thread::current().id() == this {
                CALLS.lock().unwrap().push(name);
            }
        };
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |_| add("the program's")));
        around_panics(move |_| add("first"), move || add("last"));
        let thrown = panic::catch_unwind(|| panic!("for the hooks"));
        panic::set_hook(before);
        assert!(thrown.is_err());
        assert_eq!(*CALLS.lock().unwrap(), ["first", "the program's", "last"]);
    }
}
