/* Which instruction set's kernels run. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"

#include <string.h>

extern const brim_kernels brim_k_table_generic, brim_k_table_avx2, brim_k_table_avx512;

static const brim_kernels *chosen;

const brim_kernels *brim_kernels_find(const char *isa)
{
    const brim_cpu_features *f = brim_cpu_features_get();
    if (!strcmp(isa, "generic")) return &brim_k_table_generic;
#ifdef __x86_64__
    if (!strcmp(isa, "avx2") && f->avx2) return &brim_k_table_avx2;
    if (!strcmp(isa, "avx512") && f->avx512 && f->avx2) return &brim_k_table_avx512;
#endif
    (void)f;
    return NULL;
}

const brim_kernels *brim_kernels_get(void)
{
    static const char *const best_first[] = {"avx512", "avx2", "generic"};
    for (int i = 0; !chosen; i++) chosen = brim_kernels_find(best_first[i]);
    return chosen;
}

void brim_kernels_use(const brim_kernels *k)
{
    chosen = k;
}
