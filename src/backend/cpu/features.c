#include "backend/cpu/cpu.h"

#include <cpuid.h>
#include <sched.h>
#ifdef _OPENMP
#include <omp.h>
#endif

static brim_cpu_features detect(void)
{
    brim_cpu_features f = {.cores = 1};
    unsigned a, b, c, d;
    __builtin_cpu_init();
    f.avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    f.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
    if (f.avx512 && __get_cpuid_count(7, 1, &a, &b, &c, &d)) f.avx512_bf16 = a >> 5 & 1;
    if (f.avx512 && __get_cpuid_count(7, 0, &a, &b, &c, &d)) f.amx_bf16 = d >> 22 & 1;
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) f.cores = CPU_COUNT(&set);
    return f;
}

const brim_cpu_features *brim_cpu_features_get(void)
{
    static brim_cpu_features f;
    static bool known; /* a race writes the same bytes twice */
    if (!known) {
        f = detect();
        known = true;
    }
    return &f;
}

void brim_cpu_threads_set(int n)
{
#ifdef _OPENMP
    omp_set_num_threads(n > 0 ? n : brim_cpu_features_get()->cores);
#else
    (void)n;
#endif
}
