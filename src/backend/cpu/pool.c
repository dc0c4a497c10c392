/* Pooling and upsampling of channels-last images, pixel by pixel over all channels. Every pixel of
 * the result gathers what it needs, so threads share nothing and sums have one order. A row-major
 * [N,C,H,W] is treated as N C images of one channel. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/kernels/kernels.h"
#include "backend/cpu/parallel.h"
#include "ops/window.h"

#include <string.h>

enum { MOST_TAPS = 256 };

/* An image as the kernels see it. */
typedef struct image {
    const brim_tensor *t;
    int64_t n, h, w, c;
} image;

static image image_of(const brim_tensor *t)
{
    const int64_t *d = t->shape.dim;
    bool last = t->layout == BRIM_LAYOUT_CHANNELS_LAST;
    return (image){t, last ? d[0] : d[0] * d[1], d[2], d[3], last ? d[1] : 1};
}

static void *pixel(const image *m, int64_t n, int64_t h, int64_t w)
{
    int64_t at = ((n * m->h + h) * m->w + w) * m->c;
    return (char *)m->t->data + at * (int64_t)brim_dtype_bytes(m->t->dtype);
}

/* The pixels that one result gathers. */
typedef struct taps {
    int n;
    const void *at[MOST_TAPS];
    const uint8_t *index[MOST_TAPS];
    uint8_t place[MOST_TAPS];
    float scale[MOST_TAPS];
} taps;

typedef struct pooling {
    const brim_step *s;
    brim_window win;
    image x, y; /* the image and the pooled one: values, or gradients */
    image index;
    bool count_pad;
    void (*pixel)(const struct pooling *p, taps *t, int64_t n, int64_t i, int64_t j);
} pooling;

/* Runs p->pixel for every pixel of `over`. */
static void each_pixel(const pooling *p, const image *over)
{
    int64_t rows = over->n * over->h, taps_each = p->win.kernel[0] * p->win.kernel[1];
    int parts = brim_thread_parts(rows, over->w * over->c * taps_each);
    BRIM_PARALLEL_FOR(parts)
    for (int part = 0; part < parts; part++) {
        taps t;
        int64_t end = brim_part_begin(rows, part + 1, parts);
        for (int64_t r = brim_part_begin(rows, part, parts); r < end; r++)
            for (int64_t j = 0; j < over->w; j++) p->pixel(p, &t, r / over->h, r % over->h, j);
    }
}

/* Pixels of x in window (i,j). */
static void taps_of_window(const pooling *p, taps *t, int64_t n, int64_t i, int64_t j)
{
    t->n = 0;
    for (int64_t kh = 0; kh < p->win.kernel[0]; kh++)
        for (int64_t kw = 0; kw < p->win.kernel[1]; kw++) {
            int64_t h = brim_window_input(&p->win, 0, i, kh, p->x.h);
            int64_t w = brim_window_input(&p->win, 1, j, kw, p->x.w);
            if (h < 0 || w < 0) continue;
            t->at[t->n] = pixel(&p->x, n, h, w);
            t->place[t->n++] = (uint8_t)(kh * p->win.kernel[1] + kw);
        }
}

/* Taps along one axis whose windows contain input position at: [*begin, *end) of the outputs. */
static void windows_around(const pooling *p, int axis, int64_t at, int64_t out, int64_t *begin,
                           int64_t *end)
{
    int64_t k = p->win.kernel[axis], stride = p->win.stride[axis], last = at + p->win.pad[axis];
    *begin = last < k ? 0 : (last - k) / stride + 1;
    *end = last / stride + 1 < out ? last / stride + 1 : out;
}

/* Elements that window i along one axis is divided by (see ops/avg_pool.c). */
static int64_t extent(const pooling *p, int axis, int64_t i)
{
    int64_t pad = p->win.pad[axis], size = axis ? p->x.w : p->x.h;
    int64_t least = p->count_pad ? -pad : 0, most = p->count_pad ? size + pad : size;
    int64_t begin = i * p->win.stride[axis] - pad, end = begin + p->win.kernel[axis];
    return (end < most ? end : most) - (begin > least ? begin : least);
}

static float share(const pooling *p, int64_t i, int64_t j)
{
    return 1.0f / ((float)extent(p, 0, i) * (float)extent(p, 1, j));
}

/* Windows that contain pixel (h,w) of x. */
static void taps_of_pixel(const pooling *p, taps *t, int64_t n, int64_t h, int64_t w, bool max)
{
    int64_t i0, i1, j0, j1;
    windows_around(p, 0, h, p->y.h, &i0, &i1);
    windows_around(p, 1, w, p->y.w, &j0, &j1);
    t->n = 0;
    for (int64_t i = i0; i < i1; i++)
        for (int64_t j = j0; j < j1; j++) {
            int64_t kh = h + p->win.pad[0] - i * p->win.stride[0];
            int64_t kw = w + p->win.pad[1] - j * p->win.stride[1];
            t->at[t->n] = pixel(&p->y, n, i, j);
            if (max)
                t->index[t->n] = pixel(&p->index, n, i, j);
            else
                t->scale[t->n] = share(p, i, j);
            t->place[t->n++] = (uint8_t)(kh * p->win.kernel[1] + kw);
        }
}

