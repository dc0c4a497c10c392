/* Every operator of ops.def: its contract, its cases accepted and refused, and its gradient against
 * signed finite differences in double. */
#include "backend/reference.h"
#include "ops/case.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const brim_case_opts as_written = {.real = BRIM_F32}, in_double = {.real = BRIM_F64};

static uint64_t seed_of(const brim_op *op, const brim_case *c)
{
    return brim_hash_text(op->name) ^ brim_hash_text(c->name);
}

static void fill_all(const brim_case *c, const brim_node *n, const brim_reference *r, uint64_t seed)
{
    for (int k = 0; k < n->n_in; k++) {
        if (!n->in[k]) continue;
        brim_rng rng;
        brim_rng_init(&rng, seed, (uint64_t)k);
        brim_case_fill(c, n, k, &rng, brim_reference_tensor(r, n->in[k]));
    }
}

/* ---- contract ---- */

static void contract(void **state)
{
    const brim_op *op = *state;
    int accepted = 0, refused = 0;
    assert_non_null(op->name);
    assert_ptr_equal(brim_op_find(op->name), op);
    assert_true(op->doc && strlen(op->doc) > 3);
    assert_non_null(op->infer);
    assert_non_null(op->ref);
    assert_true(op->n_out >= -1 && op->min_in >= 0);
    assert_true(op->max_in == -1 || op->max_in >= op->min_in);
    for (int i = 0; i < op->n_cases; i++) {
        assert_non_null(op->cases[i].name);
        if (op->cases[i].refused)
            refused++;
        else
            accepted++;
        for (int j = 0; j < i; j++) assert_string_not_equal(op->cases[i].name, op->cases[j].name);
    }
    assert_true(accepted > 0);
    assert_true(refused > 0);
}

/* ---- cases ---- */

static void check_refused(const brim_op *op, const brim_case *c)
{
    brim_graph *g = brim_graph_new(true);
    brim_error err = {0};
    if (brim_case_emit(g, op, c, &as_written)) fail_msg("%s: %s: accepted", op->name, c->name);
    assert_int_not_equal(brim_graph_check(g, &err), BRIM_OK);
    assert_int_equal(g->nodes.n, 0);
    if (!strstr(err.text, c->refused) || !strstr(err.text, op->name))
        fail_msg("%s: %s: refused with \"%s\", wanted \"%s\"", op->name, c->name, err.text,
                 c->refused);
    brim_graph_free(g);
}

/* Another run with output k absent: the others keep their bits, and k's memory is not written. */
static void check_unused_output(const brim_case *c, const brim_node *n, const brim_reference *r,
                                int absent)
{
    brim_tensor in[64] = {0}, out[BRIM_BODY_MAX_OUT];
    assert_true(n->n_in <= 64 && n->n_out <= BRIM_BODY_MAX_OUT);
    void *before[BRIM_BODY_MAX_OUT];
    for (int k = 0; k < n->n_out; k++) {
        out[k] = *brim_reference_tensor(r, n->out[k]);
        size_t bytes = brim_value_bytes(n->out[k]);
        before[k] = brim_malloc(bytes);
        memcpy(before[k], out[k].data, bytes);
        if (k == absent) out[k].data = NULL;
    }
    fill_all(c, n, r, seed_of(n->op, c));
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]) in[k] = *brim_reference_tensor(r, n->in[k]);
    n->op->ref(n, in, out);
    for (int k = 0; k < n->n_out; k++) {
        if (memcmp(before[k], brim_reference_tensor(r, n->out[k])->data,
                   brim_value_bytes(n->out[k])))
            fail_msg("%s: %s: output %d changes when output %d is unused", n->op->name, c->name, k,
                     absent);
        free(before[k]);
    }
}

