#include "backend/cuda/device.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { DRIVER_MIN = 12000, CC_MIN = 75 };

static brim_cuda_device dev;
static brim_error opened, failed;
static bool tried;

/* What a failure means to somebody who trains. */
static const struct {
    CUresult code;
    brim_status status;
    const char *why;
} meanings[] = {
    {CUDA_ERROR_OUT_OF_MEMORY, BRIM_ENOMEM,
     "the card's memory ran out (another process holds some of it: `nvidia-smi` lists them; or "
     "lower --memory)"},
    {CUDA_ERROR_NO_DEVICE, BRIM_ENOTFOUND,
     "no NVIDIA card is visible (see `nvidia-smi`; is CUDA_VISIBLE_DEVICES empty?)"},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, BRIM_EDEVICE,
     "another process has the card for itself (end it, or `nvidia-smi -c 0` lets several in)"},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, BRIM_EDEVICE,
     "the driver's library and its kernel module are of different versions (restart the machine)"},
    {CUDA_ERROR_SYSTEM_NOT_READY, BRIM_EDEVICE,
     "the driver is not ready (is nvidia-fabricmanager or nvidia-persistenced running?)"},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, BRIM_EUNSUPPORTED,
     "the driver's compatibility libraries do not serve this card (update the driver itself)"},
    {CUDA_ERROR_NO_BINARY_FOR_GPU, BRIM_EUNSUPPORTED,
     "the compiled kernel does not fit the card (delete Brim's kernel cache)"},
    {CUDA_ERROR_INVALID_IMAGE, BRIM_EUNSUPPORTED,
     "the driver does not take the compiled kernel (update the driver, or use an older NVRTC)"},
    {CUDA_ERROR_ECC_UNCORRECTABLE, BRIM_EDEVICE,
     "the card's memory has a fault that ECC cannot correct (restart; see `dmesg`)"},
    {CUDA_ERROR_ILLEGAL_ADDRESS, BRIM_EDEVICE,
     "a kernel read or wrote outside its memory (please report it)"},
    {CUDA_ERROR_LAUNCH_FAILED, BRIM_EDEVICE,
     "the card failed while computing (`dmesg` names the Xid; overheated, overclocked or lost?)"},
    {CUDA_ERROR_UNKNOWN, BRIM_EDEVICE,
     "the card is lost (`dmesg` names the Xid; restart the machine)"},
};

brim_status brim_cuda_result(CUresult r, const char *what, brim_error *err)
{
    if (r == CUDA_SUCCESS) return BRIM_OK;
    for (size_t k = 0; k < sizeof meanings / sizeof *meanings; k++)
        if (meanings[k].code == r)
            return brim_fail(err, meanings[k].status, "device: %s: %s", what, meanings[k].why);
    const char *name = NULL, *text = NULL;
    if (brim_cu.cuGetErrorName) brim_cu.cuGetErrorName(r, &name);
    if (brim_cu.cuGetErrorString) brim_cu.cuGetErrorString(r, &text);
    return brim_fail(err, BRIM_EDEVICE, "device: %s: %s %d, %s (please report it)", what,
                     name ? name : "error", (int)r, text ? text : "unknown to the driver");
}

void brim_cuda_note(CUresult r, const char *what)
{
    if (r != CUDA_SUCCESS && !failed.status) brim_cuda_result(r, what, &failed);
}

brim_status brim_cuda_failure(brim_error *err)
{
    return failed.status ? brim_fail(err, failed.status, "%s", failed.text) : BRIM_OK;
}

brim_status brim_cuda_check(brim_error *err)
{
    if (!failed.status) brim_cuda_note(brim_cu.cuStreamSynchronize(dev.stream), "computing");
    return brim_cuda_failure(err);
}

static int attribute(CUdevice d, int which)
{
    int x = 0;
    brim_cu.cuDeviceGetAttribute(&x, which, d);
    return x;
}

static brim_status read_properties(CUdevice d, brim_error *err)
{
    if (brim_cu.cuDeviceGetName(dev.name, sizeof dev.name, d)) strcpy(dev.name, "GPU");
    if (brim_cu.cuDeviceGetPCIBusId(dev.bus, sizeof dev.bus, d)) *dev.bus = 0;
    BRIM_TRY(brim_cuda_result(brim_cu.cuDeviceTotalMem_v2(&dev.total_bytes, d), "its memory", err));
    dev.cc = 10 * attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
             attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    dev.sms = attribute(d, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
    dev.l2_bytes = (size_t)attribute(d, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
    dev.shared_block_bytes =
        (size_t)attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    dev.shared_sm_bytes =
        (size_t)attribute(d, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
    if (attribute(d, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) == CU_COMPUTEMODE_PROHIBITED)
        return brim_fail(err, BRIM_EDEVICE,
                         "device: %s is closed to computing (`nvidia-smi -c 0` opens it)",
                         dev.name);
    if (dev.cc < CC_MIN)
        return brim_fail(err, BRIM_EUNSUPPORTED,
                         "device: %s has compute capability %d.%d, and 7.5 is the least that is "
                         "supported (RTX 20 and later; use --device cpu)",
                         dev.name, dev.cc / 10, dev.cc % 10);
    return BRIM_OK;
}

static brim_status open_device(brim_error *err)
{
    CUdevice d;
    int n = 0;
    BRIM_TRY(brim_cuda_library_open(BRIM_LIB_driver, err));
    BRIM_TRY(brim_cuda_result(brim_cu.cuInit(0), "starting", err));
    BRIM_TRY(brim_cuda_result(brim_cu.cuDriverGetVersion(&dev.driver), "its driver", err));
    if (dev.driver < DRIVER_MIN)
        return brim_fail(err, BRIM_EUNSUPPORTED,
                         "device: the driver is for CUDA %d.%d, and 12.0 is the least that is "
                         "supported (install driver 525 or later)",
                         dev.driver / 1000, dev.driver % 1000 / 10);
    BRIM_TRY(brim_cuda_result(brim_cu.cuDeviceGetCount(&n), "counting cards", err));
    if (n < 1) return brim_cuda_result(CUDA_ERROR_NO_DEVICE, "starting", err);
    BRIM_TRY(brim_cuda_result(brim_cu.cuDeviceGet(&d, 0), "the first card", err));
    BRIM_TRY(read_properties(d, err));
    BRIM_TRY(brim_cuda_library_open(BRIM_LIB_nvrtc, err));
    BRIM_TRY(
        brim_cuda_result(brim_cu.cuDevicePrimaryCtxRetain(&dev.context, d), "its context", err));
    BRIM_TRY(brim_cuda_result(brim_cu.cuCtxSetCurrent(dev.context), "its context", err));
    BRIM_TRY(brim_cuda_result(brim_cu.cuStreamCreate(&dev.stream, CU_STREAM_NON_BLOCKING),
                              "a stream", err));
    return brim_cuda_result(brim_cu.cuStreamCreate(&dev.copies, CU_STREAM_NON_BLOCKING), "a stream",
                            err);
}

brim_status brim_cuda_open(brim_error *err)
{
    if (!tried) {
        tried = true;
        open_device(&opened);
    }
    return opened.status ? brim_fail(err, opened.status, "%s", opened.text) : BRIM_OK;
}

void brim_cuda_assume(const brim_cuda_device *like)
{
    tried = true;
    opened = (brim_error){0};
    dev = *like;
    dev.context = NULL;
    dev.stream = dev.copies = NULL;
}

const brim_cuda_device *brim_cuda_get(void)
{
    return &dev;
}
