//! What came of the start in a program, as `tickline-preload` (`outcome.rs`) numbers it.

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Served,
    AlreadyServed,
    Fast,
    NoPage,
    NotTrusted,
    OtherMachine,
    CounterDenied,
    OldKernel,
    NoVdso,
    VdsoReadOnly,
    NotAbsolute,
    Not64Bits,
    Unknown(u64),
}

impl Outcome {
    pub(super) const fn from_number(number: u64) -> Self {
        match number {
            0 => Self::Served,
            1 => Self::AlreadyServed,
            2 => Self::Fast,
            3 => Self::NoPage,
            4 => Self::NotTrusted,
            5 => Self::OtherMachine,
            6 => Self::CounterDenied,
            7 => Self::OldKernel,
            8 => Self::NoVdso,
            9 => Self::VdsoReadOnly,
            10 => Self::NotAbsolute,
            other => Self::Unknown(other),
        }
    }

    /// Why the program has the kernel's clock; `None` if it is served.
    pub(super) fn why_not(self) -> Option<String> {
        let text = match self {
            Self::Served | Self::AlreadyServed => return None,
            Self::Fast => "the kernel's clock needs no system call here",
            Self::NoPage => "the page cannot be opened by the program",
            Self::NotTrusted => {
                "the program's user does not trust the page's owner, or others may write to it"
            }
            Self::OtherMachine => "the page is of another boot, counter or time namespace",
            Self::CounterDenied => "the program may not read the counter (PR_SET_TSC)",
            Self::OldKernel => "the kernel does not know MADV_WIPEONFORK (Linux 4.14)",
            Self::NoVdso => {
                "the kernel maps no vDSO that is understood; functions of a shared libc are served"
            }
            Self::VdsoReadOnly => {
                "the kernel does not let the vDSO be changed; functions of a shared libc are served"
            }
            Self::NotAbsolute => "the page's path does not begin with /",
            Self::Not64Bits => "it is no program of 64 bits",
            Self::Unknown(number) => return Some(format!("libtickline_preload.so says {number}")),
        };
        Some(text.to_owned())
    }
}
