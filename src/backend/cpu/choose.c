/* Which implementation runs a node. */
#include "backend/cpu/cpu.h"

static const struct {
    const brim_impl *at;
    const int *n;
} lists[] = {
#define X(name) {name, &name##_count},
    BRIM_CPU_IMPLS(X)
#undef X
};

/* Any operator, by its reference: correct, slow. */
static void reference_run(const brim_step *s)
{
    s->node->op->ref(s->node, s->in, s->out);
}
const brim_impl brim_cpu_reference[] = {{.name = "reference", .run = reference_run}};
const int brim_cpu_reference_count = 1;

const brim_impl *brim_cpu_choose(const brim_node *n, brim_str *log)
{
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (int i = 0; i < *lists[l].n; i++) {
            const brim_impl *impl = &lists[l].at[i];
            const char *why = "";
            if (impl->op && impl->op != n->op) continue;
            if (!impl->supports || impl->supports(n, &why)) return impl;
            if (log) brim_str_printf(log, "%s: %s refused: %s\n", n->name, impl->name, why);
        }
    BRIM_CHECK(!"the reference supports every node");
    return NULL;
}
