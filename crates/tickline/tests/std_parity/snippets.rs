//! What programs write with an instant `I` and a system time `S`.

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap};
use std::error::Error;
use std::fmt::Debug;
use std::hash::Hash;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Condvar, LazyLock, Mutex, OnceLock, mpsc};
use std::time::{Duration, SystemTime, SystemTimeError};

use super::{I, S};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);

/// What std's types are and tickline's must be.
fn assert_plain_value<T>()
where
    T: Copy + Eq + Ord + Hash + Debug + Send + Sync + Unpin + UnwindSafe + RefUnwindSafe + 'static,
{
}

#[test]
fn both_types_are_plain_values() {
    assert_plain_value::<I>();
    assert_plain_value::<S>();
}

// ---- instants ---------------------------------------------------------------------------------

#[test]
fn an_instant_has_no_duration_since_itself() {
    let now = I::now();
    assert_eq!(now.duration_since(now), Duration::ZERO);
}

#[test]
fn an_earlier_instant_has_no_checked_duration_since_a_later_one() {
    let now = I::now();
    assert_eq!(now.checked_duration_since(now + SECOND), None);
}

#[test]
fn a_later_instant_has_a_checked_duration_since_an_earlier_one() {
    let now = I::now();
    assert_eq!((now + SECOND).checked_duration_since(now), Some(SECOND));
}

#[test]
fn a_saturating_duration_is_never_negative() {
    let now = I::now();
    assert_eq!(now.saturating_duration_since(now + SECOND), Duration::ZERO);
}

#[test]
fn a_difference_is_never_negative() {
    let now = I::now();
    assert_eq!(now - (now + SECOND), Duration::ZERO);
}

#[test]
fn time_has_elapsed_after_a_sleep() {
    let start = I::now();
    std::thread::sleep(Duration::from_millis(1));
    assert!(start.elapsed() > Duration::ZERO);
}

#[test]
fn nothing_has_elapsed_of_the_future() {
    assert_eq!((I::now() + HOUR).elapsed(), Duration::ZERO);
}

#[test]
fn an_elapsed_time_converts_to_a_float() {
    assert!(I::now().elapsed().as_secs_f64() >= 0.0);
}

#[test]
fn elapsed_times_have_a_sum() {
    let starts = [I::now() - HOUR, I::now() - HOUR];
    let sum: Duration = starts.iter().map(|start| start.elapsed()).sum();
    assert!(sum >= 2 * HOUR);
}

#[test]
fn checked_add_returns_an_instant() {
    let now = I::now();
    assert_eq!(now.checked_add(SECOND), Some(now + SECOND));
}

#[test]
fn checked_sub_returns_an_instant() {
    let now = I::now();
    assert_eq!(now.checked_sub(SECOND), Some(now - SECOND));
}

#[test]
fn checked_add_has_an_end() {
    assert_eq!(I::now().checked_add(Duration::MAX), None);
}

#[test]
fn assignments_add_and_subtract() {
    let now = I::now();
    let mut moving = now;
    moving += HOUR;
    moving -= SECOND;
    assert_eq!(moving - now, HOUR - SECOND);
}

/// std's types begin with the machine on some systems.
#[cfg(target_os = "linux")]
#[test]
fn an_instant_may_be_before_the_start_of_the_machine() {
    let now = I::now();
    let a_century_ago = now - 100 * 365 * 24 * HOUR;
    assert_eq!(now - a_century_ago, 100 * 365 * 24 * HOUR);
    assert!(a_century_ago < now);
}

#[test]
fn an_instant_may_be_a_thousand_years_from_now() {
    let never = I::now() + 1_000 * 365 * 24 * HOUR;
    assert!(never > I::now() + 100 * 365 * 24 * HOUR);
}

/// A program that means "never".
#[cfg(target_os = "linux")]
#[test]
fn the_largest_number_of_milliseconds_is_added() {
    let never = I::now() + Duration::from_millis(u64::MAX);
    assert!(never > I::now() + HOUR);
}

#[test]
fn a_multiple_of_a_duration_is_added() {
    let now = I::now();
    assert_eq!(now + SECOND * 3, now + SECOND + SECOND + SECOND);
}

#[test]
fn instants_behind_references_are_subtracted() {
    let (start, end) = (&I::now(), &I::now());
    let _: Duration = *end - *start;
}

#[test]
fn now_is_a_function_pointer() {
    let now: fn() -> I = I::now;
    let _: I = now();
}

#[test]
fn elapsed_is_a_function_of_a_reference() {
    let elapsed: fn(&I) -> Duration = I::elapsed;
    let _: Duration = elapsed(&I::now());
}

#[test]
fn elapsed_is_mapped_by_its_path() {
    let starts = vec![I::now()];
    let spent: Vec<Duration> = starts.iter().map(I::elapsed).collect();
    assert_eq!(spent.len(), 1);
}

#[test]
fn now_fills_an_option() {
    let mut start = None;
    let first: I = *start.get_or_insert_with(I::now);
    assert_eq!(start, Some(first));
}

#[test]
fn now_initialises_a_lazy_static() {
    static START: LazyLock<I> = LazyLock::new(I::now);
    assert!(*START <= I::now() + SECOND);
}

#[test]
fn a_static_holds_an_instant() {
    static START: OnceLock<I> = OnceLock::new();
    let start = START.get_or_init(I::now);
    assert_eq!(START.get(), Some(start));
}

#[test]
fn a_cell_holds_an_instant() {
    let cell = Cell::new(I::now());
    cell.set(cell.get() + SECOND);
}

