/* The clock shim: a process that preloads it sees the clocks that a shared page describes.
 *
 * The page (path in SQUALL_CLOCK_PAGE) is written by the agent and mapped read-only here. It has two lines,
 *     fake = base_fake + (real - base_real) * rate
 * one for the wall clock and one for the monotonic clock, guarded by a sequence number that is odd while the page is
 * being written. With a `period` the wall clock is a strobe: it alternates between its line and true time, each for one
 * period; at rate 0 it stands still. The shim calls the real functions, so the vDSO is still used and a call costs only
 * a few nanoseconds more.
 *
 * Only calls through libc are changed. CLOCK_MONOTONIC_RAW, CLOCK_BOOTTIME and file times stay true, as a reference to
 * measure against. Waits by the monotonic clock (sleeping until, semaphores and condition variables until, epoll_wait
 * and poll for) last as long as that clock says; all others follow true time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct line {
    int64_t base_real, base_fake; /* nanoseconds */
    double rate;
};

struct page {
    _Atomic uint64_t sequence;
    struct line wall;
    int64_t period; /* nanoseconds; 0: no strobe */
    struct line monotonic;
};

static const int64_t SECOND = 1000000000;
static const struct page *page;
static int (*real_gettime)(clockid_t, struct timespec *);

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

__attribute__((constructor)) static void start(void)
{
    real_gettime = REAL(clock_gettime);
    const char *path = getenv("SQUALL_CLOCK_PAGE");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0)
        return;
    void *mapped = mmap(NULL, sizeof(struct page), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    if (mapped != MAP_FAILED)
        page = mapped;
}

/* Read a clock's present line, and the strobe's period. */
static struct line line_of(const struct line *which, int64_t *period)
{
    uint64_t before, after;
    struct line line;
    do {
        before = atomic_load_explicit(&page->sequence, memory_order_acquire);
        line = *which;
        *period = page->period;
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&page->sequence, memory_order_relaxed);
    } while (before != after || before % 2);
    return line;
}

static int64_t faked(struct line line, int64_t real)
{
    int64_t elapsed = real - line.base_real;
    return line.rate == 1.0 ? line.base_fake + elapsed : line.base_fake + (int64_t)((double)elapsed * line.rate);
}

static int64_t nanoseconds(const struct timespec *time)
{
    return time->tv_sec * SECOND + time->tv_nsec;
}

static void put(struct timespec *out, int64_t time)
{
    out->tv_sec = time / SECOND;
    out->tv_nsec = time % SECOND;
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (!real_gettime) /* another library's constructor came first */
        real_gettime = REAL(clock_gettime);
    int answer = real_gettime(clock, out);
    if (answer != 0 || !page)
        return answer;
    int64_t period, real = nanoseconds(out);
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) {
        struct line line = line_of(&page->wall, &period);
        int off = period > 0 && (real - line.base_real) / period % 2 != 0;
        if (!off)
            put(out, faked(line, real));
    } else if (clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE) {
        put(out, faked(line_of(&page->monotonic, &period), real));
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

/* Convert a deadline on the faked monotonic clock to the real one. */
static struct timespec real_deadline(clockid_t clock, const struct timespec *deadline)
{
    struct timespec real = *deadline;
    if (page && clock == CLOCK_MONOTONIC) {
        int64_t period;
        struct line line = line_of(&page->monotonic, &period);
        int64_t left = nanoseconds(deadline) - line.base_fake;
        int64_t at = line.base_real + (line.rate == 1.0 ? left : (int64_t)((double)left / line.rate));
        put(&real, at > 0 ? at : 0);
    }
    return real;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *wanted, struct timespec *left)
{
    if (!(flags & TIMER_ABSTIME))
        return REAL(clock_nanosleep)(clock, flags, wanted, left);
    struct timespec real = real_deadline(clock, wanted);
    return REAL(clock_nanosleep)(clock, flags, &real, left);
}

int sem_clockwait(sem_t *restrict semaphore, clockid_t clock, const struct timespec *restrict deadline)
{
    struct timespec real = real_deadline(clock, deadline);
    return REAL(sem_clockwait)(semaphore, clock, &real);
}

int pthread_cond_clockwait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex, clockid_t clock,
                           const struct timespec *restrict deadline)
{
    struct timespec real = real_deadline(clock, deadline);
    return REAL(pthread_cond_clockwait)(condition, mutex, clock, &real);
}

/* Convert milliseconds of the faked monotonic clock to those of the real one. */
static int real_timeout(int milliseconds)
{
    if (!page || milliseconds <= 0)
        return milliseconds;
    int64_t period;
    struct line line = line_of(&page->monotonic, &period);
    if (line.rate == 1.0)
        return milliseconds;
    double real = (double)milliseconds / line.rate + 0.999;
    return real > INT_MAX ? INT_MAX : (int)real;
}

int epoll_wait(int instance, struct epoll_event *events, int most, int timeout)
{
    return REAL(epoll_wait)(instance, events, most, real_timeout(timeout));
}

int poll(struct pollfd *files, nfds_t count, int timeout)
{
    return REAL(poll)(files, count, real_timeout(timeout));
}
