/* The zoo's networks are the published ones: torchvision's names and shapes, so that its weights
 * can be loaded, and the published numbers of parameters. */
#include "brim/model.h"
#include "io/file.h"
#include "ir/graph.h"
#include "tests.h"

#include <stdio.h>
#include <string.h>

static brim_graph *build(const char *model, int channels, int size, int classes)
{
    brim_graph *g = brim_graph_new(true);
    int64_t image[] = {2, channels, size, size};
    brim_error err = {0};
    brim_model_opts o = {
        .name = model, .classes = classes, .channels = channels, .height = size, .width = size};
    brim_value *y = brim_model_build(g, &o, brim_input(g, "x", BRIM_F32, 4, image));
    if (brim_graph_check(g, &err) != BRIM_OK) fail_msg("%s: %s", model, err.text);
    assert_int_equal(brim_value_rank(y), 2);
    assert_int_equal(brim_value_dim(y, 0), 2);
    assert_int_equal(brim_value_dim(y, 1), classes);
    return g;
}

static bool in_model_file(const brim_value *v)
{
    return v->kind == BRIM_VALUE_PARAM || (v->kind == BRIM_VALUE_STATE && v->saved);
}

/* ---- numbers of parameters ---- */

/* torchvision's documentation; the README of akamaster/pytorch_resnet_cifar10 gives 0.27M and 0.85M
 * for resnet20 and resnet56; the perceptron's are 785 * 1024 + 1025 * 1024 + 1025 * 10. */
static void has_the_published_number_of_parameters(void **state)
{
    static const struct {
        const char *model;
        int channels, size, classes;
        int64_t parameters;
    } row[] = {{"resnet18", 3, 64, 1000, 11689512}, {"resnet34", 3, 64, 1000, 21797672},
               {"resnet50", 3, 64, 1000, 25557032}, {"resnet101", 3, 64, 1000, 44549160},
               {"resnet18", 3, 64, 10, 11181642},   {"resnet20", 3, 32, 10, 269722},
               {"resnet56", 3, 32, 10, 853018},     {"mlp", 1, 28, 10, 1863690}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        brim_graph *g = build(row[k].model, row[k].channels, row[k].size, row[k].classes);
        int64_t n = 0;
        for (size_t i = 0; i < g->values.n; i++)
            if (g->values.at[i]->kind == BRIM_VALUE_PARAM)
                n += brim_shape_count(&g->values.at[i]->shape);
        if (n != row[k].parameters)
            fail_msg("%s: %lld, wants %lld", row[k].model, (long long)n,
                     (long long)row[k].parameters);
        brim_graph_free(g);
    }
}

/* ---- names ---- */

static const brim_value *find(const brim_graph *g, const char *name)
{
    for (size_t i = 0; i < g->values.n; i++)
        if (in_model_file(g->values.at[i]) && !strcmp(g->values.at[i]->name, name))
            return g->values.at[i];
    return NULL;
}

/* Every line "NAME [SHAPE]" of the list is a tensor of the model; returns how many there are. */
static int look_up(const brim_graph *g, const char *model)
{
    char path[1024], *text, *rest, *line;
    size_t n;
    int lines = 0;
    const char *dir = getenv("BRIM_GOLDEN");
    brim_error err = {0};
    snprintf(path, sizeof path, "%s/%s.names", dir ? dir : "tests/golden", model);
    if (brim_file_read(path, 1 << 20, &text, &n, &err) != BRIM_OK) fail_msg("%s", err.text);
    for (rest = text; (line = strsep(&rest, "\n")) && *line; lines++) {
        char *shape = strchr(line, ' '), got[128];
        assert_non_null(shape);
        *shape++ = 0;
        const brim_value *v = find(g, line);
        if (!v) fail_msg("%s has no %s", model, line);
        if (strcmp(brim_shape_text(got, &v->shape), shape))
            fail_msg("%s: %s is %s, wants %s", model, line, got, shape);
    }
    free(text);
    return lines;
}

static void has_the_names_and_shapes_of_torchvision(void **state)
{
    static const struct {
        const char *model;
        int tensors;
    } row[] = {{"resnet18", 102}, {"resnet50", 267}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        brim_graph *g = build(row[k].model, 3, 64, 1000);
        int n = 0;
        for (size_t i = 0; i < g->values.n; i++) n += in_model_file(g->values.at[i]);
        assert_int_equal(look_up(g, row[k].model), row[k].tensors);
        assert_int_equal(n, row[k].tensors); /* and no other */
        brim_graph_free(g);
    }
}

/* Blocks of the deeper ones: the last of each stage, and no further. */
static void has_the_published_blocks(void **state)
{
    static const struct {
        const char *model, *last;
        int blocks[4];
    } row[] = {{"resnet34", "conv2", {3, 4, 6, 3}}, {"resnet101", "conv3", {3, 4, 23, 3}}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        brim_graph *g = build(row[k].model, 3, 64, 1000);
        for (int stage = 0; stage < 4; stage++)
            for (int more = 0; more < 2; more++) {
                char name[64];
                snprintf(name, sizeof name, "layer%d.%d.%s.weight", stage + 1,
                         row[k].blocks[stage] - 1 + more, row[k].last);
                assert_int_equal(find(g, name) != NULL, !more);
            }
        assert_non_null(find(g, "layer2.0.downsample.0.weight"));
        assert_int_equal(find(g, "layer1.0.downsample.0.weight") != NULL, row[k].last[4] == '3');
        brim_graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_the_published_number_of_parameters),
        cmocka_unit_test(has_the_names_and_shapes_of_torchvision),
        cmocka_unit_test(has_the_published_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
