//! `tickline run`: gives a program and its children the clock of the machine's page.
//!
//! arguments -> the reasons why not (`launch`, `kind`) -> `LD_PRELOAD` -> if no dynamic linker
//! looks at that, a helper that traces the program's first step (`tracer`), and maps the library
//! into it (`inject`) -> the program in place of this process

mod image;
mod inject;
mod kind;
mod launch;
mod tracee;
mod tracer;

pub(crate) use launch::run;
