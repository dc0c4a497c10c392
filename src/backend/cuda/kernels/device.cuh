// What every kernel starts from; it is put before each of them. No header of the toolkit is used, so
// that NVRTC alone is enough. tests/fake_cuda/emulator.hpp defines BRIM_EMULATE and, in C++, what the
// compiler for the device brings.

#ifndef BRIM_EMULATE
// A kernel takes one argument, a struct of args.h that the host fills.
#define BRIM_KERNEL(threads, name, args_t)                                                         \
    extern "C" __global__ void __launch_bounds__(threads) name(const args_t a)
#define BRIM_DYNAMIC_SHARED(name) extern __shared__ __align__(128) char name[]
#define UNROLL            _Pragma("unroll")
#define UNROLL_BY(n)      UNROLL_TEXT(unroll n)
#define UNROLL_TEXT(text) _Pragma(#text)
#define INFINITY __int_as_float(0x7f800000)
#define NAN      __int_as_float(0x7fffffff)
#endif

typedef unsigned char u8;
typedef int i32;
typedef float f32;
struct bf16 {
    unsigned short u;
};
struct f16 {
    unsigned short u;
};

// ---- conversions, round to nearest even ----

#ifdef BRIM_EMULATE
static inline float half_to_float(unsigned short h)
{
    unsigned sign = (h & 0x8000u) << 16, exp = h >> 10 & 31, man = h & 0x3ffu;
    if (exp == 31) return __uint_as_float(sign | 0x7f800000u | man << 13);
    if (exp) return __uint_as_float(sign | (exp + 112) << 23 | man << 13);
    float x = (float)man * 0x1p-24f;
    return sign ? -x : x;
}
static inline unsigned short float_to_half(float x)
{
    _Float16 h = (_Float16)x;
    unsigned short u;
    memcpy(&u, &h, 2);
    return u;
}
#else
__device__ __forceinline__ float half_to_float(unsigned short h)
{
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
__device__ __forceinline__ unsigned short float_to_half(float x)
{
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#endif

__device__ __forceinline__ float to_float(float x)
{
    return x;
}
__device__ __forceinline__ float to_float(bf16 x)
{
    return __uint_as_float((unsigned)x.u << 16);
}
__device__ __forceinline__ float to_float(f16 x)
{
    return half_to_float(x.u);
}
__device__ __forceinline__ float to_float(u8 x)
{
    return (float)x;
}
__device__ __forceinline__ float to_float(i32 x)
{
    return (float)x;
}

template <class T> struct from_float;
template <> struct from_float<float> {
    static __device__ __forceinline__ float of(float x)
    {
        return x;
    }
};
template <> struct from_float<bf16> {
    static __device__ __forceinline__ bf16 of(float x)
    {
        unsigned u = __float_as_uint(x);
        if ((u & 0x7fffffffu) > 0x7f800000u) return bf16{(unsigned short)(u >> 16 | 0x40)};
        return bf16{(unsigned short)((u + 0x7fffu + (u >> 16 & 1)) >> 16)};
    }
};
template <> struct from_float<f16> {
    static __device__ __forceinline__ f16 of(float x)
    {
        return f16{float_to_half(x)};
    }
};
template <> struct from_float<u8> { // saturating, as brim_tensor_set
    static __device__ __forceinline__ u8 of(float x)
    {
        return (u8)(x >= 255 ? 255 : x > 0 ? rintf(x) : 0);
    }
};
template <> struct from_float<i32> {
    static __device__ __forceinline__ i32 of(float x)
    {
        return x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1
                                                                    : (i32)rintf(x);
    }
};

// N elements that are read and written at once; N * sizeof(T) is at most 16.
template <class T, int N> struct alignas(sizeof(T) * N) pack {
    T v[N];
};
template <class T, int N> __device__ __forceinline__ pack<T, N> load_pack(const T *p)
{
    return *(const pack<T, N> *)p;
}
template <class T, int N> __device__ __forceinline__ void store_pack(T *p, const pack<T, N> &x)
{
    *(pack<T, N> *)p = x;
}

// ---- sums and maxima over lanes and blocks, always in the same order ----

__device__ __forceinline__ float warp_sum(float x)
{
    for (int d = 16; d; d >>= 1) x += __shfl_xor_sync(0xffffffffu, x, d);
    return x;
}
__device__ __forceinline__ float warp_max(float x)
{
    for (int d = 16; d; d >>= 1) {
        float y = __shfl_xor_sync(0xffffffffu, x, d);
        x = y > x || y != y ? y : x; // NaN stays
    }
    return x;
}

// Sum over the block's threads, a multiple of 32; every thread gets it. `shared` has room for one
// float a warp.
__device__ __forceinline__ float block_sum(float x, float *shared)
{
    unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    x = warp_sum(x);
    __syncthreads();
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    x = 0;
    for (unsigned k = 0; k < warps; k++) x += shared[k];
    return x;
}
__device__ __forceinline__ float block_max(float x, float *shared)
{
    unsigned lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    x = warp_max(x);
    __syncthreads();
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    x = shared[0];
    for (unsigned k = 1; k < warps; k++) x = shared[k] > x || shared[k] != shared[k] ? shared[k] : x;
    return x;
}

__device__ __forceinline__ long long thread_index()
{
    return (long long)blockIdx.x * blockDim.x + threadIdx.x;
}
__device__ __forceinline__ long long thread_count()
{
    return (long long)gridDim.x * blockDim.x;
}

// ---- Philox4x32-10, as base/rng.h ----

struct philox {
    unsigned v[4];
};
__device__ __forceinline__ philox philox4x32(unsigned k0, unsigned k1, unsigned long long high,
                                             unsigned long long low)
{
    unsigned c0 = (unsigned)low, c1 = (unsigned)(low >> 32);
    unsigned c2 = (unsigned)high, c3 = (unsigned)(high >> 32);
    for (int round = 0; round < 10; round++) {
        unsigned n0 = __umulhi(0xCD9E8D57u, c2) ^ c1 ^ k0, n1 = 0xCD9E8D57u * c2;
        unsigned n2 = __umulhi(0xD2511F53u, c0) ^ c3 ^ k1, n3 = 0xD2511F53u * c0;
        c0 = n0;
        c1 = n1;
        c2 = n2;
        c3 = n3;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return philox{{c0, c1, c2, c3}};
}

// ---- for formulas of ir/body.h ----

__device__ __forceinline__ float max_nan(float a, float b)
{
    return a != a || a > b ? a : b;
}
__device__ __forceinline__ float min_nan(float a, float b)
{
    return a != a || a < b ? a : b;
}
