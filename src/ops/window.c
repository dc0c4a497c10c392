#include "ops/window.h"

brim_window brim_window_get(const brim_node *n, const int64_t *kernel)
{
    brim_window w;
    for (int k = 0; k < 2; k++) {
        w.kernel[k] = kernel ? kernel[k] : brim_attr_int_at(n, "kernel", k, 0);
        w.stride[k] = brim_attr_int_at(n, "stride", k, 1);
        w.pad[k] = brim_attr_int_at(n, "pad", k, 0);
        w.dilation[k] = brim_attr_int_at(n, "dilation", k, 1);
    }
    return w;
}

static brim_status in_range(const char *what, const int64_t v[2], int64_t least, brim_error *err)
{
    for (int k = 0; k < 2; k++)
        if (v[k] < least || v[k] > INT32_MAX)
            return brim_fail(err, BRIM_EINVAL, "%s is %lldx%lld (wants %lld or more, below 2^31)",
                             what, (long long)v[0], (long long)v[1], (long long)least);
    return BRIM_OK;
}

brim_status brim_window_read(const brim_node *n, const int64_t *kernel, brim_window *w,
                             brim_error *err)
{
    *w = brim_window_get(n, kernel);
    BRIM_TRY(in_range("kernel", w->kernel, 1, err));
    BRIM_TRY(in_range("stride", w->stride, 1, err));
    BRIM_TRY(in_range("pad", w->pad, 0, err));
    return in_range("dilation", w->dilation, 1, err);
}

brim_status brim_window_read_pool(const brim_node *n, brim_window *w, brim_error *err)
{
    BRIM_TRY(brim_window_read(n, NULL, w, err));
    for (int k = 0; k < 2; k++) {
        if (w->dilation[k] != 1) return brim_fail(err, BRIM_EINVAL, "pooling has no dilation");
        if (w->pad[k] >= w->kernel[k])
            return brim_fail(err, BRIM_EINVAL, "pad %lld is as large as the kernel, %lld",
                             (long long)w->pad[k], (long long)w->kernel[k]);
    }
    return BRIM_OK;
}

brim_status brim_window_out(const brim_window *w, const int64_t in[2], bool ceil, int64_t out[2],
                            brim_error *err)
{
    BRIM_TRY(in_range("image", in, 1, err));
    for (int k = 0; k < 2; k++) { /* all terms are below 2^31, so products fit */
        int64_t span = w->dilation[k] * (w->kernel[k] - 1) + 1, padded = in[k] + 2 * w->pad[k];
        if (span > padded)
            return brim_fail(err, BRIM_ESHAPE,
                             "kernel spans %lld pixels, the padded image has %lld in dimension %d",
                             (long long)span, (long long)padded, k + 2);
        int64_t free = padded - span;
        out[k] = free / w->stride[k] + 1;
        if (ceil && free % w->stride[k] && out[k] * w->stride[k] < in[k] + w->pad[k]) out[k]++;
    }
    return BRIM_OK;
}

brim_status brim_window_in_size(const brim_node *n, const brim_window *w, const brim_shape *dy,
                                bool ceil, int64_t in[2], brim_error *err)
{
    int64_t out[2];
    for (int k = 0; k < 2; k++) in[k] = brim_attr_int_at(n, "in_size", k, 0);
    BRIM_TRY(brim_window_out(w, in, ceil, out, err));
    if (out[0] == dy->dim[2] && out[1] == dy->dim[3]) return BRIM_OK;
    char text[128];
    return brim_fail(err, BRIM_ESHAPE, "gradient %s does not belong to an image of %lldx%lld",
                     brim_shape_text(text, dy), (long long)in[0], (long long)in[1]);
}
