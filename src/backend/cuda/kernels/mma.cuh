// Matrix products of a warp on tensor cores (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
// d[16,8] += a[16,16] b[16,8]. With g = lane / 4 and t = lane % 4 a lane holds
//     a[0] row g, k 2t, 2t+1    a[1] row g+8    a[2] row g, k 2t+8, 2t+9    a[3] row g+8
//     b[0] column g, k 2t, 2t+1    b[1] k 2t+8, 2t+9
//     d[0], d[1] row g, columns 2t, 2t+1    d[2], d[3] row g+8
// Two halves of a pair lie in one register, the lower k in the lower half.

#ifdef BRIM_EMULATE
template <class T> static float mma_half(unsigned pair, int which)
{
    T x;
    x.u = (unsigned short)(which ? pair >> 16 : pair);
    return to_float(x);
}
template <class T> static void mma_16816(float d[4], const unsigned a[4], const unsigned b[2])
{
    unsigned mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]}, all[32][6];
    memcpy(all, emu_exchange(0xffffffffu, mine, sizeof mine), sizeof all);
    unsigned g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    for (int i = 0; i < 4; i++) {
        unsigned column = 2 * t + i % 2;
        for (int k = 0; k < 16; k++) {
            unsigned from = k % 8 / 2;
            d[i] += mma_half<T>(all[4 * g + from][i / 2 + 2 * (k / 8)], k % 2) *
                    mma_half<T>(all[4 * column + from][4 + k / 8], k % 2);
        }
    }
}
#else
template <class T>
__device__ __forceinline__ void mma_16816(float d[4], const unsigned a[4], const unsigned b[2]);
template <>
__device__ __forceinline__ void mma_16816<f16>(float d[4], const unsigned a[4], const unsigned b[2])
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, "
                 "{%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    for (int h = 0; h < 2; h++)
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, "
                     "{%6}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * h]), "r"(a[2 * h + 1]), "r"(b[h]));
#endif
}
#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ void mma_16816<bf16>(float d[4], const unsigned a[4],
                                                const unsigned b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, "
                 "{%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif
#endif
