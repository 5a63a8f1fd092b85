/* Linked with the library. Exits with 1 if a page that is ahead serves it, else with 0. With an
 * argument, exits with 77 if the kernel does not say that it has more rights than its user. */

#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Half of the distance by which the page is ahead. */
#define AHEAD_NS 2500000LL

static long long ns(struct timespec time)
{
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

int main(int count, char **arguments)
{
    struct timespec found, kernel;

    (void)arguments;
    if (count > 1 && getauxval(AT_SECURE) == 0)
        return 77;
    for (int i = 0; i < 100; i++) {
        clock_gettime(CLOCK_MONOTONIC, &found);
        syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &kernel);
        if (ns(found) > ns(kernel) + AHEAD_NS)
            return 1;
    }
    return 0;
}
