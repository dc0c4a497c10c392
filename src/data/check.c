/* Threads take the images one by one; each writes the record of its image and adds to sums of its
 * own. The sums are whole numbers, so that their order does not matter. */
#include "data/check.h"
#include "data/twins.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

typedef struct sums {
    int64_t format[BRIM_CHECK_FORMATS], odd[BRIM_CHECK_ODDS];
    uint64_t pixels, sum[3], square[3];
} sums;

typedef struct job {
    brim_check *c;
    brim_twin_key *key;
    int *width, *height; /* 0: no header that can be read */
    atomic_llong next, done;
    atomic_bool no_memory;
    pthread_mutex_t lock; /* of what is below, and c->damage */
    pthread_cond_t one_ended;
    int ended;
    sums total;
} job;

/* Both sets' samples are numbered one after the other. */
static brim_check_id id_of(const brim_check *c, int64_t i)
{
    int64_t first = brim_dataset_size(c->set[0]);
    return i < first ? (brim_check_id){0, i} : (brim_check_id){1, i - first};
}

bool brim_check_is_val(const brim_check *c, brim_check_id id)
{
    return id.set == 1 || brim_dataset_split(c->set[0], id.sample) == BRIM_SPLIT_VAL;
}

/* ---- one image ---- */

static void add_header(sums *s, const brim_image_info *info)
{
    bool cmyk = info->format == BRIM_IMAGE_JPEG && info->channels == 4;
    s->format[info->format]++;
    s->odd[BRIM_CHECK_GREY] += info->channels < 3;
    s->odd[BRIM_CHECK_ALPHA] += info->channels % 2 == 0 && !cmyk;
    s->odd[BRIM_CHECK_CMYK] += cmyk;
    s->odd[BRIM_CHECK_DEEP] += info->depth > 8;
    s->odd[BRIM_CHECK_TURNED] += info->orientation > 1;
}

static void add_pixels(sums *s, const brim_image *im)
{
    for (int y = 0; y < im->h; y++) {
        const uint8_t *at = im->pixels + (size_t)y * im->stride;
        for (int k = 0; k < im->channels; k++) {
            uint64_t sum = 0, square = 0;
            for (int x = 0; x < im->w; x++) {
                unsigned v = at[x * im->channels + k];
                sum += v;
                square += v * v;
            }
            s->sum[k] += sum;
            s->square[k] += square;
        }
    }
    s->pixels += (uint64_t)im->w * (uint64_t)im->h;
}

static brim_status check_one(job *j, int64_t i, brim_decoder *d, brim_scratch *scratch, sums *mine,
                             brim_error *err)
{
    brim_check_id id = id_of(j->c, i);
    brim_sample s = {0};
    brim_image_info info;
    brim_image im;
    j->key[i] = (brim_twin_key){.id = id};
    BRIM_TRY(brim_dataset_read(j->c->set[id.set], id.sample, scratch, &s, err));
    j->key[i].bytes = s.n;
    j->key[i].hash = brim_twin_hash(s.bytes, s.n);
    BRIM_TRY(brim_image_probe(&s, &info, err));
    j->width[i] = info.w;
    j->height[i] = info.h;
    add_header(mine, &info);
    BRIM_TRY(brim_image_decode(d, &s, &info, j->c->channels, NULL, &im, err));
    if (!brim_check_is_val(j->c, id)) add_pixels(mine, &im);
    return BRIM_OK;
}

static void note_damage(job *j, int64_t i, const brim_error *why)
{
    brim_check_damage bad = {.id = id_of(j->c, i)};
    snprintf(bad.why, sizeof bad.why, "%.199s", why->text);
    pthread_mutex_lock(&j->lock);
    if (why->status == BRIM_ENOMEM || !brim_vec_push(&j->c->damage, bad)) j->no_memory = true;
    pthread_mutex_unlock(&j->lock);
}

/* ---- the threads ---- */

static void add_sums(sums *to, const sums *from)
{
    for (int k = 0; k < BRIM_CHECK_FORMATS; k++) to->format[k] += from->format[k];
    for (int k = 0; k < BRIM_CHECK_ODDS; k++) to->odd[k] += from->odd[k];
    for (int k = 0; k < 3; k++) {
        to->sum[k] += from->sum[k];
        to->square[k] += from->square[k];
    }
    to->pixels += from->pixels;
}

static void *work(void *arg)
{
    job *j = arg;
    brim_decoder *d = brim_decoder_new();
    brim_scratch scratch = {0};
    sums mine = {0};
    if (!d) j->no_memory = true;
    while (!j->no_memory) {
        brim_error why = {0};
        int64_t i = atomic_fetch_add(&j->next, 1);
        if (i >= j->c->samples) break;
        if (check_one(j, i, d, &scratch, &mine, &why) != BRIM_OK) note_damage(j, i, &why);
        atomic_fetch_add(&j->done, 1);
    }
    brim_scratch_free(&scratch);
    brim_decoder_free(d);
    pthread_mutex_lock(&j->lock);
    add_sums(&j->total, &mine);
    j->ended++;
    pthread_cond_signal(&j->one_ended);
    pthread_mutex_unlock(&j->lock);
    return NULL;
}

