#include "backend/backend.h"

#include <string.h>

static const brim_backend *const backends[] = {&brim_backend_cpu};

const brim_backend *brim_backend_find(const char *name)
{
    for (size_t i = 0; i < sizeof backends / sizeof *backends; i++)
        if (!strcmp(backends[i]->name, name)) return backends[i];
    return NULL;
}
