/* child RUN...: blocks SIGCHLD, starts a child, and executes RUN. The child exits once this process has
 * a second child, the helper of `tickline run`. child, without RUN: exits with 0 if SIGCHLD is pending
 * or comes within a second. */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static void wait_for_another(pid_t parent) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", parent, parent);
    for (time_t end = time(NULL) + 10; time(NULL) < end;) {
        int one, other;
        FILE *children = fopen(path, "r");
        if (!children) return;
        int found = fscanf(children, "%d %d", &one, &other);
        fclose(children);
        if (found == 2) return;
    }
}

int main(int count, char **words) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    if (count < 2) {
        struct timespec second = {1, 0};
        return sigtimedwait(&set, NULL, &second) == SIGCHLD ? 0 : 1;
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    pid_t parent = getpid();
    if (fork() == 0) {
        wait_for_another(parent);
        _exit(0);
    }
    execv(words[1], words + 1);
    return 2;
}
