/* Stands in for the driver: one card whose memory is the host's, whose kernels run in the emulator,
 * and whose work is done late: everything queued on a stream, pinned copies too, runs only when
 * somebody waits. So a missing wait shows as wrong numbers.
 *
 * $BRIM_FAKE_CUDA bends it: "cc=61 driver=11040 cards=0 mem=1000000 lost=5 busy=1": compute
 * capability, CUDA version, number of cards, bytes of memory, the launch from which on all fails,
 * the card is another's. */
#include "emulator_run.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    OK = 0,
    BAD_VALUE = 1,
    NO_MEMORY = 2,
    BUSY = 46,
    NO_CARD = 100,
    BAD_IMAGE = 200,
    NOT_FOUND = 500,
    LOST = 719
};
enum { MAX_ARGS_BYTES = 4096 };

static long setting(const char *name, long otherwise)
{
    const char *text = getenv("BRIM_FAKE_CUDA"), *at = text;
    size_t n = strlen(name);
    while (at && (at = strstr(at, name))) {
        if ((at == text || at[-1] == ' ') && at[n] == '=') return atol(at + n + 1);
        at += n;
    }
    return otherwise;
}

/* ---- memory ---- */

typedef struct block {
    char *at;
    size_t bytes;
    bool pinned;
    struct block *next;
} block;
static block *blocks;
static size_t used;

static void *take(size_t bytes, bool pinned)
{
    block *b = malloc(sizeof *b);
    if (!b) return NULL;
    *b = (block){aligned_alloc(512, (bytes + 511) & ~(size_t)511), bytes, pinned, blocks};
    if (!b->at) return NULL;
    memset(b->at, 0xff, bytes); /* NaN: what nobody wrote */
    blocks = b;
    if (!pinned) used += bytes;
    return b->at;
}

static int drop(void *p)
{
    for (block **at = &blocks; *at; at = &(*at)->next) {
        block *b = *at;
        if (b->at != p) continue;
        *at = b->next;
        if (!b->pinned) used -= b->bytes;
        free(b->at);
        free(b);
        return OK;
    }
    return BAD_VALUE;
}

/* The whole range lies in one block of that kind. */
static bool inside(const void *p, size_t n, bool pinned)
{
    for (const block *b = blocks; b; b = b->next)
        if (b->pinned == pinned && (const char *)p >= b->at &&
            (const char *)p + n <= b->at + b->bytes)
            return true;
    return false;
}

static size_t capacity(void)
{
    return (size_t)setting("mem", 8L << 30);
}

int cuMemAlloc_v2(uint64_t *p, size_t bytes)
{
    if (!bytes) return BAD_VALUE;
    if (used + bytes > capacity()) return NO_MEMORY;
    *p = (uint64_t)(uintptr_t)take(bytes, false);
    return *p ? OK : NO_MEMORY;
}
int cuMemFree_v2(uint64_t p)
{
    return drop((void *)(uintptr_t)p);
}
int cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    (void)flags;
    return (*p = take(bytes, true)) ? OK : NO_MEMORY;
}
int cuMemFreeHost(void *p)
{
    return drop(p);
}
int cuMemGetInfo_v2(size_t *free_bytes, size_t *total)
{
    *total = capacity();
    *free_bytes = *total - used;
    return OK;
}

/* ---- work ---- */

/* Counts its records: a wait is for the last one that came before it. */
typedef struct event {
    long recorded, reached;
    struct stream *on; /* recorded there last */
    struct graph *in;  /* recorded while that was captured */
} event;

typedef enum kind { COPY, FILL, LAUNCH, RECORD, WAIT } kind;

typedef struct op {
    kind kind;
    void *to;
    const void *from;
    size_t n;
    int value;
    event *e;
    long version;
    struct function *f;
    unsigned grid[3], threads, shared;
    char args[MAX_ARGS_BYTES];
    char *owned; /* a copy of pageable memory */
    struct op *next;
} op;

typedef struct list {
    op *first, **last;
} list;

typedef struct graph {
    list ops;
} graph;

typedef struct stream {
    list queue;
    graph *capture;
} stream;

typedef struct function {
    const char *name;
    emu_kernel run;
    struct function *next;
} function;

typedef struct module {
    void *handle;
} module;

static int lost;
static long launches;

static void append(list *l, const op *o)
{
    op *copy = malloc(sizeof *copy);
    if (!copy) abort();
    *copy = *o;
    copy->next = NULL;
    if (!l->last) l->last = &l->first;
    *l->last = copy;
    l->last = &copy->next;
}

static void run_until(stream *s, const event *until, long version);

