/* The CUDA device as a backend. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/holders.h"
#include "base/mem.h"

void brim_cuda_state_free(brim_step *s)
{
    free(s->state);
    s->state = NULL;
}

const char *brim_cuda_type(brim_dtype t)
{
    static const char *const name[BRIM_DTYPE_COUNT] = {
        [BRIM_F32] = "float", [BRIM_BF16] = "bf16",  [BRIM_F16] = "f16",  [BRIM_I32] = "i32",
        [BRIM_U8] = "u8",     [BRIM_F64] = "double", [BRIM_I64] = "long",
    };
    return name[t];
}

unsigned brim_cuda_blocks(int64_t n, unsigned threads, unsigned per_sm)
{
    int64_t blocks = (n + threads - 1) / threads, most = (int64_t)per_sm * brim_cuda_get()->sms;
    return (unsigned)(most && blocks > most ? most : blocks);
}

static CUdeviceptr device_pointer(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

void brim_cuda_zero(void *p, size_t bytes)
{
    if (bytes)
        brim_cuda_note(
            brim_cu.cuMemsetD8Async(device_pointer(p), 0, bytes, brim_cuda_get()->stream),
            "clearing memory");
}

/* What is there, what is wanted, and who has the rest. */
static void no_memory(size_t bytes, brim_error *err)
{
    size_t left = 0, all = 0;
    char want[32], have[32], total[32];
    brim_str who = {0};
    brim_cu.cuMemGetInfo_v2(&left, &all);
    brim_cuda_holders(&who);
    brim_fail(
        err, BRIM_ENOMEM,
        "memory: %s are needed on %s, which has %s free of %s%s%s (end what holds it, or give "
        "--memory %zuMiB)",
        brim_bytes_text(want, (double)bytes), brim_cuda_get()->name,
        brim_bytes_text(have, (double)left), brim_bytes_text(total, (double)all), who.n ? ": " : "",
        brim_str_text(&who), left >> 20);
    brim_str_free(&who);
}

static void *take(size_t bytes, brim_error *err)
{
    CUdeviceptr p = 0;
    CUresult r = brim_cu.cuMemAlloc_v2(&p, bytes ? bytes : 1);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        no_memory(bytes, err);
    else if (r != CUDA_SUCCESS)
        brim_cuda_result(r, "taking memory", err);
    if (r != CUDA_SUCCESS) return NULL;
    brim_cuda_zero((void *)(uintptr_t)p, bytes);
    return (void *)(uintptr_t)p;
}

static void give_back(void *p, size_t bytes)
{
    (void)bytes;
    if (!p) return;
    brim_cu.cuStreamSynchronize(brim_cuda_get()->stream);
    brim_cu.cuMemFree_v2(device_pointer(p));
}

static void upload(void *device, const void *host, size_t bytes)
{
    if (bytes)
        brim_cuda_note(brim_cu.cuMemcpyHtoDAsync_v2(device_pointer(device), host, bytes,
                                                    brim_cuda_get()->stream),
                       "copying to the card");
}

static void download(void *host, const void *device, size_t bytes)
{
    if (!bytes) return;
    brim_cuda_note(
        brim_cu.cuMemcpyDtoHAsync_v2(host, device_pointer(device), bytes, brim_cuda_get()->stream),
        "copying from the card");
    brim_cuda_note(brim_cu.cuStreamSynchronize(brim_cuda_get()->stream), "computing");
}

static void threads_set(int n)
{
    (void)n;
}

static const brim_impl_list lists[] = {
#define X(name) {name, &name##_count},
    BRIM_CUDA_IMPLS(X)
#undef X
};

const brim_backend brim_backend_cuda = {
    .name = "cuda",
    .lists = lists,
    .n_lists = sizeof lists / sizeof *lists,
    .device = &brim_cuda_overlap,
    .open = brim_cuda_open,
    .check = brim_cuda_check,
    .failure = brim_cuda_failure,
    .alloc = take,
    .free = give_back,
    .upload = upload,
    .download = download,
    .threads_set = threads_set,
};
