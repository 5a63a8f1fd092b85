//! The file of a flight recorder: its owner, its content, and invalid files. `tests/crash/` tests
//! the file after each kind of end of a process.
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Barrier, OnceLock};
use std::thread;
use std::time::Duration;

use crate::common::{MockHand, on_thread, run_timed, spawn};
use proptest::prelude::{any, prop_assert};
use proptest::test_runner::Config;
use proptest::{collection, proptest};
use serde_json::Value;
use tempfile::tempdir;
use tickline_tracing::flight::{self, FlightRecorder};
use tickline_tracing::trace_file::{TraceFormat, TraceSummary, Tracks};
use tracing::{Span, info, info_span};

fn converted(bytes: &[u8]) -> io::Result<(TraceSummary, Vec<Value>)> {
    let mut trace = Vec::new();
    let summary = flight::convert(bytes, &mut trace, TraceFormat::Json)?;
    Ok((
        summary,
        serde_json::from_slice(&trace).expect("a trace is JSON, whatever the file is"),
    ))
}

pub fn create(path: &Path, threads: usize) -> io::Result<FlightRecorder> {
    FlightRecorder::builder()
        .bytes_per_thread(1)
        .in_file(path)
        .threads(threads)
        .build()
}

#[test]
fn a_file_has_a_head_and_a_ring_for_each_thread_and_for_names() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    for threads in [1, 3] {
        let _recorder = create(&path, threads).unwrap();
        assert_eq!(
            fs::metadata(&path).unwrap().len(),
            4_096 + (threads as u64 + 1) * (256 + (1 << 17))
        );
    }
}

/// The file has what a program traces, secrets as well.
#[cfg(unix)]
#[test]
fn only_the_owner_may_read_the_recorders_file() {
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let _recorder = create(&path, 1).unwrap();
    let mode = fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_is_not_of_a_recorder_stays() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    for text in ["a text", "a longer text", "ticklfs3, and more"] {
        fs::write(&path, text).unwrap();
        let error = create(&path, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}

#[test]
fn a_file_that_another_recorder_uses_stays() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let _first = create(&path, 1).unwrap();
    let error = create(&path, 1).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

/// Asserts that a file that stays at the recorder's path is an error with this reason, and with
/// what to do.
fn assert_way_out(path: &Path, reason: &str) {
    let remedy = "choose another path, such as one with the time of the start";
    let error = create(path, 1).unwrap_err();
    assert_eq!(error.to_string(), format!("{path:?}: {reason}: {remedy}"));
}

/// Symptom: in a rolling restart the new process only learned that another recorder writes to it.
#[test]
fn the_error_of_a_file_that_another_recorder_uses_says_what_to_do() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let _first = create(&path, 1).unwrap();
    assert_way_out(&path, "another recorder writes to it");
}

#[test]
fn the_error_of_a_file_that_is_not_a_recorders_says_what_to_do() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    fs::write(&path, "a text of the user").unwrap();
    assert_way_out(&path, "it is not a recorder's file, so it stays");
}

