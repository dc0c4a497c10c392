#include "backend/cuda/gemm.h"

#include <stdio.h>

enum {
    BM = 64,
    BN = 64,
    BK = 32,
    THREADS = 128,
    PACK_BYTES = 16,
    BLOCKS_WANTED = 2,
    STEPS_LEAST = 4
};
enum { MOST_SLICES = 64 };

int brim_gemm_pack(brim_dtype t, int64_t n, const int64_t *strides, int n_strides)
{
    int width = PACK_BYTES / (int)brim_dtype_bytes(t);
    for (; width > 1; width /= 2) {
        bool fits = n % width == 0;
        for (int k = 0; k < n_strides && fits; k++) fits = strides[k] % width == 0;
        if (fits) break;
    }
    return width;
}

static int64_t tiles(const gemm_args *a)
{
    return (int64_t)((a->m + BM - 1) / BM) * ((a->n + BN - 1) / BN);
}

/* Few tiles leave the card idle: the sum is cut, and the cuts are added in their order. */
static void choose_slices(brim_cuda_gemm *g)
{
    gemm_args *a = &g->a;
    int64_t blocks = tiles(a) * a->groups * a->batch, steps = (a->k + BK - 1) / BK;
    int64_t slices = blocks > 0 ? BLOCKS_WANTED * brim_cuda_get()->sms / blocks : 1;
    if (slices > steps / STEPS_LEAST) slices = steps / STEPS_LEAST;
    a->slices = (int)(slices < 1 ? 1 : slices > MOST_SLICES ? MOST_SLICES : slices);
    if (a->slices > 1)
        g->part_bytes = (size_t)a->slices * (size_t)a->groups * (size_t)a->batch * (size_t)a->m *
                        (size_t)a->n * sizeof(float);
}

brim_status brim_cuda_gemm_make(brim_cuda_gemm *g, brim_gemm_read a, brim_gemm_read b, bool last,
                                brim_dtype in, brim_dtype out, brim_dtype bias, brim_error *err)
{
    static const char *const side[] = {"PLAIN", "WINDOW", "TAPS", "GATHER", "WEIGHTS"};
    char defines[400];
    /* Tensor cores take f16 from 7.5 on, bf16 from 8.0. */
    bool mma = in == BRIM_F16 || (in == BRIM_BF16 && brim_cuda_get()->cc >= 80);
    choose_slices(g);
    snprintf(defines, sizeof defines,
             "-DX=%s -DY=%s -DZ=%s -DMMA=%d -DLAST=%d -DSIDE_A=%s -DPACK_A=%d -DALONG_A=%d "
             "-DSIDE_B=%s -DPACK_B=%d -DALONG_B=%d",
             brim_cuda_type(in), brim_cuda_type(out), brim_cuda_type(bias), mma, last, side[a.side],
             a.pack, a.along, side[b.side], b.pack, b.along);
    BRIM_TRY(brim_cuda_kernel("gemm.cu", defines, "gemm", &g->f, err));
    return brim_cuda_kernel("gemm.cu", defines, "gemm_join", &g->join, err);
}

void brim_cuda_gemm_run(const brim_cuda_gemm *g, const void *pa, const void *pb, const void *bias,
                        void *c, void *workspace)
{
    gemm_args a = g->a;
    a.a.at = pa;
    a.b.at = pb;
    a.bias = bias;
    a.c = c;
    a.part = workspace;
    unsigned z = (unsigned)(a.groups * a.batch);
    brim_cuda_launch(g->f, (unsigned)tiles(&a), (unsigned)a.slices, z, THREADS, 0, &a);
    if (a.slices > 1)
        brim_cuda_launch(g->join, brim_cuda_blocks((int64_t)z * a.m * a.n, 256, 0), 1, 1, 256, 0,
                         &a);
}
