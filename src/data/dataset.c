/* A data set: recognises what a path holds, gives samples their classes, and takes its split. */
#include "data/dataset.h"
#include "base/rng.h"
#include "data/decoder.h"
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct brim_dataset {
    brim_source src;
    brim_item *item; /* of this split; into src.items' memory */
    int64_t n;
    const char **name; /* of classes; arena */
    int classes;
};

void brim_dataset_free(brim_dataset *d)
{
    if (!d) return;
    for (size_t i = 0; i < d->src.blobs.n; i++) {
        if (d->src.blobs.at[i].mapped)
            munmap(d->src.blobs.at[i].at, d->src.blobs.at[i].n);
        else
            free(d->src.blobs.at[i].at);
    }
    free(d->src.blobs.at);
    free(d->src.items.at);
    free(d->src.names.at);
    brim_arena_release(&d->src.arena);
    free(d);
}

int64_t brim_dataset_size(const brim_dataset *d)
{
    return d->n;
}

int brim_dataset_classes(const brim_dataset *d)
{
    return d->classes;
}

const char *brim_dataset_class_name(const brim_dataset *d, int k)
{
    return k >= 0 && k < d->classes ? d->name[k] : "?";
}

int brim_dataset_label(const brim_dataset *d, int64_t i)
{
    return d->item[i].label;
}

const char *brim_dataset_kind(const brim_dataset *d)
{
    return d->src.kind;
}

const char *brim_dataset_path(const brim_dataset *d, int64_t i, char *buf, size_t n)
{
    const brim_item *it = &d->item[i];
    if (d->src.root)
        snprintf(buf, n, "%s/%s", d->src.root, it->name);
    else if (it->channels)
        snprintf(buf, n, "%s[%llu]", it->name, (unsigned long long)(it->offset / it->bytes));
    else
        snprintf(buf, n, "%s", it->name);
    return buf;
}

size_t brim_dataset_memory_bytes(const brim_dataset *d)
{
    size_t sum = d->src.arena.used_bytes + d->src.items.cap * sizeof(brim_item);
    for (size_t i = 0; i < d->src.blobs.n; i++) sum += d->src.blobs.at[i].n;
    return sum;
}

void brim_scratch_free(brim_scratch *s)
{
    free(s->at);
    *s = (brim_scratch){0};
}

/* ---- recognising ---- */

static bool has_suffix(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcasecmp(s + n - k, end);
}

static bool is_tar(const char *p)
{
    return has_suffix(p, ".tar") || has_suffix(p, ".tar.gz") || has_suffix(p, ".tgz");
}

static bool is_idx(const char *p)
{
    const char *slash = strrchr(p, '/');
    const char *base = slash ? slash + 1 : p;
    return strstr(base, "idx") && strstr(base, "images");
}

static brim_status open_file(brim_source *s, const char *path, brim_error *err)
{
    if (is_tar(path)) return brim_source_tar(s, path, err);
    if (is_idx(path)) return brim_source_idx(s, path, err);
    if (has_suffix(path, ".bin")) return brim_source_cifar(s, path, err);
    return brim_fail(
        err, BRIM_EUNSUPPORTED,
        "%s: no kind of data set that is read (a folder of class folders, .tar, .tar.gz, "
        "*-images-idx3-ubyte or CIFAR .bin)",
        path);
}

/* Calls open_file for "a{0..4}b" or "a{x,y}b", or for the path itself. */
static brim_status open_braces(brim_source *s, const char *path, brim_error *err)
{
    const char *open = strchr(path, '{'), *close = open ? strchr(open, '}') : NULL;
    if (!close) return open_file(s, path, err);
    int from, to, used = 0;
    bool range = sscanf(open, "{%d..%d}%n", &from, &to, &used) == 2 && open + used == close + 1;
    if (range && (to < from || to - from >= 100000))
        return brim_fail(err, BRIM_EINVAL, "%s: the range {%d..%d} is empty or too long", path,
                         from, to);
    int digits = range && open[1] == '0' ? (int)(strstr(open, "..") - open - 1) : 1;
    const char *word = open + 1;
    for (int k = from; range ? k <= to : word <= close; k++) {
        int len = range ? 0 : (int)strcspn(word, ",}");
        char *one = range ? brim_arena_printf(&s->arena, "%.*s%0*d%s", (int)(open - path), path,
                                              digits, k, close + 1)
                          : brim_arena_printf(&s->arena, "%.*s%.*s%s", (int)(open - path), path,
                                              len, word, close + 1);
        if (!one) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
        BRIM_TRY(open_file(s, one, err));
        word += len + 1;
    }
    return BRIM_OK;
}

