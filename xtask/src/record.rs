//! `cargo xtask record`: every measurement of tickline and its peers, stored with the machine that it was taken on, and the
//! README's tables from that. Nothing else should run on the machine meanwhile.

mod file;
mod markdown;
mod readme;
mod suite;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Map, Value, json};
use suite::Effort;

use crate::step;

/// Changes with every field that is renamed, or means something else; see `benches/record/README.md`.
const SCHEMA: &str = "tickline-record/1";

/// Where records are kept, seen from the workspace's root.
const FOLDER: &str = "benches/record";

/// The longest of the long measurements, s.
const MAX_SECONDS: u64 = 3_600;

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
enum Task {
    /// Measure, store, and write the README; the long measurements take so many seconds each.
    Store { seconds: u64 },
    /// Measure as shortly as can be, and write nothing.
    Smoke,
    /// Write the README from a stored record.
    Readme { record: PathBuf },
}

/// Does what the arguments ask for.
pub(crate) fn run(arguments: &[&str]) -> ExitCode {
    match task(arguments).and_then(|task| execute(&task, arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask record: {message}");
            ExitCode::from(2)
        }
    }
}

fn execute(task: &Task, arguments: &[&str]) -> Result<(), String> {
    let effort = match task {
        Task::Readme { record } => return write_readme(record),
        Task::Smoke => Effort::SMOKE,
        Task::Store { seconds } => Effort::full(*seconds),
    };
    readme::check_markers(&file::read(&root().join("README.md"))?)?; // before minutes are spent
    suite::build()?;
    // It ends with 1 where a gate is closed: that is worth a record, too.
    let found = suite::json("target/release/tickline --secs 1 --json -", &[0, 1])?;
    match (task, no_counter(&found)) {
        (Task::Smoke, Some(why)) => {
            println!("SKIPPED every measurement: {why}");
            Ok(())
        }
        (_, Some(why)) => Err(why),
        (Task::Smoke, None) => show(&measure(effort, arguments, &found)?),
        (_, None) => store(&measure(effort, arguments, &found)?),
    }
}

/// Why nothing can be compared with the bare counter here, by what the program `tickline` has found.
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
        ["--readme", path] => Ok(Task::Readme { record: path.into() }),
        ["--secs", text] => match text.parse() {
            Ok(seconds) if (1..=MAX_SECONDS).contains(&seconds) => Ok(Task::Store { seconds }),
            _ => Err(format!("--secs {text} is not a whole number from 1 to {MAX_SECONDS}")),
        },
        _ => Err(format!("takes --smoke, --secs N or --readme FILE, not '{}'", arguments.join(" "))),
    }
}

/// The workspace's root.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
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

/// Writes the record and the README, both or none: only what can be written completely is begun.
fn store(record: &Value) -> Result<(), String> {
    let text = |key: &str| record[key].as_str().unwrap_or("unknown");
    let cpu = record["machine"]["cpu"].as_str().unwrap_or("unknown");
    let name = format!("{}-{}.json", text("date"), file::sanitised(cpu));
    let readme_path = root().join("README.md");
    let readme = readme::rewritten(&file::read(&readme_path)?, record, &name)?;
    let folder = root().join(FOLDER);
    let json = serde_json::to_string_pretty(record).map_err(|error| error.to_string())?;
    file::replace(&folder.join(&name), &format!("{json}\n"))?;
    file::replace(&readme_path, &readme)?;
    println!("{FOLDER}/{name} and README.md are written, after {} s", record["took_s"]);
    Ok(())
}

/// Prints what the README would say.
fn show(record: &Value) -> Result<(), String> {
    for (block, text) in readme::blocks(record, "smoke.json")? {
        println!("\n{block}:\n{text}");
    }
    println!("nothing is written: this was a smoke run of {} s", record["took_s"]);
    Ok(())
}

fn write_readme(path: &Path) -> Result<(), String> {
    let name = path.file_name().and_then(|name| name.to_str()).ok_or("--readme needs a file")?;
    let record = serde_json::from_str(&file::read(path)?)
        .map_err(|error| format!("{} is no JSON: {error}", path.display()))?;
    let readme_path = root().join("README.md");
    file::replace(&readme_path, &readme::rewritten(&file::read(&readme_path)?, &record, name)?)
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
        for wrong in [&["--secs"][..], &["--smoke", "5"], &["--readme"], &["smoke"]] {
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

    /// Suffixes of `benches/record/README.md`.
    const UNITS: [&str; 8] = ["_ns", "_us", "_ms", "_s", "_ppb", "_ppm", "_percent", "_ratio"];

    /// Numbers without one: counts.
    const COUNTS: [&str; 20] = [
        "backward",
        "bound_violated",
        "by_reference",
        "calls_a_round",
        "cpus",
        "handovers",
        "largest",
        "lines",
        "looks",
        "measured",
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

    /// Names of numbers that say neither a unit nor a count; figures of a spread have the unit in the name above.
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

    fn records() -> Vec<PathBuf> {
        let files = std::fs::read_dir(root().join(FOLDER)).unwrap();
        let paths = files.map(|file| file.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "json")).collect()
    }

    #[test]
    fn every_number_has_a_unit() {
        let mut found = Vec::new();
        without_unit("", &readme::sample(), &mut found);
        for path in records() {
            without_unit("", &serde_json::from_str(&file::read(&path).unwrap()).unwrap(), &mut found);
        }
        assert!(found.is_empty(), "{found:?}");
        without_unit("", &json!({ "cost": { "speed": 1 } }), &mut found);
        assert_eq!(found, ["speed"]);
    }

    /// The README's blocks are those of the record that it names. Without any record there is nothing to be named.
    #[test]
    fn the_readme_says_what_its_record_says() {
        let text = file::read(&root().join("README.md")).unwrap();
        readme::check_markers(&text).unwrap();
        let records = records();
        let named = records.iter().find(|path| {
            path.file_name().and_then(|name| name.to_str()).is_some_and(|name| text.contains(name))
        });
        let Some(path) = named else {
            assert!(records.is_empty(), "the README names none of {records:?}");
            assert!(!text.contains(&format!("({FOLDER}/20")), "the README names a record that is not there");
            return;
        };
        let record = serde_json::from_str(&file::read(path).unwrap()).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        let advice = "run `cargo xtask record --readme FILE`";
        assert!(readme::rewritten(&text, &record, name).unwrap() == text, "{}: {advice}", path.display());
    }
}
