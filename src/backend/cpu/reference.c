/* Any operator, by its reference: correct, slow, the last choice. */
#include "backend/cpu/cpu.h"

static void run(const brim_step *s)
{
    s->node->op->ref(s->node, s->in, s->out);
}

const brim_impl brim_cpu_reference[] = {{.name = "reference", .run = run}};
const int brim_cpu_reference_count = 1;
