/* forks BOARD: processes and their forked children hand readings of the clock to each other, until
 * the board says that it is over. Counts readings that are below one that was complete before. */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* `ForkBoard` in run_served/forks.rs has the same fields. */
struct board {
    _Atomic uint64_t largest_ns, end, handed_over, children, backward, largest_step_ns;
};

static struct board *board;
static uint64_t own_ns;

/* A reading, compared with the largest one that any process has completed before. */
static uint64_t read_once(void) {
    uint64_t before_ns = atomic_load(&board->largest_ns);
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    uint64_t ns = (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
    if (ns < before_ns) {
        atomic_fetch_add(&board->backward, 1);
        uint64_t step_ns = before_ns - ns, most_ns = atomic_load(&board->largest_step_ns);
        while (most_ns < step_ns &&
               !atomic_compare_exchange_weak(&board->largest_step_ns, &most_ns, step_ns)) {
        }
    }
    uint64_t largest_ns = before_ns;
    while (largest_ns < ns && !atomic_compare_exchange_weak(&board->largest_ns, &largest_ns, ns)) {
    }
    int is_of_another = before_ns != own_ns;
    own_ns = ns;
    return (uint64_t)is_of_another;
}

static void read_many(int count) {
    uint64_t handed_over = 0;
    for (int i = 0; i < count; i++)
        handed_over += read_once();
    atomic_fetch_add(&board->handed_over, handed_over);
}

/* Forks a child, which forks one in turn while `depth` allows it. All of them read. */
static void fork_and_read(int depth, int count) {
    pid_t child = fork();
    if (child < 0)
        abort();
    if (child == 0) {
        atomic_fetch_add(&board->children, 1);
        read_many(count);
        if (depth > 1)
            fork_and_read(depth - 1, count);
        _exit(0);
    }
    read_many(count);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0)
        _exit(1);
}

int main(int count, char **words) {
    int file = count == 2 ? open(words[1], O_RDWR) : -1;
    board = mmap(0, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (board == MAP_FAILED)
        return 2;
    pid_t other = fork();
    if (other < 0)
        return 2;
    while (!atomic_load(&board->end)) {
        fork_and_read(2, 300);
        fork_and_read(1, 10000);
    }
    if (other == 0)
        return 0;
    int status;
    return waitpid(other, &status, 0) == other && status == 0 ? 0 : 1;
}
