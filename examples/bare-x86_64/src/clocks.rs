//! This machine's counter and reference, which are all that `tickline-core` needs.
//!
//! | reference | resolution | reason for or against it |
//! |---|---|---|
//! | **HPET** | 10 ns in QEMU, at most 100 | states its exact period, has 64 bits, needs no interrupt |
//! | PIT | 838 ns | wraps after 55 ms, and each read is three port accesses |
//! | local APIC timer | some ns | its frequency is unknown, so it would have to be calibrated first |
//! | RTC | 1 s | a finer resolution needs interrupts |

use core::ptr;

use tickline_core::counter::HardwareCounter;
use tickline_core::reference::Reference;

/// The time-stamp counter. For another processor, implement
/// [`Counter`](tickline_core::counter::Counter), by the contract of that module.
pub const TSC: HardwareCounter =
    HardwareCounter::if_present().expect("every x86_64 processor has one");

/// The high precision event timer (IA-PC HPET Specification 1.0a, 2.3). This code accesses its
/// registers as words of 32 bits.
pub struct Hpet {
    base: *mut u32,
    /// The period of the timer's counter, fs.
    period_fs: u32,
}

/// The address of the HPET in PC chipsets. (The ACPI table in 3.2.4 of the specification states the
/// machine's own address.)
const BASE: usize = 0xfed0_0000;
/// The capabilities: bit 13 of the low word (64 bits), and the period in the high word.
const CAPABILITIES: usize = 0;
const HAS_64_BITS: u32 = 1 << 13;
const PERIOD: usize = 1;
/// The configuration. Bit 0 lets the counter run.
const CONFIGURATION: usize = 4;
const RUN: u32 = 1;
/// The counter: the low word and the high word.
const LOW: usize = 60;
const HIGH: usize = 61;

/// The longest period that the specification allows, fs (2.3.4).
const MAX_PERIOD_FS: u32 = 100_000_000;
const FS_PER_NS: u64 = 1_000_000;

impl Hpet {
    /// Starts the timer; `None` without a timer of 64 bits.
    ///
    /// # Safety
    ///
    /// The registers must be mapped, and no other code may use them.
    pub unsafe fn start() -> Option<Self> {
        let mut hpet = Self {
            base: ptr::with_exposed_provenance_mut(BASE),
            period_fs: 0,
        };
        hpet.period_fs = hpet.read(PERIOD);
        // Without a timer all bits read as ones, or as zeros.
        let usable = (1..=MAX_PERIOD_FS).contains(&hpet.period_fs);
        if !usable || hpet.read(CAPABILITIES) & HAS_64_BITS == 0 {
            return None;
        }
        let configuration = hpet.read(CONFIGURATION) | RUN;
        // SAFETY: the registers are mapped, as the caller promises.
        let register = unsafe { hpet.base.add(CONFIGURATION) };
        // SAFETY: the register is mapped. The bit only starts the counter: no timer is set up, so
        // none raises an interrupt.
        unsafe { register.write_volatile(configuration) };
        Some(hpet)
    }

    fn read(&self, register: usize) -> u32 {
        // SAFETY: the registers are mapped, as the caller of `start` promises.
        let register = unsafe { self.base.add(register) };
        // SAFETY: the register is mapped, and a read has no side effect.
        unsafe { register.read_volatile() }
    }

    /// The resolution of this reference, ns, rounded up.
    pub fn resolution_ns(&self) -> i64 {
        u64::from(self.period_fs).div_ceil(FS_PER_NS).cast_signed()
    }

    /// The timer's counter. The two words are from the same value if the high word is the same
    /// before and after the read of the low word.
    fn count(&self) -> u64 {
        loop {
            let high = self.read(HIGH);
            let low = self.read(LOW);
            if self.read(HIGH) == high {
                return u64::from(high) << 32 | u64::from(low);
            }
        }
    }
}

impl Reference for Hpet {
    fn monotonic_ns(&self) -> i64 {
        // BOUND: this is count * period_fs / FS_PER_NS, exactly. The remainder is below 1e6, so its
        // product is below 1e14. A division of 128 bits would take longer than the read.
        let (count, period_fs) = (self.count(), u64::from(self.period_fs));
        let ns = count / FS_PER_NS * period_fs + count % FS_PER_NS * period_fs / FS_PER_NS;
        ns.cast_signed()
    }

    /// This machine does not know the date, so its Unix time begins at power-on.
    fn unix_ns(&self) -> i64 {
        self.monotonic_ns()
    }
}
