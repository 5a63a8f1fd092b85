//! What readers find in a ring while its thread writes, and how a ring grows.

use proptest::collection::vec;
use proptest::test_runner::Config;
use proptest::{prop_assert, prop_assert_eq, proptest};

use super::*;
use crate::trace::rings::record::{MAX_PAYLOAD, Records};

fn push(ring: &Ring, ns: u64, text: &str, since_ns: u64) {
    let record = Record {
        kind: Kind::Instant,
        ns,
        callsite: 7,
        id: ns * 3,
        parent: 0,
        payload: text.as_bytes(),
    };
    if record.words() > ring.left() {
        ring.begin_block(ns, since_ns);
    }
    ring.push(&record);
}

/// Asserts that all records are whole. Returns their times, and how many came before them.
fn check(words: &[Word]) -> (Vec<u64>, u64) {
    let (mut times, mut before) = (Vec::new(), None);
    for record in Records::new(words, 0) {
        if record.kind == Kind::Block {
            before = before.or(Some(record.ns));
            continue;
        }
        assert_eq!(
            (record.kind, record.callsite, record.id),
            (Kind::Instant, 7, record.ns * 3)
        );
        assert_eq!(record.payload, text(record.ns).as_bytes());
        times.push(record.ns);
    }
    (times, before.unwrap_or(0))
}

/// A text of variable length; rarely, the longest one that fits.
fn text(number: u64) -> String {
    match number % 7_919 {
        0 => "x".repeat(MAX_PAYLOAD),
        _ => format!("{number};").repeat(index(number % 50)),
    }
}

/// While the thread writes, a reader finds only whole records, in order and without gaps, even
/// in a ring that grows in the middle. The ring keeps at least three of its blocks.
#[test]
fn ordering_a_reader_finds_whole_records_at_any_time() {
    let last = if cfg!(miri) { 30 } else { 400_000 };
    // The ring grows for the first records of each period, if it may.
    const PERIOD: u64 = if cfg!(miri) { 10 } else { 20_000 };
    let grows = |number| {
        if number % PERIOD < PERIOD / 10 {
            0
        } else {
            number - 1
        }
    };
    let since: [fn(u64) -> u64; 2] = [|_| 0, grows];
    for (blocks, since) in [4, 16].into_iter().zip(since) {
        let ring = Ring::new(index(BLOCK) * 8 * blocks).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (1..=last).for_each(|number| push(&ring, number, &text(number), since(number)));
                ring.end_thread();
            });
            loop {
                let has_ended = ring.has_ended();
                let (times, before) = check(&ring.snapshot());
                let end = before + times.len() as u64;
                assert!(times.into_iter().eq(before + 1..=end));
                if has_ended {
                    // At least three blocks are whole. Their records have 25 words on average.
                    assert!(
                        cfg!(miri) || (last - 3_000..last - 400).contains(&before),
                        "{before}"
                    );
                    break assert_eq!((end, ring.get(ControlWord::Records)), (last, last));
                }
            }
        });
    }
}

proptest! {
    #![proptest_config(Config::with_cases(100))]

    /// At every rate, and after every change of rate: young records are kept unless all blocks
    /// are used, and no more blocks are used than the young records need. Half of a block may
    /// stay empty.
    #[test]
    fn a_ring_grows_while_the_oldest_is_young(bursts in vec((1..500_u64, 0..20_u32), 1..20)) {
        const KEPT_NS: u64 = 100_000;
        let ring = Ring::new(index(BLOCK) * 8 * 16).unwrap();
        let (mut all, mut young, mut words, mut most) = (vec![0], 1, 0, 0);
        for (count, gap_log2) in bursts {
            for _ in 0..count {
                let now_ns = all[all.len() - 1] + (1 << gap_log2);
                all.push(now_ns);
                push(&ring, now_ns, &text(now_ns), now_ns.saturating_sub(KEPT_NS));
                words += text(now_ns).len() as u64 / 8 + 5;
                while all[young] + KEPT_NS < now_ns {
                    words -= text(all[young]).len() as u64 / 8 + 5;
                    young += 1;
                }
                most = words.max(most);
            }
            let ((times, before), used) = (check(&ring.snapshot()), ring.get(ControlWord::Used) / BLOCK);
            prop_assert_eq!(&times[..], &all[1 + index(before)..]);
            prop_assert!(index(before) < young || used == 16, "{before} {young} of {used}");
            prop_assert!(used <= 2 * most / BLOCK + 3, "{used} for {most}");
        }
    }
}

#[test]
fn ordering_words_are_copied_before_they_are_overwritten() {
    let (ring, copies) = (Ring::new(0).unwrap(), AtomicU64::new(0));
    for position in 1..=8 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // ORDERING: Relaxed, like the copy of a word.
                copies.store(position, Ordering::Relaxed);
                ring.set_taken(position);
            });
            while ring.taken() < position {
                std::thread::yield_now();
            }
            // ORDERING: Relaxed: `taken` must order this load after the reader's store.
            assert_eq!(copies.load(Ordering::Relaxed), position);
        });
    }
}

#[test]
fn a_ring_has_at_least_four_blocks() {
    assert_eq!(capacity(0), index(BLOCK) * 4);
}

/// A mask leads from a position to its word.
#[test]
fn a_ring_has_a_power_of_two_of_blocks() {
    assert_eq!(capacity(index(BLOCK) * 8 * 5), index(BLOCK) * 8);
}

#[test]
fn a_ring_has_at_most_a_quarter_of_the_address_space() {
    assert_eq!(capacity(usize::MAX) * 8, usize::MAX / 4 + 1);
}
