/* The classifier's loss against values worked out by hand, and the sums of an evaluation. */
#include "data_files.h"
#include "tests.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const double ln2 = 0.69314718055994531;

static void near(const char *what, double got, double want)
{
    if (!(fabs(got - want) <= 1e-5 * (1 + fabs(want))))
        fail_msg("%s is %.9g, wants %.9g", what, got, want);
}

/* ---- the loss ---- */

enum { CLASSES = 4, HIDDEN = 1024, ROWS = 4 };

static void set_all(brim_session *s, const char *name, int64_t n, const float *first, int given)
{
    float *x = calloc((size_t)n, sizeof *x);
    if (given) memcpy(x, first, (size_t)given * sizeof *x);
    assert_int_equal(brim_session_set(s, name, x, n, NULL), BRIM_OK);
    free(x);
}

/* A perceptron on one grey pixel with one unit of each layer in use: the probabilities are 1/2,
 * 1/4, 1/8, 1/8 where the normalised pixel is not above 0; else the last logit grows by ln 2 / 2
 * times it. Mean 1/2 and deviation 1/4 make -2 of black and 2 of white. */
static brim_session *session(brim_classifier *c)
{
    brim_session_opts o;
    brim_session *s;
    brim_error err = {0};
    const float one = 1;
    float bias[CLASSES], out[(CLASSES - 1) * HIDDEN + 1] = {0};
    static const int halvings[CLASSES] = {1, 2, 3, 3};
    c->model = (brim_model_opts){
        .name = "mlp", .classes = CLASSES, .channels = 1, .height = 1, .width = 1};
    c->mean[0] = 0.5f;
    c->std[0] = 0.25f;
    brim_session_opts_init(&o);
    o.batch = ROWS;
    o.threads = 1;
    if (brim_session_new(brim_classifier_build, c, &o, &s, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    for (int k = 0; k < CLASSES; k++) bias[k] = (float)(-halvings[k] * ln2);
    out[(CLASSES - 1) * HIDDEN] = (float)(ln2 / 2);
    set_all(s, "0.weight", HIDDEN, &one, 1);
    set_all(s, "0.bias", HIDDEN, NULL, 0);
    set_all(s, "2.weight", HIDDEN * HIDDEN, &one, 1);
    set_all(s, "2.bias", HIDDEN, NULL, 0);
    set_all(s, "4.weight", CLASSES * HIDDEN, out, sizeof out / sizeof *out);
    set_all(s, "4.bias", CLASSES, bias, CLASSES);
    return s;
}

/* Black rows of class 0 and 2, a white one of class 3, and one without weight. */
static brim_micro rows(brim_feed feed[5])
{
    static uint8_t image[ROWS] = {0, 0, 255, 0};
    static int32_t label[ROWS] = {0, 2, 3, 1}, label2[ROWS] = {1, 2, 0, 3};
    static float lam[ROWS] = {0.75f, 1, 0.5f, 0.1f}, weight[ROWS] = {1, 1, 1, 0};
    brim_batch b = {
        .n = ROWS, .image = image, .label = label, .label2 = label2, .lam = lam, .weight = weight};
    return (brim_micro){feed, brim_classifier_feeds(&b, feed), ROWS};
}

/* Cross-entropy of the classes in units of ln 2; white's logits are -1, -2, -3, -2 (times ln 2),
 * and white's sum of exponentials is 1/2 + 1/4 + 1/8 + 1/4 = 9/8. */
static double white(double halvings)
{
    return log(9 / 8.0) + halvings * ln2;
}

static void the_loss_has_what_the_options_say(void **state)
{
    const double plain = 1 * ln2 + 3 * ln2 + white(2),
                 mixed = (0.75 * 1 + 0.25 * 2) * ln2 + 3 * ln2 + (white(2) + white(1)) / 2,
                 all = 2 * 2.25 * ln2 + white(2); /* the mean over the classes, of each row */
    const struct {
        const char *name;
        bool mixed;
        double smoothing, want;
    } row[] = {{"plain", false, 0, plain},
               {"mixed", true, 0, mixed},
               {"smoothed", false, 0.2, 0.8 * plain + 0.2 * all},
               {"mixed and smoothed", true, 0.2, 0.8 * mixed + 0.2 * all}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        brim_classifier c = {.label_smoothing = row[k].smoothing, .mixed = row[k].mixed};
        brim_session *s = session(&c);
        brim_feed feed[5];
        brim_micro m = rows(feed);
        assert_int_equal(brim_session_step(s, &m, 1, 3, 0, 0, NULL), BRIM_OK);
        near(row[k].name, brim_session_scalar(s, "loss"), row[k].want);
        near("correct1", brim_session_scalar(s, "correct1"), 1);
        assert_int_equal(brim_session_eval(s, &m, NULL), BRIM_OK);
        near("loss of an evaluation", brim_session_scalar(s, "loss"), plain);
        brim_session_free(s);
    }
}

/* ---- evaluation ---- */

enum { K = 7 };

/* Pixels that are the logits. */
static const struct {
    uint8_t pixel[K];
    int label, predicted;
    bool top5;
} image[] = {
    {{9, 1, 1, 1, 1, 1, 1}, 0, 0, true},  {{9, 1, 1, 1, 1, 1, 1}, 4, 0, true},
    {{9, 1, 1, 1, 1, 1, 1}, 5, 0, false}, /* ties go to the lower class */
    {{6, 5, 4, 3, 2, 1, 0}, 4, 0, true},  {{6, 5, 4, 3, 2, 1, 0}, 5, 0, false},
    {{6, 5, 4, 3, 2, 1, 0}, 6, 0, false}, {{0, 1, 2, 3, 4, 5, 6}, 6, 6, true},
    {{0, 1, 2, 3, 4, 5, 6}, 6, 6, true},  {{0, 1, 2, 3, 4, 5, 6}, 2, 6, true},
    {{0, 1, 2, 3, 4, 5, 6}, 1, 6, false}, {{0, 0, 7, 7, 0, 0, 0}, 3, 2, true},
};
enum { IMAGES = sizeof image / sizeof *image };

static brim_status build_identity(brim_graph *g, int64_t batch, void *user, brim_error *err)
{
    int64_t shape[] = {batch, 1, 1, K};
    brim_value *label = brim_input(g, "label", BRIM_I32, 1, &batch),
               *weight = brim_input(g, "weight", BRIM_F32, 1, &batch);
    brim_value *x = brim_cast(g, brim_input(g, "image", BRIM_U8, 4, shape), BRIM_F32);
    x = brim_flatten(g, x, 1);
    brim_output_mark(g, "loss", brim_cross_entropy(g, x, label, weight, NULL, NULL, 0));
    brim_output_mark(g, "correct1", brim_topk_correct(g, x, label, weight, 1));
    brim_output_mark(g, "correct5", brim_topk_correct(g, x, label, weight, 5));
    brim_output_mark(g, "logits", x);
    return brim_graph_check(g, err);
}

static brim_dataset *set_of_logits(void)
{
    uint8_t pixels[IMAGES * K], labels[IMAGES];
    for (int i = 0; i < IMAGES; i++) {
        memcpy(pixels + i * K, image[i].pixel, K);
        labels[i] = (uint8_t)image[i].label;
    }
    bytes b = idx_make(3, (uint32_t[]){IMAGES, 1, K}, pixels);
    files_write_bytes("logits-images-idx3-ubyte", &b);
    b = idx_make(1, (uint32_t[]){IMAGES}, labels);
    files_write_bytes("logits-labels-idx1-ubyte", &b);
    brim_dataset *d;
    brim_dataset_opts o = {.split = BRIM_SPLIT_ALL};
    brim_error err = {0};
    if (brim_dataset_open(files_path("logits-images-idx3-ubyte"), &o, &d, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    return d;
}

static double loss_of(const uint8_t pixel[K], int label)
{
    double sum = 0;
    for (int k = 0; k < K; k++) sum += exp(pixel[k] - (double)pixel[label]);
    return log(sum);
}

static void check_sums(const brim_eval_result *r)
{
    int64_t confusion[K * K] = {0};
    double loss = 0;
    int hits = 0, top5 = 0;
    for (int i = 0; i < IMAGES; i++) {
        confusion[image[i].label * K + image[i].predicted]++;
        loss += loss_of(image[i].pixel, image[i].label);
        hits += image[i].label == image[i].predicted;
        top5 += image[i].top5;
    }
    assert_int_equal(hits, 3);
    assert_int_equal(top5, 7);
    assert_int_equal(r->samples, IMAGES);
    assert_int_equal(r->damaged, 0);
    assert_memory_equal(r->confusion, confusion, sizeof confusion);
    near("loss", r->loss, loss / IMAGES);
    near("top-1", r->top1, hits / (double)IMAGES);
    near("top-5", r->top5, top5 / (double)IMAGES);
}

/* The last batch is full, or short. */
static void an_evaluation_adds_up(void **state)
{
    static const int batch[] = {IMAGES, 4, 1};
    brim_dataset *d = set_of_logits();
    for (size_t k = 0; k < sizeof batch / sizeof *batch; k++) {
        brim_session_opts so;
        brim_pipeline_opts po = {.batch = batch[k],
                                 .width = K,
                                 .height = 1,
                                 .channels = 1,
                                 .ring = 2,
                                 .augment = {.crop_ratio = 1}};
        brim_session *s = NULL;
        brim_pipeline *p = NULL;
        brim_eval_result r;
        brim_error err = {0};
        brim_session_opts_init(&so);
        so.inference = true;
        so.batch = batch[k];
        so.threads = 1;
        if (brim_session_new(build_identity, NULL, &so, &s, &err) != BRIM_OK ||
            brim_pipeline_new(d, &po, &p, &err) != BRIM_OK ||
            brim_evaluate(s, p, K, &r, &err) != BRIM_OK)
            fail_msg("%s", err.text);
        check_sums(&r);
        brim_eval_result_release(&r);
        brim_pipeline_free(p);
        brim_session_free(s);
    }
    brim_dataset_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loss_has_what_the_options_say),
        cmocka_unit_test(an_evaluation_adds_up),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
