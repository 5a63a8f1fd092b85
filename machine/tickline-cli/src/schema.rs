//! Generates the JSON Schemas of a document, of comparisons and of the status of a page from their
//! structures, and compares them with the files in `schema/`, which users read.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Value, json};

use crate::commands::compare::DocumentDiff;
use crate::commands::compare::fleet::{self, FleetDiff};
use crate::document::Document;

/// The folder of the stored schemas.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/schema");

/// The schema of a structure, with its title. `name` is the value of the key `document_schema` in
/// documents.
fn schema_of<T: JsonSchema>(title: &str, name: &str) -> Value {
    let generator = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(without_code))
        .into_generator();
    let mut schema = generator.into_root_schema_for::<T>().to_value();
    schema["title"] = title.into();
    schema["properties"]["schema"]["const"] = name.into();
    schema
}

/// Takes away the code that `named!` adds to a value's description: the schema has it already.
fn without_code(schema: &mut Schema) {
    if let Some(Value::String(description)) = schema.get_mut("description")
        && let Some(end) = description.find("\n\n\nCode: `")
    {
        description.truncate(end);
    }
}

fn document_schema() -> Value {
    let mut schema = schema_of::<Document>("tickline --json", crate::document::SCHEMA);
    // A file for `--facts` may lack unknown facts.
    schema["required"] = json!(["schema", "machine"]);
    for (structure, required) in PARTIAL {
        schema["$defs"][structure]["required"] = json!(required);
    }
    schema
}

/// The file name of each schema, and the schema.
fn schemas() -> Vec<(&'static str, Value)> {
    let comparison =
        schema_of::<DocumentDiff>("tickline compare --json", crate::commands::compare::SCHEMA);
    let of_many = schema_of::<FleetDiff>("tickline compare --json of many files", fleet::SCHEMA);
    vec![
        ("tickline-2.schema.json", document_schema()),
        ("tickline-compare-1.schema.json", comparison),
        ("tickline-compare-fleet-1.schema.json", of_many),
        #[cfg(target_os = "linux")]
        ("tickline-serve-1.schema.json", status_schema()),
    ]
}

#[cfg(target_os = "linux")]
fn status_schema() -> Value {
    use crate::commands::serve::{PageReport, SCHEMA};

    schema_of::<PageReport>("tickline serve status --json", SCHEMA)
}

/// The suffixes of keys, and their units.
const UNITS: [(&str, &str); 9] = [
    ("_ns", "ns"),
    ("_us", "us"),
    ("_s", "s"),
    ("_hz", "Hz"),
    ("_khz", "kHz"),
    ("_mhz", "MHz"),
    ("_ppb", "ppb"),
    ("_percent", "percent"),
    ("_ticks", "ticks"),
];

/// The structures whose keys may be missing in a file for `--facts`, and their required keys.
const PARTIAL: [(&str, &[&str]); 9] = [
    ("Machine", &[]),
    ("Cpuid", &[]),
    ("TimeNamespace", &[]),
    ("VmClock", &["device"]),
    ("Ptp4l", &["port_state"]),
    ("ClockStatus", &[]),
    ("CostRow", &["clock"]),
    ("NtpDaemon", &["name"]),
    (
        "Ntp",
        &[
            "synchronised",
            "frequency_ppb",
            "tick_us",
            "offset_ns",
            "maximum_error_us",
            "estimated_error_us",
        ],
    ),
];

/// `TICKLINE_WRITE=1 cargo test -p tickline-cli schema` stores the schema of the present
/// structures.
#[test]
fn the_stored_schema_is_that_of_the_structures() {
    for (name, schema) in schemas() {
        let path = format!("{FOLDER}/{name}");
        let text = format!("{schema:#}\n");
        if std::env::var_os("TICKLINE_WRITE").is_some() {
            std::fs::write(&path, &text).unwrap();
        }
        let stored = std::fs::read_to_string(&path).unwrap();
        assert!(
            stored == text,
            "{path} is not what the structures say: TICKLINE_WRITE=1 rewrites it"
        );
    }
}

#[test]
fn every_key_is_described() {
    let mut keys = 0;
    let mut faults = Vec::new();
    let with_parts = |(name, schema): (&str, Value)| {
        let parts = schema["$defs"].as_object().unwrap().clone();
        parts.into_iter().chain([(name.to_owned(), schema)])
    };
    for (name, structure) in schemas().into_iter().flat_map(with_parts) {
        // An enumeration has no keys.
        for (key, value) in structure["properties"].as_object().into_iter().flatten() {
            let description = value["description"].as_str().unwrap_or_default();
            if description.is_empty() {
                faults.push(format!("{name}.{key} has no description"));
            }
            let unit = UNITS.iter().find(|(suffix, _)| key.ends_with(suffix));
            if let Some((_, unit)) = unit
                && !description.contains(unit)
            {
                faults.push(format!(
                    "{name}.{key} does not name its unit: {description}"
                ));
            }
            keys += 1;
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    assert!(keys > 40, "{keys} keys");
}