static void max_pixel(const pooling *p, taps *t, int64_t n, int64_t i, int64_t j)
{
    taps_of_window(p, t, n, i, j);
    brim_kernels_get()->window_max(p->y.t->data ? pixel(&p->y, n, i, j) : NULL,
                                   p->index.t->data ? pixel(&p->index, n, i, j) : NULL, t->at,
                                   t->place, t->n, p->x.t->dtype, p->x.c);
}

static void max_bwd_pixel(const pooling *p, taps *t, int64_t n, int64_t h, int64_t w)
{
    taps_of_pixel(p, t, n, h, w, true);
    brim_kernels_get()->window_pick(pixel(&p->x, n, h, w), t->at, t->index, t->place, t->n,
                                    p->x.t->dtype, p->x.c);
}

static void avg_pixel(const pooling *p, taps *t, int64_t n, int64_t i, int64_t j)
{
    taps_of_window(p, t, n, i, j);
    for (int k = 0; k < t->n; k++) t->scale[k] = share(p, i, j);
    brim_kernels_get()->window_sum(pixel(&p->y, n, i, j), t->at, t->scale, t->n, p->x.t->dtype,
                                   p->x.c);
}

static void avg_bwd_pixel(const pooling *p, taps *t, int64_t n, int64_t h, int64_t w)
{
    taps_of_pixel(p, t, n, h, w, false);
    brim_kernels_get()->window_sum(pixel(&p->x, n, h, w), t->at, t->scale, t->n, p->x.t->dtype,
                                   p->x.c);
}

static void forward_run(const brim_step *s)
{
    bool max = s->node->op == &brim_op_max_pool2d;
    pooling p = {.s = s,
                 .win = brim_window_get(s->node, NULL),
                 .x = image_of(&s->in[0]),
                 .y = image_of(&s->out[0]),
                 .count_pad = brim_attr_int(s->node, "count_pad", 0),
                 .pixel = max ? max_pixel : avg_pixel};
    if (max) p.index = image_of(&s->out[1]);
    each_pixel(&p, &p.y);
}

static void backward_run(const brim_step *s)
{
    bool max = s->node->op == &brim_op_max_pool2d_bwd;
    pooling p = {.s = s,
                 .win = brim_window_get(s->node, NULL),
                 .x = image_of(&s->out[0]),
                 .y = image_of(&s->in[0]),
                 .count_pad = brim_attr_int(s->node, "count_pad", 0),
                 .pixel = max ? max_bwd_pixel : avg_bwd_pixel};
    if (max) p.index = image_of(&s->in[1]);
    each_pixel(&p, &p.x);
}

/* ---- upsampling ---- */

static void upsample_pixel(const pooling *p, taps *t, int64_t n, int64_t i, int64_t j)
{
    (void)t;
    memcpy(pixel(&p->y, n, i, j), pixel(&p->x, n, i / p->win.kernel[0], j / p->win.kernel[1]),
           (size_t)p->x.c * brim_dtype_bytes(p->x.t->dtype));
}

static void upsample_bwd_pixel(const pooling *p, taps *t, int64_t n, int64_t h, int64_t w)
{
    t->n = 0;
    for (int64_t a = 0; a < p->win.kernel[0]; a++)
        for (int64_t b = 0; b < p->win.kernel[1]; b++) {
            t->at[t->n] = pixel(&p->y, n, h * p->win.kernel[0] + a, w * p->win.kernel[1] + b);
            t->scale[t->n++] = 1;
        }
    brim_kernels_get()->window_sum(pixel(&p->x, n, h, w), t->at, t->scale, t->n, p->x.t->dtype,
                                   p->x.c);
}

static void upsample_run(const brim_step *s)
{
    bool forward = s->node->op == &brim_op_upsample_nearest;
    pooling p = {.s = s, .pixel = forward ? upsample_pixel : upsample_bwd_pixel};
    for (int k = 0; k < 2; k++) p.win.kernel[k] = brim_attr_int_at(s->node, "scale", k, 1);
    p.x = image_of(forward ? &s->in[0] : &s->out[0]);
    p.y = image_of(forward ? &s->out[0] : &s->in[0]);
    each_pixel(&p, forward ? &p.y : &p.x);
}

/* ---- global average ---- */

