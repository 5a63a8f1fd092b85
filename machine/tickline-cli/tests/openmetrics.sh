#!/bin/sh
# Checks that Prometheus' two parsers accept the stored output of `doctor --openmetrics` and the output for this machine,
# and refuse a damaged file. The client for Python parses OpenMetrics. promtool parses the older text format, and also
# checks names.
set -u
stored=machine/tickline-cli/tests/data/openmetrics_expected.txt
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

openmetrics() {
    /usr/bin/python3 -c "
import sys
from prometheus_client.openmetrics.parser import text_string_to_metric_families as families
print(sys.argv[1], 'has', len(list(families(open(sys.argv[1]).read()))), 'families')" "$1"
}

text_format() {
    promtool check metrics <"$1"
}

cargo run -q -p tickline-cli -- doctor --openmetrics - >"$folder/live"
# The exit code is 1 if a gate is closed or a clock is slow.
[ $? -le 1 ] || exit 1
sed 's/level="ok"/level="ok/' $stored >"$folder/damaged"
for parser in openmetrics text_format; do
    for file in $stored "$folder/live"; do
        $parser "$file" || { echo "FAILED: $parser does not accept $file" && exit 1; }
    done
    $parser "$folder/damaged" >/dev/null 2>&1 && echo "FAILED: $parser accepts a damaged file" && exit 1
    echo "$parser accepts both, and refuses a damaged file"
done
