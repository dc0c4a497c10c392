/* Layers: an operator with its parameters, named and initialised as torch does. */
#include "brim/model.h"

#include <math.h>
#include <stdio.h>

enum { NAME_MAX_BYTES = 256 };

static brim_value *param(brim_graph *g, const char *layer, const char *part, int rank,
                         const int64_t *dim, brim_init init)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    return brim_param(g, name, rank, dim, init);
}

static brim_value *buffer(brim_graph *g, const char *layer, const char *part, int64_t n,
                          double value)
{
    char name[NAME_MAX_BYTES];
    snprintf(name, sizeof name, "%s.%s", layer, part);
    return brim_buffer(g, name, 1, &n, (brim_init){BRIM_INIT_CONST, value});
}

brim_value *brim_nn_conv2d(brim_graph *g, brim_value *x, const char *name, int64_t out_channels,
                           int kernel, int stride, int pad, int groups, bool bias)
{
    int64_t in = brim_value_dim(x, 1) / (groups ? groups : 1);
    int64_t dim[] = {out_channels, in, kernel, kernel};
    double fan_out = (double)(out_channels * kernel * kernel),
           fan_in = (double)(in * kernel * kernel);
    brim_scope(g, name);
    brim_value *w =
        param(g, name, "weight", 4, dim, (brim_init){BRIM_INIT_NORMAL, sqrt(2 / fan_out)});
    brim_value *b = NULL;
    if (bias) b = param(g, name, "bias", 1, dim, (brim_init){BRIM_INIT_UNIFORM, 1 / sqrt(fan_in)});
    brim_conv_opts o = {
        .stride_h = stride, .stride_w = stride, .pad_h = pad, .pad_w = pad, .groups = groups};
    return brim_conv2d(g, x, w, b, o);
}

brim_value *brim_nn_batch_norm(brim_graph *g, brim_value *x, const char *name)
{
    int64_t c = brim_value_dim(x, 1);
    brim_scope(g, name);
    brim_value *gamma = param(g, name, "weight", 1, &c, (brim_init){BRIM_INIT_CONST, 1});
    brim_value *beta = param(g, name, "bias", 1, &c, (brim_init){BRIM_INIT_CONST, 0});
    brim_value *mean = buffer(g, name, "running_mean", c, 0),
               *var = buffer(g, name, "running_var", c, 1);
    return brim_batch_norm(g, x, gamma, beta, mean, var, 0.1, 1e-5);
}

brim_value *brim_nn_layer_norm(brim_graph *g, brim_value *x, const char *name, double eps)
{
    int64_t c = brim_value_dim(x, -1);
    brim_scope(g, name);
    brim_value *gamma = param(g, name, "weight", 1, &c, (brim_init){BRIM_INIT_CONST, 1});
    brim_value *beta = param(g, name, "bias", 1, &c, (brim_init){BRIM_INIT_CONST, 0});
    return brim_layer_norm(g, x, gamma, beta, eps);
}

brim_value *brim_nn_linear(brim_graph *g, brim_value *x, const char *name, int64_t out_features,
                           bool bias)
{
    int64_t in = brim_value_dim(x, -1), dim[] = {out_features, in};
    brim_init init = {BRIM_INIT_UNIFORM, 1 / sqrt((double)(in > 0 ? in : 1))};
    brim_scope(g, name);
    brim_value *w = param(g, name, "weight", 2, dim, init);
    brim_value *b = bias ? param(g, name, "bias", 1, dim, init) : NULL;
    return brim_linear(g, x, w, b);
}
