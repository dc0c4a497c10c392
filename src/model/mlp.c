/* 784-1024-1024-10 style perceptron: three linear layers with ReLU between, named as an
 * nn.Sequential of Linear, ReLU, Linear, ReLU, Linear. */
#include "model/zoo.h"

brim_value *brim_mlp(brim_graph *g, const brim_model_opts *o, brim_value *x)
{
    x = brim_flatten(g, x, 1);
    x = brim_relu(g, brim_nn_linear(g, x, "0", 1024, true));
    x = brim_relu(g, brim_nn_linear(g, x, "2", 1024, true));
    x = brim_dropout(g, x, o->dropout);
    return brim_nn_linear(g, x, "4", o->classes, true);
}
