/* Whole trainings against PyTorch's numbers (tests/golden/README.md). */
#include "base/rng.h"
#include "brim/model.h"
#include "io/safetensors.h"
#include "tests.h"
#include "train/session.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *golden(const char *file)
{
    static char path[1024];
    const char *dir = getenv("BRIM_GOLDEN");
    snprintf(path, sizeof path, "%s/%s", dir ? dir : "tests/golden", file);
    return path;
}

/* ---- formula.py in C ---- */

static uint32_t word(const char *name, int64_t i)
{
    return brim_philox4x32(brim_hash_text(name), 0, (uint64_t)i / 4).v[i % 4];
}

static float centred(const char *name, int64_t i)
{
    return brim_u32_to_unit(word(name, i)) - 0.5f;
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static void fill_weight(const brim_entry *e, const char *last_norm, float *out)
{
    int64_t n = brim_shape_count(&e->shape);
    const int64_t *d = e->shape.dim;
    char small[64];
    snprintf(small, sizeof small, ".%s.weight", last_norm);
    float s = 0;
    if (e->shape.rank == 4) s = (float)(2 * sqrt(6.0 / (double)(d[0] * d[2] * d[3])));
    if (e->shape.rank == 2) s = (float)(2 * sqrt(3.0 / (double)d[1]));
    for (int64_t i = 0; i < n; i++) {
        float c = centred(e->name, i);
        if (e->shape.rank >= 2)
            out[i] = c * s;
        else if (!ends_with(e->name, ".weight"))
            out[i] = 0.125f * c;
        else
            out[i] = (1 + 0.125f * c) * (ends_with(e->name, small) ? 0.0625f : 1);
    }
}

static void fill_session(brim_session *s, const char *last_norm)
{
    for (size_t i = 0; i < s->store.entries.n; i++) {
        const brim_entry *e = &s->store.entries.at[i];
        if (e->kind != BRIM_VALUE_PARAM) continue;
        int64_t n = brim_shape_count(&e->shape);
        float *x = malloc((size_t)n * sizeof *x);
        fill_weight(e, last_norm, x);
        assert_int_equal(brim_session_set(s, e->name, x, n, NULL), BRIM_OK);
        free(x);
    }
}

static void labels(int step, int64_t n, int classes, int32_t *out)
{
    char name[16];
    snprintf(name, sizeof name, "y.%d", step);
    for (int64_t i = 0; i < n; i++) out[i] = (int32_t)(word(name, i) % (uint32_t)classes);
}

/* ---- fixtures ---- */

static double number(const brim_st_file *f, const char *name, int64_t i)
{
    const brim_st_tensor *t = brim_st_find(f, name);
    if (!t) fail_msg("the fixture lacks %s", name);
    double d;
    float s;
    if (t->type == BRIM_F64)
        memcpy(&d, (const char *)t->data + 8 * i, 8);
    else {
        memcpy(&s, (const char *)t->data + 4 * i, 4);
        d = (double)s;
    }
    return d;
}

static void near(const char *what, int64_t i, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s[%lld]: got %.9g, want %.9g", what, (long long)i, got, want);
}

/* ---- convolutional networks ---- */

typedef struct cnn {
    const char *model, *file;
    int n, size, classes;
} cnn;

static brim_status build_cnn(brim_graph *g, int64_t batch, void *user, brim_error *err)
{
    const cnn *c = user;
    int64_t image[] = {batch, 3, c->size, c->size};
    brim_value *x = brim_input(g, "x", BRIM_F32, 4, image),
               *y = brim_input(g, "y", BRIM_I32, 1, &batch);
    brim_model_opts o = {.name = c->model,
                         .classes = c->classes,
                         .channels = 3,
                         .height = c->size,
                         .width = c->size};
    brim_value *logits = brim_model_build(g, &o, x);
    brim_output_mark(g, "loss", brim_cross_entropy(g, logits, y, NULL, NULL, NULL, 0));
    brim_output_mark(g, "logits", logits);
    return brim_graph_check(g, err);
}

/* "x.STEP" is [N,3,H,W]; the session takes N,H,W,3. */
static void images(int step, const cnn *c, float *out)
{
    char name[16];
    int64_t plane = (int64_t)c->size * c->size;
    snprintf(name, sizeof name, "x.%d", step);
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t k = 0; k < 3; k++)
            for (int64_t p = 0; p < plane; p++)
                out[(n * plane + p) * 3 + k] = 4 * centred(name, (n * 3 + k) * plane + p);
}

