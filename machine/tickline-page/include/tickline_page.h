/* tickline_page.h: reads the clock that a tickline page serves. Layout version 1.
 *
 * One file, in C99 with GCC's or Clang's atomic built-ins. It does not allocate or lock, and stores
 * only to the process's high-water mark. The README of the crate tickline-page has the layout and
 * the conditions under which a reader trusts a page. machine/docs/lease.md has the rules R1 to R11.
 *
 *     int64_t page_offset_ns, high_water_ns = TICKLINE_NO_HIGH_WATER;
 *     if (tickline_page_attach(page, &context, &page_offset_ns) == TICKLINE_ATTACHED) {
 *         tickline_page_raise_to_os_clock(page_offset_ns, &os, &high_water_ns);
 *         ns = tickline_page_monotonic(page, page_offset_ns, &os, &high_water_ns).ns;
 *     }
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef TICKLINE_PAGE_H
#define TICKLINE_PAGE_H

#include <stdint.h>
#include <string.h>

#define TICKLINE_PAGE_BYTES 4096
#define TICKLINE_LAYOUT_VERSION 1
/* The value of a process's high-water mark before the process's first reading. */
#define TICKLINE_NO_HIGH_WATER INT64_MIN

#if defined(__x86_64__)
#define TICKLINE_COUNTER 1
#elif defined(__aarch64__)
#define TICKLINE_COUNTER 2
#elif defined(__riscv) && __riscv_xlen == 64
#define TICKLINE_COUNTER 3
#else
#define TICKLINE_COUNTER 0
#endif

/* The boot and the time namespace of a process. A forked child must collect them again. */
struct tickline_boot_context {
    unsigned char boot_id[16];   /* the digits of /proc/sys/kernel/random/boot_id, as bytes */
    uint64_t time_namespace;     /* inode number of /proc/self/ns/time; 0 without namespaces */
    int knows_offset;            /* whether monotonic_offset_ns is known */
    int64_t monotonic_offset_ns; /* CLOCK_MONOTONIC here minus that in the initial namespace */
};

/* The clocks of a process, in its own time namespace. */
struct tickline_os {
    uint64_t (*counter)(void *context); /* ordered: read after every earlier load */
    int64_t (*monotonic_ns)(void *context);
    int64_t (*unix_ns)(void *context);
    /* Stores the coarse Unix time, and returns 1; 0 if that would be a system call. May be null. */
    int (*coarse_unix_ns)(void *context, int64_t *ns);
    /* Lets other threads run in a first publication, at most 11 times a reading. May be null. */
    void (*pause)(void *context);
    void *context;
};

enum tickline_refusal {
    TICKLINE_ATTACHED = 0,
    TICKLINE_NOT_A_PAGE,
    TICKLINE_OTHER_VERSION,
    TICKLINE_OTHER_SIZE,
    TICKLINE_OTHER_BOOT,
    TICKLINE_OTHER_COUNTER,
    TICKLINE_OTHER_NAMESPACE
};

enum tickline_source { TICKLINE_LINE = 0, TICKLINE_OS = 1 };

struct tickline_reading {
    int64_t ns;
    int source;
};

/* The limits of the Rust reader (src/lease/reader.rs), where the reasons are. */
#define TICKLINE_MAX_STARTS 64            /* words in one reading */
#define TICKLINE_MAX_STILL_ATTEMPTS 20000 /* attempts in a row at one tick */
#define TICKLINE_MAX_ATTEMPTS 131072      /* attempts that find first publications */
#define TICKLINE_FIRST_PAUSE 64           /* attempts before the first pause */
#define TICKLINE_MAX_ABOVE_COARSE_NS 50000000

enum { TICKLINE_START, TICKLINE_BASE, TICKLINE_SLOPE, TICKLINE_END, TICKLINE_LEAD,
       TICKLINE_UNIX_OFFSET, TICKLINE_UNIX_LEAD };
enum { TICKLINE_NO_LINE = 1, TICKLINE_FIRST_PUBLICATION = 2, TICKLINE_PUBLISHED = 3, TICKLINE_DOUBTED = 4 };

/* ORDERING: relaxed; the fences of tickline_first_load and tickline_is_still order the loads. */
static inline uint64_t tickline_load(const void *page, unsigned offset) {
    return __atomic_load_n((const uint64_t *)(const void *)((const char *)page + offset), __ATOMIC_RELAXED);
}

