//! The schema's name, and how to read documents of the schema before it.

use serde_json::{Map, Value};

/// The present schema. Its number rises when a key changes its meaning or goes away.
pub(crate) const SCHEMA: &str = "tickline/2";

/// The former schema.
const FORMER: &str = "tickline/1";

/// The keys with another name than in `tickline/1`: the object (`*` stands for each element of an
/// array), the former key, and the present key.
const RENAMED: [(&str, &str, &str); 9] = [
    ("machine", "counters_apart_ticks", "counter_difference_ticks"),
    ("costs/*", "most_ns", "p90_ns"),
    ("warp", "in_step", "synchronised"),
    ("warp", "step_ns", "resolution_ns"),
    ("warp/pairs/*", "in_step", "synchronised"),
    ("watch", "looks", "samples"),
    ("watch", "fast_looks", "fast_samples"),
    ("watch/cpus/*", "looks", "samples"),
    ("watch/cpus/*", "fast_looks", "fast_samples"),
];

/// How `machine.counters` began in `tickline/1` where all counters were synchronised, and how it
/// begins now.
const SYNCHRONISED: (&str, &str) = ("in step on ", "synchronised on ");

/// Gives a document the names of the present schema.
///
/// # Errors
///
/// In words, if the document has no schema, or one that is neither the present nor the former one.
pub(crate) fn upgrade(document: &mut Value) -> Result<(), String> {
    match document.get("schema").and_then(Value::as_str) {
        Some(SCHEMA) => return Ok(()),
        Some(FORMER) => {}
        Some(other) => {
            return Err(format!("its schema is '{other}'; this program reads '{SCHEMA}' and '{FORMER}'"));
        }
        None => return Err(format!("it has no 'schema'; this program reads '{SCHEMA}' and '{FORMER}'")),
    }
    document["schema"] = SCHEMA.into();
    for (path, former, present) in RENAMED {
        each(document, path, &mut |object| {
            if let Some(value) = object.shift_remove(former) {
                object.insert(present.to_owned(), value);
            }
        });
    }
    each(document, "machine", &mut |machine| {
        let counters = machine.get("counters").and_then(Value::as_str);
        if let Some(cpus) = counters.and_then(|text| text.strip_prefix(SYNCHRONISED.0)) {
            let counters = format!("{}{cpus}", SYNCHRONISED.1);
            machine.insert("counters".to_owned(), counters.into());
        }
    });
    Ok(())
}

/// Applies `change` to each object at `path`. A part that is absent, or no object, stays as it is.
fn each(value: &mut Value, path: &str, change: &mut dyn FnMut(&mut Map<String, Value>)) {
    let (first, rest) = path.split_once('/').unwrap_or((path, ""));
    match (first, value) {
        ("", Value::Object(object)) => change(object),
        ("*", Value::Array(elements)) => elements.iter_mut().for_each(|element| each(element, rest, change)),
        (key, Value::Object(object)) => {
            if let Some(inner) = object.get_mut(key) {
                each(inner, rest, change);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn former_names_become_present_ones() {
        let mut document = json!({
            "schema": "tickline/1",
            "machine": { "counters": "in step on 8 CPUs", "counters_apart_ticks": null, "cpu": "in step on" },
            "costs": [{ "clock": "a", "most_ns": 1.5 }],
            "warp": { "in_step": true, "step_ns": 0.5, "pairs": [{ "in_step": true }, { "in_step": null }] },
            "watch": { "looks": 3, "fast_looks": 2, "cpus": [{ "cpu": 0, "looks": 1, "fast_looks": 1 }] },
        });
        upgrade(&mut document).unwrap();
        let expected = json!({
            "schema": "tickline/2",
            "machine": { "counters": "synchronised on 8 CPUs", "counter_difference_ticks": null, "cpu": "in step on" },
            "costs": [{ "clock": "a", "p90_ns": 1.5 }],
            "warp": { "synchronised": true, "resolution_ns": 0.5,
                "pairs": [{ "synchronised": true }, { "synchronised": null }] },
            "watch": { "samples": 3, "fast_samples": 2,
                "cpus": [{ "cpu": 0, "samples": 1, "fast_samples": 1 }] },
        });
        assert_eq!(document, expected);
        upgrade(&mut document).unwrap();
        assert_eq!(document, expected, "the present schema needs no change");
    }

    #[test]
    fn documents_of_any_form_are_read_or_refused() {
        for (text, refused) in [
            (json!({ "schema": "tickline/1", "warp": 7, "costs": {}, "machine": [] }), false),
            (json!({ "schema": "tickline/3" }), true),
            (json!({ "schema": 2 }), true),
            (json!({}), true),
            (json!([1]), true),
            (Value::Null, true),
        ] {
            let result = upgrade(&mut text.clone());
            assert_eq!(result.is_err(), refused, "{text}");
            for name in [SCHEMA, FORMER] {
                assert!(result.as_ref().err().is_none_or(|error| error.contains(name)), "{result:?}");
            }
        }
    }
}
