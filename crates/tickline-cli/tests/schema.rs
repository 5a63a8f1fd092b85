//! The JSON of each command agrees with the schema.

use std::process::Command;

use serde_json::Value;

fn schema(name: &str) -> Value {
    // Read at run time: the test that rewrites the file runs after this one is compiled.
    let path = format!("{}/schema/{name}.schema.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).expect("the schema")).expect("a JSON Schema")
}

fn json(arguments: &[&str], counter: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
    let output =
        command.args(arguments).args(["--json", "-"]).env("TICKLINE", counter).output().expect("the program");
    // 3: `warp` in a process that is kept from some CPUs.
    assert!(matches!(output.status.code(), Some(0 | 1 | 3)), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// Makes the schema refuse unknown keys, so that a new key must be in the schema.
fn closed(schema: &mut Value) {
    let objects = schema["$defs"].as_object_mut().expect("structures").values_mut();
    for object in objects.filter(|object| object["properties"].is_object()) {
        object["additionalProperties"] = false.into();
    }
    schema["additionalProperties"] = false.into();
}

#[test]
fn every_command_writes_what_the_schema_says() {
    let folder = tempfile::tempdir().unwrap();
    let (page, earlier) = (folder.path().join("page.html"), folder.path().join("earlier.json"));
    let (page, earlier) = (page.to_str().unwrap(), earlier.to_str().unwrap());
    let mut schema = schema("tickline-2");
    closed(&mut schema);
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let commands: [&[&str]; 7] = [
        &["doctor"],
        &["bench", "--rounds", "2", "--calls", "100"],
        &["bench", "--rounds", "2", "--calls", "100", "--compare", earlier],
        &["warp"],
        &["watch", "--secs", "1", "--interval", "0.2"],
        &["report", "--secs", "1", "--out", page],
        &["who", "--secs", "1"],
    ];
    for counter in ["on", "off"] {
        for arguments in commands {
            let document = json(arguments, counter);
            let faults: Vec<String> = schema
                .iter_errors(&document)
                .map(|fault| format!("{} {fault}", fault.instance_path()))
                .collect();
            assert!(faults.is_empty(), "{arguments:?}: {faults:#?}");
            assert_eq!(document["command"], arguments[0]);
            if arguments[0] == "bench" {
                std::fs::write(earlier, document.to_string()).unwrap();
            }
        }
    }
}

#[test]
fn a_comparison_is_what_its_schema_says() {
    let mut schema = schema("tickline-compare-1");
    closed(&mut schema);
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let facts = |name: &str| format!("{}/tests/facts/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let found = json(&["compare", &facts("guest-hpet"), &facts("xen-aws-p3")], "on");
    assert!(!found["differences"].as_array().unwrap().is_empty(), "{found}");
    let faults: Vec<String> =
        schema.iter_errors(&found).map(|fault| format!("{} {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let mut other = found;
    other["differences"][0]["ratio"] = "twice".into();
    assert!(!schema.is_valid(&other), "the schema accepts anything");
}

/// The table of renamed keys is complete: a document of the former schema, once read, has the
/// present keys alone.
#[test]
fn a_former_document_is_read_as_a_present_one() {
    let former = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/former/tickline-1.json");
    let mut document = json(&["doctor", "--facts", former], "on");
    document.as_object_mut().expect("a document").remove("source").expect("its source");
    let mut schema = schema("tickline-2");
    closed(&mut schema);
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let faults: Vec<String> =
        schema.iter_errors(&document).map(|fault| format!("{} {fault}", fault.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:#?}");
    let first = &document["findings"][0];
    assert_eq!(first["code"], "counters_unsynchronised", "{first}");
    assert!(first["evidence"][0].as_str().unwrap().contains("by at least 3900 ns"), "{first}");
    assert_eq!(document["machine"]["counters"], "synchronised on 2 CPUs");

    let bench = json(&["bench", "--rounds", "1", "--calls", "1", "--compare", former], "on");
    let clocks = bench["bench"]["compared"]["clocks"].as_array().unwrap();
    assert!(clocks.iter().any(|row| row["clock"] == "tickline::now_ns"), "{clocks:?}");
}

/// Facts that were collected by hand lack much, and what `--facts` wrote of them was refused.
#[test]
fn partial_facts_agree_with_the_schema() {
    let schema = schema("tickline-2");
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/facts");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let path = path.to_str().unwrap();
        let recorded: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for document in [recorded, json(&["doctor", "--facts", path], "on")] {
            let faults: Vec<String> = validator
                .iter_errors(&document)
                .map(|fault| format!("{} {fault}", fault.instance_path()))
                .collect();
            assert!(faults.is_empty(), "{path}: {faults:#?}");
        }
    }
    // What a command measures is complete all the same.
    let measured = json(&["doctor"], "on");
    let structures =
        [("", &measured), ("Machine", &measured["machine"]), ("ClockStatus", &measured["clock"])];
    for (name, object) in structures {
        let structure = if name.is_empty() { &schema } else { &schema["$defs"][name] };
        let parts = ["warp", "bench", "watch", "who", "latencies", "served_unknown", "per_cpu"];
        for key in structure["properties"].as_object().unwrap().keys() {
            assert!(parts.contains(&key.as_str()) || object.get(key).is_some(), "{name}: no {key}");
        }
    }
}

/// The check above can fail.
#[test]
fn another_document_is_refused() {
    let mut schema = schema("tickline-2");
    closed(&mut schema);
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let good = json(&["doctor"], "on");
    assert!(schema.is_valid(&good));
    for (key, value) in [
        ("schema", Value::from("tickline/1")),
        ("fast", Value::from("yes")),
        ("verdict", Value::Null),
        ("an_unknown_key", Value::from(1)),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(!schema.is_valid(&bad), "{key}");
    }
    let mut bad = good.clone();
    bad.as_object_mut().unwrap().remove("machine");
    assert!(!schema.is_valid(&bad), "no machine");
    bad = good;
    bad["costs"][0]["cost_ns"] = "fast".into();
    assert!(!schema.is_valid(&bad), "a cost that is no number");
}
