//! The start code: from the state in which a PVH loader starts a program (32-bit protected mode, no
//! paging; Xen `docs/misc/pvh.pandoc`) to Rust in 64-bit mode.
//!
//! AMD APM vol. 2, 14.6 "Enabling and Activating Long Mode" has the settings and their order. Pages
//! of 2 MiB map the first 4 GiB, which include the HPET, to themselves. Interrupts stay off,
//! because the program needs none, and has no table of handlers.

use core::arch::global_asm;

global_asm!(
    // The note by which a PVH loader (QEMU's -kernel) finds the entry: type 18,
    // XEN_ELFNOTE_PHYS32_ENTRY.
    ".section .note.pvh, \"a\", @note",
    ".balign 4",
    ".long 4, 8, 18",
    ".asciz \"Xen\"",
    ".quad start_32",
    //
    ".section .text.boot, \"ax\"",
    ".code32",
    ".global start_32",
    "start_32:",
    "cli",
    "cld",
    "mov esp, offset {stack} + {stack_bytes}",
    // The page tables: one at the top, one of 1 GiB entries, four of 2 MiB entries. The flags 3
    // mean present and writable; 0x83 also means a large page.
    "mov eax, offset {tables} + 0x1003",
    "mov [{tables}], eax",
    "mov eax, offset {tables} + 0x2003",
    "mov edi, offset {tables} + 0x1000",
    "2:",
    "mov [edi], eax",
    "add eax, 0x1000",
    "add edi, 8",
    "cmp edi, offset {tables} + 0x1020",
    "jne 2b",
    "mov eax, 0x83",
    "mov edi, offset {tables} + 0x2000",
    "3:",
    "mov [edi], eax",
    "add eax, 0x200000",
    "add edi, 8",
    "cmp edi, offset {tables} + 0x6000",
    "jne 3b",
    "mov eax, offset {tables}",
    "mov cr3, eax",
    // Enables physical address extension (CR4), long mode (EFER), and paging (CR0).
    "mov eax, cr4",
    "or eax, 1 << 5",
    "mov cr4, eax",
    "mov ecx, 0xc0000080",
    "rdmsr",
    "or eax, 1 << 8",
    "wrmsr",
    "mov eax, cr0",
    "or eax, 1 << 31",
    "mov cr0, eax",
    "lgdt [descriptors_pointer]",
    "push 8",
    "mov eax, offset start_64",
    "push eax",
    "retf",
    //
    ".code64",
    "start_64:",
    "xor eax, eax",
    "mov ds, eax",
    "mov es, eax",
    "mov ss, eax",
    "xor ebp, ebp",
    "call {main}",
    "ud2",
    //
    ".section .rodata.boot, \"a\"",
    ".balign 8",
    // A code segment of 64 bits: present, executable, readable.
    "descriptors:",
    ".quad 0, 0x00209a0000000000",
    "descriptors_pointer:",
    ".short 15",
    ".long descriptors",
    stack = sym STACK,
    stack_bytes = const STACK_BYTES,
    tables = sym TABLES,
    main = sym crate::main,
);

/// More than enough: the clock is static, and a control loop takes at most 4 KiB, as `control.rs`
/// of `tickline-core` asserts.
const STACK_BYTES: usize = 256 * 1024;

#[repr(C, align(4096))]
struct Pages<const BYTES: usize>([u8; BYTES]);

/// Only the processor and the start code use these pages.
static mut STACK: Pages<STACK_BYTES> = Pages([0; STACK_BYTES]);
static mut TABLES: Pages<0x6000> = Pages([0; 0x6000]);
