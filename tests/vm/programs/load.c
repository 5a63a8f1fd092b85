// Calls the clocks by the protocol of all loads in this folder. For each line with a number N on
// standard input, a load makes N calls of each clock, and N calls of the monotonic clock in batches
// without other work. It answers with a line of JSON: for each clock the number of calls, the number of
// steps back, the first and the last reading, and the resolution; and the time of the fastest batch;
// in ns.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int64_t monotonic(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int64_t realtime(void) {
    struct timeval now;
    gettimeofday(&now, NULL);
    return now.tv_sec * INT64_C(1000000000) + now.tv_usec * INT64_C(1000);
}

static void measure(const char *name, int64_t (*clock)(void), long calls, int resolution_ns) {
    int64_t first = clock(), last = first;
    long back = 0;
    for (long i = 1; i < calls; i++) {
        int64_t now = clock();
        back += now < last;
        last = now;
    }
    printf("\"%s\":[%ld,%ld,%lld,%lld,%d]", name, calls, back, (long long)first, (long long)last,
           resolution_ns);
}

enum { BATCH = 1000 };

static int64_t fastest(long calls) {
    int64_t fastest = INT64_MAX;
    for (long batch = 0; batch < calls / BATCH; batch++) {
        int64_t begin = monotonic();
        for (int i = 1; i < BATCH; i++)
            monotonic();
        int64_t took = monotonic() - begin;
        fastest = took < fastest ? took : fastest;
    }
    return fastest;
}

int main(void) {
    char line[32];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long calls = atol(line);
        printf("{");
        measure("monotonic", monotonic, calls, 1);
        printf(",");
        measure("realtime", realtime, calls, 1000);
        printf(",\"batch\":[%d,%lld]}\n", BATCH, (long long)fastest(calls));
        fflush(stdout);
    }
    return 0;
}
