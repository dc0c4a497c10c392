/* The ring: workers take rows in order, the step takes batches in order.
 *
 *   slot      0        1        2          ring = 3
 *   batch     6        4        5          consumed = 4: the step holds 4, workers may fill up to 6
 */
#include "data/pipeline.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "data/mix.h"
#include "data/worker.h"

#include <pthread.h>
#include <string.h>

enum { CHUNK = 8 }; /* rows a worker takes at once */

typedef struct slot {
    brim_batch b;
    int64_t left;       /* rows not finished yet, and 1 more while the batch is to be mixed */
    int64_t unreadable; /* rows whose file could not be read at all */
    brim_error failure; /* why the batch cannot be given; BRIM_OK: nothing is wrong */
} slot;

struct brim_pipeline {
    const brim_dataset *set;
    brim_pipeline_opts o;
    int64_t batches, samples; /* an epoch */
    int64_t *order;           /* samples of the current epoch */
    slot *slots;
    uint8_t *memory;
    size_t memory_bytes;
    brim_cache *cache;
    brim_worker *workers;
    pthread_t *threads;
    int n_threads, n_workers;

    pthread_mutex_t lock;
    pthread_cond_t work, ready;
    int64_t epoch, generation; /* generation: bumped by a seek, so that stale work is dropped */
    int64_t next_row;          /* first row that nobody has taken, counted over the epoch */
    int64_t taken;             /* batches handed to the step */
    int64_t released;          /* batches given back */
    int busy;                  /* workers inside a chunk */
    bool quit;
    uint8_t *warned; /* by sample: damage was reported */
};

int64_t brim_pipeline_batches(const brim_pipeline *p)
{
    return p->batches;
}

static void shuffle(brim_pipeline *p)
{
    for (int64_t i = 0; i < brim_dataset_size(p->set); i++) p->order[i] = i;
    if (!p->o.shuffle) return;
    brim_rng r;
    brim_rng_init(&r, p->o.seed ^ 0x6272696d6f726465u, (uint64_t)p->epoch);
    for (int64_t i = brim_dataset_size(p->set) - 1; i > 0; i--) {
        int64_t k = (int64_t)brim_rng_below(&r, (uint64_t)i + 1), t = p->order[i];
        p->order[i] = p->order[k];
        p->order[k] = t;
    }
}

static int64_t rows_in(const brim_pipeline *p, int64_t batch)
{
    int64_t left = p->samples - batch * p->o.batch;
    return left < p->o.batch ? left : p->o.batch;
}

static bool mixes(const brim_pipeline *p)
{
    return p->o.augment.mixup > 0 || p->o.augment.cutmix > 0;
}

/* Under the lock: makes the slot of a batch ready to be filled. */
static void open_slot(brim_pipeline *p, int64_t batch)
{
    slot *s = &p->slots[batch % p->o.ring];
    int64_t n = rows_in(p, batch);
    s->left = n + (mixes(p) ? 1 : 0);
    s->b.index = batch;
    s->b.n = n;
    s->b.damaged = s->b.decode_ns = s->unreadable = 0;
    s->failure.status = BRIM_OK;
    size_t pixels = (size_t)(p->o.width * p->o.height * p->o.channels);
    for (int64_t i = n; i < p->o.batch; i++) {
        memset(s->b.image + (size_t)i * pixels, 0, pixels);
        s->b.label[i] = s->b.label2[i] = 0;
        s->b.lam[i] = 1;
        s->b.weight[i] = 0;
        s->b.sample[i] = -1;
    }
}

static void warn_once(brim_pipeline *p, int64_t sample, const brim_error *e)
{
    if (p->warned[sample]) return;
    p->warned[sample] = 1;
    char path[512];
    brim_warn("%s: %s (left out)", brim_dataset_path(p->set, sample, path, sizeof path), e->text);
}

/* Under the lock: a sample that failed. One damaged file is left out; out of memory, or a batch of
 * which not one file can be read, is no matter of a file. */
static void note_failure(brim_pipeline *p, slot *s, int64_t sample, const brim_error *e)
{
    if (e->status == BRIM_ENOMEM) {
        s->failure = *e;
        return;
    }
    warn_once(p, sample, e);
    s->b.damaged++;
    if (e->status != BRIM_EIO && e->status != BRIM_ENOTFOUND) return;
    if (++s->unreadable < s->b.n || s->b.n < 2 || s->failure.status != BRIM_OK) return;
    char path[512];
    brim_fail(&s->failure, BRIM_EIO,
              "none of %lld files can be read; %s: %s (is the disk still there?)",
              (long long)s->b.n, brim_dataset_path(p->set, sample, path, sizeof path), e->text);
}

