/* Makes every call for the time between two system calls, and prints one line for each: the result,
 * and whether the kernel could have returned this time. A line that begins with "served" says which
 * clocks are ahead of the kernel's, as the tests' page is. The other lines must be the same however
 * this program is started. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* The page is 5 ms ahead. */
#define MOST_AHEAD_NS 20000000LL
#define NEWTIME 0x80
#define UNTOUCHED 0x5a5a5a5aLL
#define UNSET_ERRNO 4242

static long long ns_of(struct timespec t) { return t.tv_sec * 1000000000LL + t.tv_nsec; }

static long long kernel_ns(clockid_t clock) {
    struct timespec t = {0, 0};
    return syscall(SYS_clock_gettime, clock, &t) ? -1 : ns_of(t);
}

static long long own_ns(clockid_t clock) {
    struct timespec t = {0, 0};
    return clock_gettime(clock, &t) ? -1 : ns_of(t);
}

static int is_page_clock(clockid_t clock) { return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC; }

/* Whether `ns` is a possible time of `clock` between two system calls. */
static const char *place(clockid_t clock, long long before, long long ns, long long after) {
    long long most = after + (is_page_clock(clock) ? MOST_AHEAD_NS : 0);
    return ns < before ? "early" : ns > most ? "late" : "right";
}

static int is_ahead(clockid_t clock) {
    for (int i = 0; i < 100; i++) {
        long long ns = own_ns(clock);
        if (ns > kernel_ns(clock)) return 1;
    }
    return 0;
}

static int is_time_of_day_ahead(void) {
    for (int i = 0; i < 100; i++) {
        struct timeval t;
        gettimeofday(&t, NULL);
        if (t.tv_sec * 1000000000LL + t.tv_usec * 1000LL > kernel_ns(CLOCK_REALTIME)) return 1;
    }
    return 0;
}

static void say_served(const char *where) {
    printf("served %s: %d%d%d\n", where, is_ahead(CLOCK_MONOTONIC), is_ahead(CLOCK_REALTIME), is_time_of_day_ahead());
}

static void one_clock(const char *name, clockid_t clock) {
    struct timespec t = {UNTOUCHED, UNTOUCHED}, resolution = {UNTOUCHED, UNTOUCHED};
    long long before = kernel_ns(clock);
    errno = UNSET_ERRNO;
    int result = clock_gettime(clock, &t);
    int error = errno;
    long long after = kernel_ns(clock);
    printf("clock_gettime %s: %d errno %d %s\n", name, result, error,
           result == 0 ? place(clock, before, ns_of(t), after)
                       : t.tv_sec == UNTOUCHED && t.tv_nsec == UNTOUCHED ? "untouched" : "touched");
    errno = UNSET_ERRNO;
    result = clock_getres(clock, &resolution);
    error = errno;
    printf("clock_getres %s: %d errno %d %lld.%lld\n", name, result, error, (long long)resolution.tv_sec,
           (long long)resolution.tv_nsec);
    errno = UNSET_ERRNO;
    result = clock_getres(clock, NULL);
    printf("clock_getres %s, null: %d errno %d\n", name, result, errno);
}

static void every_clock(void) {
    char name[32];
    for (int clock = -20; clock <= 20; clock++) {
        sprintf(name, "%d", clock);
        one_clock(name, clock);
    }
    one_clock("largest", INT_MAX);
    one_clock("smallest", INT_MIN);
    clockid_t cpu;
    if (clock_getcpuclockid(0, &cpu) == 0) one_clock("own CPU time", cpu);
    if (pthread_getcpuclockid(pthread_self(), &cpu) == 0) one_clock("thread's CPU time", cpu);
    one_clock("CPU time of no process", (clockid_t)(~0x3ffffffU << 3 | 2));
    int file = open("/dev/null", O_RDONLY);
    one_clock("of a file that is none", (clockid_t)(~(unsigned)file << 3 | 3));
    close(file);
}

/* Runs `act` in a child, and prints how the child ended. */
static void in_child(const char *name, int (*act)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(act());
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status)) printf("%s: signal %d\n", name, WTERMSIG(status));
    else printf("%s: exit %d\n", name, WEXITSTATUS(status));
}

static clockid_t asked;
static void *pointer;
static int ask_pointer(void) {
    errno = UNSET_ERRNO;
    int result = clock_gettime(asked, pointer);
    return result == 0 ? 0 : errno;
}
static int ask_time_of_day_pointer(void) {
    errno = UNSET_ERRNO;
    int result = gettimeofday(pointer, NULL);
    return result == 0 ? 0 : errno;
}

