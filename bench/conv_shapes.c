/* Speed of every implementation of the convolutions of ResNet-18, layer by layer.
 * usage: conv_shapes [small|cifar|large] [f32|bf16|f16] [fwd|data|weight] [runs]
 *   small: 32x32 images in the ImageNet network; cifar: 32x32 with a 3x3 stem; large: 224x224.
 * Prints GFLOP/s of the fastest of `runs` runs, and the time to prepare. */
#include "backend/cpu/cpu.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

typedef struct layer {
    const char *name;
    int count, c, size, o, kernel, stride;
} layer;

static const layer cifar[] = {
    {"stem", 1, 3, 32, 64, 3, 1},
    {"layer1", 4, 64, 32, 64, 3, 1},
    {"layer2.0.conv1", 1, 64, 32, 128, 3, 2},
    {"layer2.0.down", 1, 64, 32, 128, 1, 2},
    {"layer2", 3, 128, 16, 128, 3, 1},
    {"layer3.0.conv1", 1, 128, 16, 256, 3, 2},
    {"layer3.0.down", 1, 128, 16, 256, 1, 2},
    {"layer3", 3, 256, 8, 256, 3, 1},
    {"layer4.0.conv1", 1, 256, 8, 512, 3, 2},
    {"layer4.0.down", 1, 256, 8, 512, 1, 2},
    {"layer4", 3, 512, 4, 512, 3, 1},
    {0},
};

static const layer imagenet[] = {
    {"stem", 1, 3, 224, 64, 7, 2},
    {"layer1", 4, 64, 56, 64, 3, 1},
    {"layer2.0.conv1", 1, 64, 56, 128, 3, 2},
    {"layer2.0.down", 1, 64, 56, 128, 1, 2},
    {"layer2", 3, 128, 28, 128, 3, 1},
    {"layer3.0.conv1", 1, 128, 28, 256, 3, 2},
    {"layer3.0.down", 1, 128, 28, 256, 1, 2},
    {"layer3", 3, 256, 14, 256, 3, 1},
    {"layer4.0.conv1", 1, 256, 14, 512, 3, 2},
    {"layer4.0.down", 1, 256, 14, 512, 1, 2},
    {"layer4", 3, 512, 7, 512, 3, 1},
    {0},
};

static const struct {
    const brim_impl *at;
    const int *n;
} lists[] = {
#define X(name) {name, &name##_count},
    BRIM_CPU_IMPLS(X)
#undef X
};

enum { FORWARD, DATA, WEIGHT, PASSES };
static const char *const pass_names[PASSES] = {"fwd", "data", "weight"};

typedef struct bench {
    brim_dtype type;
    int64_t batch;
    int runs;
    double best_ms[PASSES]; /* sum over the network of the chosen implementation */
    double prepare_ms, workspace_mib;
} bench;

/* A graph of one node: the pass of layer l. */
static brim_node *node_of(brim_graph *g, const layer *l, const bench *b, int pass)
{
    int64_t pad = (l->kernel - 1) / 2, out = (l->size + 2 * pad - l->kernel) / l->stride + 1;
    brim_shape x = {4, {b->batch, l->c, l->size, l->size}}, y = {4, {b->batch, l->o, out, out}};
    brim_shape w = {4, {l->o, l->c, l->kernel, l->kernel}};
    brim_value *vx = brim_value_new(g, BRIM_VALUE_INPUT, "x", b->type, &x);
    brim_value *vy = brim_value_new(g, BRIM_VALUE_INPUT, "dy", b->type, &y);
    brim_value *vw = brim_value_new(g, BRIM_VALUE_INPUT, "w", b->type, &w);
    brim_attr attr[] = {BRIM_INT2("stride", l->stride, l->stride), BRIM_INT2("pad", pad, pad),
                        BRIM_INT2("in_size", l->size, l->size),
                        BRIM_INT2("kernel", l->kernel, l->kernel)};
    brim_value *in[PASSES][2] = {{vx, vw}, {vy, vw}, {vy, vx}};
    const brim_op *ops[] = {&brim_op_conv2d, &brim_op_conv2d_bwd_data, &brim_op_conv2d_bwd_weight};
    brim_node *n = brim_emit(g, ops[pass], l->name, in[pass], 2, attr, 4);
    if (!n) return NULL;
    for (size_t k = 0; k < g->values.n; k++)
        if (g->values.at[k]->shape.rank == 4) g->values.at[k]->layout = BRIM_LAYOUT_CHANNELS_LAST;
    return n;
}

