//! Histograms in Prometheus' text format, 0.0.4 ("Exposition formats" in its documentation).

use super::{Histograms, MAX_LABELS};

impl Histograms {
    /// The histograms in Prometheus' text format (0.0.4), as one metric of type `histogram`, in
    /// seconds. Its name should therefore end in `_seconds`. A server sends the text with the
    /// content type `text/plain; version=0.0.4`. Buckets, sums and counts only grow, also after a
    /// [`reset`](Self::reset), so Prometheus adds them up over instances, and takes rates and
    /// quantiles of any time:
    ///
    /// ```text
    /// histogram_quantile(0.99, sum by (le, route) (rate(http_request_seconds_bucket[5m])))
    /// ```
    ///
    /// A time counts in the bucket of the first bound that it does not exceed, to the ns. A sum may
    /// lack a span that a thread is just counting. A comment at the end says how many spans lack
    /// the field of a label, if any do; Prometheus ignores it.
    ///
    /// There are no native histograms: neither this format nor OpenMetrics 1.0 has them. They need
    /// protobuf, or [OpenMetrics 2.0](https://prometheus.io/docs/specs/om/open_metrics_spec_2_0/),
    /// whose status is "Experimental" (2.0.0-rc0, March 2026). Prometheus 3 can convert these
    /// histograms to native ones with custom buckets (`convert_classic_histograms_to_nhcb`).
    ///
    /// # Panics
    ///
    /// If `metric` is empty, begins with a digit, or has other characters than ASCII letters,
    /// digits and `_`.
    ///
    /// A program that also calls this at its start finds a wrong name there, and not at the first
    /// scrape.
    #[track_caller]
    pub fn to_prometheus(&self, metric: &str) -> String {
        assert!(
            is_name(metric),
            "{metric:?} is not the name of a metric in Prometheus: ASCII letters, digits and _, and no digit first"
        );
        let Histograms { measure, table, .. } = self;
        let measure = measure.name();
        let mut text = format!(
            "# HELP {metric} The {measure} time of spans, seconds.\n# TYPE {metric} histogram\n"
        );
        for series in table.all_series() {
            let (sum_ns, times) = (series.sum_ns(), series.times());
            let count: u64 = times.values().sum();
            if count == 0 {
                continue; // A span left this series when it got further values.
            }
            let pair = |(name, value): (String, &String)| format!("{name}=\"{}\",", escaped(value));
            let pairs: String = label_names(&table.labels)
                .zip(&series.values)
                .map(pair)
                .collect();
            for bound_ns in &*table.bounds_ns {
                let up_to: u64 = times.range(..=bound_ns).map(|(_, count)| count).sum();
                text += &format!(
                    "{metric}_bucket{{{pairs}le=\"{}\"}} {up_to}\n",
                    seconds(*bound_ns)
                );
            }
            text += &format!("{metric}_bucket{{{pairs}le=\"+Inf\"}} {count}\n");
            let pairs = pairs
                .strip_suffix(',')
                .map(|pairs| format!("{{{pairs}}}"))
                .unwrap_or_default();
            text += &format!(
                "{metric}_sum{pairs} {}\n{metric}_count{pairs} {count}\n",
                seconds(sum_ns)
            );
        }
        if let Some(line) = self.uncounted_line() {
            text += &format!("# {line}\n");
        }
        text
    }
}

/// Exact seconds, with at least one decimal. An `f64` does not have enough digits for all values.
fn seconds(ns: u64) -> String {
    let (whole, decimals) = (ns / 1_000_000_000, format!("{:09}", ns % 1_000_000_000));
    format!(
        "{whole}.{}{}",
        &decimals[..1],
        decimals[1..].trim_end_matches('0')
    )
}

fn is_name(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.chars().all(is_plain) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// The names of the fields, as Prometheus allows them: `http.route` becomes `http_route`.
fn label_names(labels: &[String]) -> impl Iterator<Item = String> {
    labels.iter().map(|label| label.replace('.', "_"))
}

/// Panics if Prometheus does not allow these labels for a histogram. It reserves names that begin
/// with two underscores, and uses the label `le` for the bounds.
#[track_caller]
pub(super) fn check(labels: &[String]) {
    assert!(
        labels.len() <= MAX_LABELS,
        "{} labels are more than {MAX_LABELS}",
        labels.len()
    );
    let names: Vec<_> = label_names(labels).collect();
    for (index, name) in names.iter().enumerate() {
        let is_label = is_name(name) && !name.starts_with("__") && name != "le";
        assert!(
            is_label,
            "{:?} is not the name of a label in Prometheus: ASCII letters, digits and _, no digit and no __ first, and not le",
            labels[index]
        );
        assert!(
            !names[..index].contains(name),
            "the label {:?} is there twice",
            labels[index]
        );
    }
}

fn escaped(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_are_written_as_exact_seconds() {
        let all = [0, 5_000_000, 10_000_000_000, u64::MAX].map(seconds);
        assert_eq!(all, ["0.0", "0.005", "10.0", "18446744073.709551615"]);
    }

    #[test]
    fn labels_must_be_distinct_names_of_prometheus() {
        assert!(is_name("http_request_seconds") && is_name("_x9"));
        assert!(!is_name("9x") && !is_name("") && !is_name("http.status") && !is_name("a b"));
        let check = |labels: &[&str]| {
            check(
                &labels
                    .iter()
                    .copied()
                    .map(str::to_owned)
                    .collect::<Vec<_>>(),
            )
        };
        check(&["span", "http.route"]);
        for labels in [&["le"][..], &["__name__"], &["a b"], &["a.b", "a_b"]] {
            assert!(
                std::panic::catch_unwind(|| check(labels)).is_err(),
                "{labels:?}"
            );
        }
    }
}