static void pointers(void) {
    static const clockid_t clocks[] = {0, 1, 2, 4, 5, 6, 7, 11, 12, 77, -1, -6};
    void *constant = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *pointers[] = {NULL, (void *)8, (void *)-1, constant};
    const char *names[] = {"null", "8", "-1", "memory that is constant"};
    char name[80];
    for (unsigned p = 0; p < 4; p++) {
        pointer = pointers[p];
        for (unsigned c = 0; c < sizeof clocks / sizeof *clocks; c++) {
            asked = clocks[c];
            sprintf(name, "clock_gettime %d into %s", (int)asked, names[p]);
            in_child(name, ask_pointer);
        }
        sprintf(name, "gettimeofday into %s", names[p]);
        in_child(name, ask_time_of_day_pointer);
    }
    char room[64];
    long long before = kernel_ns(CLOCK_MONOTONIC);
    int result = clock_gettime(CLOCK_MONOTONIC, (struct timespec *)(void *)(room + 3));
    struct timespec t;
    memcpy(&t, room + 3, sizeof t);
    printf("unaligned: %d %s\n", result, place(CLOCK_MONOTONIC, before, ns_of(t), kernel_ns(CLOCK_MONOTONIC)));
}

static void other_calls(void) {
    struct timeval t = {UNTOUCHED, UNTOUCHED};
    for (int i = 0; i < 4; i++) {
        struct timezone zone = {77, 77};
        int with_time = i & 1, with_zone = i & 2;
        long long before = kernel_ns(CLOCK_REALTIME) / 1000 * 1000;
        errno = UNSET_ERRNO;
        int result = gettimeofday(with_time ? &t : NULL, with_zone ? &zone : NULL);
        int error = errno;
        long long ns = t.tv_sec * 1000000000LL + t.tv_usec * 1000LL;
        printf("gettimeofday %d%d: %d errno %d %s, zone %d %d\n", with_time, with_zone != 0, result, error,
               with_time ? place(CLOCK_REALTIME, before, ns, kernel_ns(CLOCK_REALTIME)) : "-", zone.tz_minuteswest,
               zone.tz_dsttime);
    }
    for (int i = 0; i < 2; i++) {
        time_t stored = UNTOUCHED;
        long long before = kernel_ns(CLOCK_REALTIME_COARSE) / 1000000000;
        errno = UNSET_ERRNO;
        time_t seconds = time(i ? &stored : NULL);
        long long after = kernel_ns(CLOCK_REALTIME) / 1000000000;
        printf("time %d: %s errno %d %s\n", i, seconds < before ? "early" : seconds > after ? "late" : "right", errno,
               i == 0 || stored == seconds ? "stored" : "not stored");
    }
    int bases[] = {TIME_UTC, 0, 77, -1};
    for (int i = 0; i < 4; i++) {
        struct timespec spec = {UNTOUCHED, UNTOUCHED};
        long long before = kernel_ns(CLOCK_REALTIME);
        errno = UNSET_ERRNO;
        int result = timespec_get(&spec, bases[i]);
        int error = errno;
        printf("timespec_get %d: %d errno %d %s\n", bases[i], result, error,
               result == 0 ? "-" : place(CLOCK_REALTIME, before, ns_of(spec), kernel_ns(CLOCK_REALTIME)));
    }
    /* The kernel refuses this time from every user. */
    struct timespec refused = {-1, 2000000000};
    int clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_PROCESS_CPUTIME_ID, 77};
    for (int i = 0; i < 5; i++) {
        errno = UNSET_ERRNO;
        int result = clock_settime(clocks[i], &refused);
        printf("clock_settime %d: %d errno %d\n", clocks[i], result, errno);
    }
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += 1000000;
    if (until.tv_nsec >= 1000000000) until.tv_sec++, until.tv_nsec -= 1000000000;
    int result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
    printf("clock_nanosleep: %d\n", result);
}

static long long parents_ns;
static int ordered_in_child(void) {
    if (own_ns(CLOCK_MONOTONIC) < parents_ns) return 1;
    for (int i = 0; i < 1000; i++)
        for (clockid_t clock = 0; clock < 2; clock++) {
            long long before = kernel_ns(clock), ns = own_ns(clock);
            if (strcmp(place(clock, before, ns, kernel_ns(clock)), "right")) return 2 + clock;
        }
    say_served("in a fork");
    fflush(stdout);
    return 0;
}

static void children(void) {
    parents_ns = own_ns(CLOCK_MONOTONIC);
    in_child("fork", ordered_in_child);
    parents_ns = own_ns(CLOCK_MONOTONIC);
    pid_t child = vfork();
    if (child == 0) _exit(own_ns(CLOCK_MONOTONIC) < parents_ns);
    int status = -1;
    waitpid(child, &status, 0);
    printf("vfork: %d\n", status);
}

