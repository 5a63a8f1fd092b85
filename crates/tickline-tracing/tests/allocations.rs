//! Fields in the records of a flight recorder cost no allocation, and no failing value keeps one.
//! The reader of a recorder's file has one ring in memory at once.
#![allow(clippy::unwrap_used, reason = "a test fails by it")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::{fmt, panic};

use tickline_tracing::SpanTimingLayer;
use tickline_tracing::flight::FlightRecorder;
use tracing::{info, info_span};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry;

/// The system's allocator, which counts this thread's allocations, those that it has freed, and the
/// bytes of those that it has not.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<u64> = const { Cell::new(0) };
    static BYTES: Cell<isize> = const { Cell::new(0) };
    /// The most that `BYTES` was.
    static MOST_BYTES: Cell<isize> = const { Cell::new(0) };
}

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        _ = BYTES.try_with(|bytes| {
            bytes.set(bytes.get() + layout.size().cast_signed());
            MOST_BYTES.set(MOST_BYTES.get().max(bytes.get()));
        });
        // SAFETY: the caller keeps the contract of the method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        _ = FREED.try_with(|count| count.set(count.get() + 1));
        _ = BYTES.try_with(|bytes| bytes.set(bytes.get() - layout.size().cast_signed()));
        // SAFETY: the caller keeps the contract of the method.
        unsafe { System.dealloc(start, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The allocations of a call of `run`, and how many the thread has freed meanwhile, once it has its
/// buffers.
fn allocated_and_freed(run: impl Fn()) -> (u64, u64) {
    let recorder = FlightRecorder::builder().with_fields().build().unwrap();
    let subscriber = registry().with(SpanTimingLayer::new().with_sink(recorder));
    tracing::subscriber::with_default(subscriber, || {
        (0..100).for_each(|_| run());
        let before = (ALLOCATIONS.get(), FREED.get());
        run();
        (ALLOCATIONS.get() - before.0, FREED.get() - before.1)
    })
}

fn allocations(run: impl Fn()) -> u64 {
    allocated_and_freed(run).0
}

#[test]
fn an_event_with_fields_takes_no_allocation() {
    let path = "/index.html".to_owned();
    let event = || info!(path, rows = 7, ratio = 0.5, list = ?[1, 2], shown = %path, "read {}", 8);
    assert_eq!(allocations(event), 0);
}

#[test]
fn a_span_with_few_fields_takes_no_allocation_for_them() {
    let span = || drop(info_span!("request", id = 7, list = ?[1, 2]).entered());
    assert_eq!(
        allocations(span),
        allocations(|| drop(info_span!("request").entered()))
    );
}

/// A value whose `Debug` panics with a text, without a message of the panic hook.
struct Panics;

impl fmt::Debug for Panics {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        panic::resume_unwind(Box::new("a text"))
    }
}

/// Symptom: each such panic took 16 bytes or more, for ever.
#[test]
fn the_text_of_a_panic_in_a_values_debug_is_freed() {
    let (allocated, freed) = allocated_and_freed(|| info!(at = ?Panics, "event"));
    assert_eq!(allocated, freed);
}

#[cfg(unix)]
const RING: usize = 8 << 20;

/// The file of a recorder with one ring of [`RING`] bytes for threads.
#[cfg(unix)]
fn file_of_recorder() -> std::fs::File {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("box");
    let builder = FlightRecorder::builder().bytes_per_thread(RING);
    drop(builder.in_file(&path).threads(1).build().unwrap());
    let mut options = std::fs::File::options();
    options.read(true).write(true).open(path).unwrap()
}

#[cfg(unix)]
fn convert(file: std::fs::File) -> std::io::Result<()> {
    use tickline_tracing::flight;
    use tickline_tracing::trace_file::TraceFormat;

    flight::convert(file, std::io::sink(), TraceFormat::Json).map(|_| ())
}

/// The most bytes that `work` has in memory at once.
#[cfg(unix)]
fn most_bytes_in(work: impl FnOnce()) -> isize {
    let before = BYTES.get();
    MOST_BYTES.set(before);
    work();
    MOST_BYTES.get() - before
}

/// Symptom: a sparse file with one large ring, which takes a page of a disk, took three times the
/// ring's length in memory.
#[test]
#[cfg(unix)]
fn a_large_ring_is_in_memory_once() {
    let file = file_of_recorder();
    let most = most_bytes_in(|| convert(file).unwrap());
    let ring = RING.cast_signed();
    assert!(most >= ring && most < ring + ring / 2, "{most} bytes");
}

/// Symptom: the error of a file that ended after its head was "out of memory", if the head stated a
/// ring of 16 GiB.
#[test]
#[cfg(unix)]
fn a_ring_that_a_truncated_file_lacks_takes_no_memory() {
    let file = file_of_recorder();
    file.set_len(4_097).unwrap();
    let most = most_bytes_in(|| _ = convert(file).unwrap_err());
    assert!(most < RING.cast_signed() / 2, "{most} bytes");
}

/// Symptom: a reader of such a file allocated all that the head stated, up to 16 GiB.
#[test]
#[cfg(unix)]
fn a_ring_that_ends_early_takes_memory_only_for_its_beginning() {
    let file = file_of_recorder();
    let beginning = 4_096 + RING as u64 / 16;
    file.set_len(beginning).unwrap();
    let most = most_bytes_in(|| _ = convert(file).unwrap_err());
    assert!(most < RING.cast_signed() / 2, "{most} bytes");
}
