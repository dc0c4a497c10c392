/* Batched matrix product, either side read transposed. Its gradients are matrix products too. */
#include "ops/ops.h"

/* Rows, inner size and columns, after the transposes. */
typedef struct sizes {
    int64_t m, k, n;
} sizes;

static bool transposed(const brim_node *n, int input)
{
    return brim_attr_int(n, input ? "tb" : "ta", 0);
}

/* Dimension `axis` (0 rows, 1 columns) of an input as the product sees it. */
static int64_t dim_of(const brim_node *n, int input, int axis)
{
    const brim_shape *s = &n->in[input]->shape;
    return s->dim[s->rank - 2 + (transposed(n, input) ? 1 - axis : axis)];
}

static sizes sizes_of(const brim_node *n)
{
    return (sizes){dim_of(n, 0, 0), dim_of(n, 0, 1), dim_of(n, 1, 1)};
}

static brim_status matmul_infer(brim_graph *g, brim_node *n, brim_error *err)
{
    (void)g;
    char ta[128], tb[128];
    const brim_shape *a = &n->in[0]->shape, *b = &n->in[1]->shape;
    BRIM_TRY(brim_want_real(n, 0, err));
    BRIM_TRY(brim_want_type(n, 1, n->in[0]->dtype, err));
    if (a->rank < 2)
        return brim_fail(err, BRIM_ESHAPE, "input 0 has shape %s, wants [...,M,K]",
                         brim_shape_text(ta, a));
    BRIM_TRY(brim_want_rank(n, 1, a->rank, err));
    for (int k = 0; k < a->rank - 2; k++) BRIM_TRY(brim_want_dim(n, 1, k, a->dim[k], err));
    sizes z = sizes_of(n);
    if (z.k != dim_of(n, 1, 0))
        return brim_fail(
            err, BRIM_ESHAPE, "%s%s and %s%s do not multiply (%lld columns, %lld rows)",
            brim_shape_text(ta, a), transposed(n, 0) ? " transposed" : "", brim_shape_text(tb, b),
            transposed(n, 1) ? " transposed" : "", (long long)z.k, (long long)dim_of(n, 1, 0));
    brim_shape y = *a;
    y.dim[y.rank - 2] = z.m;
    y.dim[y.rank - 1] = z.n;
    brim_out_set(n, 0, n->in[0]->dtype, &y);
    return BRIM_OK;
}

/* Offset of logical matrix `batch`, row and column as stored. */
static int64_t at(const brim_tensor *t, bool transpose, int64_t batch, int64_t row, int64_t column)
{
    int r = t->shape.rank;
    int64_t rows = t->shape.dim[r - 2], columns = t->shape.dim[r - 1];
    int64_t i = transpose ? column : row, j = transpose ? row : column;
    return brim_tensor_offset(t, (batch * rows + i) * columns + j);
}

static void matmul_ref(const brim_node *n, const brim_tensor *in, const brim_tensor *out)
{
    bool ta = transposed(n, 0), tb = transposed(n, 1);
    sizes z = sizes_of(n);
    int64_t batches = 1;
    for (int k = 0; k < out->shape.rank - 2; k++) batches *= out->shape.dim[k];
    for (int64_t b = 0; b < batches; b++)
        for (int64_t i = 0; i < z.m; i++)
            for (int64_t j = 0; j < z.n; j++) {
                double sum = 0;
                for (int64_t k = 0; k < z.k; k++)
                    sum += brim_tensor_get(&in[0], at(&in[0], ta, b, i, k)) *
                           brim_tensor_get(&in[1], at(&in[1], tb, b, k, j));
                brim_tensor_set(out, at(out, false, b, i, j), sum);
            }
}

/* With A, B as the product sees them, dA = dy B^T and dB = A^T dy; the transpose of either when it
 * is stored transposed. */
