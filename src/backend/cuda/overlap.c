/* How runs overlap: a stream of copies beside the one of kernels, events between them, and graphs.
 */
#include "backend/cuda/cuda.h"

static struct {
    CUevent copied, ended; /* the slot's inputs are there; its run is over */
} slots[BRIM_SLOTS];

static CUdeviceptr device_pointer(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

static void *host_alloc(size_t bytes)
{
    void *p = NULL;
    return brim_cu.cuMemHostAlloc(&p, bytes, 0) == CUDA_SUCCESS ? p : NULL;
}

static void host_free(void *p)
{
    brim_cu.cuMemFreeHost(p);
}

static CUevent event_of(CUevent *e)
{
    if (!*e) brim_cuda_note(brim_cu.cuEventCreate(e, CU_EVENT_DISABLE_TIMING), "an event");
    return *e;
}

static void feed_begin(int slot)
{
    CUevent ended = slots[slot].ended;
    if (ended)
        brim_cuda_note(brim_cu.cuStreamWaitEvent(brim_cuda_get()->copies, ended, 0),
                       "ordering work");
}

static void feed(void *device, const void *host, size_t bytes)
{
    brim_cuda_note(
        brim_cu.cuMemcpyHtoDAsync_v2(device_pointer(device), host, bytes, brim_cuda_get()->copies),
        "copying to the card");
}

static void feed_end(int slot)
{
    CUevent copied = event_of(&slots[slot].copied);
    brim_cuda_note(brim_cu.cuEventRecord(copied, brim_cuda_get()->copies), "ordering work");
    brim_cuda_note(brim_cu.cuStreamWaitEvent(brim_cuda_get()->stream, copied, 0), "ordering work");
}

static void fetch(void *host, const void *device, size_t bytes)
{
    brim_cuda_note(
        brim_cu.cuMemcpyDtoHAsync_v2(host, device_pointer(device), bytes, brim_cuda_get()->stream),
        "copying from the card");
}

static void ended(int slot)
{
    brim_cuda_note(brim_cu.cuEventRecord(event_of(&slots[slot].ended), brim_cuda_get()->stream),
                   "ordering work");
}

static void wait_for(int slot)
{
    if (slots[slot].ended)
        brim_cuda_note(brim_cu.cuEventSynchronize(slots[slot].ended), "computing");
}

static void record(void)
{
    brim_cuda_note(brim_cu.cuStreamBeginCapture_v2(brim_cuda_get()->stream,
                                                   CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "recording a step");
}

static void *recorded(void)
{
    CUgraph g = NULL;
    CUgraphExec x = NULL;
    CUresult r = brim_cu.cuStreamEndCapture(brim_cuda_get()->stream, &g);
    if (r == CUDA_SUCCESS) r = brim_cu.cuGraphInstantiateWithFlags(&x, g, 0);
    if (g) brim_cu.cuGraphDestroy(g);
    brim_cuda_note(r, "recording a step");
    return x;
}

static void replay(void *recording)
{
    brim_cuda_note(brim_cu.cuGraphLaunch(recording, brim_cuda_get()->stream), "starting a step");
}

static void forget(void *recording)
{
    brim_cu.cuGraphExecDestroy(recording);
}

static void *mark_new(void)
{
    CUevent e = NULL;
    brim_cu.cuEventCreate(&e, CU_EVENT_DEFAULT);
    return e;
}

static void mark(void *m)
{
    brim_cuda_note(brim_cu.cuEventRecord(m, brim_cuda_get()->stream), "timing a step");
}

static double between_ms(void *from, void *to)
{
    float ms = 0;
    brim_cu.cuEventElapsedTime(&ms, from, to);
    return (double)ms;
}

static void mark_free(void *m)
{
    brim_cu.cuEventDestroy_v2(m);
}

const brim_device_ops brim_cuda_overlap = {
    .host_alloc = host_alloc,
    .host_free = host_free,
    .feed_begin = feed_begin,
    .feed = feed,
    .feed_end = feed_end,
    .fetch = fetch,
    .ended = ended,
    .wait = wait_for,
    .record = record,
    .recorded = recorded,
    .replay = replay,
    .forget = forget,
    .mark_new = mark_new,
    .mark = mark,
    .between_ms = between_ms,
    .mark_free = mark_free,
};
