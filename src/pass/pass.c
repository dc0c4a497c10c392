#include "pass/pass.h"

static bool when_backward(const brim_compile_opts *o)
{
    return o->backward;
}
static bool when_half(const brim_compile_opts *o)
{
    return brim_dtype_half(o->compute);
}
static bool when_layout(const brim_compile_opts *o)
{
    return !o->no_layout;
}
static bool when_fuse(const brim_compile_opts *o)
{
    return !o->no_fuse;
}

/* The compiler, in order. */
static const struct {
    const char *name;
    brim_status (*run)(brim_graph *g, const brim_compile_opts *o, brim_error *err);
    bool (*when)(const brim_compile_opts *o); /* NULL: always */
} passes[] = {
    {"fuse_forward", brim_pass_fuse_forward, when_fuse}, /* norm + add + relu, linear + relu, ... */
    {"amp", brim_pass_amp, when_half},                   /* casts to half where it pays */
    {"autodiff", brim_pass_autodiff, when_backward},     /* gradient nodes */
    {"optimizer", brim_pass_optimizer, when_backward},   /* update, or accumulation */
    {"shadow", brim_pass_shadow, when_half},   /* half copies of weights, kept by the update */
    {"dce", brim_pass_dce, NULL},              /* what nobody reads */
    {"layout", brim_pass_layout, when_layout}, /* channels-last images */
    {"fuse_pointwise", brim_pass_fuse_pointwise, when_fuse},
};

static void dump(const brim_graph *g, const char *title, FILE *to)
{
    brim_str s = {0};
    brim_graph_print(g, &s);
    fprintf(to, "==== %s ====\n%s\n", title, brim_str_text(&s));
    brim_str_free(&s);
}

brim_status brim_compile(brim_graph *g, const brim_compile_opts *o, brim_error *err)
{
    BRIM_TRY(brim_graph_verify(g, err));
    if (o->dump) dump(g, "built", o->dump);
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        if (passes[i].when && !passes[i].when(o)) continue;
        brim_status s = passes[i].run(g, o, err);
        if (s == BRIM_OK) s = brim_graph_verify(g, err);
        if (s != BRIM_OK) {
            brim_error_context(err, "pass %s", passes[i].name);
            return s;
        }
        if (o->dump) dump(g, passes[i].name, o->dump);
    }
    return BRIM_OK;
}

brim_value *brim_state_like(brim_graph *g, const char *prefix, const char *suffix, brim_value *like,
                            brim_dtype t)
{
    char *name = brim_arena_printf(&g->arena, "%s%s%s", prefix, like->name, suffix);
    if (!name) return brim_graph_fail(g, BRIM_ENOMEM, "graph: out of memory");
    brim_value *v = brim_value_find(g, name);
    if (v) return v;
    v = brim_value_new(g, BRIM_VALUE_STATE, name, t, &like->shape);
    if (!v) return NULL;
    v->layout = like->layout;
    v->like = like;
    return v;
}
