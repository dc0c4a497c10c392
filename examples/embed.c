/* Training from somebody else's C program: a two-layer network learns which arm of a spiral a point
 * lies on.
 *
 *   cc embed.c $(pkg-config --cflags --libs brim) -lm -o embed && ./embed model.safetensors
 *
 * Also valid C++. */
#include <brim/graph.h>
#include <brim/model.h>
#include <brim/session.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { POINTS = 256, ARMS = 3, EPOCHS = 400 };

/* Called by the session for each batch size that it needs. */
static brim_status build(brim_graph *g, int64_t batch, void *user, brim_error *err)
{
    int64_t point[2] = {batch, 2};
    (void)user;
    brim_value *x = brim_input(g, "point", BRIM_F32, 2, point);
    brim_value *label = brim_input(g, "label", BRIM_I32, 1, &batch);
    x = brim_relu(g, brim_nn_linear(g, x, "hidden1", 64, true));
    x = brim_relu(g, brim_nn_linear(g, x, "hidden2", 64, true));
    x = brim_nn_linear(g, x, "out", ARMS, true);
    brim_output_mark(g, "loss", brim_cross_entropy(g, x, label, NULL, NULL, NULL, 0));
    brim_output_mark(g, "correct", brim_topk_correct(g, x, label, NULL, 1));
    return brim_graph_check(g, err);
}

static void make_spiral(float point[POINTS][2], int32_t label[POINTS])
{
    for (int i = 0; i < POINTS; i++) {
        double t = (double)(i / ARMS) / (POINTS / ARMS + 1.0), arm = i % ARMS;
        double angle = 4.5 * t + arm * 2 * 3.14159265358979 / ARMS;
        point[i][0] = (float)(t * cos(angle));
        point[i][1] = (float)(t * sin(angle));
        label[i] = i % ARMS;
    }
}

int main(int argc, char **argv)
{
    static float point[POINTS][2];
    static int32_t label[POINTS];
    brim_error err;
    brim_session_opts opts;
    brim_session *session;
    make_spiral(point, label);

    brim_session_opts_init(&opts);
    opts.batch = POINTS;
    opts.optimizer.algo = BRIM_ADAMW;
    opts.seed = 1;
    if (brim_session_new(build, NULL, &opts, &session, &err) != BRIM_OK) {
        fprintf(stderr, "embed: %s\n", err.text);
        return 1;
    }
    printf("the session holds %zu bytes, exactly\n", brim_session_plan(session)->arena_bytes);

    brim_feed feeds[2] = {{"point", point}, {"label", label}};
    brim_micro batch = {feeds, 2, POINTS};
    for (int epoch = 0; epoch < EPOCHS; epoch++) {
        if (brim_session_step(session, &batch, 1, POINTS, 0.01, 0, &err) != BRIM_OK) {
            fprintf(stderr, "embed: %s\n", err.text);
            brim_session_free(session);
            return 1;
        }
        if (epoch % 100 == 99)
            printf("step %3d  loss %.4f\n", epoch + 1,
                   brim_session_scalar(session, "loss") / POINTS);
    }

    double correct = 0;
    if (brim_session_eval(session, &batch, &err) == BRIM_OK)
        correct = brim_session_scalar(session, "correct") / POINTS;
    printf("%.1f %% of the points are on the right arm\n", 100 * correct);
    if (argc > 1 && brim_session_save(session, argv[1], NULL, 0, &err) != BRIM_OK)
        fprintf(stderr, "embed: %s\n", err.text);
    brim_session_free(session);
    return correct > 0.95 ? 0 : 1;
}
