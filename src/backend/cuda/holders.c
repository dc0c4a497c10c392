/* Who holds the card's memory, as NVML tells it. */
#include "backend/cuda/holders.h"
#include "backend/cuda/device.h"
#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 64, SHOWN = 3 };

/* The name of a process; false when it cannot be seen (another container's). */
static bool name_of(unsigned pid, char *name, size_t n)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/comm", pid);
    FILE *f = fopen(path, "re");
    bool ok = f && fgets(name, (int)n, f);
    if (f) fclose(f);
    if (ok) name[strcspn(name, "\n")] = 0;
    return ok;
}

static unsigned ask(nvmlDevice_t d, bool graphics, nvmlProcessInfo_t *p, unsigned room)
{
    unsigned n = room;
    int r = graphics ? brim_cu.nvmlDeviceGetGraphicsRunningProcesses_v3(d, &n, p)
                     : brim_cu.nvmlDeviceGetComputeRunningProcesses_v3(d, &n, p);
    return r ? 0 : n;
}

static int larger_first(const void *a, const void *b)
{
    const nvmlProcessInfo_t *x = a, *y = b;
    return x->usedGpuMemory < y->usedGpuMemory ? 1 : x->usedGpuMemory > y->usedGpuMemory ? -1 : 0;
}

void brim_cuda_holders(brim_str *out)
{
    nvmlDevice_t d;
    nvmlProcessInfo_t p[2 * MOST];
    const char *bus = brim_cuda_get()->bus;
    if (!*bus || brim_cuda_library_open(BRIM_LIB_nvml, NULL) != BRIM_OK || brim_cu.nvmlInit_v2() ||
        brim_cu.nvmlDeviceGetHandleByPciBusId_v2(bus, &d))
        return;
    unsigned n = ask(d, false, p, MOST), shown = 0;
    n += ask(d, true, p + n, MOST);
    for (unsigned k = 0; k < n; k++) /* WSL and old drivers do not tell the bytes */
        if (p[k].usedGpuMemory == ~0ull) p[k].usedGpuMemory = 0;
    qsort(p, n, sizeof *p, larger_first);
    for (unsigned k = 0; k < n && shown < SHOWN; k++) {
        char name[64], bytes[32];
        if (p[k].pid == (unsigned)getpid()) continue;
        brim_str_add(out, shown++ ? ", " : "");
        brim_str_printf(out, "%s (process %u)",
                        name_of(p[k].pid, name, sizeof name) ? name : "a program", p[k].pid);
        if (p[k].usedGpuMemory)
            brim_str_printf(out, " holds %s", brim_bytes_text(bytes, (double)p[k].usedGpuMemory));
    }
}