/// Symptom: such a file was made, and had no record of any thread.
#[test]
fn a_file_without_a_ring_for_a_thread_is_an_error() {
    let folder = tempdir().unwrap();
    let builder = FlightRecorder::builder().in_file(folder.path().join("box"));
    let error = builder.threads(0).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    assert!(error.to_string().contains("0 threads: "), "{error}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Symptom: a recorder with a million large rings wrote zeros until the disk was full.
#[test]
fn rings_of_more_than_the_largest_file_are_an_error() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    for (threads, bytes) in [(1_000_000, 1 << 30), (usize::MAX, 1), (4, 16 << 30)] {
        let builder = FlightRecorder::builder().bytes_per_thread(bytes);
        let error = builder.in_file(&path).threads(threads).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let text = format!(
            "{path:?}: rings of {bytes} bytes for {threads} threads take more than 68719476736 bytes (64 \
             GiB), the limit of a recorder's file; choose fewer threads() or a smaller \
             bytes_per_thread()"
        );
        assert_eq!(error.to_string(), text);
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Symptom: a thread for which such a file had no ring asked the system for as much, in vain. This
/// file would be too large, too, so that no disk is filled if the ring is not refused.
#[test]
#[cfg(target_pointer_width = "64")]
fn a_ring_in_a_file_has_the_limit_of_one_in_memory() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let builder = FlightRecorder::builder().bytes_per_thread(32 << 30);
    let error = builder.in_file(&path).threads(2).build().unwrap_err();
    let expected = format!(
        "{path:?}: rings of 34359738368 bytes for each thread: the limit is 17179869184 bytes (16 \
         GiB); choose a smaller bytes_per_thread()"
    );
    assert_eq!(error.to_string(), expected);
}

#[test]
fn the_file_of_an_ended_recorder_is_kept_beside_the_new_one() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    drop(create(&path, 1).unwrap());
    let len = fs::metadata(&path).unwrap().len();
    let _second = create(&path, 2).unwrap();
    assert_eq!(fs::metadata(path.with_extension("old")).unwrap().len(), len);
    assert!(fs::metadata(&path).unwrap().len() > len);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

/// Symptom: after an update of the program, no recorder could be created.
#[test]
fn a_recorders_file_of_another_version_is_kept_too() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    drop(create(&path, 1).unwrap());
    let mut older = fs::read(&path).unwrap();
    let version = if cfg!(target_endian = "little") { 7 } else { 0 };
    older[version] = b'1';
    fs::write(&path, &older).unwrap();
    let _recorder = create(&path, 1).unwrap();
    assert!(fs::read(path.with_extension("old")).unwrap() == older);
}

/// Symptom: of two recorders created at once, one recorded into a file without a name.
#[test]
fn one_of_two_concurrent_recorders_gets_the_file() {
    let folder = tempdir().unwrap();
    for round in 0..8 {
        let (path, ready) = (folder.path().join(round.to_string()), Barrier::new(2));
        let create_at_once = || {
            ready.wait();
            create(&path, 8)
        };
        let both = thread::scope(|scope| {
            [(); 2]
                .map(|()| scope.spawn(create_at_once))
                .map(|run| run.join().unwrap())
        });
        assert_eq!(
            both.iter().filter(|created| created.is_ok()).count(),
            1,
            "{both:?}"
        );
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 8);
}

/// Leaves a file of twelve rings, whose recorder was dropped. This thread still has a ring, and
/// eleven threads have ended.
fn record_and_drop(path: &Path) {
    let recorder = create(path, 12).unwrap();
    run_timed(recorder, || {
        (0..11).for_each(|_| on_thread(|| drop(info_span!("there").entered())));
        drop(info_span!("here").entered());
    });
}

/// A panic that unwinds `main` drops the recorder. Symptoms: the file was empty. Rings in the file
/// were removed like rings in memory, although no thread needed them.
#[test]
fn the_records_outlive_the_recorder() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    record_and_drop(&path);
    assert_eq!(content(&path).0.intervals, 12);
}

/// Symptom: no later recorder could use the file, because this thread still had its ring.
#[test]
fn a_later_recorder_may_use_the_file_of_a_dropped_one() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    record_and_drop(&path);
    create(&path, 2).unwrap();
}

/// Calls `run` with a file of two rings, which are both taken: this thread has an open request, and
/// another thread has ended after an event.
fn run_with_two_taken_rings(run: impl FnOnce(&Path, Span)) {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let builder = FlightRecorder::builder()
        .bytes_per_thread(1)
        .tracks(Tracks::Requests);
    let recorder = builder.in_file(&path).threads(2).build().unwrap();
    run_timed(recorder, || {
        let request = info_span!(parent: None, "request");
        on_thread(|| info!("one"));
        run(&path, request);
    });
}

