/* Another time of day for one server: CLOCK_REALTIME moves by an offset that a test writes into a
 * file. Monotonic clocks stay true, as they do when an operator sets the clock.
 *
 * Runs below the server's allocator, so it allocates nothing and looks no symbol up: the kernel
 * is asked directly. Preloaded; REDLOCK_CLOCK names the file, eight bytes, nanoseconds. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND 1000000000LL

static volatile long long *offset;

__attribute__((constructor)) static void map_offset(void) {
    const char *path = getenv("REDLOCK_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *page = mmap(0, sizeof *offset, PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (page != MAP_FAILED) offset = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = (int)syscall(SYS_clock_gettime, clock, now);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long moved = now->tv_sec * SECOND + now->tv_nsec + *offset;
        now->tv_sec = moved / SECOND;
        now->tv_nsec = moved % SECOND;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    now->tv_sec = precise.tv_sec;
    now->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *copy) {
    struct timespec precise;
    if (clock_gettime(CLOCK_REALTIME, &precise)) return -1;
    if (copy) *copy = precise.tv_sec;
    return precise.tv_sec;
}
