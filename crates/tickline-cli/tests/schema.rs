//! What each command writes as JSON is what the schema describes.

use std::process::Command;

use serde_json::Value;

fn schema() -> Value {
    serde_json::from_str(include_str!("../schema/tickline-1.schema.json")).expect("a JSON Schema")
}

fn json(arguments: &[&str], counter: &str) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickline"));
    let output =
        command.args(arguments).args(["--json", "-"]).env("TICKLINE", counter).output().expect("the program");
    assert!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

/// Every key of a document is a key of its schema: additions must get there, too.
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
    let mut schema = schema();
    closed(&mut schema);
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let commands: [&[&str]; 6] = [
        &["doctor"],
        &["bench", "--rounds", "2", "--calls", "100"],
        &["bench", "--rounds", "2", "--calls", "100", "--compare", earlier],
        &["warp"],
        &["watch", "--secs", "1", "--interval", "0.2"],
        &["report", "--secs", "1", "--out", page],
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

/// That the check above can fail.
#[test]
fn another_document_is_refused() {
    let mut schema = schema();
    closed(&mut schema);
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let good = json(&["doctor"], "on");
    assert!(schema.is_valid(&good));
    for (key, value) in [
        ("schema", Value::from("tickline/2")),
        ("fast", Value::from("yes")),
        ("verdict", Value::Null),
        ("an_unknown_key", Value::from(1)),
    ] {
        let mut bad = good.clone();
        bad[key] = value;
        assert!(!schema.is_valid(&bad), "{key}");
    }
    let mut bad = good.clone();
    bad.as_object_mut().unwrap().remove("gates");
    assert!(!schema.is_valid(&bad), "no gates");
    bad = good;
    bad["costs"][0]["cost_ns"] = "fast".into();
    assert!(!schema.is_valid(&bad), "a cost that is no number");
}
