/* CUDA C on the host, for tests: put before a kernel's source, it turns each kernel into a function
 * that libcuda.c here runs block by block, every thread as a fiber that is left at barriers. Slow,
 * exact in what it promises: a barrier that not all threads reach, or a lane missing from a
 * shuffle, ends the process with a message. */
#ifndef BRIM_TEST_EMULATOR_H
#define BRIM_TEST_EMULATOR_H

#include <math.h>
#include <string.h>

extern "C" {
struct emu_dim {
    unsigned x, y, z;
};
extern emu_dim threadIdx, blockIdx, blockDim, gridDim;
void emu_block_barrier(void);
/* Gives each of the 32 lanes every lane's n bytes (at most 128) in lane order. */
const void *emu_exchange(unsigned mask, const void *mine, unsigned n);
void *emu_dynamic_shared(void);
}

#define BRIM_EMULATE 1
#define __device__
#define __forceinline__ inline
#define __shared__      static
#define __restrict__
#define __launch_bounds__(...)
#define __syncthreads() emu_block_barrier()
#define __syncwarp()    ((void)emu_exchange(0xffffffffu, "", 1))
#define __ldg(p)        (*(p))

#define UNROLL
#define UNROLL_BY(n)
#define BRIM_DYNAMIC_SHARED(name) char *name = (char *)emu_dynamic_shared()
#define BRIM_KERNEL(threads, name, args_t)                                                         \
    static void name##_emu(const args_t &a);                                                       \
    extern "C" void name(const void *p)                                                            \
    {                                                                                              \
        name##_emu(*(const args_t *)p);                                                            \
    }                                                                                              \
    static void name##_emu(const args_t &a)

template <class T> static T emu_from_lane(unsigned mask, T x, unsigned lane)
{
    T all[32];
    memcpy(all, emu_exchange(mask, &x, sizeof x), sizeof all);
    return all[lane & 31];
}
template <class T> static T __shfl_xor_sync(unsigned mask, T x, int other)
{
    return emu_from_lane(mask, x, (threadIdx.x & 31) ^ (unsigned)other);
}
template <class T> static T __shfl_down_sync(unsigned mask, T x, unsigned by)
{
    unsigned lane = threadIdx.x & 31;
    return emu_from_lane(mask, x, lane + by > 31 ? lane : lane + by);
}
template <class T> static T __shfl_sync(unsigned mask, T x, int lane)
{
    return emu_from_lane(mask, x, (unsigned)lane);
}
static inline unsigned __ballot_sync(unsigned mask, int yes)
{
    int all[32];
    unsigned bits = 0;
    memcpy(all, emu_exchange(mask, &yes, sizeof yes), sizeof all);
    for (int k = 0; k < 32; k++)
        if (mask >> k & 1) bits |= (unsigned)(all[k] != 0) << k;
    return bits;
}
static inline int __popc(unsigned x)
{
    return __builtin_popcount(x);
}
static inline unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)((unsigned long long)a * b >> 32);
}
static inline unsigned __float_as_uint(float x)
{
    unsigned u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float __uint_as_float(unsigned u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline unsigned atomicAdd(unsigned *p, unsigned x)
{
    unsigned was = *p;
    *p += x;
    return was;
}
static inline int atomicExch(int *p, int x)
{
    int was = *p;
    *p = x;
    return was;
}
static inline int atomicOr(int *p, int x)
{
    int was = *p;
    *p |= x;
    return was;
}
static inline void __threadfence(void) {}
static inline float __fdividef(float a, float b)
{
    return a / b;
}
static inline float rsqrtf(float x)
{
    return 1 / sqrtf(x);
}
template <class T> static T min(T a, T b)
{
    return b < a ? b : a;
}
template <class T> static T max(T a, T b)
{
    return a < b ? b : a;
}

#endif
