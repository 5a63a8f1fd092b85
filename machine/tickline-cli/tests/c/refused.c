/* Loaded into `tickline run`. Makes the exec of a traced process fail, as SELinux and AppArmor do for
   some programs. TICKLINE_TEST_ERROR is the error's number. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

int execvp(const char *file, char *const arguments[]) {
    int tracer = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && !tracer && fgets(line, sizeof line, status)) sscanf(line, "TracerPid: %d", &tracer);
    if (status) fclose(status);
    if (tracer) {
        errno = atoi(getenv("TICKLINE_TEST_ERROR"));
        return -1;
    }
    int (*next)(const char *, char *const[]) = (int (*)(const char *, char *const[]))dlsym(RTLD_NEXT, "execvp");
    return next(file, arguments);
}