static inline uint64_t tickline_field(const void *page, unsigned slot, unsigned field) {
    return tickline_load(page, 128 + 64 * (slot & 7) + 8 * field);
}

/* Every compiler with these built-ins uses two's complement. */
static inline int64_t tickline_signed(uint64_t bits) {
    int64_t value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int64_t tickline_signed_field(const void *page, unsigned slot, unsigned field) {
    return tickline_signed(tickline_field(page, slot, field));
}

static inline uint64_t tickline_first_load(const void *page) {
    uint64_t word = tickline_load(page, 64);
    /* ORDERING: acquire, pairs with the writer's swap: later loads see the slots as filled. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return word;
}

static inline int tickline_is_still(const void *page, uint64_t word) {
    /* ORDERING: acquire, pairs with the writer's release stores to a slot: a reader that has seen
     * one of them finds another word. */
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return tickline_load(page, 64) == word;
}

static inline int tickline_is_before(uint64_t ticks, uint64_t other) {
    return tickline_signed(ticks - other) < 0;
}

static inline int64_t tickline_add(int64_t a, int64_t b) {
    return tickline_signed((uint64_t)a + (uint64_t)b);
}

static inline int64_t tickline_saturating_add(int64_t a, int64_t b) {
    int64_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return b < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

static inline int64_t tickline_saturating_sub(int64_t a, int64_t b) {
    int64_t difference;
    if (__builtin_sub_overflow(a, b, &difference)) return b < 0 ? INT64_MAX : INT64_MIN;
    return difference;
}

/* The upper half of a product of 128 bits. */
static inline uint64_t tickline_high(uint64_t a, uint64_t b) {
    uint64_t al = a & 0xffffffffu, ah = a >> 32, bl = b & 0xffffffffu, bh = b >> 32;
    uint64_t low = al * bl, left = ah * bl, right = al * bh;
    uint64_t middle = (low >> 32) + (left & 0xffffffffu) + (right & 0xffffffffu);
    return ah * bh + (left >> 32) + (right >> 32) + (middle >> 32);
}

/* A line and its end, which every reading loads. */
struct tickline_line {
    uint64_t start, slope, end;
    int64_t base;
};

static inline struct tickline_line tickline_line(const void *page, unsigned slot) {
    struct tickline_line line;
    line.start = tickline_field(page, slot, TICKLINE_START);
    line.base = tickline_signed_field(page, slot, TICKLINE_BASE);
    line.slope = tickline_field(page, slot, TICKLINE_SLOPE);
    line.end = tickline_field(page, slot, TICKLINE_END);
    return line;
}

static inline int64_t tickline_at(const struct tickline_line *line, uint64_t ticks) {
    return tickline_signed((uint64_t)line->base + tickline_high((ticks - line->start) << 16, line->slope));
}

/* A line's value or an end mark, and its lead: the largest distance above the OS clock to which
 * it may raise a reading, ns. */
struct tickline_time {
    int64_t ns, lead;
};

/* The time of a reading that follows from `ns`, a time of the page. For Unix time, offset and lead come
 * from `slot`. */
static inline struct tickline_time tickline_in_timescale(const void *page, unsigned slot, int64_t ns, int64_t lead,
                                                         int is_unix) {
    struct tickline_time time = {ns, lead};
    if (is_unix) {
        int64_t offset = tickline_signed_field(page, slot, TICKLINE_UNIX_OFFSET);
        time.ns = offset == INT64_MIN ? INT64_MIN : tickline_add(ns, offset);
        time.lead = offset == INT64_MIN ? 0 : tickline_signed_field(page, slot, TICKLINE_UNIX_LEAD);
    }
    return time;
}

/* The reading that follows from `os_ns`, the time of the OS clock. */
static inline int64_t tickline_apply_time(const struct tickline_time *time, int64_t os_ns, int is_unix) {
    int64_t ahead = tickline_saturating_sub(time->ns, os_ns);
    if (ahead <= 0) return os_ns;
    if (ahead <= time->lead) return time->ns;
    return !is_unix && time->lead > 0 ? tickline_saturating_add(os_ns, time->lead) : os_ns;
}

/* R8: raises a monotonic reading to the process's high-water mark; both are in the page's time. */
static inline int64_t tickline_apply_high_water(const int64_t *high_water_ns, int64_t ns, int is_unix) {
    /* ORDERING: relaxed, here and in tickline_raise: the order of one variable's changes is enough. */
    int64_t mark = is_unix ? INT64_MIN : __atomic_load_n(high_water_ns, __ATOMIC_RELAXED);
    return mark > ns ? mark : ns;
}

static inline void tickline_raise(int64_t *high_water_ns, int64_t ns) {
    int64_t mark = __atomic_load_n(high_water_ns, __ATOMIC_RELAXED);
    while (mark < ns &&
           !__atomic_compare_exchange_n(high_water_ns, &mark, ns, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

/* Reads the OS clock, and converts a monotonic time into the page's time. */
static inline int64_t tickline_os_ns(const struct tickline_os *os, int64_t page_offset_ns, int is_unix) {
    if (is_unix) return os->unix_ns(os->context);
    return tickline_add(os->monotonic_ns(os->context), tickline_signed(0 - (uint64_t)page_offset_ns));
}

enum tickline_attempt_result {
    TICKLINE_ATTEMPT_LINE,
    TICKLINE_ATTEMPT_ASK_OS,
    TICKLINE_ATTEMPT_WAIT,
    TICKLINE_ATTEMPT_CHANGED
};

/* A reader's wait for first publications. */
struct tickline_wait {
    uint64_t word;           /* the first publication that the reader waits for */
    uint64_t since, last;    /* the ticks of the first and the last attempt that found it */
    unsigned still_attempts; /* attempts in a row at one tick */
    unsigned attempts;       /* all attempts */
};

/* Counts an attempt, and returns whether the reader keeps waiting (R7). */
static inline int tickline_count_and_keep_waiting(struct tickline_wait *wait, uint64_t word, uint64_t ticks,
                                                  uint64_t deadline, uint64_t longest) {
    if (word != wait->word) {
        wait->word = word;
        wait->since = ticks;
        wait->still_attempts = 0;
    } else if (ticks != wait->last) {
        wait->still_attempts = 0;
    }
    wait->last = ticks;
    wait->still_attempts++;
    wait->attempts++;
    return deadline - ticks - 1 < longest && ticks - wait->since <= longest &&
           wait->still_attempts < TICKLINE_MAX_STILL_ATTEMPTS && wait->attempts < TICKLINE_MAX_ATTEMPTS;
}

/* Yields the CPU or spins between two attempts. */
static inline void tickline_pause(const struct tickline_wait *wait, const struct tickline_os *os) {
    unsigned attempts = wait->attempts;
    if (attempts >= TICKLINE_FIRST_PAUSE && (attempts & (attempts - 1)) == 0) {
        if (os->pause) os->pause(os->context);
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" ::: "memory");
#endif
}

/* Makes an attempt with the line in `slot`, whose lease contains `ticks`. */
static inline enum tickline_attempt_result tickline_try_line(const void *page, uint64_t word,
                                                             const struct tickline_line *line, unsigned slot,
                                                             uint64_t ticks, int is_unix,
                                                             struct tickline_time *time) {
    *time = tickline_in_timescale(page, slot, tickline_at(line, ticks), INT64_MAX, is_unix);
    if (!tickline_is_still(page, word)) return TICKLINE_ATTEMPT_CHANGED;
    /* R5, or Unix time comes from the OS clock. */
    if ((word & 7) == TICKLINE_DOUBTED || (is_unix && time->ns == INT64_MIN)) return TICKLINE_ATTEMPT_ASK_OS;
    return TICKLINE_ATTEMPT_LINE;
}

/* Makes an attempt with the lines that `word` names (rules R2 to R5). */
static inline enum tickline_attempt_result tickline_try_lines(const void *page, const struct tickline_os *os,
                                                              uint64_t word, int is_unix,
                                                              struct tickline_time *time) {
    unsigned first = (unsigned)(word >> 3 & 7), last = word >> 9 & 1 ? (unsigned)(word >> 6 & 7) : first;
    struct tickline_line line = tickline_line(page, first), second = tickline_line(page, last);
    unsigned slot = first;
    uint64_t ticks = os->counter(os->context);
    if (tickline_is_before(ticks, line.start)) { /* R4: the counter was reset. */
        int64_t lead = tickline_signed_field(page, first, TICKLINE_LEAD);
        int64_t other = tickline_signed_field(page, last, TICKLINE_LEAD);
        if (other > lead) lead = other;
        *time = tickline_in_timescale(page, last, tickline_at(&second, second.end), lead, is_unix);
        return TICKLINE_ATTEMPT_ASK_OS;
    }
    if (!tickline_is_before(ticks, line.end)) { /* R2, R3 */
        line = second;
        slot = last;
        if (!tickline_is_before(ticks, second.end)) {
            *time = tickline_in_timescale(page, last, tickline_at(&second, second.end), INT64_MAX, is_unix);
            return TICKLINE_ATTEMPT_ASK_OS;
        }
    }
    return tickline_try_line(page, word, &line, slot, ticks, is_unix, time);
}

/* Tries only the first published line, which suffices for nearly all readings. Returns 0 if not. */
static inline int tickline_try_first_line(const void *page, const struct tickline_os *os, int is_unix,
                                          struct tickline_time *time) {
    uint64_t word = tickline_first_load(page), ticks;
    unsigned slot = (unsigned)(word >> 3 & 7);
    struct tickline_line line;
    if ((word & 7) != TICKLINE_PUBLISHED) return 0;
    line = tickline_line(page, slot);
    ticks = os->counter(os->context);
    /* One comparison checks both ends. */
    if (ticks - line.start >= line.end - line.start) return 0;
    return tickline_try_line(page, word, &line, slot, ticks, is_unix, time) == TICKLINE_ATTEMPT_LINE;
}

static inline enum tickline_attempt_result tickline_attempt(const void *page, const struct tickline_os *os,
                                                            uint64_t word, int is_unix, struct tickline_wait *wait,
                                                            struct tickline_time *time) {
    unsigned phase = (unsigned)(word & 7), first = (unsigned)(word >> 3 & 7);
    if (phase == TICKLINE_PUBLISHED || phase == TICKLINE_DOUBTED)
        return tickline_try_lines(page, os, word, is_unix, time);
    time->ns = INT64_MIN;
    time->lead = 0;
    if (phase == TICKLINE_NO_LINE || phase == TICKLINE_FIRST_PUBLICATION) {
        uint64_t deadline = tickline_field(page, first, TICKLINE_START);
        uint64_t longest = tickline_field(page, first, TICKLINE_SLOPE);
        *time = tickline_in_timescale(page, first, tickline_signed_field(page, first, TICKLINE_BASE),
                                      tickline_signed_field(page, first, TICKLINE_LEAD), is_unix);
        if (phase == TICKLINE_FIRST_PUBLICATION) {
            uint64_t ticks = os->counter(os->context);
            if (!tickline_is_still(page, word)) return TICKLINE_ATTEMPT_CHANGED;
            if (tickline_count_and_keep_waiting(wait, word, ticks, deadline, longest)) return TICKLINE_ATTEMPT_WAIT;
        }
    }
    return TICKLINE_ATTEMPT_ASK_OS; /* also for a page that is off */
}

/* Stores the reading that follows from a line: not below the process's high-water mark (R8), and as
 * Unix time not below the kernel's last tick (R9). Returns 0 if Unix time may have been set back
 * (R10). */
static inline int tickline_by_line(int64_t ns, const struct tickline_os *os, const int64_t *high_water_ns,
                                   int is_unix, struct tickline_reading *reading) {
    int64_t coarse;
    if (is_unix && os->coarse_unix_ns && os->coarse_unix_ns(os->context, &coarse)) {
        if (tickline_saturating_sub(ns, coarse) > TICKLINE_MAX_ABOVE_COARSE_NS) return 0;
        if (coarse > ns) ns = coarse;
    }
    reading->ns = tickline_apply_high_water(high_water_ns, ns, is_unix);
    reading->source = TICKLINE_LINE;
    return 1;
}

/* The reading that follows from the OS clock, as the page has raised it (R8). */
static inline struct tickline_reading tickline_fallback(int64_t ns, int64_t *high_water_ns, int is_unix) {
    struct tickline_reading reading;
    reading.ns = tickline_apply_high_water(high_water_ns, ns, is_unix);
    reading.source = TICKLINE_OS;
    if (!is_unix) tickline_raise(high_water_ns, reading.ns);
    return reading;
}

/* Reads the time where tickline_try_first_line does not suffice. */
static inline struct tickline_reading tickline_read_slow(const void *page, int64_t page_offset_ns,
                                                         const struct tickline_os *os, int64_t *high_water_ns,
                                                         int is_unix) {
    struct tickline_wait wait = {0, 0, 0, 0, 0};
    unsigned starts = 1;
    while (starts < TICKLINE_MAX_STARTS) {
        struct tickline_time time;
        uint64_t word = tickline_first_load(page);
        int64_t os_ns;
        switch (tickline_attempt(page, os, word, is_unix, &wait, &time)) {
        case TICKLINE_ATTEMPT_WAIT:
            tickline_pause(&wait, os);
            continue;
        case TICKLINE_ATTEMPT_CHANGED:
            starts++;
            continue;
        case TICKLINE_ATTEMPT_LINE: {
            struct tickline_reading reading;
            if (tickline_by_line(time.ns, os, high_water_ns, is_unix, &reading)) return reading;
            break;
        }
        case TICKLINE_ATTEMPT_ASK_OS:
            break;
        }
        os_ns = tickline_os_ns(os, page_offset_ns, is_unix);
        /* R1: the second load, after the read of the OS clock. */
        if (tickline_is_still(page, word))
            return tickline_fallback(tickline_apply_time(&time, os_ns, is_unix), high_water_ns, is_unix);
        starts++;
    }
    return tickline_fallback(tickline_os_ns(os, page_offset_ns, is_unix), high_water_ns, is_unix);
}

static inline struct tickline_reading tickline_read(const void *page, int64_t page_offset_ns,
                                                    const struct tickline_os *os, int64_t *high_water_ns,
                                                    int is_unix) {
    struct tickline_time time;
    struct tickline_reading reading;
    if (tickline_try_first_line(page, os, is_unix, &time) &&
        tickline_by_line(time.ns, os, high_water_ns, is_unix, &reading))
        return reading;
    return tickline_read_slow(page, page_offset_ns, os, high_water_ns, is_unix);
}

/* Attaches to a page of a trusted file, if the page counts for this process. `page` is 4096 bytes at
 * a multiple of 64. Stores this process's CLOCK_MONOTONIC minus the page's time, ns. Before the first
 * reading, call tickline_page_raise_to_os_clock. */
static inline enum tickline_refusal tickline_page_attach(const void *page, const struct tickline_boot_context *context,
                                                         int64_t *page_offset_ns) {
    uint64_t magic, head, boot[2], namespace_, offset;
    uint32_t halves[2];
    memcpy(&magic, "tickline", sizeof magic);
    if (tickline_load(page, 0) != magic) return TICKLINE_NOT_A_PAGE;
    head = tickline_load(page, 8);
    memcpy(halves, &head, sizeof halves);
    if (halves[0] != TICKLINE_LAYOUT_VERSION) return TICKLINE_OTHER_VERSION;
    if (halves[1] != TICKLINE_PAGE_BYTES) return TICKLINE_OTHER_SIZE;
    boot[0] = tickline_load(page, 16);
    boot[1] = tickline_load(page, 24);
    if (memcmp(boot, context->boot_id, sizeof boot) != 0) return TICKLINE_OTHER_BOOT;
    if (TICKLINE_COUNTER == 0 || tickline_load(page, 40) != TICKLINE_COUNTER) return TICKLINE_OTHER_COUNTER;
    namespace_ = tickline_load(page, 32);
    offset = tickline_load(page, 48);
    *page_offset_ns = 0;
    if (namespace_ == context->time_namespace) return TICKLINE_ATTACHED;
    if (!context->knows_offset) return TICKLINE_OTHER_NAMESPACE;
    *page_offset_ns = tickline_signed((uint64_t)context->monotonic_offset_ns - offset);
    return TICKLINE_ATTACHED;
}

/* Reads CLOCK_MONOTONIC of this process, ns. */
static inline struct tickline_reading tickline_page_monotonic(const void *page, int64_t page_offset_ns,
                                                              const struct tickline_os *os, int64_t *high_water_ns) {
    struct tickline_reading reading = tickline_read(page, page_offset_ns, os, high_water_ns, 0);
    reading.ns = tickline_add(reading.ns, page_offset_ns);
    return reading;
}

/* Reads CLOCK_REALTIME, ns. */
static inline struct tickline_reading tickline_page_unix(const void *page, const struct tickline_os *os,
                                                         int64_t *high_water_ns) {
    return tickline_read(page, 0, os, high_water_ns, 1);
}

/* Raises the process's high-water mark to the OS clock (R8). A process calls this after each attach,
 * before its first reading. */
static inline void tickline_page_raise_to_os_clock(int64_t page_offset_ns, const struct tickline_os *os,
                                                   int64_t *high_water_ns) {
    tickline_raise(high_water_ns, tickline_os_ns(os, page_offset_ns, 0));
}

#endif
