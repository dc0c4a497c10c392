/* Softmax cross-entropy of a batch of rows, with label smoothing, weights and mixed labels.
 *
 * A label outside [0, K) has CE = 0 and no gradient (the data layer refuses it earlier; -1 may mark
 * a row to ignore). A term whose factor is 0 is left out, whatever the logits hold, so that rows
 * that only pad a batch (weight 0) cannot spoil the sum. */
#include "ops/ops.h"

#include <math.h>

/* Label inputs of a row and what multiplies each one's CE. */
typedef struct row_target {
    int64_t label[2];
    double factor[2]; /* 0: left out */
} row_target;

/* in: label, weight, label2, lam */
static row_target row_of(const brim_tensor *in, int n_in, int64_t row, int64_t classes)
{
    double w = n_in > 1 && in[1].data ? brim_tensor_at(&in[1], row) : 1;
    bool mixed = n_in > 3 && in[2].data;
    double lam = mixed ? brim_tensor_at(&in[3], row) : 1;
    row_target t = {.label = {(int64_t)brim_tensor_at(&in[0], row)}, .factor = {w * lam}};
    if (mixed) {
        t.label[1] = (int64_t)brim_tensor_at(&in[2], row);
        t.factor[1] = w * (1 - lam);
    }
    for (int k = 0; k < 2; k++)
        if (t.label[k] < 0 || t.label[k] >= classes) t.factor[k] = 0;
    return t;
}

/* Checks logits at input `first`, label and the optional ones from input `rest` on. */
static brim_status check_inputs(const brim_node *n, int first, int rest, brim_error *err)
{
    BRIM_TRY(brim_want_rank(n, first, 2, err));
    BRIM_TRY(brim_want_real(n, first, err));
    int64_t rows = n->in[first]->shape.dim[0];
    bool given[4] = {0};
    if (n->in[first]->shape.dim[1] < 1) return brim_fail(err, BRIM_ESHAPE, "there are no classes");
    for (int k = 0; k < 4 && rest + k < n->n_in; k++) {
        if (!n->in[rest + k]) continue;
        given[k] = true;
        BRIM_TRY(brim_want_rank(n, rest + k, 1, err));
        BRIM_TRY(brim_want_dim(n, rest + k, 0, rows, err));
        if (k == 0 || k == 2)
            BRIM_TRY(brim_want_type(n, rest + k, BRIM_I32, err));
        else
            BRIM_TRY(brim_want_real(n, rest + k, err));
    }
    if (given[2] != given[3])
        return brim_fail(err, BRIM_EINVAL, "label2 and lam go together, one is missing");
    double s = brim_attr_float(n, "smoothing", 0);
    if (!(s >= 0 && s < 1)) return brim_fail(err, BRIM_EINVAL, "smoothing %g is outside [0, 1)", s);
    return BRIM_OK;
}

static brim_status cross_entropy_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(check_inputs(n, 0, 1, err));
    brim_shape scalar = {0}, rows = {1, {n->in[0]->shape.dim[0]}};
    brim_dtype t = brim_dtype_accum(n->in[0]->dtype);
    brim_out_set(n, 0, t, &scalar);
    brim_out_set(n, 1, t, &rows);
    return BRIM_OK;
}

static double log_sum_exp(const brim_tensor *x, int64_t row, int64_t classes, double *mean)
{
    double max = -INFINITY, sum = 0;
    *mean = 0;
    for (int64_t j = 0; j < classes; j++) {
        double v = brim_tensor_at(x, row * classes + j);
        *mean += v / (double)classes;
        if (!(v <= max)) max = v; /* NaN sticks: nothing compares to it */
    }
    for (int64_t j = 0; j < classes; j++) sum += exp(brim_tensor_at(x, row * classes + j) - max);
    return max + log(sum);
}

