/* Residual networks (He et al., "Deep Residual Learning for Image Recognition", CVPR 2016), with
 * torchvision's parameter names (v1.5: the stride sits in the 3x3 convolution), and the CIFAR form
 * of its section 4.2 with parameter-free shortcuts (option A). */
#include "model/zoo.h"

#include <stdio.h>

typedef struct name {
    char text[128];
} name;

static name join(const char *prefix, const char *part)
{
    name n;
    snprintf(n.text, sizeof n.text, "%s%s%s", prefix, *prefix ? "." : "", part);
    return n;
}

static brim_value *conv_norm(brim_graph *g, brim_value *x, const char *prefix, const char *conv,
                             const char *norm, int64_t out, int kernel, int stride)
{
    x = brim_nn_conv2d(g, x, join(prefix, conv).text, out, kernel, stride, kernel / 2, 1, false);
    return brim_nn_batch_norm(g, x, join(prefix, norm).text);
}

/* Two 3x3 convolutions. */
static brim_value *basic_block(brim_graph *g, brim_value *x, const char *prefix, int64_t width,
                               int stride)
{
    brim_value *shortcut = x;
    brim_value *y = brim_relu(g, conv_norm(g, x, prefix, "conv1", "bn1", width, 3, stride));
    y = conv_norm(g, y, prefix, "conv2", "bn2", width, 3, 1);
    if (stride != 1 || brim_value_dim(x, 1) != width)
        shortcut = conv_norm(g, x, prefix, "downsample.0", "downsample.1", width, 1, stride);
    return brim_relu(g, brim_add(g, y, shortcut));
}

/* 1x1 down, 3x3, 1x1 up to four times the width. */
static brim_value *bottleneck(brim_graph *g, brim_value *x, const char *prefix, int64_t width,
                              int stride)
{
    brim_value *shortcut = x;
    brim_value *y = brim_relu(g, conv_norm(g, x, prefix, "conv1", "bn1", width, 1, 1));
    y = brim_relu(g, conv_norm(g, y, prefix, "conv2", "bn2", width, 3, stride));
    y = conv_norm(g, y, prefix, "conv3", "bn3", width * 4, 1, 1);
    if (stride != 1 || brim_value_dim(x, 1) != width * 4)
        shortcut = conv_norm(g, x, prefix, "downsample.0", "downsample.1", width * 4, 1, stride);
    return brim_relu(g, brim_add(g, y, shortcut));
}

brim_value *brim_resnet(brim_graph *g, const brim_model_opts *o, brim_value *x, const int blocks[4],
                        bool deep)
{
    x = brim_relu(g, conv_norm(g, x, "", "conv1", "bn1", 64, 7, 2));
    x = brim_max_pool2d(g, x, (brim_pool_opts){3, 3, 2, 2, 1, 1, false, false});
    for (int stage = 0; stage < 4; stage++)
        for (int k = 0; k < blocks[stage]; k++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "layer%d.%d", stage + 1, k);
            int stride = stage && !k ? 2 : 1;
            x = (deep ? bottleneck : basic_block)(g, x, prefix, (int64_t)64 << stage, stride);
        }
    brim_scope(g, "avgpool");
    x = brim_dropout(g, brim_global_avg_pool(g, x), o->dropout);
    return brim_nn_linear(g, x, "fc", o->classes, true);
}

/* Shortcut of option A: every second pixel, new channels zero on both sides. */
static brim_value *shortcut_a(brim_graph *g, brim_value *x, int64_t width, int stride)
{
    if (stride == 2) {
        x = brim_slice(g, x, 2, 0, (brim_value_dim(x, 2) + 1) / 2, 2);
        x = brim_slice(g, x, 3, 0, (brim_value_dim(x, 3) + 1) / 2, 2);
    }
    int64_t more = width - brim_value_dim(x, 1);
    return more > 0 ? brim_pad(g, x, 1, more / 2, more - more / 2) : x;
}

brim_value *brim_resnet_cifar(brim_graph *g, const brim_model_opts *o, brim_value *x, int blocks)
{
    x = brim_relu(g, conv_norm(g, x, "", "conv1", "bn1", 16, 3, 1));
    for (int stage = 0; stage < 3; stage++)
        for (int k = 0; k < blocks; k++) {
            char prefix[32];
            snprintf(prefix, sizeof prefix, "layer%d.%d", stage + 1, k);
            int64_t width = 16 << stage;
            int stride = stage && !k ? 2 : 1;
            brim_value *y = brim_relu(g, conv_norm(g, x, prefix, "conv1", "bn1", width, 3, stride));
            y = conv_norm(g, y, prefix, "conv2", "bn2", width, 3, 1);
            brim_scope(g, prefix);
            x = brim_relu(g, brim_add(g, y, shortcut_a(g, x, width, stride)));
        }
    brim_scope(g, "avgpool");
    x = brim_dropout(g, brim_global_avg_pool(g, x), o->dropout);
    return brim_nn_linear(g, x, "linear", o->classes, true);
}
