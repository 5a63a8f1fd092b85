/* A library in which CLOCK_MONOTONIC has another pace, RATE, from AFTER_NS after the first call on.
 * Every other clock is right. */
#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long start_ns;

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock != CLOCK_MONOTONIC)
        return result;
    long long now_ns = time->tv_sec * 1000000000LL + time->tv_nsec;
    if (start_ns == 0)
        start_ns = now_ns;
    long long paced_ns = now_ns - start_ns - (long long)AFTER_NS;
    if (paced_ns > 0)
        now_ns += (long long)((double)paced_ns * (RATE - 1.0));
    *time = (struct timespec){now_ns / 1000000000, now_ns % 1000000000};
    return result;
}
