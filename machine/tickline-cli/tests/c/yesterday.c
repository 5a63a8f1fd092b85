/* With -DLIBRARY: a library that puts the clocks a day back, as libfaketime does. Otherwise: a
 * program that prints how many days each clock is behind the kernel's, and whether the page serves
 * it. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define DAY 86400
#define SECOND_NS 1000000000LL

static long kernel_s(clockid_t clock) {
    struct timespec time;
    syscall(SYS_clock_gettime, clock, &time);
    return time.tv_sec;
}

#ifdef LIBRARY
int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = syscall(SYS_clock_gettime, clock, time);
    if (result == 0)
        time->tv_sec -= DAY;
    return (int)result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    *time = (struct timeval){kernel_s(CLOCK_REALTIME) - DAY, 0};
    return 0;
}
time_t time(time_t *to) {
    time_t now = kernel_s(CLOCK_REALTIME) - DAY;
    if (to)
        *to = now;
    return now;
}
int timespec_get(struct timespec *time, int base) {
    return clock_gettime(CLOCK_REALTIME, time) == 0 ? base : 0;
}
#else
static int days(clockid_t clock, long seconds) {
    return (int)((kernel_s(clock) - seconds + DAY / 2) / DAY);
}

/* Whether the clock is ahead of the kernel's, as the tests' page is. The addresses of the functions
 * give a program that is not position-independent symbols of these names, which lead to the
 * linker. */
static int is_ahead(void) {
    int (*volatile clock)(clockid_t, struct timespec *) = clock_gettime;
    int (*volatile get)(struct timespec *, int) = timespec_get;
    for (int i = 0; i < 100; i++) {
        struct timespec monotonic, unix_time, kernel[2];
        clock(CLOCK_MONOTONIC, &monotonic);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &kernel[0]);
        get(&unix_time, TIME_UTC);
        syscall(SYS_clock_gettime, CLOCK_REALTIME, &kernel[1]);
        long long ahead_ns[2] = {monotonic.tv_nsec - kernel[0].tv_nsec,
                                 unix_time.tv_nsec - kernel[1].tv_nsec};
        ahead_ns[0] += SECOND_NS * (monotonic.tv_sec - kernel[0].tv_sec);
        ahead_ns[1] += SECOND_NS * (unix_time.tv_sec - kernel[1].tv_sec);
        if (ahead_ns[0] > 0 && ahead_ns[1] > 0)
            return 1;
    }
    return 0;
}

int main(void) {
    struct timespec unix_time, monotonic, got;
    struct timeval of_day;
    clock_gettime(CLOCK_REALTIME, &unix_time);
    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    gettimeofday(&of_day, 0);
    timespec_get(&got, TIME_UTC);
    errno = 0;
    int failed = clock_gettime(12345, &got) == -1 && errno == EINVAL;
    int is_served = is_ahead();
    printf("%d %d %d %d %d, failed %d, served %d\n", days(CLOCK_REALTIME, unix_time.tv_sec),
           days(CLOCK_MONOTONIC, monotonic.tv_sec), days(CLOCK_REALTIME, of_day.tv_sec),
           days(CLOCK_REALTIME, time(0)), days(CLOCK_REALTIME, got.tv_sec), failed,
           is_served);
}
#endif