static void cross_entropy_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int64_t rows = in[0].shape.dim[0], classes = in[0].shape.dim[1];
    double s = brim_attr_float(n, "smoothing", 0), loss = 0;
    for (int64_t i = 0; i < rows; i++) {
        double mean, lse = log_sum_exp(&in[0], i, classes, &mean);
        row_target t = row_of(in + 1, n->n_in - 1, i, classes);
        for (int k = 0; k < 2; k++) {
            if (t.factor[k] == 0) continue;
            double nll = lse - brim_tensor_at(&in[0], i * classes + t.label[k]);
            loss += t.factor[k] * (s == 0 ? nll : (1 - s) * nll + s * (lse - mean));
        }
        if (out[1].data) brim_tensor_put(&out[1], i, lse);
    }
    if (out[0].data) brim_tensor_set(&out[0], 0, loss);
}

static brim_status cross_entropy_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                                      const bool *need, brim_value **din)
{
    if (!need[0] || !dout[0]) return BRIM_OK;
    brim_value *in[7] = {dout[0], n->in[0], n->out[1]};
    for (int k = 1; k < n->n_in; k++) in[k + 2] = n->in[k];
    brim_attr s = BRIM_FLOAT("smoothing", brim_attr_float(n, "smoothing", 0));
    din[0] = brim_emit1(g, &brim_op_cross_entropy_bwd, NULL, in, n->n_in + 2, &s, 1);
    return brim_graph_check(g, NULL);
}

static void cross_entropy_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 4 * (double)brim_shape_count(&n->in[0]->shape);
}

static const brim_case cross_entropy_cases[] = {
    {.name = "plain", .inputs = "f32[5,7] i32[5]"},
    {.name = "smoothed", .inputs = "f32[5,7] i32[5]", .attrs = "smoothing=0.1"},
    {.name = "weighted", .inputs = "f32[6,10] i32[6] f32[6]", .positive_in = 4},
    {.name = "mixed",
     .inputs = "f32[6,10] i32[6] f32[6] i32[6] f32[6]",
     .attrs = "smoothing=0.1",
     .positive_in = 4 | 16},
    {.name = "mixed, no weight", .inputs = "f32[6,10] i32[6] - i32[6] f32[6]", .positive_in = 16},
    {.name = "labels out of range", .inputs = "f32[9,3] i32[9]", .int_below = 6},
    {.name = "wide", .inputs = "f32[3,1003] i32[3]", .lo = -8, .hi = 8},
    {.name = "no rows", .inputs = "f32[0,7] i32[0]"},
    {.name = "labels short", .inputs = "f32[5,7] i32[4]", .refused = "wants 5 in dimension 0"},
    {.name = "real labels", .inputs = "f32[5,7] f32[5]", .refused = "wants i32"},
    {.name = "lam missing",
     .inputs = "f32[5,7] i32[5] - i32[5]",
     .refused = "label2 and lam go together"},
    {.name = "rank", .inputs = "f32[5] i32[5]", .refused = "wants 2 dimensions"},
    {.name = "smoothing",
     .inputs = "f32[5,7] i32[5]",
     .attrs = "smoothing=1.5",
     .refused = "outside [0, 1)"},
};
const brim_op brim_op_cross_entropy = {
    .name = "cross_entropy",
    .doc =
        "loss = sum weight (lam CE(label) + (1 - lam) CE(label2)), CE = (1 - s)(lse - x[label]) + "
        "s (lse - mean x); lse = log sum exp x per row",
    .min_in = 2,
    .max_in = 5,
    .n_out = 2,
    .optional_in = 4 | 8 | 16,
    .no_grad_in = 2 | 4 | 8 | 16,
    .layout = BRIM_LAYOUT_PLAIN,
    .amp = BRIM_AMP_KEEP, /* reads half logits, computes in float */
    .amp_in = 1,
    .infer = cross_entropy_infer,
    .grad = cross_entropy_grad,
    .cost = cross_entropy_cost,
    .ref = cross_entropy_ref,
    BRIM_CASES(cross_entropy_cases)};

