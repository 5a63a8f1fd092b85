//! A hook for what must be written when a thread panics.

/// Calls `call` when a thread panics, after the present panic hook has run.
pub(crate) fn after_panics(call: impl Fn() + Send + Sync + 'static) {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        before(panic);
        call();
    }));
}

#[cfg(test)]
mod tests {
    use std::panic;
    use std::sync::Mutex;
    use std::thread;

    use super::after_panics;

    /// The calls of hooks on the thread of the test.
    static CALLS: Mutex<Vec<&str>> = Mutex::new(Vec::new());

    #[test]
    fn the_programs_panic_hook_is_called_first() {
        let this = thread::current().id();
        let add = move |name| {
            if thread::current().id() == this {
                CALLS.lock().unwrap().push(name);
            }
        };
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |_| add("the program's")));
        after_panics(move || add("after"));
        let thrown = panic::catch_unwind(|| panic!("for the hooks"));
        panic::set_hook(before);
        assert!(thrown.is_err());
        assert_eq!(*CALLS.lock().unwrap(), ["the program's", "after"]);
    }
}
