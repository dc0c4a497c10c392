#include "io/safetensors.h"
#include "base/mem.h"
#include "io/file.h"
#include "io/json.h"
#include "io/utf8.h"

#include <string.h>

/* The code of a type as the format spells it. */
static const char *const code[BRIM_DTYPE_COUNT] = {
    [BRIM_F32] = "F32", [BRIM_BF16] = "BF16", [BRIM_F16] = "F16", [BRIM_F64] = "F64",
    [BRIM_I32] = "I32", [BRIM_I64] = "I64",   [BRIM_U8] = "U8",
};

typedef struct item {
    const brim_st_entry *entry;
    size_t bytes;
    int64_t order;
} item;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const item *)a)->entry->name, ((const item *)b)->entry->name);
}

static int by_alignment(const void *a, const void *b)
{
    const item *x = a, *y = b;
    size_t p = brim_dtype_bytes(x->entry->type), q = brim_dtype_bytes(y->entry->type);
    if (p != q) return p > q ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static brim_status check_entry(const char *path, const brim_st_entry *e, size_t *bytes,
                               brim_error *err)
{
    if (!e->name || !brim_utf8_valid(e->name, strlen(e->name)) ||
        strcmp(e->name, "__metadata__") == 0)
        return brim_fail(err, BRIM_EINVAL,
                         "%s: \"%.200s\" cannot name a tensor (use UTF-8, not __metadata__)", path,
                         e->name ? e->name : "");
    if ((unsigned)e->type >= BRIM_DTYPE_COUNT)
        return brim_fail(err, BRIM_EDTYPE, "%s: %.200s: not an element type (use a brim_dtype)",
                         path, e->name);
    size_t n = brim_dtype_bytes(e->type);
    bool ok = e->rank >= 0 && e->rank <= 8;
    for (int i = 0; ok && i < e->rank; i++)
        ok = e->dim[i] >= 0 && !__builtin_mul_overflow(n, (uint64_t)e->dim[i], &n);
    if (!ok || (n && !e->data && !e->read))
        return brim_fail(
            err, BRIM_ESHAPE,
            "%s: %.200s: not a shape that can be saved (at most 8 dimensions >= 0, and "
            "data unless one is 0)",
            path, e->name);
    *bytes = n;
    return BRIM_OK;
}

/* Checks the entries and puts them in the order in which they lie in the file. */
static brim_status arrange(const char *path, const brim_st_entry *entry, int64_t n, item *items,
                           brim_error *err)
{
    for (int64_t i = 0; i < n; i++) {
        items[i] = (item){.entry = &entry[i], .order = i};
        BRIM_TRY(check_entry(path, &entry[i], &items[i].bytes, err));
    }
    qsort(items, (size_t)n, sizeof *items, by_name);
    for (int64_t i = 1; i < n; i++)
        if (by_name(&items[i - 1], &items[i]) == 0)
            return brim_fail(err, BRIM_EINVAL, "%s: %.200s: given twice (names must be unique)",
                             path, items[i].entry->name);
    qsort(items, (size_t)n, sizeof *items, by_alignment);
    return BRIM_OK;
}

static void header_text(brim_str *out, const item *items, int64_t n,
                        const char *const (*metadata)[2], int n_metadata)
{
    brim_json j;
    brim_json_begin(&j, out, '{');
    if (n_metadata > 0) {
        brim_json_key(&j, "__metadata__");
        brim_json_begin(&j, out, '{');
        for (int i = 0; i < n_metadata; i++) brim_json_text(&j, metadata[i][0], metadata[i][1]);
        brim_json_end(&j, '}');
    }
    size_t offset = 0;
    for (int64_t i = 0; i < n; i++) {
        const brim_st_entry *e = items[i].entry;
        brim_json_key(&j, e->name);
        brim_json_begin(&j, out, '{');
        brim_json_text(&j, "dtype", code[e->type]);
        brim_json_key(&j, "shape");
        brim_json_begin(&j, out, '[');
        for (int k = 0; k < e->rank; k++) brim_json_int(&j, NULL, e->dim[k]);
        brim_json_end(&j, ']');
        brim_json_key(&j, "data_offsets");
        brim_json_begin(&j, out, '[');
        brim_json_int(&j, NULL, (long long)offset);
        offset += items[i].bytes;
        brim_json_int(&j, NULL, (long long)offset);
        brim_json_end(&j, ']');
        brim_json_end(&j, '}');
    }
    brim_json_end(&j, '}');
    while (out->n % 8 && !out->failed) brim_str_add(out, " "); /* tensors start on 8 bytes */
}

/* Tensors that are read on the way out share one buffer of the largest. */
static brim_status write_tensors(brim_file_writer *w, const item *items, int64_t n, brim_error *err)
{
    size_t largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (!items[i].entry->data && items[i].bytes > largest) largest = items[i].bytes;
    void *buffer = largest ? brim_malloc(largest) : NULL;
    if (largest && !buffer)
        return brim_fail(err, BRIM_ENOMEM, "out of memory (close other programs)");
    brim_status st = BRIM_OK;
    for (int64_t i = 0; i < n && st == BRIM_OK; i++) {
        const brim_st_entry *e = items[i].entry;
        if (!e->data && items[i].bytes) st = e->read(e->source, buffer, err);
        if (st == BRIM_OK) brim_file_write(w, e->data ? e->data : buffer, items[i].bytes);
    }
    free(buffer);
    return st;
}

static brim_status save(const char *path, item *items, const brim_st_entry *entry, int64_t n,
                        const char *const (*metadata)[2], int n_metadata, brim_str *header,
                        brim_error *err)
{
    BRIM_TRY(arrange(path, entry, n, items, err));
    header_text(header, items, n, metadata, n_metadata);
    if (header->failed)
        return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", path);
    brim_file_writer *w;
    BRIM_TRY(brim_file_replace(path, &w, err));
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(header->n >> (8 * i));
    brim_file_write(w, length, sizeof length);
    brim_file_write(w, header->at, header->n);
    brim_error why = {0};
    brim_status st = write_tensors(w, items, n, &why);
    if (st == BRIM_OK) return brim_file_commit(w, err);
    brim_file_abandon(w);
    return brim_fail(err, st, "%s: %s", path, why.text);
}

brim_status brim_st_save(const char *path, const brim_st_entry *entry, int64_t n,
                         const char *const (*metadata)[2], int n_metadata, brim_error *err)
{
    item *items = brim_calloc((size_t)n, sizeof *items);
    if (!items)
        return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", path);
    brim_str header = {0};
    brim_status s = save(path, items, entry, n, metadata, n_metadata, &header, err);
    brim_str_free(&header);
    free(items);
    return s;
}