static int moved(void) {
    for (int i = 0; i < 1000; i++)
        for (clockid_t clock = 0; clock <= CLOCK_BOOTTIME; clock++) {
            if (clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID) continue;
            long long before = kernel_ns(clock), ns = own_ns(clock);
            if (strcmp(place(clock, before, ns, kernel_ns(clock)), "right")) return 10 + clock;
        }
    return 0;
}
static int move(void) {
    /* A process of root needs no user namespace of its own, a process of another user does. */
    if (unshare(NEWTIME) && unshare(CLONE_NEWUSER | NEWTIME)) return 77;
    int file = open("/proc/self/timens_offsets", O_WRONLY);
    const char *offset = "monotonic 100000 0\nboottime 200000 0\n";
    if (file < 0 || write(file, offset, strlen(offset)) < 0) return 77;
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(moved());
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

#define THREADS 4
static long long latest_ns;
static int steps_back;
static void *in_thread(void *unused) {
    for (int i = 0; i < 20000; i++) {
        long long seen = __atomic_load_n(&latest_ns, __ATOMIC_SEQ_CST), ns = own_ns(CLOCK_MONOTONIC);
        if (ns < seen) __atomic_add_fetch(&steps_back, 1, __ATOMIC_SEQ_CST);
        while (ns > seen && !__atomic_compare_exchange_n(&latest_ns, &seen, ns, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {}
    }
    return unused;
}
static void threads(void) {
    pthread_t all[THREADS];
    for (int i = 0; i < THREADS; i++) pthread_create(&all[i], NULL, in_thread, NULL);
    for (int i = 0; i < THREADS; i++) pthread_join(all[i], NULL);
    printf("threads: %d steps back\n", steps_back);
}

static volatile sig_atomic_t signals, wrong_in_handler;
static void handle(int signal) {
    (void)signal;
    int kept = errno;
    for (clockid_t clock = 0; clock < 2; clock++) {
        long long before = kernel_ns(clock), ns = own_ns(clock);
        if (strcmp(place(clock, before, ns, kernel_ns(clock)), "right")) wrong_in_handler++;
    }
    signals++;
    errno = kept;
}
static void handlers(void) {
    struct sigaction action = {0};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, NULL);
    struct itimerval often = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
    setitimer(ITIMER_REAL, &often, NULL);
    int wrong = 0;
    long long last = 0;
    while (signals < 100) {
        long long ns = own_ns(CLOCK_MONOTONIC);
        wrong += ns < last;
        last = ns;
    }
    setitimer(ITIMER_REAL, &never, NULL);
    signal(SIGALRM, SIG_IGN);
    printf("signal handlers: %d wrong in them, %d steps back beside them\n", (int)wrong_in_handler, wrong);
}

/* Makes calls that need no system call, in a process that may make none. */
static int ask_a_lot(void) {
    struct timeval t;
    for (int i = 0; i < 1000; i++)
        if (own_ns(CLOCK_MONOTONIC) < 0 || own_ns(CLOCK_REALTIME) < 0 || gettimeofday(&t, NULL)) return 1;
    return 0;
}
static int strictly(void) {
    if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT)) return 77;
    return syscall(SYS_exit, ask_a_lot());
}
static int filtered(void) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clock_gettime, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_gettimeofday, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL),
    };
    struct sock_fprog program = {5, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 77;
    return ask_a_lot();
}
static int filtered_unknown(void) {
    return filtered() ? 77 : clock_gettime(77, NULL);
}
static int denied(void) {
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 77;
    return own_ns(CLOCK_MONOTONIC) < 0;
}
static int denied_other(void) {
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV)) return 77;
    return own_ns(CLOCK_MONOTONIC_COARSE) < 0 || own_ns(CLOCK_PROCESS_CPUTIME_ID) < 0;
}

int main(int count, char **arguments) {
    int is_first = count == 1;
    say_served(is_first ? "at first" : "executed");
    every_clock();
    other_calls();
    if (is_first) {
        pointers();
        children();
        in_child("time namespace", move);
        threads();
        handlers();
        in_child("seccomp, strict", strictly);
        in_child("seccomp, clock_gettime kills", filtered);
        in_child("seccomp, another clock", filtered_unknown);
        in_child("PR_SET_TSC", denied);
        in_child("PR_SET_TSC, other clocks", denied_other);
        fflush(stdout);
        execl("/proc/self/exe", arguments[0], "executed", (char *)NULL);
        return 1;
    }
    return 0;
}