/* Fills rows first .. first + n of the epoch, all of one batch; failed[k] says what is wrong. */
static void fill(brim_pipeline *p, brim_worker *w, int64_t epoch, int64_t first, int64_t n,
                 brim_error *failed)
{
    slot *s = &p->slots[first / p->o.batch % p->o.ring];
    size_t pixels = (size_t)(p->o.width * p->o.height * p->o.channels);
    for (int64_t k = 0; k < n; k++) {
        int64_t row = (first + k) % p->o.batch, sample = p->order[first + k];
        uint8_t *out = s->b.image + (size_t)row * pixels;
        failed[k].status = BRIM_OK;
        bool damaged = brim_worker_sample(w, sample, epoch, out, &failed[k]) != BRIM_OK;
        if (damaged) memset(out, 0, pixels);
        s->b.label[row] = s->b.label2[row] = brim_dataset_label(p->set, sample);
        s->b.lam[row] = 1;
        s->b.weight[row] = damaged ? 0 : 1;
        s->b.sample[row] = sample;
    }
}

/* Mixes a batch of which every row is there; called without the lock. */
static void mix(brim_pipeline *p, brim_worker *w, int64_t epoch, int64_t batch)
{
    brim_rng r;
    brim_rng_init(&r, p->o.seed ^ 0x6272696d6d697875u, (uint64_t)epoch << 40 ^ (uint64_t)batch);
    brim_mix(&p->o, &p->slots[batch % p->o.ring].b, w->tmp.at, &r);
}

/* Under the lock: is there a row to take? */
static bool has_work(const brim_pipeline *p)
{
    return p->next_row < p->samples && p->next_row / p->o.batch < p->released + p->o.ring;
}

/* Takes a chunk, works without the lock, reports under it. Called and returns with the lock held.
 */
static void work_once(brim_pipeline *p, brim_worker *w)
{
    int64_t first = p->next_row, batch = first / p->o.batch, generation = p->generation,
            epoch = p->epoch;
    int64_t n = batch * p->o.batch + rows_in(p, batch) - first;
    brim_error failed[CHUNK];
    if (n > CHUNK) n = CHUNK;
    if (first % p->o.batch == 0) open_slot(p, batch);
    p->next_row += n;
    p->busy++;
    pthread_mutex_unlock(&p->lock);
    int64_t start = brim_now_ns();
    fill(p, w, epoch, first, n, failed);
    int64_t ns = brim_now_ns() - start;
    pthread_mutex_lock(&p->lock);
    slot *s = &p->slots[batch % p->o.ring];
    if (generation == p->generation) {
        for (int64_t k = 0; k < n; k++)
            if (failed[k].status != BRIM_OK) note_failure(p, s, p->order[first + k], &failed[k]);
        s->b.decode_ns += ns;
        s->left -= n;
        if (s->left == 1 && mixes(p)) { /* this was the last row */
            pthread_mutex_unlock(&p->lock);
            mix(p, w, epoch, batch);
            pthread_mutex_lock(&p->lock);
            s->left = 0;
        }
    }
    p->busy--;
    pthread_cond_broadcast(&p->ready);
}

