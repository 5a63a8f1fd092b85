use std::sync::Barrier;
use std::thread;

use super::*;
use crate::histogram::{Histograms, Key, Measure};

/// How many spans are counted, by value.
fn counted(shards: &Shards) -> Vec<(String, u64)> {
    let mut all = Vec::new();
    shards.for_each(|subject, counts| {
        let Subject::Value(value) = subject else { panic!("no callsite was recorded") };
        all.push((value.to_owned(), counts.all().map(|(_, count)| count).sum()));
    });
    all.sort();
    all
}

fn total(shards: &Shards) -> u64 {
    counted(shards).iter().map(|(_, count)| count).sum()
}

fn record(shards: &Arc<Shards>, value: &str, times: u64) {
    (0..times).for_each(|ns| shards.record(Subject::Value(value), ns));
}

#[test]
fn the_next_thread_goes_on_with_the_counts_of_one_that_has_ended() {
    let shards = Shards::new();
    for _ in 0..20 {
        thread::scope(|scope| _ = scope.spawn(|| record(&shards, "a", 100)));
        // `scope` waits for the closure. The memory of the thread may be there a little longer.
        thread::spawn(|| ()).join().unwrap();
    }
    assert_eq!(total(&shards), 2_000);
    let join = || {
        thread::spawn({
            let shards = Arc::clone(&shards);
            move || record(&shards, "b", 50)
        })
        .join()
    };
    join().unwrap();
    let threads = shards.all().len();
    (0..20).for_each(|_| join().unwrap());
    assert_eq!(shards.all().len(), threads, "a thread that was joined has given its counts back");
    assert_eq!(total(&shards), 2_000 + 21 * 50);
}

/// Each thread has counts of its own while it runs.
#[test]
fn threads_that_run_at_the_same_time_share_no_counts() {
    let shards = Shards::new();
    let (threads, spans) = if cfg!(miri) { (3, 30) } else { (8, 200_000) };
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                record(&shards, "a", 1);
                barrier.wait();
                record(&shards, "a", spans);
                record(&shards, "b", spans);
                barrier.wait();
            });
        }
    });
    let expected = threads as u64 * spans;
    assert_eq!(total(&shards), 2 * expected + threads as u64);
    assert_eq!(counted(&shards).iter().filter(|(value, _)| value == "b").count(), threads);
}

/// After a reset exactly those spans count that end later, also on threads that recorded before.
#[test]
fn a_reset_forgets_what_ended_before_and_nothing_else() {
    let shards = Shards::new();
    let (rounds, spans) = if cfg!(miri) { (3, 20) } else { (200, 1_000) };
    let barrier = Barrier::new(2);
    let mut found = Vec::new();
    thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..rounds {
                record(&shards, "a", spans);
                record(&shards, &round.to_string(), 1);
                barrier.wait();
                barrier.wait();
                record(&shards, "a", spans);
                barrier.wait();
                barrier.wait();
            }
        });
        for _ in 0..rounds {
            // Meanwhile the other thread records.
            shards.reset();
            let during = total(&shards);
            barrier.wait();
            shards.reset();
            let after = total(&shards);
            barrier.wait();
            let during_next = total(&shards);
            barrier.wait();
            found.push((during, after, during_next, counted(&shards)));
            barrier.wait();
        }
    });
    // Not before: a panic in between would leave the other thread waiting.
    for (round, (during, after, during_next, at_end)) in found.into_iter().enumerate() {
        assert!(during <= 2 * spans + 1 && during_next <= spans, "{during}, {during_next} in {round}");
        assert_eq!((after, at_end), (0, vec![("a".to_owned(), spans)]), "round {round}");
    }
}

/// Resets do not use up the values that a thread may know.
#[test]
fn values_count_for_themselves_again_after_a_reset() {
    let shards = Shards::new();
    for round in 0..3_u64 {
        (0..1_200).for_each(|value| record(&shards, &format!("{round} {value}"), 1));
        let all = counted(&shards);
        assert_eq!((all.len(), &all[0]), (1_001, &("(other)".to_owned(), 200)));
        let known = || {
            LOCALS.with_borrow(|locals| {
                locals.iter().any(|local| {
                    local.number == shards.number
                        && local.known.get(Subject::Value(&format!("{round} 7"))).is_some()
                })
            })
        };
        assert!(known(), "round {round}");
        shards.reset();
    }
}

/// The span of an allocator that is called with a lock held.
#[test]
fn a_span_that_ends_inside_counts_afterwards() {
    let shards = Shards::new();
    record(&shards, "known", 1);
    {
        let _outer = Inside::enter();
        let _held = lock(&shards.all);
        let _inner = Inside::enter();
        record(&shards, "known", 10);
        record(&shards, "new", 10);
        LOCALS.with_borrow_mut(|_| record(&shards, "known", 5));
    }
    assert_eq!(counted(&shards), [("known".to_owned(), 16), ("new".to_owned(), 10)]);
    assert!(take_pending().is_empty());
}

/// Thread-local memory is gone in some of a thread's destructors.
#[test]
fn a_span_that_ends_while_its_thread_does_counts_too() {
    struct AtEnd(Arc<Shards>);

    impl Drop for AtEnd {
        fn drop(&mut self) {
            record(&self.0, "late", 30);
        }
    }

    thread_local! {
        static FIRST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
        static LAST: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
    }
    let shards = Shards::new();
    let run = |shards: &Arc<Shards>| {
        // One is dropped before `LOCALS`, and one after, in whatever order that is.
        FIRST.set(Some(AtEnd(Arc::clone(shards))));
        record(shards, "early", 1);
        LAST.set(Some(AtEnd(Arc::clone(shards))));
    };
    for _ in 0..3 {
        let shards = Arc::clone(&shards);
        thread::spawn(move || run(&shards)).join().unwrap();
    }
    assert_eq!(total(&shards), 3 * 61);
    let late = lock(&shards.late.shared).known.get(Subject::Value("late")).map(|counts| counts.all().count());
    assert_eq!(late, Some(30), "30 values");
}

/// A thread makes counts before it counts its first span.
#[test]
fn what_has_no_span_yet_is_not_shown() {
    let histograms = Histograms::by(Key::Field("route"), Measure::Total);
    lock(&histograms.0.shards.late.shared).known.get_or_insert(Subject::Value("new"));
    assert!(histograms.get("new").is_none() && histograms.summaries().is_empty());
}
