//! No ordered reading steps back between threads, on the machine that runs this.

use std::io::Write;
use std::time::Duration;

use tickline_benches::exchange;

/// Says aloud what the harness would hide in a test that passes.
fn say(what: &str) {
    writeln!(std::io::stderr(), "{what}").ok();
}

#[test]
#[ignore = "keeps every CPU busy for 7 s: cargo test --release -p tickline-benches --test order -- --ignored"]
fn ordered_readings_do_not_step_back_between_threads() {
    if exchange::cpus().len() < 2 {
        say("SKIPPED: one CPU cannot be ahead of another");
        return;
    }
    let counter = match exchange::usable_counter() {
        Ok(counter) => counter,
        Err(why) => {
            say(&format!("SKIPPED: {why}"));
            return;
        }
    };
    let unsynchronised = exchange::unsynchronised(counter, Duration::from_secs(1));
    assert!(unsynchronised.backward > 0, "backward steps are not seen here: {unsynchronised:?}");
    say(&format!("without a fence: {:?}", exchange::plain(counter, Duration::from_secs(1))));
    let report = exchange::ordered(counter, Duration::from_secs(5), 100);
    say(&format!("ordered: {report:?}"));
    assert!(report.count.exchanges > 0 && report.iterations > 0, "{report:?}");
    assert_eq!(report.count.backward, 0, "{report:?}");
}
