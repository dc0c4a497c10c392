/* The state file of a training: what goes in comes back, what is damaged is refused. */
#include "data_files.h"
#include "io/file.h"
#include "tests.h"
#include "train/run_folder.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static brim_status build(brim_graph *g, int64_t batch, void *user, brim_error *err)
{
    int64_t shape[] = {batch, 3};
    brim_value *x = brim_input(g, "x", BRIM_F32, 2, shape),
               *y = brim_input(g, "y", BRIM_I32, 1, &batch);
    x = brim_nn_linear(g, x, "fc", 2, true);
    brim_output_mark(g, "loss", brim_cross_entropy(g, x, y, NULL, NULL, NULL, 0));
    return brim_graph_check(g, err);
}

static brim_session *session_make(uint64_t seed)
{
    brim_session_opts o;
    brim_session *s;
    brim_error err = {0};
    brim_session_opts_init(&o);
    o.batch = 4;
    o.seed = seed;
    o.threads = 1;
    if (brim_session_new(build, NULL, &o, &s, &err) != BRIM_OK) fail_msg("%s", err.text);
    return s;
}

static void step(brim_session *s)
{
    static const float x[12] = {1, 2, 3, -1, 0, 1, 4, -2, 0.5f, 0, 1, 0};
    static const int32_t y[4] = {0, 1, 1, 0};
    brim_feed feed[] = {{"x", x}, {"y", y}};
    brim_micro m = {feed, 2, 4};
    assert_int_equal(brim_session_step(s, &m, 1, 4, 0.1, 0, NULL), BRIM_OK);
}

static const char signature[] = "model: net\nbatch: 4 = 1 x 4\n";

static const brim_position at = {.step = 7,
                                 .epoch = 2,
                                 .micro_done = 3,
                                 .best_top1 = 0.625,
                                 .best_epoch = 1,
                                 .loss_sum = 1.0 / 3,
                                 .top1_sum = 11,
                                 .samples = 12,
                                 .damaged = 1,
                                 .window_loss = 0.7,
                                 .window_top1 = 5,
                                 .window_weight = 8};

/* A run's folder that holds the state of a session after two steps. */
static brim_run_folder saved(brim_session *s)
{
    static char path[512];
    brim_error err = {0};
    brim_run_folder r = {.path = path};
    files_write("run/none", "", 0);
    snprintf(path, sizeof path, "%s", files_path("run"));
    step(s);
    step(s);
    if (brim_run_save_state(&r, s, &at, signature, &err) != BRIM_OK) fail_msg("%s", err.text);
    return r;
}

static void weights_of(const brim_session *s, float w[6])
{
    assert_int_equal(brim_session_get(s, "fc.weight", w, 6, NULL), BRIM_OK);
}

static void goes_on_with_the_same_bits(void **state)
{
    brim_session *a = session_make(1), *b = session_make(2);
    brim_run_folder r = saved(a);
    brim_position p = {0};
    brim_error err = {0};
    float wa[6], wb[6];
    if (brim_run_load_state(&r, b, signature, &p, &err) != BRIM_OK) fail_msg("%s", err.text);
    assert_true(p.step == 7 && p.epoch == 2 && p.micro_done == 3 && p.best_epoch == 1);
    assert_true(p.samples == 12 && p.damaged == 1 && p.top1_sum == 11);
    assert_true(p.best_top1 == 0.625 && p.loss_sum == 1.0 / 3);
    assert_true(p.window_loss == 0.7 && p.window_top1 == 5 && p.window_weight == 8);
    for (int k = 0; k < 3; k++) {
        weights_of(a, wa);
        weights_of(b, wb);
        assert_memory_equal(wa, wb, sizeof wa);
        step(a); /* with the momentum of the steps before */
        step(b);
    }
    brim_session_free(a);
    brim_session_free(b);
}

/* Loading is refused with these words, and the position stays as it was. */
static void refuses(const brim_run_folder *r, brim_session *s, brim_status status, const char *word)
{
    brim_position p = {.step = 99};
    brim_error err = {0};
    brim_status got = brim_run_load_state(r, s, signature, &p, &err);
    if (got != status || !strstr(err.text, word) || !strstr(err.text, "state.safetensors"))
        fail_msg("status %d (wants %d), \"%s\" (wants \"%s\")", got, status, err.text, word);
    assert_int_equal(p.step, 99);
}

typedef struct change {
    const char *key, *value; /* of the metadata; value NULL: left out */
    const char *drop;        /* a tensor that is left out */
    double element;          /* not 0: the first of every tensor */
} change;

