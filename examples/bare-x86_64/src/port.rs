//! Devices at I/O ports: the serial line, and QEMU's exit device.

use core::arch::asm;
use core::fmt;

/// The first serial port (a 16550, "PC16550D" data sheet, National Semiconductor, 8.0).
const COM1: u16 = 0x3f8;
const LINE_STATUS: u16 = COM1 + 5;
const TRANSMITTER_EMPTY: u8 = 1 << 5;

/// The port of `-device isa-debug-exit,iobase=0xf4,iosize=4`. QEMU's exit code is twice the written
/// value plus one.
const DEBUG_EXIT: u16 = 0xf4;

/// The value for the exit device. QEMU itself uses neither exit code.
#[derive(Clone, Copy)]
pub enum End {
    /// Exit code 33.
    Passed = 16,
    /// Exit code 35.
    Failed = 17,
}

/// Ends QEMU; on a real machine, halts the CPU.
pub fn exit(end: End) -> ! {
    // SAFETY: only QEMU has a device at this port.
    unsafe { write(DEBUG_EXIT, end as u8) };
    loop {
        // SAFETY: `hlt` only waits; with interrupts off, for ever.
        unsafe { asm!("hlt", options(nomem, nostack)) };
    }
}

/// The serial line, as the firmware has set it up.
pub struct Serial;

impl fmt::Write for Serial {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            // SAFETY: a read of the status has no side effect.
            while unsafe { read(LINE_STATUS) } & TRANSMITTER_EMPTY == 0 {}
            // SAFETY: the write only sends one byte.
            unsafe { write(COM1, byte) };
        }
        Ok(())
    }
}

/// Prints a line.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use core::fmt::Write;
        writeln!($crate::port::Serial, $($text)*).ok();
    }};
}

/// # Safety
///
/// The effect of writing `value` to `port` must be harmless to the program.
unsafe fn write(port: u16, value: u8) {
    // SAFETY: harmless, as the caller promises.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// # Safety
///
/// The effect of reading `port` must be harmless to the program.
unsafe fn read(port: u16) -> u8 {
    let value;
    // SAFETY: harmless, as the caller promises.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) };
    value
}
