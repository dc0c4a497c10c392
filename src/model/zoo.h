/* Builders of the zoo's families. */
#ifndef BRIM_MODEL_ZOO_H
#define BRIM_MODEL_ZOO_H

#include "brim/model.h"

brim_value *brim_mlp(brim_graph *g, const brim_model_opts *o, brim_value *x);
/* blocks per stage; deep: bottleneck blocks. */
brim_value *brim_resnet(brim_graph *g, const brim_model_opts *o, brim_value *x, const int blocks[4],
                        bool deep);
/* blocks per stage of the three: 6 blocks + 2 layers. */
brim_value *brim_resnet_cifar(brim_graph *g, const brim_model_opts *o, brim_value *x, int blocks);

#endif
