/* Stands in for NVML: one card, on which process 1 holds 5 GiB. */
#include <string.h>

typedef struct process {
    unsigned pid;
    unsigned long long used;
    unsigned gpu, compute;
} process;

int nvmlInit_v2(void)
{
    return 0;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **d)
{
    *d = (void *)bus;
    return strcmp(bus, "0000:01:00.0") ? 6 : 0;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void *d, unsigned *n, process *p)
{
    (void)d;
    if (*n < 1) return 7;
    *n = 1;
    p[0] = (process){1, 5ull << 30, ~0u, ~0u};
    return 0;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(void *d, unsigned *n, process *p)
{
    (void)d, (void)p;
    *n = 0;
    return 0;
}