static void check_gradients(const brim_session *s, const brim_st_file *f)
{
    for (size_t i = 0; i < s->store.entries.n; i++) {
        const brim_entry *e = &s->store.entries.at[i];
        if (e->kind != BRIM_VALUE_PARAM) continue;
        char state[160], norm_name[160], head[160];
        snprintf(state, sizeof state, "grad:%s", e->name);
        snprintf(norm_name, sizeof norm_name, "grad_norm/%s", e->name);
        snprintf(head, sizeof head, "grad/%s", e->name);
        int64_t n = brim_shape_count(&e->shape);
        float *g = malloc((size_t)n * sizeof *g);
        double sum = 0, want = number(f, norm_name, 0);
        assert_int_equal(brim_session_get(s, state, g, n, NULL), BRIM_OK);
        for (int64_t k = 0; k < n; k++) sum += (double)g[k] * (double)g[k];
        near(norm_name, 0, sqrt(sum), want, 1e-3 * want);
        for (int64_t k = 0; k < 4 && k < n; k++)
            near(head, k, (double)g[k], number(f, head, k), 2e-3 * want);
        free(g);
    }
}

static void check_running(const brim_session *s, const brim_st_file *f)
{
    for (int64_t i = 0; i < brim_st_count(f); i++) {
        const brim_st_tensor *t = brim_st_at(f, i);
        if (strncmp(t->name, "running/", 8)) continue;
        int64_t n = t->dim[0];
        float *x = malloc((size_t)n * sizeof *x);
        assert_int_equal(brim_session_get(s, t->name + 8, x, n, NULL), BRIM_OK);
        for (int64_t k = 0; k < n; k++) {
            double want = number(f, t->name, k);
            near(t->name, k, (double)x[k], want, 2e-2 * (fabs(want) + 0.05));
        }
        free(x);
    }
}

static void run_cnn(cnn c)
{
    brim_error err = {0};
    brim_st_file *f;
    if (brim_st_open(golden(c.file), &f, &err) != BRIM_OK) fail_msg("%s", err.text);
    double lr = atof(brim_st_metadata(f, "lr"));
    brim_session_opts o;
    brim_session_opts_init(&o);
    o.device = getenv("BRIM_TEST_DEVICE");
    o.batch = 2 * c.n; /* two micro-batches, of which one is used: gradients stay to be looked at */
    o.micro_batch = c.n;
    o.optimizer.weight_decay = 1e-4;
    brim_session *s;
    if (brim_session_new(build_cnn, &c, &o, &s, &err) != BRIM_OK) fail_msg("%s", err.text);
    fill_session(s, brim_st_metadata(f, "last_norm"));
    float *x = malloc(sizeof(float) * (size_t)(c.n * 3 * c.size * c.size));
    int32_t *y = malloc(sizeof(int32_t) * (size_t)c.n);
    brim_feed feed[] = {{"x", x}, {"y", y}};
    brim_micro m = {feed, 2, c.n};
    for (int step = 0; step < 20; step++) {
        images(step % 4, &c, x);
        labels(step % 4, c.n, c.classes, y);
        assert_int_equal(brim_session_step(s, &m, 1, c.n, lr, 0, &err), BRIM_OK);
        assert_int_equal(brim_session_sync(s, &err), BRIM_OK);
        double want = number(f, "loss", step);
        near("loss", step, brim_session_scalar(s, "loss") / c.n, want, (step ? 1e-3 : 1e-5) * want);
        if (step == 0) check_gradients(s, f);
    }
    check_running(s, f);
    free(x);
    free(y);
    brim_session_free(s);
    brim_st_close(f);
}

static void resnet20_follows_torch(void **state)
{
    run_cnn((cnn){"resnet20", "resnet20.safetensors", 16, 32, 10});
}

static void resnet50_follows_torch(void **state)
{
    run_cnn((cnn){"resnet50", "resnet50.safetensors", 8, 64, 10});
}

/* ---- optimizers on a small perceptron ---- */

