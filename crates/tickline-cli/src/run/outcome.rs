//! What came of the start in a program, in words.

use tickline_page::program::StartResult;

/// See the module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Start {
    Detail(StartResult),
    /// The library's result has no meaning here: it is of another version.
    Unknown(i32),
    Not64Bits,
    /// The program could not be given back its code, its registers or its blocked signals, for this
    /// reason. It must not go on.
    Unrestored(String),
}

impl Start {
    pub(super) fn from_number(number: i32) -> Self {
        StartResult::from_number(number).map_or(Self::Unknown(number), Self::Detail)
    }

    /// Why the program is not served; `None` if it is.
    pub(super) fn why_not(self) -> Option<String> {
        let result = match self {
            Self::Detail(result) => result,
            Self::Unknown(number) => return Some(format!("libtickline_preload.so says {number}")),
            Self::Not64Bits => return Some("it is not a 64-bit program".to_owned()),
            Self::Unrestored(why) => return Some(format!("what it had cannot be restored: {why}")),
        };
        let text = match result {
            StartResult::Served | StartResult::AlreadyServed => return None,
            StartResult::Fast => "the kernel's clock needs no system call here",
            StartResult::NoPage => "the page cannot be opened by the program",
            StartResult::NotTrusted => {
                "the program's user does not trust the page's owner, or others may write to it"
            }
            StartResult::OtherMachine => {
                "the page is of another boot, counter or time namespace, or the program's /proc does not tell which it has"
            }
            StartResult::CounterDenied => "the program may not read the counter (PR_SET_TSC)",
            StartResult::OldKernel => "the kernel does not know MADV_WIPEONFORK (Linux 4.14)",
            StartResult::NoVdso => "the kernel maps no vDSO that is understood",
            StartResult::VdsoReadOnly => {
                "the kernel does not let the vDSO be changed (mprotect: MemoryDenyWriteExecute=, execmem, seals)"
            }
            StartResult::NotAbsolute => "the page's path does not begin with /",
        };
        Some(text.to_owned())
    }
}
