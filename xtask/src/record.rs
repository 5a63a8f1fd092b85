//! `cargo xtask record`: measures tickline and its peers, and stores the figures with a
//! description of the machine. The tables in `benches/README.md` and in the README show the
//! newest record of each processor. Nothing else should run on the machine meanwhile.

mod fields;
mod file;
mod harnesses;
mod markdown;
mod pages;
mod processor;
#[cfg(test)]
mod samples;
mod short;
mod spans;
mod stored;
mod suite;
mod tables;

use std::process::ExitCode;
use std::time::Instant;

use pages::PAGES;
use serde_json::{Map, Value, json};
use stored::{FOLDER, Record, root, stored, with_new};
use suite::Effort;

use crate::step::{self, SOME_SKIPPED};

/// Changes when a field is renamed or changes its meaning; see `benches/record/README.md`.
const SCHEMA: &str = "tickline-record/2";

/// The longest of the long measurements, s.
const MAX_SECONDS: u64 = 3_600;

/// The task that the arguments name.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    /// Measure, store, and write the tables; the long measurements take so many seconds each.
    Store { seconds: u64 },
    /// Measure as briefly as possible, and write nothing.
    Smoke,
    /// Write the tables from the stored records.
    Readme,
}

/// Does what the arguments ask for.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    let result = match arguments {
        ["harnesses", rest @ ..] => harnesses::run(rest).map(|()| 0),
        _ => task(arguments).and_then(|task| execute(&task, arguments)),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(message) => {
            eprintln!("xtask record: {message}");
            ExitCode::from(2)
        }
    }
}

/// The exit code, or what has failed.
fn execute(task: &Task, arguments: &[&str]) -> Result<u8, String> {
    let effort = match task {
        Task::Readme => return replace_all(rewritten(&stored()?)?).map(|()| 0),
        Task::Smoke => Effort::SMOKE,
        Task::Store { seconds } => Effort::full(*seconds),
    };
    for page in &PAGES {
        page.check_markers(&file::read(&root().join(page.path))?)?; // before minutes are spent
    }
    suite::build()?;
    // It ends with 1 where a gate is closed; that is recorded as well.
    let found = suite::json("target/release/tickline --secs 1 --json -", &[0, 1])?;
    if let Some(why) = no_counter(&found) {
        return without_counter(task, why);
    }
    let record = measure(effort, arguments, &found)?;
    if *task == Task::Smoke { show(&record) } else { store(&record) }.map(|()| 0)
}

/// The exit code, or what has failed, where nothing can be measured.
fn without_counter(task: &Task, why: String) -> Result<u8, String> {
    if *task != Task::Smoke {
        return Err(why);
    }
    println!("SKIPPED every measurement: {why}");
    Ok(SOME_SKIPPED)
}

/// Why there is no bare counter to compare with, by the output of the program `tickline`.
fn no_counter(found: &Value) -> Option<String> {
    let gates = found["gates"].as_array()?;
    let closed = |name: &str| gates.iter().any(|gate| gate["gate"] == name && gate["open"] == false);
    let gate = ["counter_exists", "readable"].into_iter().find(|name| closed(name))?;
    Some(format!("there is no counter that can be read, the gate {gate} is closed"))
}

fn task(arguments: &[&str]) -> Result<Task, String> {
    match arguments {
        [] => Ok(Task::Store { seconds: 60 }),
        ["--smoke"] => Ok(Task::Smoke),
        ["--readme"] => Ok(Task::Readme),
        ["--secs", text] => match text.parse() {
            Ok(seconds) if (1..=MAX_SECONDS).contains(&seconds) => Ok(Task::Store { seconds }),
            _ => Err(format!("--secs {text} is not a whole number from 1 to {MAX_SECONDS}")),
        },
        _ => Err(format!("takes --smoke, --secs N, --readme or harnesses, not '{}'", arguments.join(" "))),
    }
}

