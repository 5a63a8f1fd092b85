<?php
// The protocol of load.c, in PHP.
function measure($clock, $calls, $resolution_ns) {
    $first = $last = $clock();
    $back = 0;
    for ($i = 1; $i < $calls; $i++) {
        $now = $clock();
        $back += $now < $last ? 1 : 0;
        $last = $now;
    }
    return [$calls, $back, $first, $last, $resolution_ns];
}

const BATCH = 1000;

function fastest($calls) {
    $fastest = PHP_INT_MAX;
    for ($batch = 0; $batch < intdiv($calls, BATCH); $batch++) {
        $begin = hrtime(true);
        for ($i = 1; $i < BATCH; $i++) {
            hrtime(true);
        }
        $fastest = min($fastest, hrtime(true) - $begin);
    }
    return [BATCH, $fastest];
}

// `microtime` returns seconds with 53 bits, which resolve 0.24 us.
function microtime_ns() {
    return (int) (microtime(true) * 1e6) * 1000;
}

fputs(STDOUT, "ready\n");
while (($line = fgets(STDIN)) !== false) {
    $calls = (int) $line;
    $seen = [
        "monotonic" => measure(fn() => hrtime(true), $calls, 1),
        "realtime" => measure('microtime_ns', $calls, 2000),
        "batch" => fastest($calls),
    ];
    fputs(STDOUT, json_encode($seen) . "\n");
}