static void check_accepted(const brim_op *op, const brim_case *c)
{
    brim_graph *g = brim_graph_new(true);
    brim_node *n = brim_case_emit(g, op, c, &as_written);
    brim_error err = {0};
    if (!n) fail_msg("%s: %s: %s", op->name, c->name, g->error.text);
    brim_reference *r;
    if (brim_graph_verify(g, &err) != BRIM_OK || brim_reference_new(g, &r, &err) != BRIM_OK)
        fail_msg("%s: %s: %s", op->name, c->name, err.text);

    double elements = 0;
    for (int k = 0; k < n->n_in; k++)
        if (n->in[k]) elements += (double)brim_shape_count(&n->in[k]->shape);
    brim_cost cost = brim_node_cost(n);
    if (elements > 0 && !(cost.flops + cost.bytes_read + cost.bytes_written > 0))
        fail_msg("%s: %s: costs nothing", op->name, c->name);
    assert_true(cost.flops >= 0 && cost.bytes_read >= 0 && cost.bytes_written >= 0);

    char *text = brim_graph_text(g);
    assert_non_null(strstr(text, op->name));
    free(text);

    fill_all(c, n, r, seed_of(op, c));
    brim_reference_run(r);
    for (int k = 0; n->n_out > 1 && k < n->n_out; k++) check_unused_output(c, n, r, k);
    brim_reference_free(r);
    brim_graph_free(g);
}

static void cases(void **state)
{
    const brim_op *op = *state;
    for (int i = 0; i < op->n_cases; i++) {
        if (op->cases[i].refused)
            check_refused(op, &op->cases[i]);
        else
            check_accepted(op, &op->cases[i]);
    }
}

/* ---- gradients ---- */

typedef struct gradient {
    brim_graph *g;
    brim_node *n;
    brim_value *dout, *din[64];
    brim_reference *r;
    const brim_case *c;
} gradient;

static bool differentiable(const brim_node *n, int k)
{
    return n->in[k] && brim_dtype_real(n->in[k]->dtype) && !brim_input_in(n->op->no_grad_in, k);
}

/* The case in double with the gradient of output 0 appended; only: the one input whose gradient is
 * asked for, -1 for all. */
static void gradient_new(gradient *d, const brim_op *op, const brim_case *c, int only)
{
    brim_error err = {0};
    *d = (gradient){.g = brim_graph_new(true), .c = c};
    d->n = brim_case_emit(d->g, op, c, &in_double);
    if (!d->n) fail_msg("%s: %s: in double: %s", op->name, c->name, d->g->error.text);
    brim_value *dout[BRIM_BODY_MAX_OUT] = {0};
    bool need[64] = {0};
    const brim_value *y = d->n->out[0];
    dout[0] = d->dout = brim_value_new(d->g, BRIM_VALUE_INPUT, "dout", y->dtype, &y->shape);
    for (int k = 0; k < d->n->n_in; k++)
        need[k] = differentiable(d->n, k) && (only < 0 || only == k);
    if (op->grad(d->g, d->n, dout, need, d->din) != BRIM_OK ||
        brim_reference_new(d->g, &d->r, &err) != BRIM_OK)
        fail_msg("%s: %s: gradient: %s%s", op->name, c->name, d->g->error.text, err.text);
    for (int k = 0; k < d->n->n_in; k++) {
        if (d->din[k] && !need[k])
            fail_msg("%s: %s: a gradient of input %d that nobody asked for", op->name, c->name, k);
        if (d->din[k] && !brim_shape_equal(&d->din[k]->shape, &d->n->in[k]->shape))
            fail_msg("%s: %s: gradient of input %d has another shape", op->name, c->name, k);
    }
}

static void gradient_free(gradient *d)
{
    brim_reference_free(d->r);
    brim_graph_free(d->g);
}

static const brim_tensor *tensor(const gradient *d, const brim_value *v)
{
    return brim_reference_tensor(d->r, v);
}

