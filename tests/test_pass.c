/* Each pass on a graph small enough to read: the text before and after it is that of
 * tests/golden/pass/NAME.txt. After a change that is meant, run with BRIM_UPDATE=1 and read the
 * difference in git. */
#include "brim/model.h"
#include "io/file.h"
#include "pass/pass.h"
#include "tests.h"

#include <stdio.h>
#include <string.h>

static brim_value *image(brim_graph *g, int64_t channels, int64_t size)
{
    return brim_input(g, "x", BRIM_F32, 4, (int64_t[]){2, channels, size, size});
}

static void mark_loss(brim_graph *g, brim_value *logits)
{
    int64_t n[] = {2};
    brim_value *y = brim_input(g, "y", BRIM_I32, 1, n);
    brim_output_mark(g, "loss", brim_cross_entropy(g, logits, y, NULL, NULL, NULL, 0));
}

/* ---- graphs ---- */

static void residual_block(brim_graph *g)
{
    brim_value *x = image(g, 4, 6);
    brim_value *y = brim_nn_conv2d(g, x, "conv1", 4, 3, 1, 1, 1, false);
    y = brim_relu(g, brim_nn_batch_norm(g, y, "bn1"));
    y = brim_nn_conv2d(g, y, "conv2", 4, 3, 1, 1, 1, false);
    y = brim_relu(g, brim_add(g, brim_nn_batch_norm(g, y, "bn2"), x));
    brim_output_mark(g, "y", y);
}

/* The second relu must stay: what it reads is read by the sum too. */
static void conv_and_linear(brim_graph *g)
{
    brim_value *x = brim_relu(g, brim_nn_conv2d(g, image(g, 3, 5), "conv", 4, 3, 2, 1, 1, true));
    x = brim_nn_linear(g, brim_global_avg_pool(g, x), "fc1", 6, true);
    x = brim_add(g, x, brim_relu(g, x));
    x = brim_relu(g, brim_nn_linear(g, x, "fc2", 3, true));
    brim_output_mark(g, "y", x);
}

static void perceptron(brim_graph *g)
{
    int64_t dim[] = {2, 8};
    brim_value *x = brim_input(g, "x", BRIM_F32, 2, dim);
    x = brim_relu(g, brim_nn_linear(g, x, "fc1", 6, true));
    mark_loss(g, brim_nn_linear(g, x, "fc2", 3, true));
}

static void convolutional(brim_graph *g)
{
    brim_value *x = brim_nn_conv2d(g, image(g, 3, 5), "conv", 4, 3, 2, 1, 1, false);
    x = brim_relu(g, brim_nn_batch_norm(g, x, "bn"));
    mark_loss(g, brim_nn_linear(g, brim_global_avg_pool(g, x), "fc", 3, true));
}

/* Both branches end in a sum, so the gradient of x is the sum of theirs. */
static void two_branches(brim_graph *g)
{
    int64_t dim[] = {2, 3};
    brim_value *x = brim_nn_linear(g, brim_input(g, "x", BRIM_F32, 2, dim), "fc", 3, false);
    brim_value *left = brim_tanh(g, x);
    mark_loss(g, brim_add(g, left, brim_mul(g, x, brim_sigmoid(g, x))));
}

static void dead_ends(brim_graph *g)
{
    brim_value *x = image(g, 3, 4);
    brim_relu(g, brim_sigmoid(g, x)); /* nobody reads it */
    brim_output_mark(g, "y", brim_tanh(g, x));
}

/* A border before the flatten; after it an image of 1x1 needs none. */
static void borders(brim_graph *g)
{
    brim_value *x = brim_nn_conv2d(g, image(g, 3, 4), "conv", 4, 3, 1, 1, 1, false);
    x = brim_max_pool2d(g, brim_relu(g, x), (brim_pool_opts){.kernel_h = 2, .kernel_w = 2});
    x = brim_flatten(g, x, 1);
    brim_output_mark(g, "flat", x);
    x = brim_reshape(g, x, 4, (int64_t[]){2, 16, 1, 1});
    brim_output_mark(g, "y", brim_nn_conv2d(g, x, "point", 5, 1, 1, 0, 1, false));
}

/* The sigmoid is read twice, so the chain before it ends there. */
static void pointwise_chains(brim_graph *g)
{
    int64_t dim[] = {2, 5}, row[] = {5};
    brim_value *x = brim_input(g, "x", BRIM_F32, 2, dim), *b = brim_input(g, "b", BRIM_F32, 1, row);
    x = brim_sigmoid(g, brim_add(g, brim_affine(g, x, 2, 1), b));
    brim_value *left = brim_tanh(g, x);
    brim_output_mark(g, "y", brim_mul(g, left, brim_sqrt(g, x)));
}