brim_value *brim_cross_entropy(brim_graph *g, brim_value *logits, brim_value *label,
                               brim_value *weight, brim_value *label2, brim_value *lam,
                               double smoothing)
{
    return BRIM_EMIT(g, &brim_op_cross_entropy, NULL,
                     ((brim_value *[]){logits, label, weight, label2, lam}),
                     BRIM_FLOAT("smoothing", smoothing));
}

/* cross_entropy_bwd(dloss, logits, lse, label, weight?, label2?, lam?) */
static brim_status cross_entropy_bwd_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    BRIM_TRY(brim_want_rank(n, 0, 0, err));
    BRIM_TRY(check_inputs(n, 1, 3, err));
    BRIM_TRY(brim_want_rank(n, 2, 1, err));
    BRIM_TRY(brim_want_dim(n, 2, 0, n->in[1]->shape.dim[0], err));
    brim_out_set(n, 0, n->in[1]->dtype, &n->in[1]->shape);
    return BRIM_OK;
}

static void cross_entropy_bwd_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    int64_t rows = in[1].shape.dim[0], classes = in[1].shape.dim[1];
    double s = brim_attr_float(n, "smoothing", 0), dloss = brim_tensor_get(&in[0], 0);
    for (int64_t i = 0; i < rows; i++) {
        double lse = brim_tensor_at(&in[2], i);
        row_target t = row_of(in + 3, n->n_in - 3, i, classes);
        for (int64_t j = 0; j < classes; j++) {
            double p = exp(brim_tensor_at(&in[1], i * classes + j) - lse), dx = 0;
            for (int k = 0; k < 2; k++)
                if (t.factor[k] != 0)
                    dx += t.factor[k] * (p - (j == t.label[k] ? 1 - s : 0) - s / (double)classes);
            brim_tensor_put(&out[0], i * classes + j,
                            t.factor[0] == 0 && t.factor[1] == 0 ? 0 : dloss * dx);
        }
    }
}

static void cross_entropy_bwd_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 4 * (double)brim_shape_count(&n->in[1]->shape);
}

static const brim_case cross_entropy_bwd_cases[] = {
    {.name = "plain", .inputs = "f32[] f32[5,7] f32[5] i32[5]", .int_below = 7},
    {.name = "smoothed",
     .inputs = "f32[] f32[5,7] f32[5] i32[5]",
     .attrs = "smoothing=0.1",
     .int_below = 7},
    {.name = "mixed",
     .inputs = "f32[] f32[6,10] f32[6] i32[6] f32[6] i32[6] f32[6]",
     .attrs = "smoothing=0.1",
     .int_below = 10,
     .positive_in = 16 | 64},
    {.name = "labels out of range", .inputs = "f32[] f32[9,3] f32[9] i32[9]", .int_below = 6},
    {.name = "wide", .inputs = "f32[] f32[3,1003] f32[3] i32[3] f32[3]", .int_below = 1003},
    {.name = "no rows", .inputs = "f32[] f32[0,7] f32[0] i32[0]", .int_below = 7},
    {.name = "lse short",
     .inputs = "f32[] f32[5,7] f32[4] i32[5]",
     .int_below = 7,
     .refused = "wants 5 in dimension 0"},
};
const brim_op brim_op_cross_entropy_bwd = {
    .name = "cross_entropy_bwd",
    .doc = "dlogits = dloss weight (softmax(logits) - (1 - s) target - s / K)",
    .min_in = 4,
    .max_in = 7,
    .n_out = 1,
    .optional_in = 16 | 32 | 64,
    .inplace = 2,
    .layout = BRIM_LAYOUT_PLAIN,
    .amp = BRIM_AMP_KEEP,
    .amp_in = 2,
    .infer = cross_entropy_bwd_infer,
    .cost = cross_entropy_bwd_cost,
    .ref = cross_entropy_bwd_ref,
    BRIM_CASES(cross_entropy_bwd_cases)};