static void refill(const gradient *d)
{
    uint64_t seed = seed_of(d->n->op, d->c);
    fill_all(d->c, d->n, d->r, seed);
    brim_rng rng;
    brim_rng_init(&rng, seed, 1000);
    const brim_tensor *t = tensor(d, d->dout);
    int64_t count = brim_tensor_count(t);
    for (int64_t i = 0; i < count; i++) brim_tensor_put(t, i, brim_rng_uniform(&rng, -1, 1));
}

/* sum(dout y) with element i of input k moved by `by`. */
static double moved(const gradient *d, int k, int64_t i, double by)
{
    refill(d);
    const brim_tensor *x = tensor(d, d->n->in[k]);
    brim_tensor_put(x, i, brim_tensor_at(x, i) + by);
    brim_tensor in[64] = {0}, out[BRIM_BODY_MAX_OUT];
    for (int j = 0; j < d->n->n_in; j++)
        if (d->n->in[j]) in[j] = *tensor(d, d->n->in[j]);
    for (int j = 0; j < d->n->n_out; j++) out[j] = *tensor(d, d->n->out[j]);
    d->n->op->ref(d->n, in, out);
    double sum = 0;
    int64_t count = brim_tensor_count(&out[0]);
    for (int64_t j = 0; j < count; j++)
        sum += brim_tensor_at(&out[0], j) * brim_tensor_at(tensor(d, d->dout), j);
    return sum;
}

static void check_input(const gradient *d, int k, const double *got, int64_t count)
{
    const double h = 1e-5;
    double largest = 1e-3;
    for (int64_t i = 0; i < count; i++) largest = fmax(largest, fabs(got[i]));
    for (int64_t i = 0; i < count; i++) {
        double want = (moved(d, k, i, h) - moved(d, k, i, -h)) / (2 * h);
        if (!(fabs(got[i] - want) <= 1e-6 * fabs(want) + 2e-7 * largest))
            fail_msg("%s: %s: gradient of input %d at %lld: got %.12g, differences give %.12g",
                     d->n->op->name, d->c->name, k, (long long)i, got[i], want);
    }
}

static void check_gradient(const brim_op *op, const brim_case *c)
{
    gradient d;
    gradient_new(&d, op, c, -1);
    refill(&d);
    brim_reference_run(d.r);
    double *got[64] = {0};
    for (int k = 0; k < d.n->n_in; k++) {
        if (!differentiable(d.n, k)) continue;
        int64_t count = brim_tensor_count(tensor(&d, d.n->in[k]));
        got[k] = brim_calloc((size_t)count, sizeof *got[k]);
        for (int64_t i = 0; d.din[k] && i < count; i++)
            got[k][i] = brim_tensor_at(tensor(&d, d.din[k]), i);
    }
    for (int k = 0; k < d.n->n_in; k++) {
        if (!got[k]) continue;
        check_input(&d, k, got[k], brim_tensor_count(tensor(&d, d.n->in[k])));
        gradient alone;
        gradient_new(&alone, op, c, k);
        if (!alone.din[k] != !d.din[k])
            fail_msg("%s: %s: input %d alone has no gradient", op->name, c->name, k);
        gradient_free(&alone);
        free(got[k]);
    }
    gradient_free(&d);
}

static void gradients(void **state)
{
    const brim_op *op = *state;
    if (!op->grad) skip();
    for (int i = 0; i < op->n_cases; i++)
        if (!op->cases[i].refused && !op->cases[i].no_grad) check_gradient(op, &op->cases[i]);
}

#define BRIM_OP(name)                                                                              \
    {"contract of " #name, contract, NULL, NULL, (void *)(uintptr_t)&brim_op_##name},              \
        {"cases of " #name, cases, NULL, NULL, (void *)(uintptr_t)&brim_op_##name},                \
        {"gradient of " #name, gradients, NULL, NULL, (void *)(uintptr_t)&brim_op_##name},
int main(void)
{
    const struct CMUnitTest tests[] = {
#include "ops/ops.def"
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
