/* The CPU as a device: its memory is ours. */
#include "backend/backend.h"
#include "backend/cpu/cpu.h"

#include <string.h>

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes) memcpy(to, from, bytes);
}

static void *alloc(size_t bytes, brim_error *err)
{
    char text[32];
    void *p = brim_pages_alloc(bytes);
    if (!p)
        brim_fail(err, BRIM_ENOMEM,
                  "memory: the machine cannot give %s (lower --batch or --memory)",
                  brim_bytes_text(text, (double)bytes));
    return p;
}

static const brim_impl_list lists[] = {
#define X(name) {name, &name##_count},
    BRIM_CPU_IMPLS(X)
#undef X
};

const brim_backend brim_backend_cpu = {
    .name = "cpu",
    .lists = lists,
    .n_lists = sizeof lists / sizeof *lists,
    .alloc = alloc,
    .free = brim_pages_free,
    .upload = copy,
    .download = copy,
    .threads_set = brim_cpu_threads_set,
    .overhead_bytes = 48u << 20, /* oneDNN's library, generated code and thread stacks, measured */
};