/* ---- passes ---- */

typedef brim_status pass_fn(brim_graph *g, const brim_compile_opts *o, brim_error *err);

typedef struct golden {
    const char *name;
    void (*build)(brim_graph *g);
    pass_fn *before[4], *pass; /* `before` prepares the graph; NULL: the end */
    brim_compile_opts o;
} golden;

static const golden goldens[] = {
    {"fuse_forward_residual", residual_block, {0}, brim_pass_fuse_forward, {0}},
    {"fuse_forward_linear", conv_and_linear, {0}, brim_pass_fuse_forward, {0}},
    {"amp", convolutional, {0}, brim_pass_amp, {.compute = BRIM_BF16}},
    {"autodiff_perceptron", perceptron, {0}, brim_pass_autodiff, {.backward = true}},
    {"autodiff_branches", two_branches, {0}, brim_pass_autodiff, {.backward = true}},
    {"optimizer_sgd",
     perceptron,
     {brim_pass_autodiff},
     brim_pass_optimizer,
     {.backward = true, .optimizer = {.momentum = 0.9}}},
    {"optimizer_adamw",
     perceptron,
     {brim_pass_autodiff},
     brim_pass_optimizer,
     {.backward = true, .optimizer = {.algo = BRIM_ADAMW, .ema = true}}},
    {"optimizer_accumulate",
     perceptron,
     {brim_pass_autodiff},
     brim_pass_optimizer,
     {.backward = true, .accumulate = true}},
    {"shadow",
     perceptron,
     {brim_pass_amp, brim_pass_autodiff, brim_pass_optimizer},
     brim_pass_shadow,
     {.backward = true, .compute = BRIM_BF16}},
    {"dce", dead_ends, {0}, brim_pass_dce, {0}},
    {"layout", borders, {0}, brim_pass_layout, {0}},
    {"fuse_pointwise", pointwise_chains, {0}, brim_pass_fuse_pointwise, {0}},
};

/* Passes leave what they replaced to dce: it is no part of what is compared. */
static void run(brim_graph *g, pass_fn *pass, const brim_compile_opts *o)
{
    brim_error err = {0};
    if (pass(g, o, &err) != BRIM_OK || brim_graph_verify(g, &err) != BRIM_OK) {
        print_error("%s\n", err.text);
        fail();
    }
}

static char *before_and_after(const golden *t)
{
    brim_graph *g = brim_graph_new(true);
    brim_str s = {0};
    t->build(g);
    for (int i = 0; i < 4 && t->before[i]; i++) run(g, t->before[i], &t->o);
    brim_str_add(&s, "==== before ====\n");
    brim_graph_print(g, &s);
    run(g, t->pass, &t->o);
    if (t->pass != brim_pass_dce && !t->o.backward) run(g, brim_pass_dce, &t->o);
    brim_str_add(&s, "==== after ====\n");
    brim_graph_print(g, &s);
    brim_graph_free(g);
    char *text = strdup(brim_str_text(&s));
    assert_non_null(text);
    brim_str_free(&s);
    return text;
}

static void golden_text(void **state)
{
    const golden *t = *state;
    const char *dir = getenv("BRIM_GOLDEN");
    char path[512], *want = NULL, *got = before_and_after(t);
    size_t n;
    brim_error err = {0};
    assert_non_null(dir);
    snprintf(path, sizeof path, "%s/pass/%s.txt", dir, t->name);
    if (getenv("BRIM_UPDATE"))
        assert_int_equal(brim_file_save(path, got, strlen(got), &err), BRIM_OK);
    if (brim_file_read(path, 1 << 20, &want, &n, &err) != BRIM_OK) {
        print_error("%s\n", err.text);
        fail();
    }
    if (n != strlen(got) || memcmp(want, got, n)) {
        print_error("%s: want\n%.*s\ngot\n%s", path, (int)n, want, got);
        fail();
    }
    free(want);
    free(got);
}

int main(void)
{
    struct CMUnitTest tests[sizeof goldens / sizeof *goldens] = {0};
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++)
        tests[i] = (struct CMUnitTest){goldens[i].name, golden_text, NULL, NULL,
                                       (void *)(uintptr_t)&goldens[i]};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
