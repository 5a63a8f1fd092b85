//! Pairs of readings, around each iteration or around a batch: taken in slices and blocks, alone or
//! in turns with another build, and judged by what disturbed them.
//!
//! | file | does |
//! |---|---|
//! | `bencher.rs` | runs the routine between the readings |
//! | `collector.rs` | takes samples, slice by slice and block by block |
//! | `builds.rs`, `serving.rs` | take slices of two builds of the benchmark in turns: the process that drives, and those that serve |
//! | `builds/` | the names of a program's benchmarks; a process that serves, as the driving one sees it |
//! | `placement.rs` | shifts heap and stack |
//! | `program_copy.rs` | a copy of a program, which has other pages of memory |
//! | `monitor.rs`, `system_facts.rs` | read the facts about blocks and slices |
//! | `slice.rs`, `disturbance.rs`, `long_pairs.rs` | decide which pairs count |
//!
//! | word | meaning |
//! |---|---|
//! | pair | two readings, around one iteration or a batch; also the time between them |
//! | couple | a time of A and the time of B that was taken next to it |
//! | bundle | what is counted or excluded as one: a pair if one routine is measured, a couple if two are |
//! | block | the bundles of 50 us; one preemption disturbs all of them |
//! | slice | the blocks of 10 ms, or of one sample if the sample is shorter; steal, a frequency change or an event of the clock disturbs all of them |
//! | sample | a number of iterations for which criterion gets one time |
//! | stretch | couples that were taken one after the other, with one placement: a slice of each build, or a part of a sample |
//! | round | one stretch or more of one placement, with one median for A and one for B |
//! | layout | one order in which a build was linked: one place for each of its functions |
//! | pair of processes | one process of each build: the two take turns |
//! | replicate | all rounds with one placement of code, heap and stack: those of a pair of processes, or of a copy of the routines' code; with several layouts, those of all processes of a layout |
//! | turn | a slice of one build, or a pair of one routine, while the other waits; the process that drives requests slices from those that serve |
//! | disturbance | the reason why a pair does not count: a preemption, a move, an interrupt and others ([`disturbance`]) |
//! | noise | the gaps in a loop that only reads the counter: interrupts ([`noise_loop`](crate::measurement::noise_loop)) |

pub(crate) mod bencher;
pub(crate) mod builds;
pub(crate) mod collector;
pub(crate) mod disturbance;
pub(crate) mod long_pairs;
pub(crate) mod monitor;
pub(crate) mod placement;
mod program_copy;
pub(crate) mod serving;
pub(crate) mod slice;
pub(crate) mod system_facts;