static brim_status build_mlp(brim_graph *g, int64_t batch, void *user, brim_error *err)
{
    int64_t shape[] = {batch, 20};
    brim_value *x = brim_input(g, "x", BRIM_F32, 2, shape),
               *y = brim_input(g, "y", BRIM_I32, 1, &batch);
    x = brim_relu(g, brim_nn_linear(g, x, "0", 16, true));
    x = brim_relu(g, brim_nn_linear(g, x, "2", 16, true));
    x = brim_nn_linear(g, x, "4", 7, true);
    brim_output_mark(g, "loss",
                     brim_cross_entropy(g, x, y, NULL, NULL, NULL, *(const double *)user));
    return brim_graph_check(g, err);
}

static void check_params(const brim_session *s, const brim_st_file *f, const char *name)
{
    for (size_t i = 0; i < s->store.entries.n; i++) {
        const brim_entry *e = &s->store.entries.at[i];
        if (e->kind != BRIM_VALUE_PARAM) continue;
        char key[160];
        float x[320];
        int64_t n = brim_shape_count(&e->shape);
        snprintf(key, sizeof key, "%s/param/%s", name, e->name);
        assert_int_equal(brim_session_get(s, e->name, x, n, NULL), BRIM_OK);
        for (int64_t k = 0; k < n; k++) near(key, k, (double)x[k], number(f, key, k), 2e-6);
    }
}

static void run_optimizer(const brim_st_file *f, const char *name, brim_optimizer_opts p, double lr,
                          double smoothing)
{
    enum { N = 8, IN = 20 };
    brim_error err = {0};
    brim_session_opts o;
    brim_session_opts_init(&o);
    o.device = getenv("BRIM_TEST_DEVICE");
    p.scale_init = p.scale_min = p.scale_max = 1;
    p.scale_interval = 1000;
    o.optimizer = p;
    o.batch = N;
    brim_session *s;
    if (brim_session_new(build_mlp, &smoothing, &o, &s, &err) != BRIM_OK)
        fail_msg("%s: %s", name, err.text);
    fill_session(s, "none");
    for (int step = 0; step < 5; step++) {
        float x[N * IN];
        int32_t y[N];
        char key[64], images_name[16];
        snprintf(images_name, sizeof images_name, "x.%d", step);
        for (int i = 0; i < N * IN; i++) x[i] = 4 * centred(images_name, i);
        labels(step, N, 7, y);
        brim_feed feed[] = {{"x", x}, {"y", y}};
        brim_micro m = {feed, 2, N};
        assert_int_equal(brim_session_step(s, &m, 1, N, lr, 0, &err), BRIM_OK);
        assert_int_equal(brim_session_sync(s, &err), BRIM_OK);
        snprintf(key, sizeof key, "%s/loss", name);
        near(key, step, brim_session_scalar(s, "loss") / N, number(f, key, step), 2e-6);
        snprintf(key, sizeof key, "%s/grad_norm", name);
        near(key, step, brim_session_scaler(s).grad_norm, number(f, key, step), 1e-5);
    }
    check_params(s, f, name);
    brim_session_free(s);
}

static void optimizers_follow_torch(void **state)
{
    brim_error err = {0};
    brim_st_file *f;
    if (brim_st_open(golden("optimizers.safetensors"), &f, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    brim_optimizer_opts sgd = {.algo = BRIM_SGD, .weight_decay = 0.01}, momentum = sgd, nesterov,
                        clip;
    brim_optimizer_opts adamw = {
        .algo = BRIM_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.05};
    momentum.momentum = 0.9;
    nesterov = clip = momentum;
    nesterov.nesterov = true;
    clip.clip = 0.5;
    run_optimizer(f, "sgd", sgd, 0.1, 0);
    run_optimizer(f, "momentum", momentum, 0.1, 0);
    run_optimizer(f, "nesterov", nesterov, 0.1, 0);
    run_optimizer(f, "clip", clip, 0.1, 0);
    run_optimizer(f, "smoothing", momentum, 0.1, 0.1);
    run_optimizer(f, "adamw", adamw, 0.01, 0);
    adamw.clip = 0.5;
    run_optimizer(f, "adamw_clip", adamw, 0.01, 0.1);
    brim_st_close(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(optimizers_follow_torch),
        cmocka_unit_test(resnet20_follows_torch),
        cmocka_unit_test(resnet50_follows_torch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
