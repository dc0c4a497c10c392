/* The graph: building and its errors, verifier, text, attributes, shapes, tensors, bodies. */
#include "backend/reference.h"
#include "base/mem.h"
#include "ops/ops.h"
#include "tests.h"

#include <math.h>
#include <string.h>

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (int64_t[])                         \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static const brim_init zeros = {BRIM_INIT_CONST, 0};

static void assert_failed(const brim_graph *g, brim_status status, const char *text)
{
    brim_error err = {0};
    assert_int_equal(brim_graph_check(g, &err), status);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

/* ---- building ---- */

static void names_are_unique(void **state)
{
    brim_graph *g = brim_graph_new(true);
    assert_non_null(brim_param(g, "w", DIMS(3, 4), zeros));
    assert_null(brim_input(g, "w", BRIM_F32, DIMS(2)));
    assert_failed(g, BRIM_EINVAL, "w: this name is taken");
    brim_graph_free(g);
}

static void bad_shapes_are_refused(void **state)
{
    brim_graph *g = brim_graph_new(true);
    assert_null(brim_input(g, "x", BRIM_F32, DIMS(2, -1)));
    assert_failed(g, BRIM_ESHAPE, "[2,-1]");
    brim_graph_free(g);
    g = brim_graph_new(true);
    assert_null(brim_input(g, "x", BRIM_F32, DIMS(1, 1, 1, 1, 1, 1, 1)));
    assert_failed(g, BRIM_ESHAPE, "rank 7");
    brim_graph_free(g);
    g = brim_graph_new(true);
    assert_null(brim_input(g, "x", BRIM_F32, DIMS(INT64_MAX / 2, 4)));
    assert_failed(g, BRIM_ESHAPE, "too large");
    brim_graph_free(g);
}

/* After the first failure every builder returns NULL, and the first text stays. */
static void first_error_is_kept(void **state)
{
    brim_graph *g = brim_graph_new(true);
    brim_scope(g, "head");
    brim_value *x = brim_input(g, "x", BRIM_F32, DIMS(2, 3));
    brim_value *y = brim_add(g, x, brim_input(g, "y", BRIM_F32, DIMS(4)));
    assert_null(y);
    assert_failed(g, BRIM_ESHAPE, "head.add: add: shapes [2,3] and [4] do not broadcast");
    assert_null(brim_relu(g, y));
    assert_null(brim_softmax(g, x));
    assert_null(brim_conv2d(g, y, y, NULL, (brim_conv_opts){0}));
    assert_null(brim_batch_norm(g, y, y, y, y, y, 0.1, 1e-5));
    assert_null(brim_reshape(g, y, DIMS(6)));
    assert_null(brim_flatten(g, y, 1));
    assert_null(brim_concat(g, &y, 1, 0));
    assert_null(brim_dropout(g, y, 0.5));
    assert_null(brim_cross_entropy(g, y, y, NULL, NULL, NULL, 0));
    assert_null(brim_input(g, "z", BRIM_F32, DIMS(2)));
    brim_output_mark(g, "y", y);
    assert_int_equal(brim_value_rank(y), 0);
    assert_int_equal(brim_value_dim(y, 0), 0);
    assert_failed(g, BRIM_ESHAPE, "do not broadcast");
    assert_int_equal(g->nodes.n, 0);
    assert_int_equal(g->outputs.n, 0);
    brim_error err = {0};
    assert_int_equal(brim_graph_verify(g, &err), BRIM_ESHAPE);
    brim_graph_free(g);
}

static void missing_inputs_are_refused(void **state)
{
    brim_graph *g = brim_graph_new(true);
    assert_null(brim_relu(g, NULL));
    assert_failed(g, BRIM_EINVAL, "relu: input 0 is missing");
    brim_graph_free(g);
    g = brim_graph_new(true);
    assert_null(brim_emit1(g, &brim_op_add, NULL, NULL, 0, NULL, 0));
    assert_failed(g, BRIM_EINVAL, "0 inputs given");
    brim_graph_free(g);
}

static void values_tell_their_shape(void **state)
{
    brim_graph *g = brim_graph_new(false);
    assert_false(brim_graph_training(g));
    brim_value *x = brim_input(g, "x", BRIM_U8, DIMS(2, 3, 4));
    assert_int_equal(brim_value_rank(x), 3);
    assert_int_equal(brim_value_dim(x, 1), 3);
    assert_int_equal(brim_value_dim(x, -1), 4);
    assert_int_equal(brim_value_dim(x, 3), 0);
    assert_int_equal(brim_value_dim(x, -4), 0);
    assert_int_equal(brim_value_dtype(x), BRIM_U8);
    assert_int_equal(brim_value_bytes(x), 24);
    assert_ptr_equal(brim_value_find(g, "x"), x);
    assert_null(brim_value_find(g, "y"));
    assert_true(brim_param(g, "w", DIMS(3, 3), zeros)->decay);
    assert_false(brim_param(g, "b", DIMS(3), zeros)->decay);
    assert_true(brim_buffer(g, "m", DIMS(3), zeros)->saved);
    brim_graph_free(g);
}

/* Every allocation of a small model fails once; no crash, ENOMEM each time. */
static void out_of_memory_is_an_error(void **state)
{
    for (long n = 1; n < 200; n++) {
        brim_mem_fail_after(n);
        brim_graph *g = brim_graph_new(true);
        if (g) {
            brim_value *x = brim_input(g, "x", BRIM_F32, DIMS(8, 5));
            for (int k = 0; k < 40; k++) x = brim_relu(g, brim_affine(g, x, 2, 1));
            brim_output_mark(g, "y", x);
        }
        brim_mem_fail_after(0);
        brim_status s = g ? brim_graph_check(g, NULL) : BRIM_ENOMEM;
        brim_graph_free(g);
        if (s == BRIM_OK) return;
        assert_int_equal(s, BRIM_ENOMEM);
    }
    fail_msg("the graph never fit");
}

/* ---- verifier ---- */

typedef struct small {
    brim_graph *g;
    brim_value *x, *a, *b;
} small;

static small small_new(void)
{
    small s = {.g = brim_graph_new(true)};
    s.x = brim_input(s.g, "x", BRIM_F32, DIMS(2, 3));
    s.a = brim_relu(s.g, s.x);
    s.b = brim_add(s.g, s.a, s.x);
    brim_output_mark(s.g, "y", s.b);
    assert_int_equal(brim_graph_verify(s.g, NULL), BRIM_OK);
    return s;
}

static void assert_broken(small s, const char *text)
{
    brim_error err = {0};
    assert_int_not_equal(brim_graph_verify(s.g, &err), BRIM_OK);
    if (!strstr(err.text, text)) fail_msg("\"%s\" does not say \"%s\"", err.text, text);
    brim_graph_free(s.g);
}

static void verifier_sees_broken_graphs(void **state)
{
    small s = small_new();
    brim_node *first = s.g->nodes.at[0];
    s.g->nodes.at[0] = s.g->nodes.at[1];
    s.g->nodes.at[1] = first;
    assert_broken(s, "before it is made");

    s = small_new();
    s.g->nodes.at[0]->in[0] = NULL;
    assert_broken(s, "input 0 is missing");

    s = small_new();
    s.g->nodes.at[1] = s.g->nodes.at[0];
    assert_broken(s, "made twice");

    s = small_new();
    s.g->nodes.n = 1;
    assert_broken(s, "output y is never made");

    s = small_new();
    s.a->producer = s.b->producer;
    assert_broken(s, "not its own");

    s = small_new();
    s.x->layout = BRIM_LAYOUT_CHANNELS_LAST;
    assert_broken(s, "malformed");

    s = small_new();
    s.x->shape.dim[0] = -2;
    assert_broken(s, "malformed");

    s = small_new();
    s.x->id = 1;
    assert_broken(s, "malformed");
}

static void verifier_sees_foreign_and_fixed_values(void **state)
{
    small s = small_new(), other = small_new();
    s.g->nodes.at[0]->in[0] = other.a;
    assert_broken(s, "another graph");
    brim_graph_free(other.g);

    s = small_new();
    brim_value *step = brim_step_input(s.g);
    brim_emit(s.g, &brim_op_accumulate, NULL, (brim_value *[]){s.x, s.b, step}, 3, NULL, 0);
    assert_broken(s, "changes the fixed value x");
}

/* ---- text ---- */

static void graph_as_text(void **state)
{
    brim_graph *g = brim_graph_new(true);
    brim_value *x = brim_input(g, "x", BRIM_F32, DIMS(2, 3, 4, 5));
    brim_value *w = brim_param(g, "w", DIMS(3, 1, 1), zeros);
    brim_value *m = brim_buffer(g, "mean", 0, NULL, zeros);
    float half = 0.5f;
    brim_value *c = brim_const(g, "half", 0, NULL, &half);
    w->trainable = false;
    brim_scope(g, "layer1.0");
    brim_value *y = brim_affine(g, brim_mul(g, x, w), 2, -1);
    y->layout = BRIM_LAYOUT_CHANNELS_LAST;
    brim_scope(g, "");
    brim_output_mark(g, "y",
                     brim_reduce_sum(g, brim_cast(g, brim_add(g, y, c), BRIM_BF16), 13, false));
    brim_output_mark(g, "mean", m);
    char *text = brim_graph_text(g);
    assert_string_equal(text, "input x f32[2,3,4,5]\n"
                              "param w f32[3,1,1] frozen\n"
                              "state mean f32[]\n"
                              "const half f32[]\n"
                              "  %4 f32[2,3,4,5] = mul(x, w)  # layer1.0.mul\n"
                              "  %5 f32[2,3,4,5]nhwc = affine(%4) a=2 b=-1  # layer1.0.affine\n"
                              "  %6 f32[2,3,4,5] = add(%5, half)  # add\n"
                              "  %7 bf16[2,3,4,5] = cast(%6) to=1  # cast\n"
                              "  %8 bf16[3] = reduce_sum(%7) axes=13 keep=0  # reduce_sum\n"
                              "output y = %8\n"
                              "output mean = mean\n");
    free(text);
    brim_graph_free(g);
}

static void several_outputs_and_absent_inputs_as_text(void **state)
{
    brim_graph *g = brim_graph_new(true);
    brim_value *x = brim_input(g, "x", BRIM_F32, DIMS(4, 10));
    brim_value *label = brim_input(g, "label", BRIM_I32, DIMS(4));
    brim_cross_entropy(g, x, label, NULL, NULL, NULL, 0.1);
    char *text = brim_graph_text(g);
    assert_non_null(strstr(text, "  %2 f32[], %3 f32[4] = cross_entropy(x, label, -, -, -) "
                                 "smoothing=0.1  # cross_entropy\n"));
    free(text);
    brim_graph_free(g);
}

/* ---- passes' tools ---- */

static void rewriting_keeps_and_replaces(void **state)
{
    small s = small_new();
    brim_rewrite r = brim_rewrite_begin(s.g);
    assert_int_equal(r.n_old, 2);
    brim_value *twice = NULL;
    for (size_t i = 0; i < r.n_old; i++) {
        brim_graph_keep(s.g, r.old[i]);
        if (r.old[i]->out[0] == s.a) twice = brim_affine(s.g, s.a, 2, 0);
    }
    brim_rewrite_end(s.g, &r);
    assert_int_equal(s.g->nodes.n, 3);
    brim_replace_uses(s.g, s.b, twice);
    assert_ptr_equal(s.g->outputs.at[0].value, twice);
    assert_int_equal(brim_graph_verify(s.g, NULL), BRIM_OK);
    brim_graph_free(s.g);
}

static void attributes(void **state)
{
    brim_graph *g = brim_graph_new(true);
    brim_attr a[4];
    assert_int_equal(brim_attr_parse(&g->arena, " stride=2,3 eps=1e-05  groups=4 ", a, 4), 3);
    brim_node n = {.n_attr = 3, .attr = a};
    assert_int_equal(brim_attr_int_at(&n, "stride", 1, 9), 3);
    assert_int_equal(brim_attr_int_at(&n, "stride", 2, 9), 9);
    assert_int_equal(brim_attr_int(&n, "eps", 9), 9);
    assert_true(brim_attr_float(&n, "eps", 0) == 1e-05);
    assert_true(brim_attr_float(&n, "groups", 0) == 4);
    assert_true(brim_attr_float(&n, "none", 7) == 7);
    assert_true(brim_attr_put(g, &n, (brim_attr)BRIM_INT("groups", 5)));
    assert_int_equal(n.n_attr, 3);
    assert_true(brim_attr_put(g, &n, (brim_attr)BRIM_INT2("pad", 1, 2)));
    assert_int_equal(n.n_attr, 4);
    assert_int_equal(brim_attr_int(&n, "groups", 0), 5);
    assert_int_equal(brim_attr_int_at(&n, "pad", 1, 0), 2);
    assert_int_equal(brim_attr_parse(&g->arena, NULL, a, 4), 0);
    static const char *const bad[] = {
        "x", "=1", "x=", "x=1,", "x=1.5.2", "x=1,2,3,4,5,6,7,8,9", "x=1z", "a=1 b=2 c=3 d=4 e=5"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (brim_attr_parse(&g->arena, bad[i], a, 4) != -1) fail_msg("accepted %s", bad[i]);
    brim_graph_free(g);
}

/* ---- shapes and tensors ---- */

static void broadcasting(void **state)
{
    static const struct {
        brim_shape a, b, out;
        bool fits;
    } t[] = {
        {{2, {2, 3}}, {1, {3}}, {2, {2, 3}}, true},
        {{4, {2, 3, 4, 5}}, {3, {3, 1, 1}}, {4, {2, 3, 4, 5}}, true},
        {{2, {4, 1}}, {2, {1, 5}}, {2, {4, 5}}, true},
        {{0, {0}}, {2, {2, 3}}, {2, {2, 3}}, true},
        {{2, {0, 3}}, {2, {1, 3}}, {2, {0, 3}}, true},
        {{2, {2, 3}}, {1, {2}}, {0, {0}}, false},
        {{2, {0, 3}}, {2, {2, 3}}, {0, {0}}, false},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        for (int swap = 0; swap < 2; swap++) {
            brim_shape out;
            bool fits =
                brim_shape_broadcast(swap ? &t[i].b : &t[i].a, swap ? &t[i].a : &t[i].b, &out);
            assert_int_equal(fits, t[i].fits);
            if (fits) assert_true(brim_shape_equal(&out, &t[i].out));
        }
}

static void counting_and_strides(void **state)
{
    brim_shape s = {4, {2, 3, 4, 5}}, scalar = {0}, big = {2, {INT64_MAX, 2}}, bad = {1, {-1}};
    int64_t row[BRIM_MAX_RANK], last[BRIM_MAX_RANK];
    char text[128];
    assert_int_equal(brim_shape_count(&s), 120);
    assert_int_equal(brim_shape_count(&scalar), 1);
    assert_int_equal(brim_shape_count(&big), -1);
    assert_int_equal(brim_shape_count(&bad), -1);
    assert_string_equal(brim_shape_text(text, &s), "[2,3,4,5]");
    assert_string_equal(brim_shape_text(text, &scalar), "[]");
    brim_strides(&s, BRIM_LAYOUT_ROW, row);
    brim_strides(&s, BRIM_LAYOUT_CHANNELS_LAST, last);
    assert_memory_equal(row, ((int64_t[]){60, 20, 5, 1}), 4 * sizeof *row);
    assert_memory_equal(last, ((int64_t[]){60, 1, 15, 3}), 4 * sizeof *last);
}

/* Every element lies at a place of its own, in the order that the layout says. */
static void offsets(void **state)
{
    brim_shape s = {4, {2, 3, 4, 5}}, channel = {3, {3, 1, 1}};
    float data[120];
    brim_tensor t = brim_tensor_make(data, BRIM_F32, &s, BRIM_LAYOUT_CHANNELS_LAST);
    brim_tensor c = brim_tensor_make(data, BRIM_F32, &channel, BRIM_LAYOUT_ROW);
    for (int64_t i = 0; i < 120; i++) {
        int64_t w = i % 5, h = i / 5 % 4, ch = i / 20 % 3, n = i / 60;
        assert_int_equal(brim_tensor_offset(&t, i), ((n * 4 + h) * 5 + w) * 3 + ch);
        assert_int_equal(brim_tensor_offset_broadcast(&c, &s, i), ch);
    }
}

static void elements_of_every_type(void **state)
{
    brim_shape s = {1, {1}};
    static const struct {
        brim_dtype t;
        double set, get;
    } e[] = {
        {BRIM_F32, 0.1, 0.1f},
        {BRIM_BF16, 1.0 + 0x1p-8, 1.0}, /* half way: to even */
        {BRIM_BF16, 1.0 + 3 * 0x1p-8, 1.0 + 0x1p-6},
        {BRIM_F16, 65520, INFINITY},
        {BRIM_F16, 0x1p-24, 0x1p-24},
        {BRIM_F64, 0.1, 0.1},
        {BRIM_I32, 3e9, INT32_MAX},
        {BRIM_I32, -3e9, INT32_MIN},
        {BRIM_I32, NAN, INT32_MIN},
        {BRIM_I32, 2.5, 2},
        {BRIM_I64, -7, -7},
        {BRIM_U8, 300, 255},
        {BRIM_U8, -3, 0},
    };
    for (size_t i = 0; i < sizeof e / sizeof *e; i++) {
        double room = 0;
        brim_tensor t = brim_tensor_make(&room, e[i].t, &s, BRIM_LAYOUT_ROW);
        brim_tensor_set(&t, 0, e[i].set);
        assert_true(brim_tensor_get(&t, 0) == e[i].get);
    }
    assert_int_equal(brim_dtype_bytes(BRIM_BF16), 2);
    assert_int_equal(brim_dtype_bytes(BRIM_DTYPE_COUNT), 0);
    assert_string_equal(brim_dtype_name(BRIM_DTYPE_COUNT), "?");
}

static void copies_between_types_and_layouts(void **state)
{
    brim_shape s = {4, {2, 3, 2, 2}};
    float row[24];
    double last[24];
    float back[24];
    for (int i = 0; i < 24; i++) row[i] = (float)i;
    brim_tensor a = brim_tensor_make(row, BRIM_F32, &s, BRIM_LAYOUT_ROW);
    brim_tensor b = brim_tensor_make(last, BRIM_F64, &s, BRIM_LAYOUT_CHANNELS_LAST);
    brim_tensor c = brim_tensor_make(back, BRIM_F32, &s, BRIM_LAYOUT_ROW);
    brim_tensor_copy(&b, &a);
    assert_true(last[1] == 4 && last[3] == 1 && last[12] == 12);
    brim_tensor_copy(&c, &b);
    assert_memory_equal(row, back, sizeof row);
    memset(back, 0, sizeof back);
    brim_tensor_copy(&c, &a);
    assert_memory_equal(row, back, sizeof row);
}

/* ---- bodies ---- */

static void bodies(void **state)
{
    brim_body b = {.n_in = 2, .n_out = 1};
    int x = brim_body_load(&b, 0), y = brim_body_load(&b, 1);
    assert_int_equal(brim_body_load(&b, 0), x);
    int sum = brim_body_op(&b, BRIM_S_ADD, x, y, 0);
    assert_int_equal(brim_body_op(&b, BRIM_S_ADD, x, y, 0), sum);
    b.out[0] = (uint8_t)brim_body_op(&b, BRIM_S_MAX, sum, brim_body_const(&b, 0.5), 0);
    double reg[BRIM_BODY_MAX];
    brim_body_eval(&b, (double[]){1, 2}, reg);
    assert_true(reg[b.out[0]] == 3);
    brim_body_eval(&b, (double[]){1, -2}, reg);
    assert_true(reg[b.out[0]] == 0.5);
    brim_body_eval(&b, (double[]){1, NAN}, reg);
    assert_true(isnan(reg[b.out[0]]));
    brim_str text = {0};
    brim_body_print(&b, &text);
    assert_string_equal(brim_str_text(&text),
                        "r0=LOAD in0; r1=LOAD in1; r2=ADD r0 r1; r3=CONST 0.5; r4=MAX r2 r3 -> r4");
    brim_str_free(&text);
    for (int k = 0; !b.full && k < 1000; k++) brim_body_const(&b, k);
    assert_true(b.full);
    assert_int_equal(b.n, BRIM_BODY_MAX);
}

/* 0 and -0 are different constants. */
static void constants_keep_their_sign(void **state)
{
    brim_body b = {0};
    int plus = brim_body_const(&b, 0.0), minus = brim_body_const(&b, -0.0);
    assert_int_not_equal(plus, minus);
}

/* ---- running by reference ---- */

static void reference_changes_in_place(void **state)
{
    brim_graph *g = brim_graph_new(true);
    brim_value *x = brim_input(g, "x", BRIM_F32, DIMS(3));
    brim_value *acc = brim_buffer(g, "acc", DIMS(3), zeros);
    float two = 2;
    brim_value *y = brim_mul(g, x, brim_const(g, "two", 0, NULL, &two));
    brim_emit(g, &brim_op_accumulate, NULL, (brim_value *[]){acc, y, brim_step_input(g)}, 3, NULL,
              0);
    brim_value *z = brim_affine(g, acc, 1, 1);
    brim_reference *r;
    assert_int_equal(brim_reference_new(g, &r, NULL), BRIM_OK);
    for (int k = 0; k < 3; k++) brim_tensor_put(brim_reference_tensor(r, x), k, k + 1);
    brim_tensor_put(brim_reference_tensor(r, brim_step_input(g)), BRIM_STEP_ACC_BETA, 1);
    brim_reference_run(r);
    brim_reference_run(r);
    for (int k = 0; k < 3; k++) {
        assert_true(brim_tensor_at(brim_reference_tensor(r, acc), k) == 4 * (k + 1));
        assert_true(brim_tensor_at(brim_reference_tensor(r, z), k) == 4 * (k + 1) + 1);
    }
    brim_reference_free(r);
    for (long n = 1; n < 12; n++) {
        brim_mem_fail_after(n);
        brim_status s = brim_reference_new(g, &r, NULL);
        brim_mem_fail_after(0);
        if (s == BRIM_OK) break;
        assert_int_equal(s, BRIM_ENOMEM);
        assert_null(r);
    }
    brim_reference_free(r);
    brim_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(bad_shapes_are_refused),
        cmocka_unit_test(first_error_is_kept),
        cmocka_unit_test(missing_inputs_are_refused),
        cmocka_unit_test(values_tell_their_shape),
        cmocka_unit_test(out_of_memory_is_an_error),
        cmocka_unit_test(verifier_sees_broken_graphs),
        cmocka_unit_test(verifier_sees_foreign_and_fixed_values),
        cmocka_unit_test(graph_as_text),
        cmocka_unit_test(several_outputs_and_absent_inputs_as_text),
        cmocka_unit_test(rewriting_keeps_and_replaces),
        cmocka_unit_test(attributes),
        cmocka_unit_test(broadcasting),
        cmocka_unit_test(counting_and_strides),
        cmocka_unit_test(offsets),
        cmocka_unit_test(elements_of_every_type),
        cmocka_unit_test(copies_between_types_and_layouts),
        cmocka_unit_test(bodies),
        cmocka_unit_test(constants_keep_their_sign),
        cmocka_unit_test(reference_changes_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