/* Tells how far n threads are until the last one ends. */
static void watch(job *j, int n, const brim_check_opts *o)
{
    enum { EVERY_NS = 100 * 1000 * 1000, SECOND_NS = 1000 * 1000 * 1000 };
    pthread_mutex_lock(&j->lock);
    while (j->ended < n) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += EVERY_NS;
        until.tv_sec += until.tv_nsec / SECOND_NS;
        until.tv_nsec %= SECOND_NS;
        pthread_cond_timedwait(&j->one_ended, &j->lock, &until);
        pthread_mutex_unlock(&j->lock);
        o->progress(o->user, j->done, j->c->samples);
        pthread_mutex_lock(&j->lock);
    }
    pthread_mutex_unlock(&j->lock);
}

/* As many threads as can be had; this one does the work when there are none. */
static void run_threads(job *j, const brim_check_opts *o)
{
    int n = 0, want = o->threads;
    if (want > j->c->samples) want = (int)j->c->samples;
    pthread_t *t = brim_calloc((size_t)(want > 0 ? want : 1), sizeof *t);
    while (t && n < want && pthread_create(&t[n], NULL, work, j) == 0) n++;
    if (n == 0) work(j);
    if (o->progress) watch(j, n, o);
    for (int k = 0; k < n; k++) pthread_join(t[k], NULL);
    free(t);
}

/* ---- the result ---- */

static int by_value(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

/* Least, median and largest of the positive ones; sorts x. */
static void spread(int *x, int64_t n, int out[3])
{
    qsort(x, (size_t)n, sizeof *x, by_value);
    int64_t first = 0;
    while (first < n && x[first] == 0) first++;
    if (first == n) return;
    out[0] = x[first];
    out[1] = x[first + (n - first) / 2];
    out[2] = x[n - 1];
}

static int by_id(const void *a, const void *b)
{
    return brim_check_id_order(((const brim_check_damage *)a)->id,
                               ((const brim_check_damage *)b)->id);
}

static void finish(job *j)
{
    brim_check *c = j->c;
    const sums *s = &j->total;
    memcpy(c->format, s->format, sizeof c->format);
    memcpy(c->odd, s->odd, sizeof c->odd);
    spread(j->width, c->samples, c->width);
    spread(j->height, c->samples, c->height);
    if (c->damage.n) qsort(c->damage.at, c->damage.n, sizeof *c->damage.at, by_id);
    for (int k = 0; k < c->channels; k++) {
        double n = (double)s->pixels, square = (double)s->square[k] / n / 255 / 255;
        c->mean[k] = (double)s->sum[k] / n / 255;
        c->std[k] = s->pixels ? sqrt(fmax(square - c->mean[k] * c->mean[k], 0)) : NAN;
    }
    for (int64_t i = 0; i < c->samples; i++) {
        brim_check_id id = id_of(c, i);
        c->bytes += (int64_t)j->key[i].bytes;
        c->count[brim_dataset_label(c->set[id.set], id.sample)][brim_check_is_val(c, id)]++;
    }
}

static brim_status run(job *j, const brim_check_opts *o, brim_error *err)
{
    size_t n = (size_t)j->c->samples;
    j->c->count = brim_calloc((size_t)j->c->classes, sizeof *j->c->count);
    j->key = brim_calloc(n, sizeof *j->key);
    j->width = brim_calloc(n, sizeof *j->width);
    j->height = brim_calloc(n, sizeof *j->height);
    if (!j->c->count || !j->key || !j->width || !j->height)
        return brim_fail(err, BRIM_ENOMEM, "data: out of memory");
    run_threads(j, o);
    if (j->no_memory)
        return brim_fail(err, BRIM_ENOMEM, "data: out of memory (fewer --threads need less)");
    finish(j);
    return brim_twins_find(j->c, j->key, err);
}

brim_status brim_check_run(const brim_check_opts *o, brim_check *out, brim_error *err)
{
    *out = (brim_check){.set = {o->set, o->val},
                        .samples = brim_dataset_size(o->set),
                        .classes = brim_dataset_classes(o->set),
                        .channels = o->channels};
    if (o->val) out->samples += brim_dataset_size(o->val);
    job j = {.c = out};
    pthread_mutex_init(&j.lock, NULL);
    pthread_cond_init(&j.one_ended, NULL);
    brim_status st = run(&j, o, err);
    pthread_cond_destroy(&j.one_ended);
    pthread_mutex_destroy(&j.lock);
    free(j.key);
    free(j.width);
    free(j.height);
    if (st != BRIM_OK) brim_check_release(out);
    return st;
}

void brim_check_release(brim_check *c)
{
    free(c->count);
    free(c->damage.at);
    free(c->twins.at);
    *c = (brim_check){0};
}
