/* A data set: recognises what a path holds, opens it and reads samples. */
#include "data/dataset.h"
#include "data/decoder.h"
#include "data/labels.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

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
    free(d->src.empty.at);
    free(d->src.ignored.at);
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

brim_split brim_dataset_split(const brim_dataset *d, int64_t i)
{
    return d->item[i].split;
}

bool brim_dataset_has_split(const brim_dataset *d)
{
    return d->own_split;
}

int64_t brim_dataset_ignored(const brim_dataset *d)
{
    int64_t sum = 0;
    for (size_t k = 0; k < d->src.ignored.n; k++) sum += d->src.ignored.at[k].n;
    return sum;
}

const char *brim_dataset_ignored_kind(const brim_dataset *d, int k, int64_t *n)
{
    if (k < 0 || (size_t)k >= d->src.ignored.n) return NULL;
    *n = d->src.ignored.at[k].n;
    return d->src.ignored.at[k].end;
}

const char *brim_dataset_empty_folder(const brim_dataset *d, int k)
{
    return k >= 0 && (size_t)k < d->src.empty.n ? d->src.empty.at[k] : NULL;
}

const char *brim_dataset_path(const brim_dataset *d, int64_t i, char *buf, size_t n)
{
    const brim_item *it = &d->item[i];
    if (d->src.root)
        snprintf(buf, n, "%s/%s", d->src.root, it->name);
    else if (it->channels)
        snprintf(buf, n, "%s[%lld]", it->name, (long long)it->record);
    else
        snprintf(buf, n, "%s:%s", d->src.blobs.at[it->blob].path, it->name);
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
    if (has_suffix(path, ".bin") || has_suffix(path, ".bin.gz"))
        return brim_source_cifar(s, path, err);
    return brim_fail(
        err, BRIM_EUNSUPPORTED,
        "%s: no kind of data set that is read (a folder of class folders, .tar, .tar.gz, "
        "*-images-idx3-ubyte or CIFAR .bin)",
        path);
}

/* Opens one file as a part of the set. All parts are of one kind: either all samples bring their
 * label, or none. */
static brim_status open_part(brim_source *s, const char *path, brim_split split, brim_error *err)
{
    size_t first = s->items.n;
    const char *kind = s->kind;
    BRIM_TRY(open_file(s, path, err));
    if (first && s->items.n > first && strcmp(kind, s->kind))
        return brim_fail(err, BRIM_EINVAL,
                         "%s: is of the kind %s, those before of the kind %s (open them as two "
                         "sets)",
                         path, s->kind, kind);
    if (s->items.n == first && first) s->kind = kind;
    for (size_t i = first; i < s->items.n; i++) s->items.at[i].split = split;
    return BRIM_OK;
}

/* The numbers of "{3..12}"; *digits is the least width, of "{003..012}" 3. */
static bool brace_range(const char *open, const char *close, int *from, int *to, int *digits)
{
    int used = 0;
    if (sscanf(open, "{%d..%d}%n", from, to, &used) != 2 || open + used != close + 1) return false;
    *digits = open[1] == '0' ? (int)(strstr(open, "..") - open - 1) : 1;
    return true;
}

/* Calls open_part for every path that "a{0..4}b" or "a{x,y}b" stands for. */
static brim_status open_braces(brim_source *s, const char *path, brim_error *err)
{
    const char *open = strchr(path, '{'), *close = strchr(open, '}');
    if (!close)
        return brim_fail(err, BRIM_EINVAL, "%s: the brace is not closed (give {0..4} or {a,b})",
                         path);
    int from = 0, to = 0, digits = 0, before = (int)(open - path);
    bool range = brace_range(open, close, &from, &to, &digits);
    if (range && (from < 0 || to < from || to - from >= 100000))
        return brim_fail(err, BRIM_EINVAL, "%s: the range {%d..%d} is empty or too long", path,
                         from, to);
    const char *word = open + 1;
    for (int k = from; range ? k <= to : word <= close; k++) {
        int len = range ? 0 : (int)strcspn(word, ",}");
        char *one =
            range ? brim_arena_printf(&s->arena, "%.*s%0*d%s", before, path, digits, k, close + 1)
                  : brim_arena_printf(&s->arena, "%.*s%.*s%s", before, path, len, word, close + 1);
        if (!one) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
        BRIM_TRY(open_part(s, one, BRIM_SPLIT_ALL, err));
        word += len + 1;
    }
    return BRIM_OK;
}

/* Files of the other kinds that a folder may hold instead of class folders. Of a file that is
 * there twice, as it is and compressed, the first is taken. */
