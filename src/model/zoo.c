/* The list of models. */
#include "model/zoo.h"

#include <stddef.h>
#include <string.h>

#define IMAGENET                                                                                   \
    {0.485f, 0.456f, 0.406f},                                                                      \
    {                                                                                              \
        0.229f, 0.224f, 0.225f                                                                     \
    }

static const struct {
    brim_model_info info;
    int blocks[4];
    bool deep;
} zoo[] = {
    {{"mlp", "perceptron in-1024-1024-classes", 1, 28, "4.*", {0.1307f, 0, 0}, {0.3081f, 1, 1}},
     {0},
     false},
    {{"resnet8", "CIFAR ResNet, 8 layers", 3, 32, "linear.*", IMAGENET}, {1}, false},
    {{"resnet20", "CIFAR ResNet, 20 layers", 3, 32, "linear.*", IMAGENET}, {3}, false},
    {{"resnet56", "CIFAR ResNet, 56 layers", 3, 32, "linear.*", IMAGENET}, {9}, false},
    {{"resnet18", "ResNet-18, basic blocks", 3, 224, "fc.*", IMAGENET}, {2, 2, 2, 2}, false},
    {{"resnet34", "ResNet-34, basic blocks", 3, 224, "fc.*", IMAGENET}, {3, 4, 6, 3}, false},
    {{"resnet50", "ResNet-50 v1.5, bottlenecks", 3, 224, "fc.*", IMAGENET}, {3, 4, 6, 3}, true},
    {{"resnet101", "ResNet-101 v1.5, bottlenecks", 3, 224, "fc.*", IMAGENET}, {3, 4, 23, 3}, true},
};
enum { MODELS = sizeof zoo / sizeof *zoo };

const brim_model_info *brim_model_at(int k)
{
    return k >= 0 && k < MODELS ? &zoo[k].info : NULL;
}

const brim_model_info *brim_model_find(const char *name)
{
    for (int k = 0; k < MODELS; k++)
        if (!strcmp(zoo[k].info.name, name)) return &zoo[k].info;
    return NULL;
}

brim_value *brim_model_build(brim_graph *g, const brim_model_opts *o, brim_value *x)
{
    for (int k = 0; k < MODELS; k++) {
        if (strcmp(zoo[k].info.name, o->name)) continue;
        if (!strcmp(o->name, "mlp")) return brim_mlp(g, o, x);
        if (zoo[k].blocks[1]) return brim_resnet(g, o, x, zoo[k].blocks, zoo[k].deep);
        return brim_resnet_cifar(g, o, x, zoo[k].blocks[0]);
    }
    return NULL;
}
