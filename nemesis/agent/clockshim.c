/* The clock shim: a process that preloads it sees the wall clock that a shared page describes.
 *
 * The page (path in SQUALL_CLOCK_PAGE) is written by the agent and mapped read-only here:
 *     fake = base_fake + (real - base_real) * rate
 * guarded by a sequence number that is odd while the page is being written. Only CLOCK_REALTIME is touched, and
 * only what libc's callers ask of it: monotonic time, timeouts and file times stay true. The real functions are
 * called underneath, so the vDSO is still used and a call costs a few nanoseconds more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct page {
    _Atomic uint64_t sequence;
    int64_t base_real, base_fake; /* nanoseconds since 1970 */
    double rate;
};

static const int64_t SECOND = 1000000000;
static const struct page *page;
static int (*real_gettime)(clockid_t, struct timespec *);

__attribute__((constructor)) static void start(void)
{
    real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    const char *path = getenv("SQUALL_CLOCK_PAGE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct page), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        page = mapped;
}

static int64_t faked(int64_t real)
{
    uint64_t before, after;
    int64_t base_real, base_fake;
    double rate;
    do {
        before = atomic_load_explicit(&page->sequence, memory_order_acquire);
        base_real = page->base_real;
        base_fake = page->base_fake;
        rate = page->rate;
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&page->sequence, memory_order_relaxed);
    } while (before != after || before % 2);
    int64_t elapsed = real - base_real;
    return rate == 1.0 ? base_fake + elapsed : base_fake + (int64_t)((double)elapsed * rate);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!real_gettime) /* another library's constructor came first */
        real_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int answer = real_gettime(clock, out);
    if (answer == 0 && page && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        int64_t fake = faked(out->tv_sec * SECOND + out->tv_nsec);
        out->tv_sec = fake / SECOND;
        out->tv_nsec = fake % SECOND;
    }
    return answer;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    out->tv_sec = now.tv_sec;
    out->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out)
        *out = now.tv_sec;
    return now.tv_sec;
}