static void perform(const op *o)
{
    if (lost) return;
    switch (o->kind) {
    case COPY: memcpy(o->to, o->from, o->n); break;
    case FILL: memset(o->to, o->value, o->n); break;
    case LAUNCH:
        if (++launches == setting("lost", -1)) {
            lost = LOST;
            return;
        }
        emu_run(o->f->name, o->f->run, o->args, o->grid, o->threads, o->shared);
        break;
    case RECORD: o->e->reached = o->version; break;
    case WAIT:
        if (o->e->reached < o->version) run_until(o->e->on, o->e, o->version);
        break;
    }
}

static void run_until(stream *s, const event *until, long version)
{
    while (s->queue.first && !(until && until->reached >= version)) {
        op *o = s->queue.first;
        s->queue.first = o->next;
        if (!s->queue.first) s->queue.last = NULL;
        perform(o);
        free(o->owned);
        free(o);
    }
}

static int queue(stream *s, op *o)
{
    if (lost) return lost;
    append(s->capture ? &s->capture->ops : &s->queue, o);
    return OK;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, stream *s)
{
    op o = {.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .n = n};
    if (!inside(o.to, n, false)) return BAD_VALUE;
    if (!inside(from, n, true)) {
        if (s->capture) return BAD_VALUE; /* pageable memory has no fixed content to replay */
        o.owned = malloc(n + 1);
        memcpy(o.owned, from, n);
        o.from = o.owned;
    }
    return queue(s, &o);
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, stream *s)
{
    op o = {.kind = COPY, .to = to, .from = (void *)(uintptr_t)from, .n = n};
    if (!inside(o.from, n, false)) return BAD_VALUE;
    int r = queue(s, &o);
    if (r == OK && !inside(to, n, true)) {
        if (s->capture) return BAD_VALUE;
        run_until(s, NULL, 0);
        r = lost;
    }
    return r;
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, stream *s)
{
    op o = {.kind = COPY, .to = (void *)(uintptr_t)to, .from = (void *)(uintptr_t)from, .n = n};
    if (!inside(o.to, n, false) || !inside(o.from, n, false)) return BAD_VALUE;
    return queue(s, &o);
}
int cuMemsetD8Async(uint64_t p, unsigned char x, size_t n, stream *s)
{
    op o = {.kind = FILL, .to = (void *)(uintptr_t)p, .n = n, .value = x};
    if (!inside(o.to, n, false)) return BAD_VALUE;
    return queue(s, &o);
}

/* ---- streams, events, graphs ---- */

int cuStreamCreate(stream **s, unsigned flags)
{
    (void)flags;
    return (*s = calloc(1, sizeof **s)) ? OK : NO_MEMORY;
}
int cuStreamDestroy_v2(stream *s)
{
    run_until(s, NULL, 0);
    free(s);
    return OK;
}
int cuStreamSynchronize(stream *s)
{
    if (s->capture) return BAD_VALUE;
    run_until(s, NULL, 0);
    return lost;
}
int cuEventCreate(event **e, unsigned flags)
{
    (void)flags;
    if (!(*e = calloc(1, sizeof **e))) return NO_MEMORY;
    return OK;
}
int cuEventDestroy_v2(event *e)
{
    free(e);
    return OK;
}
int cuEventRecord(event *e, stream *s)
{
    e->in = s->capture;
    if (s->capture) return OK; /* a graph here is a list: order is all there is */
    op o = {.kind = RECORD, .e = e, .version = ++e->recorded};
    e->on = s;
    return queue(s, &o);
}
int cuStreamWaitEvent(stream *s, event *e, unsigned flags)
{
    (void)flags;
    op o = {.kind = WAIT, .e = e, .version = e->recorded};
    if (e->in) { /* the fork or the join of a captured stream */
        s->capture = e->in;
        return OK;
    }
    return queue(s, &o);
}
int cuEventSynchronize(event *e)
{
    if (e->reached < e->recorded) run_until(e->on, e, e->recorded);
    return lost;
}
int cuEventElapsedTime(float *ms, event *from, event *to)
{
    if (from->reached < from->recorded || to->reached < to->recorded) return 600;
    *ms = 0.001f;
    return lost;
}
int cuStreamBeginCapture_v2(stream *s, int mode)
{
    (void)mode;
    if (s->capture) return BAD_VALUE;
    return (s->capture = calloc(1, sizeof *s->capture)) ? OK : NO_MEMORY;
}
int cuStreamEndCapture(stream *s, graph **g)
{
    if (!s->capture) return BAD_VALUE;
    *g = s->capture;
    s->capture = NULL;
    return lost;
}
int cuGraphInstantiateWithFlags(graph **x, graph *g, unsigned long long flags)
{
    (void)flags;
    if (!(*x = calloc(1, sizeof **x))) return NO_MEMORY;
    for (op *o = g->ops.first; o; o = o->next) append(&(*x)->ops, o);
    return OK;
}
int cuGraphLaunch(graph *x, stream *s)
{
    if (lost) return lost;
    for (op *o = x->ops.first; o; o = o->next) append(&s->queue, o);
    return OK;
}
int cuGraphDestroy(graph *g)
{
    for (op *o = g->ops.first, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(g);
    return OK;
}
int cuGraphExecDestroy(graph *x)
{
    return cuGraphDestroy(x);
}

/* ---- kernels ---- */

int cuModuleLoadData(module **m, const void *image)
{
    size_t n;
    char path[] = "/tmp/brim-emu-XXXXXX"; /* a name of its own: the loader knows libraries by it */
    memcpy(&n, image, sizeof n);
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, (const char *)image + sizeof n, n) != (ssize_t)n) return BAD_IMAGE;
    /* Its calls into the emulator are looked up here. */
    Dl_info self;
    if (dladdr((void *)cuModuleLoadData, &self)) dlopen(self.dli_fname, RTLD_NOW | RTLD_GLOBAL);
    *m = calloc(1, sizeof **m);
    (*m)->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    close(fd);
    unlink(path);
    if ((*m)->handle) return OK;
    fprintf(stderr, "emulator: %s\n", dlerror());
    return BAD_IMAGE;
}
int cuModuleUnload(module *m)
{
    dlclose(m->handle);
    free(m);
    return OK;
}
int cuModuleGetFunction(function **f, module *m, const char *name)
{
    emu_kernel run = (emu_kernel)dlsym(m->handle, name);
    if (!run) return NOT_FOUND;
    if (!(*f = calloc(1, sizeof **f))) return NO_MEMORY;
    (*f)->name = strdup(name);
    (*f)->run = run;
    return OK;
}
int cuFuncGetAttribute(int *x, int attribute, function *f)
{
    (void)attribute, (void)f;
    *x = 0;
    return OK;
}
int cuFuncSetAttribute(function *f, int attribute, int x)
{
    (void)f, (void)attribute;
    return x > 227 << 10 ? BAD_VALUE : OK;
}

