//! The control loop and the publication protocol of [tickline](https://docs.rs/tickline), without
//! an operating system: no `std`, no allocation, no floating point, no dependency.
//!
//! The state of a clock is its line, `y = m*x + b`, in 128 bits ([`mod@state`]). On x86_64 and
//! aarch64 a reader gets `m` and `b` by one 16-byte load, and every change is one 128-bit
//! compare-and-swap. Nobody waits for a writer that has stopped: a reader that finds a replacement
//! announced gives the writer two microseconds, and then ends the old line itself.
//! [DESIGN.md](https://github.com/tickline/tickline/blob/main/DESIGN.md#the-state) shows the
//! layout, and says why this is safe.
//!
//! # A clock on bare metal
//!
//! A clock needs a counter, a slower clock of known rate, and a caller that runs an iteration from
//! time to time:
//!
//! ```
//! use core::cell::Cell;
//! use tickline_core::cell::LineCell;
//! use tickline_core::control::{Config, Control};
//! use tickline_core::counter::Counter;
//! use tickline_core::reference::{Reference, ReferenceKind, Resolutions};
//! use tickline_core::shared::SharedClock;
//!
//! /// 1 GHz, and each read takes 10 ns.
//! struct Machine(Cell<u64>);
//! impl Counter for Machine {
//!     fn now(&self) -> u64 { self.0.set(self.0.get() + 10); self.0.get() }
//!     fn barrier(&self) {}
//! }
//! impl Reference for Machine {
//!     fn monotonic_ns(&self) -> i64 { self.now() as i64 }
//!     fn unix_ns(&self) -> i64 { self.now() as i64 + 1_000_000 }
//! }
//!
//! let machine = Machine(Cell::new(5_000_000));
//! let clock = SharedClock::new(LineCell::new());
//! // The counter moves by 1 tick, the reference by 1 ns.
//! let resolutions = Resolutions::new(1, 1, ReferenceKind::Independent);
//! let mut control = Control::new(resolutions, Config::new(500_000_000));
//!
//! // The time, ns: by the counter if possible, else by the reference. It never decreases.
//! let now_ns = || clock.readings().now_ordered_ns(&machine, &machine);
//!
//! let mut due_ns = now_ns(); // by the reference: there is no line yet
//! # let (mut iterations, mut readings, mut last_ns) = (0, 0, due_ns);
//!
//! // The main loop, here for two seconds.
//! while now_ns() < 2_000_000_000 {
//!     // An iteration, when it is due. After the first line, which is short, the next is due at once.
//!     while now_ns() >= due_ns {
//!         let iteration = control.iterate(&clock, &machine, &machine);
//!         due_ns = now_ns() + iteration.next_in_ns as i64;
//! #         iterations += 1;
//!     }
//!     machine.0.set(machine.0.get() + 50_000); // other work
//! #   let ns = now_ns();
//! #   assert!(last_ns <= ns && ns.abs_diff(machine.0.get() as i64) < 200, "after {last_ns}");
//! #   last_ns = ns;
//! #   readings += u32::from(clock.readings().read_ordered_ns(&machine).is_some());
//! }
//! # assert!(iterations < 150 && readings > 39_800, "{iterations} iterations, {readings} readings by a line");
//! assert!(clock.readings().read_ns(&machine).is_some(), "the counter serves");
//!
//! // Without its driver the clock goes on: the line ends, and the reference serves.
//! machine.0.set(machine.0.get() + 10_000_000_000);
//! assert_eq!(clock.readings().read_ns(&machine), None);
//! assert!(now_ns().abs_diff(machine.0.get() as i64) < 200);
//! ```
//!
//! | bring | and see |
//! |---|---|
//! | a [`Counter`](counter::Counter) | [`counter`] states the contract. [`counter::Extended`] makes one of a register of fewer than 64 bits that wraps, such as SysTick's 24 |
//! | a [`Reference`](reference::Reference) | a slower clock whose rate is known: HPET, RTC, a timer on the crystal. [`Resolutions`](reference::Resolutions) states its resolution, and the counter's, which [`counter::resolution_ticks`] measures |
//! | a [`SharedClock`](shared::SharedClock) | static memory, valid from the start. Readers call [`now_ordered_ns`](shared::Readings::now_ordered_ns) of its [`readings`](shared::SharedClock::readings). [`read_ns`](shared::Readings::read_ns) is faster, and in order within one thread; where it returns `None`, call [`read_ordered_in_any_state`](shared::Readings::read_ordered_in_any_state) |
//! | a [`Control`](control::Control), and its driver | one caller of [`iterate`](control::Control::iterate), from the main loop or a timer's interrupt. The last [`Iteration`](control::Iteration) says when the next call is due. Several callers share it through a lock of your own |
//! | trust | [`gate::judge`] judges each gate by the known facts. No other code checks whether the counter keeps its rate |
//!
//! On targets without 64-bit atomics (thumbv7em), a clock is not [`Sync`]. Only one context of
//! execution uses it, or a critical section protects it. CI boots a whole program:
//! [`examples/bare-x86_64`](https://github.com/tickline/tickline/tree/main/examples/bare-x86_64).
//!
//! # Guarantees
//!
//! Take two times by any methods of a clock's [`Readings`](shared::Readings) except
//! [`read_ns`](shared::Readings::read_ns) and
//! [`read_unix_ns`](shared::Readings::read_unix_ns), on any threads, where one is complete
//! before the other begins. With synchronised counters the earlier one is never larger. This holds
//! across start-up, recalibration, fallback and the return to a line. Two things are *not*
//! promised. One is that the counters are synchronised: a gate decides that. The other is order
//! between threads for the two plain methods: the CPU may read its counter early.
//!
//! # The model
//!
//! A **line**, `ns = m * ticks + b`, turns the ticks of a fast counter of unknown rate into the
//! nanoseconds of a slow reference; the fast path uses it in a **window** of ticks. The control
//! loop takes samples of both clocks, and publishes the next line so that no reader sees time run
//! backwards. Without a line, readings come from the reference, but are never below the
//! **high-water mark**: the largest time that the last line may have returned.
//!
//! DESIGN.md lists [all parts](https://github.com/tickline/tickline/blob/main/DESIGN.md#the-parts),
//! and [the steps](https://github.com/tickline/tickline/blob/main/DESIGN.md#the-pipeline) from a
//! sample to the published line, each with its file.
//!
//! Figures without a processor, here and in the comments, are from an AMD EPYC, family 26, under
//! KVM.
//!
//! # Stability
//!
//! All public items follow semantic versioning. Each has one path: `tickline_core`, the module, the
//! item. The modules are for different programs:
//!
//! | for | modules |
//! |---|---|
//! | a clock on a machine of your own, as above | [`cell`], [`control`], [`counter`], [`reference`](mod@reference), [`shared`]; [`mod@line`] and [`units`] have the values |
//! | trust in the counter | [`gate`]; [`comparison`] compares the CPUs' counters, [`clocksource`] names what the kernel keeps time with |
//! | a clock with several drivers, a switch, and gates that are judged again, as [`tickline`](https://docs.rs/tickline) is | [`driver`], [`gate::keeper`]; [`try_lock`]: a lock that signal handlers and forked children may take |
//! | a line for each CPU, where the CPUs' counters differ | [`per_cpu`], [`counter::CpuCounter`] |
//! | a test or a simulator that observes the cell, a page that publishes the line | [`cell::StateCell`], [`state`] |
//!
//! The one macro, [`named!`](crate::named!), declares an enum whose values have stable codes, such
//! as [`gate::Reason`].
//!
//! What may come in a release that breaks nothing:
//!
//! - **Settings and results** may get fields and variants. They are `#[non_exhaustive]`; those that
//!   a program makes have a `new`, and their fields are public.
//! - **What a driver must handle in full** gets no variant: [`driver::Next`],
//!   [`keeper::Stage`](gate::keeper::Stage), [`keeper::LineKind`](gate::keeper::LineKind),
//!   [`per_cpu::Stay`], [`shared::ReadingSource`], [`state::Phase`], [`reference::Timescale`],
//!   [`clocksource::Acceptance`], [`comparison::Synchronisation`].
//! - **What a program fills in field by field** gets no field, such as [`line::Line`],
//!   [`cell::Bounds`], [`counter::CpuRead`] and [`gate::Cost`].
//! - **The traits** get no method without a default.
//! - **What [`named!`] declares** gets no further item.

#![cfg_attr(not(any(test, loom)), no_std)]
#![cfg_attr(
    not(test),
    deny(
        clippy::float_arithmetic,
        clippy::arithmetic_side_effects,
        clippy::indexing_slicing
    )
)]

pub mod cell;
pub mod clocksource;
pub mod comparison;
pub mod control;
pub mod counter;
mod discipline;
pub mod driver;
mod estimate;
pub mod gate;
pub mod line;
#[cfg(all(test, loom))]
mod loom_tests;
mod named;
pub mod per_cpu;
mod primitive;
#[cfg(all(test, not(any(miri, loom))))]
mod properties;
pub mod reference;
mod sample;
pub mod shared;
mod stability;
pub mod state;
#[cfg(test)]
mod testing;
pub mod try_lock;
pub mod units;
mod unix_track;

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
