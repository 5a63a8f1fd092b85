//! The orderings outside of core: a test named `ordering_...` must go red under Miri.
//!
//! ```sh
//! MIRIFLAGS=-Zmiri-many-seeds=0..64 cargo +nightly miri test -p tickline-tracing --lib ordering_
//! ```

use super::orderings::Weakening;

/// What is weaker and the text, for each ordering of a file that a test sees.
type Group = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const GROUPS: &[Group] = &[
    (
        "tickline-page/src/layout.rs",
        "ordering_a_header_is_that_of_one_claim",
        &[
            ("a header is there before its fields", "page.magic.store(MAGIC, Ordering::Release)"),
            ("a header is taken away behind its fields", "fence(Ordering::Release)"),
            (
                "fields are read before their header is there",
                "fence(Ordering::Acquire);\n        let [first, second] = &self.boot_id;",
            ),
        ],
    ),
    (
        "tickline-quanta/src/platform.rs",
        "ordering_a_number_comes_with_its_past",
        &[
            ("who sees a number does not see its past", "self.0.load(Ordering::Acquire)"),
            ("a number is stored before its past", "self.0.store(value, Ordering::Release)"),
            ("a mock clock is moved before its mover's past", "fetch_update(Ordering::Release, "),
        ],
    ),
    (
        "tickline-tracing/src/chrome/writer.rs",
        "ordering_a_request_comes_with_what_was_recorded",
        &[
            ("the writer is asked before the records are there", "fetch_add(1, Ordering::Release)"),
            ("what is done is seen before it", "self.done.load(Ordering::Acquire)"),
            ("the writer is to end before the last records are there", "fetch_or(FINISH, Ordering::Release)"),
            ("the writer does not see the records before a request", "self.asked.load(Ordering::Acquire)"),
            ("a request is done before it is carried out", "self.done.store(number, Ordering::Release)"),
        ],
    ),
    (
        "tickline-tracing/src/trace/ring.rs",
        "ordering_a_reader_finds_whole_records_at_any_time",
        &[
            ("words are overwritten before they are reserved", "fence(Ordering::Release)"),
            ("records are there before their words", "self.writer.head.store(end, Ordering::Release)"),
            ("who sees the end of the records does not see them", "self.writer.head.load(Ordering::Acquire)"),
            ("what was reserved is read before the words", "fence(Ordering::Acquire)"),
        ],
    ),
    (
        "tickline-tracing/src/trace/ring.rs",
        "ordering_the_last_record_is_there_before_its_threads_end",
        &[
            (
                "a thread has ended before its last records",
                "self.writer.ended.store(true, Ordering::Release)",
            ),
            (
                "who sees a thread's end does not see its last records",
                "self.writer.ended.load(Ordering::Acquire)",
            ),
        ],
    ),
    (
        "tickline-tracing/src/trace/ring.rs",
        "ordering_words_are_copied_before_they_are_overwritten",
        &[
            ("words are overwritten before they are seen to be taken", "self.taken.load(Ordering::Acquire)"),
            ("words are taken before they are copied", "self.taken.store(place, Ordering::Release)"),
        ],
    ),
    (
        "tickline-tracing/src/unix_offset.rs",
        "ordering_a_thread_that_sees_a_sample_sees_its_offset",
        &[
            ("an offset is read before its time", "self.found_ns.load(Ordering::Acquire)"),
            (
                "an offset has its time before it is there",
                "self.found_ns.store(monotonic_ns, Ordering::Release)",
            ),
        ],
    ),
    (
        "tickline/src/engine.rs",
        "ordering_a_threads_first_coarse_time_is_there_before_it",
        &[
            ("who sees the thread does not see its coarse time", "self.thread_token.load(Ordering::Acquire)"),
            (
                "the thread is there before its coarse time",
                "self.thread_token.store(sys::token(), Ordering::Release)",
            ),
        ],
    ),
    (
        "tickline/src/process_lock.rs",
        "ordering_nobody_sleeps_through_a_release",
        &[
            ("who sees a release counted finds the lock taken", "self.releases.load(Ordering::Acquire)"),
            ("a release is counted before it", "self.releases.fetch_add(1, Ordering::Release)"),
        ],
    ),
    (
        "tickline/src/trust/exchange.rs",
        "ordering_a_token_comes_with_its_givers_counter",
        &[
            ("a token is there before its giver's counter", "turn, Ordering::Release, "),
            ("the giver's counter is read before the token is there", "self.turn.load(Ordering::Acquire)"),
        ],
    ),
];

/// All of them, each with the only ordering that is weaker.
pub(crate) fn weakenings() -> impl Iterator<Item = Weakening> {
    GROUPS.iter().flat_map(|(file, test, texts)| {
        texts.iter().map(move |(does, text)| {
            let from = if text.contains("Ordering::Acquire") { "Acquire" } else { "Release" };
            Weakening { does, file, text, from, to: "Relaxed", model: test }
        })
    })
}
