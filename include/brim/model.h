/* The model zoo, and layers that create their parameters under torch's names. Everything here is
 * built on brim/graph.h alone. */
#ifndef BRIM_MODEL_H
#define BRIM_MODEL_H

#include "brim/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct brim_model_opts {
    const char *name; /* "resnet18" */
    int classes;
    int channels, height, width; /* of the input image */
    double dropout;              /* before the head; 0: none */
} brim_model_opts;

typedef struct brim_model_info {
    const char *name, *doc;
    int channels, size; /* default input */
    const char *head;   /* pattern of the parameters that depend on the number of classes: "fc.*" */
    float mean[3], std[3]; /* normalisation that published weights expect, pixels in 0..1 */
} brim_model_info;

/* The zoo: k = 0, 1, ... until NULL. */
const brim_model_info *brim_model_at(int k);
/* NULL when unknown. */
const brim_model_info *brim_model_find(const char *name);

/* x [N,C,H,W], normalised, -> logits [N,classes]. NULL with the graph failed when the name is
 * unknown or the image too small. */
brim_value *brim_model_build(brim_graph *g, const brim_model_opts *o, brim_value *x);

/* ---- layers: parameters NAME.weight, NAME.bias, ... with torch's initial distributions ---- */

/* Kaiming normal, fan out, as torchvision's ResNets use. */
brim_value *brim_nn_conv2d(brim_graph *g, brim_value *x, const char *name, int64_t out_channels,
                           int kernel, int stride, int pad, int groups, bool bias);
/* weight, bias, running_mean, running_var; momentum 0.1, eps 1e-5. */
brim_value *brim_nn_batch_norm(brim_graph *g, brim_value *x, const char *name);
brim_value *brim_nn_layer_norm(brim_graph *g, brim_value *x, const char *name, double eps);
/* Uniform in +-1/sqrt(fan in), weight and bias. */
brim_value *brim_nn_linear(brim_graph *g, brim_value *x, const char *name, int64_t out_features,
                           bool bias);

#ifdef __cplusplus
}
#endif
#endif