static void fill(const brim_tensor *t)
{
    brim_rng r;
    brim_rng_init(&r, 1, 2);
    for (int64_t k = 0; k < brim_tensor_count(t); k++)
        brim_tensor_set(t, k, brim_rng_uniform(&r, -1, 1));
}

static brim_tensor tensor_of(const brim_value *v)
{
    return brim_tensor_make(NULL, v->dtype, &v->shape, v->layout);
}

static size_t bytes_of(const brim_tensor *t)
{
    return (size_t)brim_tensor_count(t) * brim_dtype_bytes(t->dtype);
}

/* Milliseconds of the fastest run; negative when the implementation failed to prepare. */
static double measure(bench *b, const brim_impl *impl, const brim_node *n)
{
    brim_tensor in[2], out[2];
    bool used[2] = {true, false};
    brim_step s = {.node = n, .impl = impl, .in = in, .out = out, .out_used = used};
    for (int k = 0; k < n->n_in; k++) in[k] = tensor_of(n->in[k]);
    for (int k = 0; k < n->n_out; k++) out[k] = tensor_of(n->out[k]);
    int64_t start = brim_now_ns();
    brim_error err;
    if (impl->prepare && impl->prepare(&s, &err) != BRIM_OK) {
        fprintf(stderr, "%s: %s\n", impl->name, err.text);
        return -1;
    }
    b->prepare_ms = (double)(brim_now_ns() - start) * 1e-6;
    b->workspace_mib = (double)s.workspace_bytes / 1048576;
    for (int k = 0; k < n->n_in; k++) {
        in[k].data = brim_pages_alloc(bytes_of(&in[k]));
        fill(&in[k]);
    }
    out[0].data = brim_pages_alloc(bytes_of(&out[0]));
    s.workspace = brim_pages_alloc(s.workspace_bytes);
    double best = 1e30;
    for (int r = 0; r < b->runs + 1; r++) {
        start = brim_now_ns();
        impl->run(&s);
        double ms = (double)(brim_now_ns() - start) * 1e-6;
        if (r && ms < best) best = ms;
    }
    for (int k = 0; k < n->n_in; k++) brim_pages_free(in[k].data, bytes_of(&in[k]));
    brim_pages_free(out[0].data, bytes_of(&out[0]));
    brim_pages_free(s.workspace, s.workspace_bytes);
    if (impl->release) impl->release(&s);
    return best;
}

static void measure_layer(bench *b, const layer *l, int pass)
{
    brim_graph *g = brim_graph_new(true);
    brim_node *n = node_of(g, l, b, pass);
    bool first = true;
    for (size_t k = 0; n && k < sizeof lists / sizeof *lists; k++)
        for (int i = 0; i < *lists[k].n; i++) {
            const brim_impl *impl = &lists[k].at[i];
            const char *why;
            if (impl->op != n->op || (impl->supports && !impl->supports(n, &why))) continue;
            double ms = measure(b, impl, n);
            if (ms < 0) continue;
            if (first) b->best_ms[pass] += ms * l->count;
            first = false;
            printf(
                "%-15s %-6s %-26s %9.3f ms %8.1f GFLOP/s   prepare %6.2f ms, workspace %6.1f MiB\n",
                l->name, pass_names[pass], impl->name, ms, brim_node_cost(n).flops / ms * 1e-6,
                b->prepare_ms, b->workspace_mib);
            fflush(stdout);
        }
    brim_graph_free(g);
}

int main(int argc, char **argv)
{
    const char *net = argc > 1 ? argv[1] : "cifar", *type = argc > 2 ? argv[2] : "f32";
    const char *only = argc > 3 ? argv[3] : "all";
    bench b = {.batch = strcmp(net, "large") ? 128 : 32, .runs = argc > 4 ? atoi(argv[4]) : 5};
    b.type = !strcmp(type, "bf16") ? BRIM_BF16 : !strcmp(type, "f16") ? BRIM_F16 : BRIM_F32;
    const layer *at = strcmp(net, "cifar") ? imagenet : cifar;
    for (; at->name; at++) {
        layer l = *at;
        if (!strcmp(net, "small") && l.size > 3) l.size /= 7; /* 224 -> 32, 7 -> 1 */
        for (int pass = 0; pass < PASSES; pass++) {
            bool first = pass == DATA && l.c == 3; /* nobody wants the gradient of the image */
            if (!first && (!strcmp(only, "all") || !strcmp(only, pass_names[pass])))
                measure_layer(&b, &l, pass);
        }
    }
    for (int pass = 0; pass < PASSES; pass++)
        printf("whole network, first implementations: %-6s %9.2f ms\n", pass_names[pass],
               b.best_ms[pass]);
    return 0;
}