pub fn content(path: &Path) -> (TraceSummary, Vec<Value>) {
    converted(&fs::read(path).unwrap()).unwrap()
}

/// The numbers of open and of undecided spans.
fn without_end(path: &Path) -> [u64; 2] {
    let summary = content(path).0;
    [summary.unended_intervals, summary.undecided_spans]
}

#[test]
fn a_file_is_complete_while_the_process_runs() {
    run_with_two_taken_rings(|path, _request| {
        assert_eq!(without_end(path), [1, 0]);
        assert_eq!(content(path).0.events, 1);
    });
}

#[test]
fn a_file_has_the_name_of_a_thread_that_has_ended() {
    run_with_two_taken_rings(|path, _request| {
        let mut events = content(path).1.into_iter();
        assert!(events.any(|event| event["args"]["name"] == "a thread"));
    });
}

#[test]
fn a_new_thread_takes_the_ring_of_an_ended_one() {
    run_with_two_taken_rings(|path, _request| {
        on_thread(|| info!("two"));
        let (summary, events) = content(path);
        assert_eq!(summary.events, 1);
        assert!(events.iter().any(|event| event["name"] == "two"));
    });
}

#[test]
fn the_records_that_a_reused_ring_had_are_counted() {
    run_with_two_taken_rings(|path, _request| {
        on_thread(|| info!("two"));
        assert_eq!(content(path).0.overwritten_records, 1);
    });
}

#[test]
fn a_request_whose_end_may_have_been_in_a_reused_ring_is_undecided() {
    run_with_two_taken_rings(|path, _request| {
        on_thread(|| info!("two"));
        assert_eq!(without_end(path), [0, 1]);
    });
}

#[test]
fn a_request_whose_end_is_in_the_file_is_decided() {
    run_with_two_taken_rings(|path, request| {
        on_thread(|| info!("two"));
        drop(request);
        assert_eq!(without_end(path), [0, 0]);
        assert_eq!(content(path).0.intervals, 1);
    });
}

/// Calls `run` with the content of a file of two rings after three threads have recorded an event:
/// the second took the ring of the first, and the third, where the request ended, got none.
fn run_with_a_thread_without_a_ring(run: impl FnOnce(TraceSummary, Vec<Value>)) {
    run_with_two_taken_rings(|path, request| {
        on_thread(|| {
            info!("two");
            let later = info_span!(parent: None, "later");
            on_thread(|| {
                info!("three");
                drop((request, later));
            });
        });
        let (summary, events) = content(path);
        run(summary, events);
    });
}

#[test]
fn the_records_of_a_thread_without_a_ring_are_missing() {
    run_with_a_thread_without_a_ring(|_, events| {
        assert!(!events.iter().any(|event| event["name"] == "three"));
    });
}

#[test]
fn a_thread_without_a_ring_is_counted() {
    run_with_a_thread_without_a_ring(|summary, events| {
        assert_eq!(events.last().unwrap()["args"]["threads"], 1);
        assert_eq!(summary.threads_without_ring, 1);
    });
}

/// Symptom: of bursts of as many threads as there are rings, some had none, because two threads
/// freed one ring.
#[test]
fn as_many_threads_as_rings_have_one_each_time() {
    const RINGS: usize = 4;
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    run_timed(create(&path, RINGS).unwrap(), || {
        for _ in 0..3_000 {
            thread::scope(|scope| {
                let threads = [(); RINGS].map(|()| spawn(scope, "a thread", || info!("one")));
                for thread in threads {
                    thread.join().unwrap();
                }
            });
        }
        assert_eq!(content(&path).0.threads_without_ring, 0);
    });
}

/// Symptom: of 20 requests, which had all ended, four "did not end". They had ended on threads
/// without a ring.
#[test]
fn a_request_that_ended_on_a_thread_without_a_ring_is_undecided() {
    run_with_a_thread_without_a_ring(|summary, _| {
        let found = [summary.unended_intervals, summary.undecided_spans];
        assert_eq!(found, [0, 2]);
    });
}