static void *run_worker(void *arg)
{
    brim_worker *w = ((void **)arg)[0];
    brim_pipeline *p = ((void **)arg)[1];
    free(arg);
    pthread_mutex_lock(&p->lock);
    while (!p->quit) {
        if (has_work(p))
            work_once(p, w);
        else
            pthread_cond_wait(&p->work, &p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static brim_status allocate(brim_pipeline *p, brim_error *err)
{
    const brim_pipeline_opts *o = &p->o;
    int64_t n = brim_dataset_size(p->set);
    size_t pixels = (size_t)(o->batch * o->width * o->height * o->channels);
    size_t row = (size_t)o->batch * (2 * sizeof(int32_t) + 2 * sizeof(float) + sizeof(int64_t));
    size_t each = ((pixels + 63) & ~(size_t)63) + ((row + 63) & ~(size_t)63);
    p->memory_bytes = each * (size_t)o->ring;
    p->memory = brim_pages_alloc(p->memory_bytes);
    p->slots = brim_calloc((size_t)o->ring, sizeof *p->slots);
    p->order = brim_malloc((size_t)n * sizeof *p->order);
    p->warned = brim_calloc((size_t)n, 1);
    if (o->cache_bytes) p->cache = brim_cache_new(n, o->cache_bytes);
    if (!p->memory || !p->slots || !p->order || !p->warned || (o->cache_bytes && !p->cache))
        return brim_fail(err, BRIM_ENOMEM, "pipeline: out of memory");
    for (int k = 0; k < o->ring; k++) {
        uint8_t *at = p->memory + each * (size_t)k;
        brim_batch *b = &p->slots[k].b;
        b->image = at;
        at += (pixels + 63) & ~(size_t)63;
        b->sample = (int64_t *)at;
        b->label = (int32_t *)(b->sample + o->batch);
        b->label2 = b->label + o->batch;
        b->lam = (float *)(b->label2 + o->batch);
        b->weight = b->lam + o->batch;
    }
    return BRIM_OK;
}

static brim_status start_threads(brim_pipeline *p, brim_error *err)
{
    int n = p->o.threads > 0 ? p->o.threads : 1;
    p->workers = brim_calloc((size_t)n, sizeof *p->workers);
    p->threads = brim_calloc((size_t)n, sizeof *p->threads);
    if (!p->workers || !p->threads) return brim_fail(err, BRIM_ENOMEM, "pipeline: out of memory");
    for (int k = 0; k < n; k++) {
        p->n_workers++; /* to be released, however far its making comes */
        BRIM_TRY(brim_worker_init(&p->workers[k], p->set, &p->o, p->cache, err));
    }
    for (int k = 0; k < p->o.threads; k++) {
        void **arg = brim_malloc(2 * sizeof *arg);
        if (!arg) return brim_fail(err, BRIM_ENOMEM, "pipeline: out of memory");
        arg[0] = &p->workers[k];
        arg[1] = p;
        if (pthread_create(&p->threads[k], NULL, run_worker, arg)) {
            free(arg);
            return brim_fail(err, BRIM_ENOMEM, "pipeline: cannot start a thread (lower --workers)");
        }
        p->n_threads++;
    }
    return BRIM_OK;
}

brim_status brim_pipeline_new(const brim_dataset *d, const brim_pipeline_opts *opts,
                              brim_pipeline **out, brim_error *err)
{
    *out = NULL;
    brim_pipeline *p = brim_calloc(1, sizeof *p);
    if (!p) return brim_fail(err, BRIM_ENOMEM, "pipeline: out of memory");
    int64_t n = brim_dataset_size(d);
    p->set = d;
    p->o = *opts;
    if (p->o.ring < 1) p->o.ring = 1;
    p->batches = opts->drop_last ? n / opts->batch : (n + opts->batch - 1) / opts->batch;
    p->samples = opts->drop_last ? p->batches * opts->batch : n;
    p->next_row = p->samples; /* idle until the first seek */
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->ready, NULL);
    brim_status st = allocate(p, err);
    if (st == BRIM_OK) st = start_threads(p, err);
    if (st == BRIM_OK)
        *out = p;
    else
        brim_pipeline_free(p);
    return st;
}

void brim_pipeline_free(brim_pipeline *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    p->quit = true;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (int k = 0; k < p->n_threads; k++) pthread_join(p->threads[k], NULL);
    for (int k = 0; k < p->n_workers; k++) brim_worker_release(&p->workers[k]);
    pthread_cond_destroy(&p->work);
    pthread_cond_destroy(&p->ready);
    pthread_mutex_destroy(&p->lock);
    brim_pages_free(p->memory, p->memory_bytes);
    brim_cache_free(p->cache);
    free(p->slots);
    free(p->order);
    free(p->warned);
    free(p->workers);
    free(p->threads);
    free(p);
}

brim_status brim_pipeline_seek(brim_pipeline *p, int64_t epoch, int64_t first, brim_error *err)
{
    if (first < 0 || first > p->batches || epoch < 0)
        return brim_fail(err, BRIM_EINVAL, "pipeline: batch %lld of %lld", (long long)first,
                         (long long)p->batches);
    pthread_mutex_lock(&p->lock);
    p->generation++;
    p->next_row = p->samples; /* no new work while the last chunks end */
    while (p->busy) pthread_cond_wait(&p->ready, &p->lock);
    p->epoch = epoch;
    shuffle(p);
    p->next_row = first * p->o.batch;
    if (p->next_row > p->samples) p->next_row = p->samples;
    p->taken = p->released = first;
    for (int k = 0; k < p->o.ring; k++) p->slots[k].b.index = -1;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    return BRIM_OK;
}

brim_status brim_pipeline_next(brim_pipeline *p, const brim_batch **out, int64_t *wait_ns,
                               brim_error *err)
{
    *out = NULL;
    if (wait_ns) *wait_ns = 0;
    pthread_mutex_lock(&p->lock);
    brim_status st = BRIM_OK;
    if (p->taken < p->batches) {
        slot *s = &p->slots[p->taken % p->o.ring];
        int64_t start = brim_now_ns();
        if (p->taken - p->released >= p->o.ring)
            st = brim_fail(err, BRIM_EINVAL, "pipeline: all %d batches of the ring are held",
                           p->o.ring);
        while (st == BRIM_OK && (s->b.index != p->taken || s->left)) {
            if (p->n_threads)
                pthread_cond_wait(&p->ready, &p->lock);
            else
                work_once(p, &p->workers[0]);
        }
        if (wait_ns) *wait_ns = brim_now_ns() - start;
        if (st == BRIM_OK && s->failure.status != BRIM_OK)
            st = brim_fail(err, s->failure.status, "%s", s->failure.text);
        if (st == BRIM_OK) {
            *out = &s->b;
            p->taken++;
        }
    }
    pthread_mutex_unlock(&p->lock);
    return st;
}

void brim_pipeline_release(brim_pipeline *p, const brim_batch *b)
{
    (void)b; /* batches go back in the order they came */
    pthread_mutex_lock(&p->lock);
    p->released++;
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
}
