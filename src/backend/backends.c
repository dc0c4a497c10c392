/* The list of backends, and which of a backend's implementations runs a node. */
#include "backend/backend.h"

#include <string.h>

static const brim_backend *const backends[] = {&brim_backend_cpu, &brim_backend_cuda};

const brim_backend *brim_backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!strcmp(backends[i]->name, name)) return backends[i];
    return NULL;
}

const brim_impl *brim_choose(const brim_backend *b, const brim_node *n, brim_str *log)
{
    for (int l = 0; l < b->n_lists; l++)
        for (int i = 0; i < *b->lists[l].n; i++) {
            const brim_impl *impl = &b->lists[l].at[i];
            const char *why = "";
            if (impl->op && impl->op != n->op) continue;
            if (!impl->supports || impl->supports(n, &why)) return impl;
            if (log) brim_str_printf(log, "%s: %s refused: %s\n", n->name, impl->name, why);
        }
    return NULL;
}