/// Runs the suite; the whole record. `found` is what the program `tickline` says.
fn measure(effort: Effort, arguments: &[&str], found: &Value) -> Result<Value, String> {
    let start = Instant::now();
    let mut record = Map::new();
    let mut put = |key: &str, value: Value| _ = record.insert(key.into(), value);
    put("schema", SCHEMA.into());
    put("date", jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string().into());
    put("command", ["cargo xtask record", &arguments.join(" ")].join(" ").trim_end().into());
    put("commit", said("git rev-parse HEAD")?.into());
    put("tree_clean", said("git status --porcelain")?.is_empty().into());
    put("rustc", said("rustc --version")?.into());
    put("processor", processor::processor(found["machine"]["cpu"].as_str().unwrap_or_default()).into());
    put("machine", machine(found)?);
    for measurement in suite::suite(effort) {
        put(measurement.key, measurement.run()?);
    }
    put("took_s", start.elapsed().as_secs().into());
    Ok(Value::Object(record))
}

/// What the program `tickline` says about the machine, and how many CPUs there are.
fn machine(found: &Value) -> Result<Value, String> {
    let mut machine = found["machine"].as_object().cloned().ok_or("tickline --json: there is no machine")?;
    machine.insert("cpus".into(), json!(std::thread::available_parallelism().map_or(1, usize::from)));
    machine.insert("verdict".into(), found["verdict"].clone());
    Ok(Value::Object(machine))
}

/// What a command prints, without the line break.
fn said(line: &str) -> Result<String, String> {
    let output = step::command(line).ok_or("an empty command")?.output();
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
        }
        Ok(output) => Err(format!("`{line}` ended with {}", output.status)),
        Err(error) => Err(format!("`{line}`: {error}")),
    }
}