/* Workspace: the sums, N C floats. */
static brim_status global_prepare(brim_step *s, brim_error *err)
{
    (void)err;
    const brim_value *y =
        s->node->op == &brim_op_global_avg_pool ? s->node->out[0] : s->node->in[0];
    s->workspace_bytes = sizeof(float) * (size_t)brim_shape_count(&y->shape);
    return BRIM_OK;
}

static void global_run(const brim_step *s)
{
    const brim_kernels *k = brim_kernels_get();
    image x = image_of(&s->in[0]);
    float *sums = s->workspace, scale = 1.0f / ((float)x.h * (float)x.w);
    brim_dtype type = x.t->dtype;
    int64_t area = x.h * x.w;
    int parts = brim_thread_parts(x.n, area * x.c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++)
        for (int64_t n = brim_part_begin(x.n, p, parts); n < brim_part_begin(x.n, p + 1, parts);
             n++) {
            float *sum = sums + n * x.c;
            for (int64_t c = 0; c < x.c; c++) sum[c] = 0;
            if (x.c == 1)
                sum[0] = (float)k->sum(pixel(&x, n, 0, 0), type, area);
            else
                k->column_sum(sum, pixel(&x, n, 0, 0), type, area, x.c, x.c);
            for (int64_t c = 0; c < x.c; c++) sum[c] *= scale;
            k->narrow((char *)s->out[0].data + n * x.c * (int64_t)brim_dtype_bytes(type), sum, type,
                      x.c);
        }
}

/* Copies the first `unit` bytes of dst behind themselves until there are count units. */
static void repeat(char *dst, size_t unit, size_t count)
{
    size_t done = unit, all = unit * count;
    while (done < all) {
        size_t more = done < all - done ? done : all - done;
        memcpy(dst + done, dst, more);
        done += more;
    }
}

static void global_bwd_run(const brim_step *s)
{
    const brim_kernels *k = brim_kernels_get();
    image x = image_of(&s->out[0]);
    float *shares = s->workspace, scale = 1.0f / ((float)x.h * (float)x.w);
    brim_dtype type = x.t->dtype;
    size_t bytes = brim_dtype_bytes(type);
    int parts = brim_thread_parts(x.n, x.h * x.w * x.c);
    BRIM_PARALLEL_FOR(parts)
    for (int p = 0; p < parts; p++)
        for (int64_t n = brim_part_begin(x.n, p, parts); n < brim_part_begin(x.n, p + 1, parts);
             n++) {
            float *row = shares + n * x.c;
            k->widen(row, (const char *)s->in[0].data + (size_t)(n * x.c) * bytes, type, x.c);
            for (int64_t c = 0; c < x.c; c++) row[c] *= scale;
            k->narrow(pixel(&x, n, 0, 0), row, type, x.c);
            repeat(pixel(&x, n, 0, 0), (size_t)x.c * bytes, (size_t)(x.h * x.w));
        }
}

/* ---- */

static bool supports(const brim_node *n, const char **why)
{
    const brim_value *x = n->in[0];
    if (x->dtype == BRIM_F64) return *why = "f64", false;
    for (int k = 0; k < n->n_in + n->n_out; k++) {
        const brim_value *v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
        if (brim_shape_count(&v->shape) == 0) return *why = "a tensor is empty", false;
        if (v->shape.rank == 4 && x->shape.rank == 4 && v->layout != x->layout)
            return *why = "layouts differ", false;
    }
    return true;
}

static bool window_supports(const brim_node *n, const char **why)
{
    const char *key = brim_attr_find(n, "scale") ? "scale" : "kernel";
    if (brim_attr_int_at(n, key, 0, 1) * brim_attr_int_at(n, key, 1, 1) > MOST_TAPS)
        return *why = "the window has more than 256 elements", false;
    return supports(n, why);
}

#define IMPL(name_, run_)                                                                          \
    {                                                                                              \
        .name = "cpu." #name_, .op = &brim_op_##name_, .supports = window_supports, .run = run_    \
    }
#define GLOBAL(name_, run_)                                                                        \
    {                                                                                              \
        .name = "cpu." #name_, .op = &brim_op_##name_, .supports = supports,                       \
        .prepare = global_prepare, .run = run_                                                     \
    }

const brim_impl brim_cpu_pool[] = {
    IMPL(max_pool2d, forward_run),        IMPL(max_pool2d_bwd, backward_run),
    IMPL(avg_pool2d, forward_run),        IMPL(avg_pool2d_bwd, backward_run),
    IMPL(upsample_nearest, upsample_run), IMPL(upsample_nearest_bwd, upsample_run),
    GLOBAL(global_avg_pool, global_run),  GLOBAL(global_avg_pool_bwd, global_bwd_run),
};
const int brim_cpu_pool_count = sizeof brim_cpu_pool / sizeof *brim_cpu_pool;
