/* Moves its vDSO with the data pages before it, looks the symbols up again, and calls them. Prints one
 * line for each clock, which must be the same however this program is started. */
#define _GNU_SOURCE
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* The page is 5 ms ahead. */
#define MOST_AHEAD_NS 20000000LL

static void *symbol(char *vdso, const char *name) {
    Elf64_Ehdr *header = (void *)vdso;
    Elf64_Shdr *sections = (void *)(vdso + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        if (sections[i].sh_type != SHT_DYNSYM) continue;
        Elf64_Sym *symbols = (void *)(vdso + sections[i].sh_offset);
        char *names = vdso + sections[sections[i].sh_link].sh_offset;
        for (unsigned n = 0; n < sections[i].sh_size / sizeof *symbols; n++)
            if (!strcmp(names + symbols[n].st_name, name)) return vdso + symbols[n].st_value;
    }
    return NULL;
}

/* Moves the vDSO. Returns its new address. */
static char *move(char *vdso) {
    unsigned long starts[8], ends[8], count = 0, lowest = -1UL, highest = 0;
    char line[512], name[64];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (maps && fgets(line, sizeof line, maps) && count < 8) {
        if (sscanf(line, "%lx-%lx %*s %*s %*s %*s %63s", &starts[count], &ends[count], name) != 3) continue;
        if (strncmp(name, "[vvar", 5) && strcmp(name, "[vdso]")) continue;
        if (starts[count] < lowest) lowest = starts[count];
        if (ends[count] > highest) highest = ends[count];
        count++;
    }
    char *room = mmap(NULL, highest - lowest, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned long i = 0; i < count; i++) {
        unsigned long bytes = ends[i] - starts[i];
        void *to = room + (starts[i] - lowest);
        if (mremap((void *)starts[i], bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) return NULL;
    }
    return room + ((unsigned long)vdso - lowest);
}

static long long kernel_ns(clockid_t clock) {
    struct timespec t = {0, 0};
    syscall(SYS_clock_gettime, clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void ask(char *vdso) {
    int (*get)(clockid_t, struct timespec *) = symbol(vdso, "__vdso_clock_gettime");
    int (*day)(struct timeval *, void *) = symbol(vdso, "__vdso_gettimeofday");
    static const clockid_t clocks[] = {CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME, 77};
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++) {
        struct timespec t = {0, 0};
        long long before = kernel_ns(clocks[i]);
        int result = get(clocks[i], &t);
        long long ns = t.tv_sec * 1000000000LL + t.tv_nsec;
        int is_right = before <= ns && ns <= kernel_ns(clocks[i]) + MOST_AHEAD_NS;
        printf("clock %d: %d %s\n", (int)clocks[i], result, is_right ? "right" : "wrong");
    }
    struct timeval t = {0, 0};
    long long before = kernel_ns(CLOCK_REALTIME) / 1000 * 1000;
    int result = day(&t, NULL);
    long long ns = t.tv_sec * 1000000000LL + t.tv_usec * 1000LL;
    printf("gettimeofday: %d %s\n", result,
           before <= ns && ns <= kernel_ns(CLOCK_REALTIME) + MOST_AHEAD_NS ? "right" : "wrong");
}

int main(void) {
    char *vdso = (char *)getauxval(AT_SYSINFO_EHDR);
    if (!vdso) return 77;
    ask(vdso);
    vdso = move(vdso);
    puts(vdso ? "moved" : "not moved");
    fflush(stdout);
    if (!vdso) return 77;
    ask(vdso);
    return 0;
}
