/* Threads in the CPU kernels. Work is cut into parts by its size alone, never by the number of
 * threads, so that sums come out the same on any number of them. */
#ifndef BRIM_CPU_PARALLEL_H
#define BRIM_CPU_PARALLEL_H

#include <stdint.h>

#ifdef _OPENMP
#include <omp.h>
#define BRIM_PRAGMA(x) _Pragma(#x)
/* Before `for (int p = 0; p < parts; p++)`. */
#define BRIM_PARALLEL_FOR(parts) BRIM_PRAGMA(omp parallel for schedule(static) if ((parts) > 1))
static inline int brim_threads(void)
{
    return omp_get_max_threads();
}
#else
#define BRIM_PARALLEL_FOR(parts)
static inline int brim_threads(void)
{
    return 1;
}
#endif

/* Work smaller than this many element operations is not worth waking a thread for. */
enum { BRIM_GRAIN = 16384 };

static inline int brim_parts(int64_t n, int64_t each, int most)
{
    int64_t parts = n * (each > 0 ? each : 1) / BRIM_GRAIN;
    if (parts > most) parts = most;
    if (parts > n) parts = n;
    return parts > 1 ? (int)parts : 1;
}

/* How many parts to make of a sum over n units that cost `each` operations: a power of two up to
 * `most`, by the sizes only. */
static inline int brim_sum_parts(int64_t n, int64_t each, int most)
{
    int parts = brim_parts(n, each, most), p = 1;
    while (2 * p <= parts) p *= 2;
    return p;
}

/* For work whose result does not depend on the cut: one part a thread. */
static inline int brim_thread_parts(int64_t n, int64_t each)
{
    return brim_parts(n, each, brim_threads());
}

/* Units [begin,end) of part p. */
static inline int64_t brim_part_begin(int64_t n, int p, int parts)
{
    return n / parts * p + (p < n % parts ? p : n % parts);
}

#endif
