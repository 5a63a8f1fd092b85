/* While a file exists, makes adjtimex report that the kernel slews its clock by 8 %. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/timex.h>
#include <unistd.h>

int adjtimex(struct timex *found)
{
    int (*original)(struct timex *) = (int (*)(struct timex *))dlsym(RTLD_NEXT, "adjtimex");
    const char *file = getenv("TICKLINE_TEST_SLEW");
    int state = original(found);
    if (file && access(file, F_OK) == 0)
        found->tick = 10800;
    return state;
}