/* Writes the state file again, changed. */
static void rewrite(const brim_run_folder *r, const change *c)
{
    static const char *const keys[] = {"brim.steps", "brim.position", "brim.signature"};
    brim_st_entry entry[16];
    const char *meta[3][2];
    float first[16][16];
    brim_st_file *f;
    int64_t n = 0;
    int m = 0;
    const char *path = files_path("run/state.safetensors");
    assert_int_equal(brim_st_open(path, &f, NULL), BRIM_OK);
    for (int64_t i = 0; i < brim_st_count(f); i++) {
        const brim_st_tensor *t = brim_st_at(f, i);
        if (c->drop && !strcmp(t->name, c->drop)) continue;
        assert_true(n < 16 && t->bytes <= sizeof first[n]);
        memcpy(first[n], t->data, t->bytes);
        if (c->element != 0) first[n][0] = (float)c->element;
        entry[n] = (brim_st_entry){t->name, t->type, t->rank, {0}, first[n]};
        memcpy(entry[n++].dim, t->dim, sizeof t->dim);
    }
    for (int k = 0; k < 3; k++) {
        bool changed = c->key && !strcmp(keys[k], c->key);
        if (changed && !c->value) continue;
        meta[m][0] = keys[k];
        meta[m++][1] = changed ? c->value : brim_st_metadata(f, keys[k]);
    }
    assert_int_equal(brim_st_save(path, entry, n, (const char *const(*)[2])meta, m, NULL), BRIM_OK);
    brim_st_close(f);
}

static void refuses_what_was_changed(void **state)
{
    static const char *const position[] = {
        NULL,
        "",
        "7 2 3 0.5 1 0.3 11 12 1 0 0",
        "7 2 3 0.5 1 0.3 11 12 1 0 0 0 1",
        "7 2 3 0.5 1 0.3 11 12 x 0 0 0",
        "-7 2 3 0.5 1 0.3 11 12 1 0 0 0",
        "7 -2 3 0.5 1 0.3 11 12 1 0 0 0",
        "7 2 -3 0.5 1 0.3 11 12 1 0 0 0",
        "7 2 3 nan 1 0.3 11 12 1 0 0 0",
        "7 2 3 0.5 1 0.3 11 -12 1 0 0 0",
        "99999999999999999999 2 3 0.5 1 0.3 11 12 1 0 0 0",
    };
    static const char *const steps[] = {NULL, "", "x", "-1", "2x", "99999999999999999999"};
    brim_session *s = session_make(1);
    brim_run_folder r = saved(s);
    for (size_t k = 0; k < sizeof position / sizeof *position; k++) {
        brim_run_save_state(&r, s, &at, signature, NULL);
        rewrite(&r, &(change){"brim.position", position[k]});
        refuses(&r, s, BRIM_EFORMAT, "not a state file of brim train");
    }
    for (size_t k = 0; k < sizeof steps / sizeof *steps; k++) {
        brim_run_save_state(&r, s, &at, signature, NULL);
        rewrite(&r, &(change){"brim.steps", steps[k]});
        refuses(&r, s, BRIM_EFORMAT, "not a state file of Brim");
    }
    static const struct {
        change c;
        brim_status status;
        const char *word;
    } row[] = {{{.key = "brim.signature", .value = "model: net\nbatch: 8 = 2 x 4\n"},
                BRIM_EINVAL,
                "batch: 8 = 2 x 4 and cannot go on with 4 = 1 x 4"},
               {{.key = "brim.signature", .value = "else"}, BRIM_EINVAL, "an unknown version"},
               {{.key = "brim.signature"}, BRIM_EFORMAT, "not a state file of brim train"},
               {{.drop = "fc.bias"}, BRIM_ENOTFOUND, "fc.bias is missing"},
               {{.element = INFINITY}, BRIM_ENUMERIC, "element 0"},
               {{.element = NAN}, BRIM_ENUMERIC, "element 0"}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        brim_run_save_state(&r, s, &at, signature, NULL);
        rewrite(&r, &row[k].c);
        refuses(&r, s, row[k].status, row[k].word);
    }
    brim_session_free(s);
}

static void refuses_every_cut(void **state)
{
    brim_session *s = session_make(1);
    brim_run_folder r = saved(s);
    char *whole;
    size_t size;
    assert_int_equal(
        brim_file_read(files_path("run/state.safetensors"), 1 << 20, &whole, &size, NULL), BRIM_OK);
    for (size_t n = 0; n < size; n += n < 16 ? 1 : 13) {
        files_write("run/state.safetensors", whole, n);
        refuses(&r, s, BRIM_EFORMAT, "state.safetensors");
    }
    free(whole);
    brim_session_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_on_with_the_same_bits),
        cmocka_unit_test(refuses_what_was_changed),
        cmocka_unit_test(refuses_every_cut),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
