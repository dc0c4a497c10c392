#include "ir/tensor.h"
#include "base/half.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    size_t bytes;
} dtypes[BRIM_DTYPE_COUNT] = {
    [BRIM_F32] = {"f32", 4}, [BRIM_BF16] = {"bf16", 2}, [BRIM_F16] = {"f16", 2},
    [BRIM_F64] = {"f64", 8}, [BRIM_I32] = {"i32", 4},   [BRIM_I64] = {"i64", 8},
    [BRIM_U8] = {"u8", 1},
};

size_t brim_dtype_bytes(brim_dtype t)
{
    return (unsigned)t < BRIM_DTYPE_COUNT ? dtypes[t].bytes : 0;
}

const char *brim_dtype_name(brim_dtype t)
{
    return (unsigned)t < BRIM_DTYPE_COUNT ? dtypes[t].name : "?";
}

int64_t brim_shape_count(const brim_shape *s)
{
    int64_t n = 1;
    for (int k = 0; k < s->rank; k++)
        if (s->dim[k] < 0 || __builtin_mul_overflow(n, s->dim[k], &n)) return -1;
    return n;
}

bool brim_shape_equal(const brim_shape *a, const brim_shape *b)
{
    if (a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; k++)
        if (a->dim[k] != b->dim[k]) return false;
    return true;
}

brim_shape brim_shape_make(int rank, const int64_t *dim)
{
    brim_shape s = {.rank = rank};
    for (int k = 0; k < rank; k++) s.dim[k] = dim[k];
    return s;
}

const char *brim_shape_text(char buf[128], const brim_shape *s)
{
    int n = snprintf(buf, 128, "[");
    for (int k = 0; k < s->rank; k++)
        n += snprintf(buf + n, (size_t)(128 - n), "%s%lld", k ? "," : "", (long long)s->dim[k]);
    snprintf(buf + n, (size_t)(128 - n), "]");
    return buf;
}

bool brim_shape_broadcast(const brim_shape *a, const brim_shape *b, brim_shape *out)
{
    brim_shape r = {.rank = a->rank > b->rank ? a->rank : b->rank};
    for (int k = 0; k < r.rank; k++) {
        int ka = k - (r.rank - a->rank), kb = k - (r.rank - b->rank);
        int64_t da = ka < 0 ? 1 : a->dim[ka], db = kb < 0 ? 1 : b->dim[kb];
        if (da != db && da != 1 && db != 1) return false;
        r.dim[k] = da == 1 ? db : da;
    }
    *out = r;
    return true;
}

void brim_strides(const brim_shape *s, brim_layout layout, int64_t stride[BRIM_MAX_RANK])
{
    memset(stride, 0, sizeof(int64_t) * BRIM_MAX_RANK);
    if (layout == BRIM_LAYOUT_CHANNELS_LAST && s->rank == 4) {
        stride[1] = 1;
        stride[3] = s->dim[1];
        stride[2] = stride[3] * s->dim[3];
        stride[0] = stride[2] * s->dim[2];
        return;
    }
    int64_t step = 1;
    for (int k = s->rank - 1; k >= 0; k--) {
        stride[k] = step;
        step *= s->dim[k];
    }
}

brim_tensor brim_tensor_make(void *data, brim_dtype t, const brim_shape *s, brim_layout layout)
{
    brim_tensor r = {.data = data, .dtype = t, .layout = layout, .shape = *s};
    brim_strides(s, layout, r.stride);
    return r;
}

int64_t brim_tensor_offset(const brim_tensor *t, int64_t i)
{
    int64_t off = 0;
    for (int k = t->shape.rank - 1; k >= 0; k--) {
        off += i % t->shape.dim[k] * t->stride[k];
        i /= t->shape.dim[k];
    }
    return off;
}

int64_t brim_tensor_offset_broadcast(const brim_tensor *t, const brim_shape *to, int64_t i)
{
    int64_t off = 0;
    for (int k = to->rank - 1; k >= 0; k--) {
        int kt = k - (to->rank - t->shape.rank);
        if (kt >= 0 && t->shape.dim[kt] != 1) off += i % to->dim[k] * t->stride[kt];
        i /= to->dim[k];
    }
    return off;
}

double brim_tensor_get(const brim_tensor *t, int64_t offset)
{
    switch (t->dtype) {
    case BRIM_F32: return ((const float *)t->data)[offset];
    case BRIM_BF16: return (double)brim_bf16_to_f32(((const uint16_t *)t->data)[offset]);
    case BRIM_F16: return (double)brim_f16_to_f32(((const uint16_t *)t->data)[offset]);
    case BRIM_F64: return ((const double *)t->data)[offset];
    case BRIM_I32: return ((const int32_t *)t->data)[offset];
    case BRIM_I64: return (double)((const int64_t *)t->data)[offset];
    case BRIM_U8: return ((const uint8_t *)t->data)[offset];
    default: return NAN;
    }
}

static double clamp_int(double x, double lo, double hi)
{
    if (!(x >= lo)) return lo; /* NaN too */
    return x > hi ? hi : nearbyint(x);
}

void brim_tensor_set(const brim_tensor *t, int64_t offset, double x)
{
    switch (t->dtype) {
    case BRIM_F32: ((float *)t->data)[offset] = (float)x; break;
    case BRIM_BF16: ((uint16_t *)t->data)[offset] = brim_f32_to_bf16((float)x); break;
    case BRIM_F16: ((uint16_t *)t->data)[offset] = brim_f32_to_f16((float)x); break;
    case BRIM_F64: ((double *)t->data)[offset] = x; break;
    case BRIM_I32:
        ((int32_t *)t->data)[offset] = (int32_t)clamp_int(x, INT32_MIN, INT32_MAX);
        break;
    case BRIM_I64: ((int64_t *)t->data)[offset] = (int64_t)clamp_int(x, -0x1p62, 0x1p62); break;
    case BRIM_U8: ((uint8_t *)t->data)[offset] = (uint8_t)clamp_int(x, 0, 255); break;
    default: break;
    }
}

void brim_tensor_copy(const brim_tensor *dst, const brim_tensor *src)
{
    int64_t n = brim_tensor_count(dst);
    bool same = dst->dtype == src->dtype &&
                !memcmp(dst->stride, src->stride, sizeof(int64_t) * (size_t)dst->shape.rank);
    int64_t packed[BRIM_MAX_RANK];
    brim_strides(&dst->shape, dst->layout, packed);
    if (same && !memcmp(packed, dst->stride, sizeof(int64_t) * (size_t)dst->shape.rank)) {
        if (n) memcpy(dst->data, src->data, (size_t)n * brim_dtype_bytes(dst->dtype));
        return;
    }
    /* Rows along the last dimension, so that an index is divided up once a row. */
    int rank = dst->shape.rank;
    int64_t row = rank ? dst->shape.dim[rank - 1] : 1, rows = row ? n / row : 0;
    int64_t ds = rank ? dst->stride[rank - 1] : 0, ss = rank ? src->stride[rank - 1] : 0;
#pragma omp parallel for schedule(static) if (n > 100000)
    for (int64_t r = 0; r < rows; r++) {
        int64_t d = brim_tensor_offset(dst, r * row), s = brim_tensor_offset(src, r * row);
        for (int64_t i = 0; i < row; i++)
            brim_tensor_set(dst, d + i * ds, brim_tensor_get(src, s + i * ss));
    }
}