/// A small file with records of all kinds.
fn sample() -> &'static [u8] {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    SAMPLE.get_or_init(|| {
        let (folder, hand) = (tempdir().unwrap(), &MockHand::default());
        let path = folder.path().join("box");
        let builder = FlightRecorder::builder()
            .bytes_per_thread(1)
            .with_fields()
            .with_source_locations();
        let recorder = builder
            .tracks(Tracks::ThreadsAndRequests)
            .in_file(&path)
            .threads(1)
            .build()
            .unwrap();
        hand.run_timed(recorder, || {
            let _around =
                info_span!("around", text = "\"\\\n\u{1}ü", number = -7, ratio = 1e300).entered();
            for number in 0..2_000 {
                hand.advance_ns(1_000);
                let span = info_span!("inside", number, later = tracing::field::Empty).entered();
                span.record("later", f64::NAN);
                info!(number, is_even = number % 2 == 0, "said");
            }
        });
        fs::read(&path).unwrap()
    })
}

#[test]
fn the_sample_is_whole_and_has_overwritten_records() {
    let summary = converted(sample()).unwrap().0;
    assert!(
        summary.intervals > 500
            && summary.overwritten_records > 1_000
            && summary.damaged_records == 0,
        "{summary:?}"
    );
}

#[test]
fn a_text_in_a_file_may_have_any_characters() {
    let events = converted(sample()).unwrap().1;
    assert!(
        events
            .iter()
            .any(|event| event["args"]["text"] == "\"\\\n\u{1}ü")
    );
}

#[test]
fn a_truncated_file_is_an_error() {
    for len in [0, 7, 8, 100, 4_096, sample().len() - 1] {
        let error = converted(&sample()[..len]).unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::InvalidData | ErrorKind::UnexpectedEof
            ),
            "{len}: {error}"
        );
    }
}

/// The size of a ring in the files of [`create`].
const RING: usize = 256 + (1 << 17);

#[test]
fn a_truncated_file_gives_its_whole_rings() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    record_and_drop(&path);
    let bytes = fs::read(&path).unwrap();
    for whole in [1, 2, 11] {
        for (cut, missing) in [(0, 12 - whole), (RING - 1, 12 - whole)] {
            let kept = 4_096 + RING + whole * RING + cut;
            let summary = converted(&bytes[..kept]).unwrap().0;
            let found = [summary.intervals, summary.missing_rings];
            assert_eq!(found, [whole as u64, missing as u64]);
        }
    }
}

#[test]
fn a_truncated_file_without_a_whole_ring_of_a_thread_is_an_error() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    record_and_drop(&path);
    let bytes = fs::read(&path).unwrap();
    let error = converted(&bytes[..4_096 + 2 * RING - 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::UnexpectedEof, "{error}");
}

#[test]
fn the_trace_of_a_truncated_file_says_how_many_rings_are_missing() {
    run_with_two_taken_rings(|path, _request| {
        let bytes = fs::read(path).unwrap();
        let events = converted(&bytes[..bytes.len() - 1]).unwrap().1;
        assert_eq!(events.last().unwrap()["args"]["rings"], 1);
    });
}

#[test]
fn a_request_whose_end_may_be_in_a_missing_ring_is_undecided() {
    run_with_two_taken_rings(|path, _request| {
        let bytes = fs::read(path).unwrap();
        let summary = converted(&bytes[..bytes.len() - 1]).unwrap().0;
        let found = [summary.unended_intervals, summary.undecided_spans];
        assert_eq!(found, [0, 1]);
    });
}

/// The file has no end.
#[test]
fn a_file_of_another_kind_is_an_error() {
    let zeros = File::open("/dev/zero").unwrap();
    assert!(flight::convert(zeros, io::sink(), TraceFormat::Json).is_err());
}