#[test]
fn a_mutex_holds_an_instant() {
    let start = Mutex::new(I::now());
    let _: Duration = start.lock().unwrap().elapsed();
}

#[test]
fn an_optional_instant_has_a_default() {
    #[derive(Default)]
    struct Request {
        started: Option<I>,
    }
    assert_eq!(Request::default().started, None);
}

#[test]
fn a_struct_of_times_derives_what_they_have() {
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    struct Event {
        at: I,
        wall: S,
    }
    assert_plain_value::<Event>();
}

#[test]
fn the_earliest_timer_leaves_a_heap_first() {
    let now = I::now();
    let mut timers = BinaryHeap::from([Reverse((now + SECOND, 2)), Reverse((now, 1))]);
    assert_eq!(timers.pop(), Some(Reverse((now, 1))));
}

#[test]
fn a_map_of_timers_is_split_at_now() {
    let now = I::now();
    let mut timers = BTreeMap::from([
        ((now - SECOND, 0_usize), "due"),
        ((now + SECOND, 1), "later"),
    ]);
    let later = timers.split_off(&(now, 0));
    assert_eq!((timers.len(), later.len()), (1, 1));
}

#[test]
fn a_hash_map_finds_an_instant() {
    let now = I::now();
    assert_eq!(HashMap::from([(now, "now")]).get(&now), Some(&"now"));
}

#[test]
fn a_range_of_instants_contains_its_start() {
    let now = I::now();
    assert!((now..now + SECOND).contains(&now));
}

#[test]
fn an_instant_is_clamped_to_a_range() {
    let now = I::now();
    assert_eq!((now + HOUR).clamp(now, now + SECOND), now + SECOND);
}

#[test]
fn a_condition_variable_waits_until_a_deadline() {
    let deadline = I::now() + Duration::from_millis(1);
    let (mutex, condition) = (Mutex::new(()), Condvar::new());
    let (_guard, _) = condition
        .wait_timeout(mutex.lock().unwrap(), deadline - I::now())
        .unwrap();
}

#[test]
fn a_channel_waits_until_a_deadline() {
    let (_sender, receiver) = mpsc::channel::<()>();
    let deadline = I::now();
    let received = receiver.recv_timeout(deadline.saturating_duration_since(I::now()));
    assert_eq!(received, Err(mpsc::RecvTimeoutError::Timeout));
}

// ---- system times -----------------------------------------------------------------------------

#[test]
fn a_system_time_is_since_its_epoch() {
    let since = S::now().duration_since(S::UNIX_EPOCH).unwrap();
    assert!(since > Duration::ZERO);
}

#[test]
fn a_system_time_is_since_the_epoch_of_std() {
    let since = S::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert!(since > Duration::ZERO);
}

#[test]
fn the_epoch_is_a_constant() {
    const EPOCH: S = S::UNIX_EPOCH;
    assert_eq!(SystemTime::from(EPOCH), std::time::UNIX_EPOCH);
}

#[test]
fn time_has_elapsed_since_an_earlier_system_time() {
    let start = S::now() - HOUR;
    assert!(start.elapsed().unwrap() > Duration::ZERO);
}

#[test]
fn durations_are_added_to_a_system_time() {
    let now = S::now();
    assert_eq!((now + HOUR) - HOUR, now);
}

#[test]
fn assignments_move_a_system_time() {
    let now = S::now();
    let mut moving = now;
    moving += HOUR;
    moving -= HOUR;
    assert_eq!(moving, now);
}

#[test]
fn checked_sums_return_a_system_time() {
    let now = S::now();
    let there_and_back = now
        .checked_add(HOUR)
        .and_then(|later| later.checked_sub(HOUR));
    assert_eq!(there_and_back, Some(now));
}

/// A program that means "never".
#[cfg(target_os = "linux")]
#[test]
fn the_largest_number_of_milliseconds_is_added_to_a_system_time() {
    let never = S::now() + Duration::from_millis(u64::MAX);
    assert!(never > S::now() + HOUR);
}

#[test]
fn the_error_of_a_later_time_is_that_of_std() {
    let epoch = S::UNIX_EPOCH;
    let error: SystemTimeError = epoch.duration_since(epoch + HOUR).unwrap_err();
    assert_eq!(error.duration(), HOUR);
}

#[test]
fn a_question_mark_boxes_the_error() {
    fn since_epoch() -> Result<Duration, Box<dyn Error>> {
        Ok(S::now().duration_since(S::UNIX_EPOCH)?)
    }
    assert!(since_epoch().is_ok());
}

#[test]
fn a_question_mark_returns_the_error_of_std() {
    fn since_epoch() -> Result<Duration, SystemTimeError> {
        Ok(S::now().duration_since(S::UNIX_EPOCH)?)
    }
    assert!(since_epoch().is_ok());
}

#[test]
fn a_system_time_becomes_one_of_std() {
    let now: SystemTime = S::now().into();
    assert!(now > SystemTime::UNIX_EPOCH);
}

#[test]
fn now_is_later_than_a_file() {
    let modified = this_program_modified();
    assert!(S::now() > modified);
}

#[test]
fn a_file_has_an_age() {
    let age = S::now().duration_since(this_program_modified());
    assert!(age.is_ok());
}

#[test]
fn a_time_of_a_file_is_set() {
    let _ = std::fs::FileTimes::new().set_modified(S::now().into());
}

fn this_program_modified() -> SystemTime {
    let program = std::env::current_exe().expect("the path of this test");
    let metadata = std::fs::metadata(program).expect("this test's file");
    metadata.modified().expect("a time of modification")
}