/// Writes the record and the tables, all or none. Then removes the older record of the same
/// processor.
fn store(json: &Value) -> Result<(), String> {
    let text = |key: &str| json[key].as_str().unwrap_or("unknown");
    let name = format!("{}-{}.json", text("date"), file::sanitised(text("processor")));
    let new = Record { name: name.clone(), json: json.clone() };
    let (records, replaced) = with_new(stored()?, new);
    let pages = rewritten(&records)?;
    let folder = root().join(FOLDER);
    let written = serde_json::to_string_pretty(json).map_err(|error| error.to_string())?;
    file::replace(&folder.join(&name), &format!("{written}\n"))?;
    replace_all(pages)?;
    for name in replaced {
        let path = folder.join(name);
        std::fs::remove_file(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{FOLDER}/{name} and the tables are written, after {} s", json["took_s"]);
    Ok(())
}

/// Prints the tables.
fn show(json: &Value) -> Result<(), String> {
    let new = Record { name: "smoke.json".into(), json: json.clone() };
    let records = with_new(stored()?, new).0;
    for page in &PAGES {
        for (block, text) in page.blocks(&records)? {
            println!("\n{}, {block}:\n{text}", page.path);
        }
    }
    println!("nothing is written: this was a smoke run of {} s", json["took_s"]);
    Ok(())
}

/// The pages' texts with the records' tables.
fn rewritten(records: &[Record]) -> Result<[String; PAGES.len()], String> {
    let mut texts = PAGES.map(|_| String::new());
    for (text, page) in texts.iter_mut().zip(&PAGES) {
        *text = page.rewritten(&file::read(&root().join(page.path))?, records)?;
    }
    Ok(texts)
}

/// Puts the texts in the place of the pages.
fn replace_all(texts: [String; PAGES.len()]) -> Result<(), String> {
    PAGES.iter().zip(texts).try_for_each(|(page, text)| file::replace(&root().join(page.path), &text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        assert_eq!(task(&[]), Ok(Task::Store { seconds: 60 }));
        assert_eq!(task(&["--smoke"]), Ok(Task::Smoke));
        assert_eq!(task(&["--secs", "7"]), Ok(Task::Store { seconds: 7 }));
        for text in ["0", "-1", "1.5", "", "x", "3601"] {
            let message = task(&["--secs", text]).unwrap_err();
            assert!(message.contains(text) && message.contains("3600"), "{message}");
        }
        assert_eq!(task(&["--readme"]), Ok(Task::Readme));
        for wrong in [&["--secs"][..], &["--smoke", "5"], &["--readme", "x.json"], &["smoke"]] {
            assert!(task(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_machine_without_a_counter_is_told() {
        let found = |exists: bool, readable: bool, kernel: bool| {
            json!({ "gates": [
                { "gate": "counter_exists", "open": exists }, { "gate": "readable", "open": readable },
                { "gate": "kernel", "open": kernel },
            ]})
        };
        assert_eq!(no_counter(&found(true, true, true)), None);
        assert_eq!(no_counter(&found(true, true, false)), None, "the bare counter can still be read");
        assert!(no_counter(&found(false, false, true)).unwrap().contains("counter_exists"));
        assert!(no_counter(&found(true, false, true)).unwrap().contains("readable"));
    }

    #[test]
    fn a_smoke_run_that_measures_nothing_has_not_passed() {
        assert_eq!(without_counter(&Task::Smoke, "no counter".into()), Ok(SOME_SKIPPED));
        assert_eq!(without_counter(&Task::Store { seconds: 1 }, "none".into()), Err("none".into()));
    }

    /// Suffixes of `benches/record/README.md`.
    const UNITS: [&str; 8] = ["_ns", "_us", "_ms", "_s", "_ppb", "_ppm", "_percent", "_ratio"];

    /// Numbers without one: counts.
    const COUNTS: [&str; 21] = [
        "backward",
        "bound_violated",
        "by_reference",
        "calls_a_round",
        "cpus",
        "exchanges",
        "largest",
        "lines",
        "samples",
        "measured",
        "tracer_pid",
        "median",
        "narrow",
        "not_by_the_line",
        "outside",
        "readings",
        "rounds",
        "runs",
        "threads",
        "used",
        "events",
    ];

    /// Names of numbers that have neither a unit nor are a count; figures of a spread have the
    /// unit in the name above them.
    fn without_unit(name: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Object(fields) if name != "events" => {
                for (key, value) in fields {
                    let spread = UNITS.iter().any(|unit| name.ends_with(unit));
                    without_unit(if spread { name } else { key }, value, found);
                }
            }
            Value::Array(values) => values.iter().for_each(|value| without_unit(name, value, found)),
            Value::Number(_) if !COUNTS.contains(&name) && !UNITS.iter().any(|unit| name.ends_with(unit)) => {
                found.push(name.to_owned());
            }
            _ => {}
        }
    }

    #[test]
    fn every_number_has_a_unit() {
        let mut found = Vec::new();
        for record in samples::samples().iter().chain(&stored().unwrap()) {
            without_unit("", &record.json, &mut found);
        }
        assert!(found.is_empty(), "{found:?}");
        without_unit("", &json!({ "cost": { "speed": 1 } }), &mut found);
        assert_eq!(found, ["speed"]);
    }

    #[test]
    fn a_new_record_takes_the_place_of_the_older_one_of_its_processor() {
        let record = |name: &str, processor: &str| Record {
            name: name.into(),
            json: json!({ "processor": processor }),
        };
        let stored = vec![record("1-a.json", "A"), record("1-b.json", "B")];
        let (records, replaced) = with_new(stored.clone(), record("2-a.json", "A"));
        let names = |records: &[Record]| records.iter().map(|record| record.name.clone()).collect::<Vec<_>>();
        assert_eq!(
            (names(&records), replaced),
            (vec!["2-a.json".into(), "1-b.json".into()], vec!["1-a.json".into()])
        );
        let (records, replaced) = with_new(stored.clone(), record("1-a.json", "A"));
        assert_eq!((names(&records).len(), replaced.len()), (2, 0), "of the same day: it is overwritten");
        let (records, replaced) = with_new(stored, record("2-c.json", "C"));
        assert_eq!((names(&records).len(), replaced.len()), (3, 0));
    }

    /// The pages' tables are those of the stored records, and each is of another processor.
    #[test]
    fn the_pages_say_what_the_records_say() {
        let records = stored().unwrap();
        for pair in records.windows(2) {
            assert_ne!(pair[0].processor(), pair[1].processor(), "{} and {}", pair[0].name, pair[1].name);
        }
        for record in &records {
            let date = record.json["date"].as_str().unwrap();
            assert_eq!(record.name, format!("{date}-{}.json", file::sanitised(record.processor())));
        }
        for page in &PAGES {
            let text = file::read(&root().join(page.path)).unwrap();
            page.check_markers(&text).unwrap();
            let advice = "run `cargo xtask record --readme`";
            assert!(page.rewritten(&text, &records).unwrap() == text, "{}: {advice}", page.path);
        }
    }
}