/* How many bytes an argument struct has is not told: as many as can be read, up to a limit. */
static size_t readable(const void *p)
{
    size_t page = 4096 - (uintptr_t)p % 4096;
    unsigned char there;
    if (page >= MAX_ARGS_BYTES) return MAX_ARGS_BYTES;
    bool next = mincore((char *)p + page, 1, &there) == 0;
    return next ? MAX_ARGS_BYTES : page;
}
int cuLaunchKernel(function *f, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                   unsigned bz, unsigned shared, stream *s, void **args, void **extra)
{
    op o = {.kind = LAUNCH, .f = f, .grid = {gx, gy, gz}, .threads = bx, .shared = shared};
    if (!gx || !gy || !gz || !bx || bx > 1024 || gy > 65535 || gz > 65535 || by != 1 || bz != 1 ||
        shared > 227u << 10 || extra)
        return BAD_VALUE;
    memcpy(o.args, args[0], readable(args[0]));
    return queue(s, &o);
}

/* ---- the card ---- */

int cuInit(unsigned flags)
{
    (void)flags;
    return setting("cards", 1) ? OK : NO_CARD;
}
int cuDriverGetVersion(int *version)
{
    *version = (int)setting("driver", 13000);
    return OK;
}
int cuGetErrorName(int r, const char **text)
{
    (void)r;
    *text = "CUDA_ERROR";
    return OK;
}
int cuGetErrorString(int r, const char **text)
{
    (void)r;
    *text = "as asked for";
    return OK;
}
int cuDeviceGetCount(int *n)
{
    *n = (int)setting("cards", 1);
    return OK;
}
int cuDeviceGet(int *d, int ordinal)
{
    *d = ordinal;
    return OK;
}
int cuDeviceGetPCIBusId(char *bus, int n, int d)
{
    (void)d;
    snprintf(bus, (size_t)n, "0000:01:00.0");
    return OK;
}
int cuDeviceGetName(char *name, int n, int d)
{
    (void)d;
    snprintf(name, (size_t)n, "Emulated card");
    return OK;
}
int cuDeviceGetAttribute(int *x, int attribute, int d)
{
    (void)d;
    int cc = (int)setting("cc", 89);
    switch (attribute) {
    case 75: *x = cc / 10; break;
    case 76: *x = cc % 10; break;
    case 16: *x = 24; break;
    case 38: *x = 24 << 20; break;
    case 81: *x = 100 << 10; break;
    case 97: *x = 99 << 10; break;
    case 1: *x = 1024; break;
    default: *x = 0;
    }
    return OK;
}
int cuDeviceTotalMem_v2(size_t *bytes, int d)
{
    (void)d;
    *bytes = capacity();
    return OK;
}
int cuDevicePrimaryCtxRetain(void **c, int d)
{
    *c = &blocks;
    (void)d;
    return setting("busy", 0) ? BUSY : OK;
}
int cuDevicePrimaryCtxRelease_v2(int d)
{
    (void)d;
    return OK;
}
int cuCtxSetCurrent(void *c)
{
    (void)c;
    return OK;
}