/* Which split a top folder or a file name speaks of. */
static brim_split split_of_word(const char *at, size_t n)
{
    static const struct {
        const char *word;
        brim_split split;
    } words[] = {{"train", BRIM_SPLIT_TRAIN},    {"training", BRIM_SPLIT_TRAIN},
                 {"val", BRIM_SPLIT_VAL},        {"valid", BRIM_SPLIT_VAL},
                 {"validation", BRIM_SPLIT_VAL}, {"test", BRIM_SPLIT_VAL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && !strncasecmp(at, words[i].word, n)) return words[i].split;
    return BRIM_SPLIT_ALL;
}

/* A folder that holds files of one of the other kinds instead of class folders: IDX pairs, CIFAR
 * .bin files, or tar shards. Those whose names begin with train / val, test, t10k are splits. */
static brim_status open_folder_of_files(brim_source *s, const char *path, brim_split want,
                                        bool *found, brim_error *err)
{
    static const char *const candidate[][2] = {{"train-images-idx3-ubyte", "t"},
                                               {"train-images-idx3-ubyte.gz", "t"},
                                               {"val-images-idx3-ubyte", "v"},
                                               {"val-images-idx3-ubyte.gz", "v"},
                                               {"t10k-images-idx3-ubyte", "v"},
                                               {"t10k-images-idx3-ubyte.gz", "v"},
                                               {"test-images-idx3-ubyte", "v"},
                                               {"test-images-idx3-ubyte.gz", "v"},
                                               {"data_batch_1.bin", "t"},
                                               {"data_batch_2.bin", "t"},
                                               {"data_batch_3.bin", "t"},
                                               {"data_batch_4.bin", "t"},
                                               {"data_batch_5.bin", "t"},
                                               {"test_batch.bin", "v"},
                                               {"train.bin", "t"},
                                               {"test.bin", "v"},
                                               {"train.tar", "t"},
                                               {"train.tar.gz", "t"},
                                               {"val.tar", "v"},
                                               {"val.tar.gz", "v"},
                                               {"test.tar", "v"},
                                               {"test.tar.gz", "v"}};
    *found = false;
    for (size_t i = 0; i < sizeof candidate / sizeof *candidate; i++) {
        char *full = brim_arena_printf(&s->arena, "%s/%s", path, candidate[i][0]);
        brim_split split = *candidate[i][1] == 't' ? BRIM_SPLIT_TRAIN : BRIM_SPLIT_VAL;
        if (!full || access(full, F_OK)) continue;
        *found = true;
        if (want == BRIM_SPLIT_ALL || want == split) BRIM_TRY(open_file(s, full, err));
    }
    return BRIM_OK;
}

/* ---- classes and splits ---- */

/* Length of the first component of a path. */
static size_t component(const char *p)
{
    return strcspn(p, "/");
}

/* While every name starts with the same folder and classes lie deeper, that folder says nothing. */
static void strip_common_folder(brim_source *s)
{
    while (s->items.n) {
        const char *first = s->items.at[0].name;
        size_t n = component(first);
        for (size_t i = 0; i < s->items.n; i++) {
            const char *p = s->items.at[i].name;
            if (component(p) != n || strncmp(p, first, n) || !p[n] || !strchr(p + n + 1, '/'))
                return;
        }
        for (size_t i = 0; i < s->items.n; i++) s->items.at[i].name += n + 1;
    }
}

/* Keeps the items of one split when top folders are splits. *own: the set has splits of its own. */
static void take_folder_split(brim_source *s, brim_split want, bool *own)
{
    bool train = false, val = false;
    for (size_t i = 0; i < s->items.n; i++) {
        brim_split k = split_of_word(s->items.at[i].name, component(s->items.at[i].name));
        train |= k == BRIM_SPLIT_TRAIN;
        val |= k == BRIM_SPLIT_VAL;
        if (k == BRIM_SPLIT_ALL) return; /* some other folder: these are classes */
    }
    *own = train && val;
    size_t kept = 0;
    for (size_t i = 0; i < s->items.n; i++) {
        brim_item it = s->items.at[i];
        size_t n = component(it.name);
        if (*own && want != BRIM_SPLIT_ALL && split_of_word(it.name, n) != want) continue;
        it.name += n + 1;
        s->items.at[kept++] = it;
    }
    s->items.n = kept;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of the folders that items lie in, sorted; sets each item's label. */
static brim_status classes_from_folders(brim_dataset *d, const char *path, brim_error *err)
{
    brim_source *s = &d->src;
    BRIM_VEC(const char *) names = {0};
    for (size_t i = 0; i < s->items.n; i++) {
        brim_item *it = &s->items.at[i];
        size_t n = component(it->name);
        if (!it->name[n]) {
            free(names.at);
            return brim_fail(err, BRIM_EFORMAT,
                             "%s: %s lies in no class folder (wants %s/CLASS/IMAGE)", path,
                             it->name, path);
        }
        const char *last = names.n ? names.at[names.n - 1] : NULL;
        if (last && strlen(last) == n && !strncmp(last, it->name, n)) continue;
        char *copy = brim_arena_printf(&s->arena, "%.*s", (int)n, it->name);
        if (!copy || !brim_vec_push(&names, copy)) {
            free(names.at);
            return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
        }
    }
    if (names.n) qsort(names.at, names.n, sizeof *names.at, by_text);
    size_t unique = 0;
    for (size_t i = 0; i < names.n; i++)
        if (!unique || strcmp(names.at[unique - 1], names.at[i])) names.at[unique++] = names.at[i];
    d->classes = (int)unique;
    d->name = BRIM_ARENA_ARRAY(&s->arena, const char *, unique + 1);
    if (d->name && unique) memcpy(d->name, names.at, unique * sizeof *names.at);
    free(names.at);
    if (!d->name) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    for (size_t i = 0; i < s->items.n; i++) {
        char *key = brim_arena_printf(&s->arena, "%.*s", (int)component(s->items.at[i].name),
                                      s->items.at[i].name);
        const char **at = key ? bsearch(&key, d->name, unique, sizeof *d->name, by_text) : NULL;
        if (!at) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
        s->items.at[i].label = (int)(at - d->name);
    }
    return BRIM_OK;
}

/* Lines of classes.txt in the folder of `path`, if it is there. */
static void read_class_list(brim_dataset *d, const char *path)
{
    const char *slash = strrchr(path, '/');
    char *file = brim_arena_printf(&d->src.arena, "%.*sclasses.txt",
                                   slash ? (int)(slash - path + 1) : 0, path);
    FILE *f = file ? fopen(file, "re") : NULL;
    char line[256];
    for (int k = 0; f && k < d->classes && fgets(line, sizeof line, f); k++) {
        line[strcspn(line, "\r\n")] = 0;
        char *copy = *line ? brim_arena_strdup(&d->src.arena, line) : NULL;
        if (copy) d->name[k] = copy;
    }
    if (f) fclose(f);
}

static brim_status classes_from_labels(brim_dataset *d, const char *path, brim_error *err)
{
    int top = -1;
    for (size_t i = 0; i < d->src.items.n; i++)
        if (d->src.items.at[i].label > top) top = d->src.items.at[i].label;
    d->classes = top + 1;
    d->name = BRIM_ARENA_ARRAY(&d->src.arena, const char *, d->classes + 1);
    for (int k = 0; d->name && k < d->classes; k++)
        if (!(d->name[k] = brim_arena_printf(&d->src.arena, "%d", k))) d->name = NULL;
    if (!d->name) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    read_class_list(d, path);
    return BRIM_OK;
}

/* Brings labels into the order of the names that a checkpoint expects. */
static brim_status match_names(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                               brim_error *err)
{
    if (!o->class_names) return BRIM_OK;
    int *to = BRIM_ARENA_ARRAY(&d->src.arena, int, d->classes + 1);
    const char **name = BRIM_ARENA_ARRAY(&d->src.arena, const char *, o->n_class_names + 1);
    if (!to || !name) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    for (int k = 0; k < d->classes; k++) {
        to[k] = -1;
        for (int m = 0; m < o->n_class_names; m++)
            if (!strcmp(d->name[k], o->class_names[m])) to[k] = m;
        if (to[k] < 0)
            return brim_fail(
                err, BRIM_EINVAL,
                "%s: class \"%s\" is not among the %d that the model knows (\"%s\", ...)", path,
                d->name[k], o->n_class_names, o->n_class_names ? o->class_names[0] : "");
    }
    for (size_t i = 0; i < d->src.items.n; i++)
        d->src.items.at[i].label = to[d->src.items.at[i].label];
    for (int m = 0; m < o->n_class_names; m++)
        if (!(name[m] = brim_arena_strdup(&d->src.arena, o->class_names[m])))
            return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    d->name = name;
    d->classes = o->n_class_names;
    return BRIM_OK;
}

/* A fixed pseudo-random share of each class, at least one image of a class that has two. */
static brim_status take_fraction(brim_dataset *d, const brim_dataset_opts *o, brim_error *err)
{
    brim_source *s = &d->src;
    int64_t *order = brim_malloc((s->items.n + 1) * sizeof *order);
    bool *held = brim_calloc(s->items.n + 1, sizeof *held);
    if (!order || !held) {
        free(order);
        free(held);
        return brim_fail(err, BRIM_ENOMEM, "data: out of memory");
    }
    for (int c = 0; c < d->classes; c++) {
        int64_t n = 0;
        brim_rng r;
        brim_rng_init(&r, o->seed ^ 0x6272696d73706c74u, (uint64_t)c);
        for (size_t i = 0; i < s->items.n; i++)
            if (s->items.at[i].label == c) order[n++] = (int64_t)i;
        int64_t take = (int64_t)((double)n * o->val_fraction + 0.5);
        if (take == 0 && n >= 2) take = 1;
        for (int64_t k = 0; k < take; k++) {
            int64_t m = k + (int64_t)brim_rng_below(&r, (uint64_t)(n - k)), t = order[m];
            order[m] = order[k];
            order[k] = t;
            held[t] = true;
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < s->items.n; i++)
        if (held[i] == (o->split == BRIM_SPLIT_VAL)) s->items.at[kept++] = s->items.at[i];
    s->items.n = kept;
    free(order);
    free(held);
    return BRIM_OK;
}

static brim_status open_any(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                            bool *own, brim_error *err)
{
    struct stat st;
    brim_source *s = &d->src;
    if (strchr(path, '{')) return open_braces(s, path, err);
    if (stat(path, &st)) return brim_fail_errno(err, errno, "%s: cannot be read", path);
    if (!S_ISDIR(st.st_mode)) return open_file(s, path, err);
    BRIM_TRY(open_folder_of_files(s, path, o->split, own, err));
    return *own ? BRIM_OK : brim_source_folder(s, path, err);
}

static brim_status open_set(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                            brim_error *err)
{
    bool own = false;
    BRIM_TRY(open_any(d, path, o, &own, err));
    brim_source *s = &d->src;
    if (s->items.n == 0 && !own)
        return brim_fail(err, BRIM_EFORMAT, "%s: holds no images that are read (JPEG, PNG or WebP)",
                         path);
    bool labelled = s->items.n && s->items.at[0].label >= 0;
    if (!labelled && s->items.n) {
        strip_common_folder(s);
        take_folder_split(s, o->split, &own);
        BRIM_TRY(classes_from_folders(d, path, err));
    } else
        BRIM_TRY(classes_from_labels(d, path, err));
    BRIM_TRY(match_names(d, path, o, err));
    if (!own && o->split != BRIM_SPLIT_ALL && o->val_fraction > 0)
        BRIM_TRY(take_fraction(d, o, err));
    if (s->items.n == 0)
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: the %s part is empty (give --val-data, or --val-split 0)", path,
                         o->split == BRIM_SPLIT_VAL ? "validation" : "training");
    d->item = s->items.at;
    d->n = (int64_t)s->items.n;
    return BRIM_OK;
}

brim_status brim_dataset_open(const char *path, const brim_dataset_opts *opts, brim_dataset **out,
                              brim_error *err)
{
    *out = NULL;
    brim_dataset *d = brim_calloc(1, sizeof *d);
    if (!d) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    brim_arena_init(&d->src.arena);
    brim_status st = open_set(d, path, opts, err);
    if (st == BRIM_OK)
        *out = d;
    else
        brim_dataset_free(d);
    return st;
}

/* ---- reading ---- */

static brim_status read_file(const brim_dataset *d, const brim_item *it, brim_scratch *scratch,
                             brim_sample *out, brim_error *err)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", d->src.root, it->name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st)) {
        int why = errno;
        if (fd >= 0) close(fd);
        return brim_fail_errno(err, why, "%s: cannot be read", path);
    }
    size_t n = (size_t)st.st_size, got = 0;
    uint8_t *at = n < (size_t)1 << 31 ? brim_scratch_reserve(scratch, n) : NULL;
    while (at && got < n) {
        ssize_t k = read(fd, at + got, n - got);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        got += (size_t)k;
    }
    close(fd);
    if (!at) return brim_fail(err, BRIM_ENOMEM, "%s: %zu bytes are too many", path, n);
    if (got < n) return brim_fail(err, BRIM_EIO, "%s: reading failed after %zu bytes", path, got);
    *out = (brim_sample){.bytes = at, .n = n};
    return BRIM_OK;
}

brim_status brim_dataset_read(const brim_dataset *d, int64_t i, brim_scratch *scratch,
                              brim_sample *out, brim_error *err)
{
    const brim_item *it = &d->item[i];
    if (d->src.root) return read_file(d, it, scratch, out, err);
    const uint8_t *at = d->src.blobs.at[it->blob].at + it->offset;
    *out = (brim_sample){.bytes = at,
                         .n = it->bytes,
                         .raw = it->channels > 0,
                         .w = it->w,
                         .h = it->h,
                         .channels = it->channels};
    if (!d->src.planar) return BRIM_OK;
    uint8_t *to = brim_scratch_reserve(scratch, it->bytes);
    if (!to) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", it->name);
    size_t n = (size_t)(it->w * it->h);
    for (size_t p = 0; p < n; p++)
        for (int c = 0; c < it->channels; c++)
            to[p * (size_t)it->channels + (size_t)c] = at[(size_t)c * n + p];
    out->bytes = to;
    return BRIM_OK;
}
