//! Pairs of readings, around each iteration or around a batch: taken in slices and blocks, alone or
//! in turns with another build, and judged by what disturbed them.
//!
//! | file | does |
//! |---|---|
//! | `bencher.rs` | runs the routine between the readings |
//! | `collector.rs` | takes samples, slice by slice and block by block |
//! | `builds.rs` | takes slices in turns with another build of the benchmark |
//! | `monitor.rs`, `system_facts.rs` | read the facts about blocks and slices |
//! | `slice.rs`, `disturbance.rs`, `long_pairs.rs` | decide which pairs count |
//!
//! | word | meaning |
//! |---|---|
//! | pair | two readings, around one iteration or a batch; also the time between them |
//! | couple | a time of A and the time of B that was taken next to it |
//! | group | pairs that are counted or excluded together: one pair, or the two pairs of a couple |
//! | block | the groups of 50 us; one preemption disturbs all of them |
//! | slice | the blocks of 10 ms, or of one sample if the sample is shorter; steal, a frequency change or an event of the clock disturbs all of them |
//! | sample | a number of iterations for which criterion gets one time |
//! | round | one value of a comparison: a sample, or the couples of one sixtieth of the run |
//! | interleaving | two routines alternate by pairs, or two builds by slices; the driving build requests slices from the serving build |
//! | turn | a slice of one build, while the other build waits; "in turns", as printed and stored, means interleaved |
//! | disturbance | the reason why a pair does not count: a preemption, a move, an interrupt and others ([`disturbance`]) |
//! | noise | the gaps in a loop that only reads the counter: interrupts ([`noise_loop`](crate::backend::noise_loop)) |

pub(crate) mod bencher;
pub(crate) mod builds;
pub(crate) mod collector;
pub(crate) mod disturbance;
pub(crate) mod long_pairs;
pub(crate) mod monitor;
pub(crate) mod slice;
pub(crate) mod system_facts;
