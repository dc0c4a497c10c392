/* The sliding window that convolution and pooling share: its attributes, output size and the two
 * directions of its index arithmetic. Axis 0 is the height, axis 1 the width. */
#ifndef BRIM_OPS_WINDOW_H
#define BRIM_OPS_WINDOW_H

#include "ops/ops.h"

typedef struct brim_window {
    int64_t kernel[2], stride[2], pad[2], dilation[2];
} brim_window;

/* The window of a node that passed infer: stride, pad and dilation from the attributes, the kernel
 * from `kernel` or, when NULL, from the attribute of that name. */
brim_window brim_window_get(const brim_node *n, const int64_t *kernel);

/* The same, checked: kernel, stride and dilation >= 1, pad >= 0, all below 2^31. */
brim_status brim_window_read(const brim_node *n, const int64_t *kernel, brim_window *w,
                             brim_error *err);

/* The same for pooling: the kernel is an attribute, there is no dilation, and the padding is
 * smaller than the kernel so that no window lies in it entirely. */
brim_status brim_window_read_pool(const brim_node *n, brim_window *w, brim_error *err);

/* Output height and width for an input of in[0] x in[1]. With ceil, a last window that would start
 * beyond the input and its leading padding is left out (as torch does). Refuses empty inputs and
 * kernels larger than the padded input. */
brim_status brim_window_out(const brim_window *w, const int64_t in[2], bool ceil, int64_t out[2],
                            brim_error *err);

/* For gradients: reads the attribute in_size and checks that the window takes an input of that size
 * to dy [N,C,H',W']. */
brim_status brim_window_in_size(const brim_node *n, const brim_window *w, const brim_shape *dy,
                                bool ceil, int64_t in[2], brim_error *err);

/* Input position that tap `tap` of output i reads; -1 in the padding. */
static inline int64_t brim_window_input(const brim_window *w, int axis, int64_t i, int64_t tap,
                                        int64_t in_size)
{
    int64_t p = i * w->stride[axis] - w->pad[axis] + tap * w->dilation[axis];
    return p >= 0 && p < in_size ? p : -1;
}

/* Output position whose tap `tap` reads input p; -1 when there is none. */
static inline int64_t brim_window_output(const brim_window *w, int axis, int64_t p, int64_t tap,
                                         int64_t out_size)
{
    int64_t at = p + w->pad[axis] - tap * w->dilation[axis];
    if (at < 0 || at % w->stride[axis] || at / w->stride[axis] >= out_size) return -1;
    return at / w->stride[axis];
}

/* Elements of a 4-D tensor, for references. */
static inline double brim_get4(const brim_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d)
{
    return brim_tensor_get(t, a * t->stride[0] + b * t->stride[1] + c * t->stride[2] +
                                  d * t->stride[3]);
}
static inline void brim_set4(const brim_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d,
                             double x)
{
    brim_tensor_set(t, a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + d * t->stride[3],
                    x);
}

#endif
