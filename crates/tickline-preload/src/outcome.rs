//! What came of the start.

/// `tickline run` knows the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Outcome {
    Served = 0,
    /// The vDSO's symbols lead to such a library already.
    AlreadyServed = 1,
    /// The kernel's own clock needs no system call.
    Fast = 2,
    NoPage = 3,
    NotTrusted = 4,
    /// The page is of another boot, another counter, or a time namespace that is not known.
    OtherMachine = 5,
    CounterDenied = 6,
    OldKernel = 7,
    /// There is no vDSO, or none that is understood. Libc's functions are served all the same, if
    /// they are interposed.
    NoVdso = 8,
    /// The vDSO cannot be changed.
    VdsoReadOnly = 9,
    NotAbsolute = 10,
}
