//! `cargo xtask record harnesses [PART]`: what `tickline-criterion` and other harnesses find on the
//! same routines, alone on the machine and with a busy loop on each CPU. Each part takes at most
//! three minutes. Its figures go into one file for each processor, from which the tables of the
//! crate are written.

mod peers;
mod tables;

use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::pages::HARNESS_PAGES;
use super::stored::{HARNESS_FOLDER, Record, root, stored_in};
use super::{file, processor, said};
use crate::step;

pub(super) use tables::{compare_block, delays_block, harnesses_block};

/// Changes when a field is renamed or changes its meaning.
const SCHEMA: &str = "tickline-harnesses/1";

/// A part, and how it is measured.
type Part = (&'static str, fn() -> Result<Value, String>);

const PARTS: [Part; 3] = [("delays", delays), ("compare", compare), ("harnesses", peers::measure)];

/// Measures all parts or the named one, or only writes the tables.
pub(super) fn run(arguments: &[&str]) -> Result<(), String> {
    let parts: Vec<&Part> = match arguments {
        [] => PARTS.iter().collect(),
        ["--readme"] => Vec::new(),
        [name] => PARTS.iter().filter(|(part, _)| part == name).collect(),
        _ => Vec::new(),
    };
    if parts.is_empty() && arguments != ["--readme"] {
        return Err("harnesses takes delays, compare, harnesses or --readme".into());
    }
    for page in &HARNESS_PAGES {
        page.check_markers(&file::read(&root().join(page.path))?)?; // before minutes are spent
    }
    if !parts.is_empty() {
        peers::build()?;
    }
    for (name, measure) in parts {
        store(name, *measure)?;
    }
    write_pages(&stored_in(HARNESS_FOLDER)?)
}

fn write_pages(records: &[Record]) -> Result<(), String> {
    for page in &HARNESS_PAGES {
        let path = root().join(page.path);
        file::replace(&path, &page.rewritten(&file::read(&path)?, records)?)?;
    }
    Ok(())
}

/// Measures a part, and puts it into the processor's file.
fn store(name: &str, measure: fn() -> Result<Value, String>) -> Result<(), String> {
    let start = Instant::now();
    let mut part = Map::new();
    let mut put = |key: &str, value: Value| _ = part.insert(key.into(), value);
    put("date", jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC).date().to_string().into());
    put("command", format!("cargo xtask record harnesses {name}").into());
    put("commit", said("git rev-parse HEAD")?.into());
    // The figures of other parts, and the tables, may be new.
    put("tree_clean", said("git status --porcelain -- *.rs *.toml Cargo.lock")?.is_empty().into());
    put("rustc", said("rustc --version")?.into());
    put("kernel", said("uname -sr")?.into());
    put("cpus", json!(std::thread::available_parallelism().map_or(1, usize::from)));
    put("figures", measure()?);
    put("took_s", start.elapsed().as_secs().into());
    let processor = processor::of_this_machine();
    let path = root().join(HARNESS_FOLDER).join(format!("{}.json", file::sanitised(&processor)));
    let mut record = match path.exists() {
        true => serde_json::from_str(&file::read(&path)?).map_err(|error| error.to_string())?,
        false => json!({ "schema": SCHEMA, "processor": processor }),
    };
    record[name] = Value::Object(part);
    let text = serde_json::to_string_pretty(&record).map_err(|error| error.to_string())?;
    file::replace(&path, &format!("{text}\n"))?;
    println!("{name}: stored in {HARNESS_FOLDER}, after {} s", start.elapsed().as_secs());
    Ok(())
}

fn delays() -> Result<Value, String> {
    Ok(json!({ "quiet": known_delays("--pairs")?, "loaded": known_delays("--pairs --load")? }))
}

fn compare() -> Result<Value, String> {
    Ok(json!({ "loaded": known_delays("--compare --load")? }))
}

fn known_delays(arguments: &str) -> Result<Value, String> {
    const EXAMPLE: &str = "cargo run -q --release -p tickline-criterion --example known_delays --";
    last_line(&format!("{EXAMPLE} {arguments} --json"), &[])
}

/// The JSON of a program's last line. The program is bound to one CPU.
fn last_line(line: &str, environment: &[(&str, &str)]) -> Result<Value, String> {
    let text = output(line, environment)?;
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default();
    serde_json::from_str(last).map_err(|error| format!("`{line}` printed no JSON at its end: {error}"))
}

/// What a program prints that is bound to the last CPU.
fn output(line: &str, environment: &[(&str, &str)]) -> Result<String, String> {
    output_unbound(&format!("taskset -c {} {line}", last_cpu()), environment, &[0])
}

/// What a program prints that ends with one of these codes.
fn output_unbound(line: &str, environment: &[(&str, &str)], codes: &[i32]) -> Result<String, String> {
    let output = step::command(line)
        .ok_or("an empty command")?
        .envs(environment.iter().copied())
        .current_dir(root())
        .output()
        .map_err(|error| format!("`{line}`: {error}"))?;
    if !output.status.code().is_some_and(|code| codes.contains(&code)) {
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("`{line}` ended with {}:\n{errors}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn last_cpu() -> usize {
    std::thread::available_parallelism().map_or(0, |cpus| cpus.get() - 1)
}

/// A busy loop on each CPU, until this is dropped.
struct Load(Vec<Child>);

impl Load {
    fn start() -> Result<Self, String> {
        let mut load = Self(Vec::new());
        for cpu in 0..=last_cpu() {
            let mut command = Command::new("taskset");
            command.args(["-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]).stdin(Stdio::null());
            load.0.push(command.spawn().map_err(|error| format!("`taskset`: {error}"))?);
        }
        Ok(load)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in &mut self.0 {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The pages' tables are those of the stored figures.
    #[test]
    fn the_pages_say_what_was_measured() {
        let records = stored_in(HARNESS_FOLDER).unwrap();
        for record in &records {
            assert_eq!(record.name, format!("{}.json", file::sanitised(record.processor())));
            assert_eq!(record.json["schema"], SCHEMA);
        }
        for page in &HARNESS_PAGES {
            let text = file::read(&root().join(page.path)).unwrap();
            let advice = "run `cargo xtask record harnesses --readme`";
            assert!(page.rewritten(&text, &records).unwrap() == text, "{}: {advice}", page.path);
        }
    }
}
