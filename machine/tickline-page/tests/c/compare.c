/* Reads cases from its input, makes each reading with tickline_page.h, and writes the results. */
#include "tickline_page.h"

#include <stdio.h>

struct input {
    unsigned char page[640];
    unsigned char boot_id[16];
    uint64_t time_namespace;
    int64_t knows_offset, offset_ns;
    uint64_t counters[8];
    int64_t os[8];
    int64_t has_coarse, coarse;
    uint64_t change_at, new_word;
    int64_t high_water_ns, is_unix, changes_always;
};

struct output {
    int64_t refusal, page_offset_ns, ns, source, high_water_ns;
    uint64_t counter_reads, os_reads, pauses;
};

static union {
    unsigned char bytes[TICKLINE_PAGE_BYTES];
    uint64_t words[TICKLINE_PAGE_BYTES / 8];
} page __attribute__((aligned(64)));
static struct input in;
static struct output out;

/* Changes the word, if it changes always. */
static void change(void) {
    if (in.changes_always) page.words[8] += 1 << 10;
}
static uint64_t counter(void *context) {
    (void)context;
    if (out.counter_reads == in.change_at) page.words[8] = in.new_word;
    change();
    return in.counters[out.counter_reads++ % 8];
}
static int64_t os(void *context) {
    (void)context;
    change();
    return in.os[out.os_reads++ % 8];
}
static int coarse(void *context, int64_t *ns) {
    (void)context;
    *ns = in.coarse;
    return in.has_coarse != 0;
}
static void rest(void *context) {
    (void)context;
    out.pauses++;
}

int main(void) {
    struct tickline_os clocks = {counter, os, os, coarse, rest, 0};
    while (fread(&in, sizeof in, 1, stdin) == 1) {
        struct tickline_boot_context context;
        memset(&page, 0, sizeof page);
        memset(&out, 0, sizeof out);
        memcpy(page.bytes, in.page, sizeof in.page);
        memcpy(context.boot_id, in.boot_id, sizeof in.boot_id);
        context.time_namespace = in.time_namespace;
        context.knows_offset = in.knows_offset != 0;
        context.monotonic_offset_ns = in.offset_ns;
        out.refusal = tickline_page_attach(&page, &context, &out.page_offset_ns);
        out.high_water_ns = in.high_water_ns;
        if (out.refusal == TICKLINE_ATTACHED) {
            struct tickline_reading reading =
                in.is_unix ? tickline_page_unix(&page, &clocks, &out.high_water_ns)
                           : tickline_page_monotonic(&page, out.page_offset_ns, &clocks, &out.high_water_ns);
            out.ns = reading.ns;
            out.source = reading.source;
        } else {
            out.page_offset_ns = 0;
        }
        if (fwrite(&out, sizeof out, 1, stdout) != 1) return 1;
    }
    return 0;
}