static brim_status matmul_grad(brim_graph *g, const brim_node *n, brim_value *const *dout,
                               const bool *need, brim_value **din)
{
    brim_value *a = n->in[0], *b = n->in[1], *dy = dout[0];
    bool ta = transposed(n, 0), tb = transposed(n, 1);
    if (need[0]) din[0] = ta ? brim_matmul(g, b, dy, tb, true) : brim_matmul(g, dy, b, false, !tb);
    if (need[1]) din[1] = tb ? brim_matmul(g, dy, a, true, ta) : brim_matmul(g, a, dy, !ta, false);
    return brim_graph_check(g, NULL);
}

static void matmul_cost(const brim_node *n, brim_cost *c)
{
    c->flops += 2 * (double)brim_shape_count(&n->out[0]->shape) * (double)sizes_of(n).k;
}

static const brim_case matmul_cases[] = {
    {.name = "matrices", .inputs = "f32[3,5] f32[5,4]"},
    {.name = "a transposed", .inputs = "f32[5,3] f32[5,4]", .attrs = "ta=1"},
    {.name = "b transposed", .inputs = "f32[3,5] f32[4,5]", .attrs = "tb=1"},
    {.name = "both transposed", .inputs = "f32[5,3] f32[4,5]", .attrs = "ta=1 tb=1"},
    {.name = "batch", .inputs = "f32[2,3,5] f32[2,5,4]"},
    {.name = "heads", .inputs = "f32[2,3,4,5] f32[2,3,6,5]", .attrs = "tb=1"},
    {.name = "heads transposed", .inputs = "f32[2,3,5,4] f32[2,3,6,5]", .attrs = "ta=1 tb=1"},
    {.name = "row and column", .inputs = "f32[1,7] f32[7,1]"},
    {.name = "outer", .inputs = "f32[5,1] f32[1,4]"},
    {.name = "odd sizes", .inputs = "f32[17,19] f32[19,33]"},
    {.name = "empty batch", .inputs = "f32[0,3,5] f32[0,5,4]"},
    {.name = "no rows", .inputs = "f32[0,5] f32[5,4]"},
    {.name = "nothing to sum", .inputs = "f32[3,0] f32[0,4]"},
    {.name = "inner sizes",
     .inputs = "f32[3,5] f32[4,5]",
     .refused = "[3,5] and [4,5] do not multiply (5 columns, 4 rows)"},
    {.name = "inner sizes transposed",
     .inputs = "f32[3,5] f32[3,4]",
     .attrs = "tb=1",
     .refused = "[3,5] and [3,4] transposed do not multiply"},
    {.name = "batches", .inputs = "f32[2,3,5] f32[3,5,4]", .refused = "wants 2 in dimension 0"},
    {.name = "ranks", .inputs = "f32[2,3,5] f32[5,4]", .refused = "wants 3 dimensions"},
    {.name = "vectors", .inputs = "f32[5] f32[5]", .refused = "wants [...,M,K]"},
    {.name = "types differ", .inputs = "bf16[3,5] f16[5,4]", .refused = "wants bf16"},
    {.name = "too large", .inputs = "f32[4000000000,1] f32[1,4000000000]", .refused = "too large"},
};

const brim_op brim_op_matmul = {
    .name = "matmul",
    .doc = "y = a b, batched; ta, tb: a, b read transposed; zero when K is 0",
    .min_in = 2,
    .max_in = 2,
    .n_out = 1,
    .infer = matmul_infer,
    .grad = matmul_grad,
    .cost = matmul_cost,
    .ref = matmul_ref,
    .layout = BRIM_LAYOUT_PLAIN,
    .amp = BRIM_AMP_HALF,
    .amp_in = 3,
    BRIM_CASES(matmul_cases)};

brim_value *brim_matmul(brim_graph *g, brim_value *a, brim_value *b, bool transpose_a,
                        bool transpose_b)
{
    return BRIM_EMIT(g, &brim_op_matmul, NULL, ((brim_value *[]){a, b}),
                     BRIM_INT("ta", transpose_a), BRIM_INT("tb", transpose_b));
}
