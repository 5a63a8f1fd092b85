# As load.c.
import json
import sys
import time


def measure(clock, calls):
    first = last = clock()
    back = 0
    for _ in range(calls - 1):
        now = clock()
        back += now < last
        last = now
    return [calls, back, first, last, 1]


print("ready", flush=True)
for line in sys.stdin:
    calls = int(line)
    seen = {"monotonic": measure(time.monotonic_ns, calls), "realtime": measure(time.time_ns, calls)}
    print(json.dumps(seen), flush=True)
