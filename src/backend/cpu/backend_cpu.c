/* The CPU as a device: its memory is ours. */
#include "backend/backend.h"
#include "backend/cpu/cpu.h"

#include <string.h>

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(to, from, bytes);
}

const brim_backend brim_backend_cpu = {
    .name = "cpu",
    .choose = brim_cpu_choose,
    .alloc = brim_pages_alloc,
    .free = brim_pages_free,
    .upload = copy,
    .download = copy,
    .threads_set = brim_cpu_threads_set,
    .overhead_bytes = 48u << 20, /* oneDNN's library, generated code and thread stacks, measured */
};