static const struct {
    const char *name;
    brim_split split;
} parts[] = {{"train-images-idx3-ubyte", BRIM_SPLIT_TRAIN},
             {"val-images-idx3-ubyte", BRIM_SPLIT_VAL},
             {"t10k-images-idx3-ubyte", BRIM_SPLIT_VAL},
             {"test-images-idx3-ubyte", BRIM_SPLIT_VAL},
             {"data_batch_1.bin", BRIM_SPLIT_TRAIN},
             {"data_batch_2.bin", BRIM_SPLIT_TRAIN},
             {"data_batch_3.bin", BRIM_SPLIT_TRAIN},
             {"data_batch_4.bin", BRIM_SPLIT_TRAIN},
             {"data_batch_5.bin", BRIM_SPLIT_TRAIN},
             {"test_batch.bin", BRIM_SPLIT_VAL},
             {"train.bin", BRIM_SPLIT_TRAIN},
             {"test.bin", BRIM_SPLIT_VAL},
             {"train.tar", BRIM_SPLIT_TRAIN},
             {"val.tar", BRIM_SPLIT_VAL},
             {"test.tar", BRIM_SPLIT_VAL}};

enum { PARTS = sizeof parts / sizeof *parts };

/* path[k]: that part, or NULL where the folder has no such file. */
static brim_status find_parts(brim_source *s, const char *folder, const char *path[PARTS],
                              brim_error *err)
{
    for (int k = 0; k < PARTS; k++) {
        path[k] = NULL;
        for (int gz = 0; gz < 2 && !path[k]; gz++) {
            char *full =
                brim_arena_printf(&s->arena, "%s/%s%s", folder, parts[k].name, gz ? ".gz" : "");
            if (!full) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", folder);
            if (access(full, F_OK) == 0) path[k] = full;
        }
    }
    return BRIM_OK;
}

/* *found: the folder holds such files. With training and validation both there, only what `want`
 * asks for is opened. */
static brim_status open_folder_of_files(brim_dataset *d, const char *folder, brim_split want,
                                        bool *found, brim_error *err)
{
    const char *path[PARTS];
    bool has[3] = {false};
    BRIM_TRY(find_parts(&d->src, folder, path, err));
    for (int k = 0; k < PARTS; k++)
        if (path[k]) has[parts[k].split] = true;
    *found = has[BRIM_SPLIT_TRAIN] || has[BRIM_SPLIT_VAL];
    d->own_split = has[BRIM_SPLIT_TRAIN] && has[BRIM_SPLIT_VAL];
    for (int k = 0; k < PARTS; k++) {
        brim_split split = d->own_split ? parts[k].split : BRIM_SPLIT_ALL;
        if (path[k] && (!d->own_split || want == BRIM_SPLIT_ALL || want == split))
            BRIM_TRY(open_part(&d->src, path[k], split, err));
    }
    return BRIM_OK;
}

static brim_status open_any(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                            brim_error *err)
{
    struct stat st;
    bool found, there = stat(path, &st) == 0;
    int why = errno;
    if (!there && strchr(path, '{')) return open_braces(&d->src, path, err);
    if (!there) return brim_fail_errno(err, why, "%s: cannot be read", path);
    if (!S_ISDIR(st.st_mode)) return open_part(&d->src, path, BRIM_SPLIT_ALL, err);
    BRIM_TRY(open_folder_of_files(d, path, o->split, &found, err));
    return found ? BRIM_OK : brim_source_folder(&d->src, path, err);
}

static brim_status open_set(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                            brim_error *err)
{
    BRIM_TRY(open_any(d, path, o, err));
    brim_source *s = &d->src;
    if (s->items.n == 0)
        return brim_fail(err, BRIM_EFORMAT, "%s: holds no images that are read (JPEG, PNG or WebP)",
                         path);
    BRIM_TRY(brim_labels_assign(d, path, o, err));
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
    d->src.max_unpacked = opts->max_bytes;
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
        return brim_fail_errno(err, why, "cannot be read");
    }
    size_t n = (size_t)st.st_size, got = 0;
    bool fits = n < (size_t)1 << 31;
    uint8_t *at = fits ? brim_scratch_reserve(scratch, n) : NULL;
    while (at && got < n) {
        ssize_t k = read(fd, at + got, n - got);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) break;
        got += (size_t)k;
    }
    close(fd);
    if (!fits) return brim_fail(err, BRIM_EFORMAT, "%zu bytes are more than are read (2 GiB)", n);
    if (!at) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    if (got < n) return brim_fail(err, BRIM_EIO, "reading failed after %zu bytes", got);
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
    if (!it->planar) return BRIM_OK;
    uint8_t *to = brim_scratch_reserve(scratch, it->bytes);
    if (!to) return brim_fail(err, BRIM_ENOMEM, "out of memory");
    size_t n = (size_t)(it->w * it->h);
    for (size_t p = 0; p < n; p++)
        for (int c = 0; c < it->channels; c++)
            to[p * (size_t)it->channels + (size_t)c] = at[(size_t)c * n + p];
    out->bytes = to;
    return BRIM_OK;
}
