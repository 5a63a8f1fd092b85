# The protocol of load.c, in Python.
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


BATCH = 1000


def fastest(calls):
    clock, fastest = time.monotonic_ns, sys.maxsize
    for _ in range(calls // BATCH):
        begin = clock()
        for _ in range(1, BATCH):
            clock()
        fastest = min(fastest, clock() - begin)
    return [BATCH, fastest]


print("ready", flush=True)
for line in sys.stdin:
    calls = int(line)
    seen = {"monotonic": measure(time.monotonic_ns, calls), "realtime": measure(time.time_ns, calls)}
    seen["batch"] = fastest(calls)
    print(json.dumps(seen), flush=True)