/// The sample, whose ring of names has one record, with a name of `length` bytes.
fn with_a_name_of(length: usize) -> Vec<u8> {
    // Words of the ring of names: its end, and the head and the text of its first record.
    let [end, head, text] = [512, 512 + 32 + 5, 512 + 32 + 9];
    let mut bytes = sample().to_vec();
    for (word, value) in [(end, 600), (head, 8 | (length as u64) << 8)] {
        bytes[8 * word..][..8].copy_from_slice(&value.to_ne_bytes());
    }
    bytes[8 * text..][..length].fill(b'x');
    bytes
}

/// A target beyond the limit of a callsite's names.
const LONG: &str = match str::from_utf8(&[b'x'; 1_025]) {
    Ok(text) => text,
    Err(_) => "",
};

/// Symptom: the trace had events of the name `?`, and nothing said that names were missing.
#[test]
fn callsites_without_names_are_counted() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    run_timed(create(&path, 1).unwrap(), || {
        for _ in 0..2 {
            info!(target: LONG, "one");
        }
        info!(target: LONG, "two");
        info!("three");
    });
    for format in [TraceFormat::Json, TraceFormat::Perfetto] {
        let summary = flight::convert(File::open(&path).unwrap(), io::sink(), format).unwrap();
        assert_eq!(summary.callsites_without_names, 2);
    }
}

/// Symptom: many spans repeated a name of 16 KiB, and a file of 266 KB gave a trace of 1 GB.
#[test]
fn names_of_more_than_1024_bytes_are_an_error() {
    assert!(converted(&with_a_name_of(1_024)).is_ok());
    let error = converted(&with_a_name_of(1_025)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    assert_eq!(
        error.to_string(),
        "the names of a callsite take 1025 bytes, and 1025 with its fields: the limits are 1024 and \
         4096"
    );
}

/// Symptom: nothing in a post-mortem said on which day, or at which time, it was.
#[test]
fn the_trace_of_a_file_has_the_unix_time_of_its_last_record() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("box");
    let before = tickline::UnixTime::now();
    let recorder = create(&path, 1).unwrap();
    run_timed(recorder, || info!("read"));
    let (summary, events) = content(&path);
    let end = summary.unix_end.unwrap();
    // The clock's line may change a little between its readings.
    let margin = Duration::from_millis(1);
    let after = tickline::UnixTime::now().checked_add(margin).unwrap();
    assert!(
        before.checked_sub(margin).unwrap() <= end && end <= after,
        "{end}"
    );
    assert_eq!(events[0]["args"]["unix_time"], end.to_string());
}

proptest! {
    #![proptest_config(Config::with_cases(64))]

    /// For any content of a file, the trace is JSON of limited length, and the reader does not
    /// panic, in Perfetto's format either.
    #[test]
    fn any_damage_is_an_error_or_counted(
        changes in collection::vec((any::<proptest::sample::Index>(), any::<u64>(), 0..4_u8), 1..200)
    ) {
        let mut bytes = sample().to_vec();
        let words = bytes.len() / 8;
        for (index, value, kind) in changes {
            // Three of four changes are in the file's head and in the control words of its rings.
            let head = [0, 512, 512 + 32 + (1 << 14)][usize::from(kind) % 3];
            let word = if kind < 3 { head + index.index(32) } else { index.index(words) };
            let value = if value % 3 == 0 { value >> (value % 64) } else { value };
            // The file's first word, which identifies the format, stays.
            bytes[8 * word.max(1)..][..8].copy_from_slice(&value.to_ne_bytes());
        }
        if let Ok((summary, events)) = converted(&bytes) {
            prop_assert!(summary.intervals + summary.events <= words as u64 && !events.is_empty());
            let mut trace = Vec::new();
            let in_perfetto = flight::convert(&bytes[..], &mut trace, TraceFormat::Perfetto);
            prop_assert!(in_perfetto.unwrap() == summary);
            prop_assert!(trace.len() < 8 * bytes.len());
        }
    }
}
