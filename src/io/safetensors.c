/* Reading. Layout of a file:
 *
 *     8 bytes   N, little-endian
 *     N bytes   {"NAME":{"dtype":"F32","shape":[2,3],"data_offsets":[begin,end]},...}
 *     the rest  the tensors; offsets count from here
 *
 * A file is taken only when its tensors tile the rest exactly: no hole, no overlap, nothing behind
 * the last. That is what the format's own library accepts. */
#include "io/safetensors.h"
#include "base/arena.h"
#include "base/mem.h"
#include "io/file.h"

#include <jansson.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MAX_RANK = 8 };
static const uint64_t max_header = 100000000; /* the format's own limit */

struct brim_st_file {
    const char *name;
    const unsigned char *bytes;
    size_t size;
    void *mapping; /* to unmap; NULL when the bytes are the caller's */
    size_t header; /* N */
    brim_st_tensor *tensor;
    int64_t n;
    json_t *root; /* owns metadata and the strings of tensors */
    brim_arena arena;
};

static const struct {
    char code[10];
    int bits;
    brim_dtype type;
} types[] = {
    {"F32", 32, BRIM_F32},
    {"F16", 16, BRIM_F16},
    {"BF16", 16, BRIM_BF16},
    {"F64", 64, BRIM_F64},
    {"I32", 32, BRIM_I32},
    {"I64", 64, BRIM_I64},
    {"U8", 8, BRIM_U8},
    {"BOOL", 8, BRIM_DTYPE_COUNT},
    {"I8", 8, BRIM_DTYPE_COUNT},
    {"I16", 16, BRIM_DTYPE_COUNT},
    {"U16", 16, BRIM_DTYPE_COUNT},
    {"U32", 32, BRIM_DTYPE_COUNT},
    {"U64", 64, BRIM_DTYPE_COUNT},
    {"F8_E5M2", 8, BRIM_DTYPE_COUNT},
    {"F8_E4M3", 8, BRIM_DTYPE_COUNT},
    {"F8_E8M0", 8, BRIM_DTYPE_COUNT},
    {"F6_E2M3", 6, BRIM_DTYPE_COUNT},
    {"F6_E3M2", 6, BRIM_DTYPE_COUNT},
    {"F4", 4, BRIM_DTYPE_COUNT},
    {"C64", 64, BRIM_DTYPE_COUNT},
};

#define DAMAGED "(the file is damaged or cut short; get it again)"

/* Reads a JSON array of `max` or fewer whole numbers >= 0; their count, or -1. */
static int read_counts(const json_t *array, int64_t *out, int max)
{
    if (!json_is_array(array) || json_array_size(array) > (size_t)max) return -1;
    int n = (int)json_array_size(array);
    for (int i = 0; i < n; i++) {
        const json_t *x = json_array_get(array, (size_t)i);
        if (!json_is_integer(x) || json_integer_value(x) < 0) return -1;
        out[i] = json_integer_value(x);
    }
    return n;
}

/* Bytes of a tensor of this shape and element size; false on overflow or a broken byte. */
static bool tensor_bytes(int rank, const int64_t *dim, int bits, size_t *bytes)
{
    size_t n = (size_t)bits;
    for (int i = 0; i < rank; i++)
        if (__builtin_mul_overflow(n, (uint64_t)dim[i], &n)) return false;
    *bytes = n / 8;
    return n % 8 == 0;
}

static brim_status read_tensor(brim_st_file *f, const char *name, const json_t *info,
                               brim_st_tensor *t, brim_error *err)
{
    const json_t *dtype = json_object_get(info, "dtype");
    int64_t offset[2] = {0};
    t->name = name;
    t->dtype = json_string_value(dtype);
    t->rank = read_counts(json_object_get(info, "shape"), t->dim, MAX_RANK);
    if (!t->dtype || t->rank < 0 ||
        read_counts(json_object_get(info, "data_offsets"), offset, 2) != 2)
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: %.200s: wants a dtype, a shape of at most %d dimensions and two "
                         "offsets " DAMAGED,
                         f->name, name, MAX_RANK);
    size_t k = 0, n_types = sizeof types / sizeof *types;
    while (k < n_types && strcmp(types[k].code, t->dtype) != 0) k++;
    if (k == n_types)
        return brim_fail(err, BRIM_EUNSUPPORTED,
                         "%s: %.200s: unknown element type %.20s (convert the file to F32, F16 or "
                         "BF16)",
                         f->name, name, t->dtype);
    t->type = types[k].type;
    size_t room = f->size - 8 - f->header;
    if (offset[0] > offset[1] || (uint64_t)offset[1] > room)
        return brim_fail(
            err, BRIM_EFORMAT,
            "%s: %.200s: bytes %lld to %lld do not lie in the %zu of the file " DAMAGED, f->name,
            name, (long long)offset[0], (long long)offset[1], room);
    if (!tensor_bytes(t->rank, t->dim, types[k].bits, &t->bytes) ||
        t->bytes != (uint64_t)(offset[1] - offset[0]))
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: %.200s: its shape and type do not make its %lld bytes " DAMAGED,
                         f->name, name, (long long)(offset[1] - offset[0]));
    t->data = f->bytes + 8 + f->header + offset[0];
    return BRIM_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const brim_st_tensor *)a)->name, ((const brim_st_tensor *)b)->name);
}

/* By place; an empty tensor comes before the one that starts where it lies. */
static int by_place(const void *a, const void *b)
{
    const brim_st_tensor *x = a, *y = b;
    if (x->data != y->data) return (const char *)x->data < (const char *)y->data ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

static brim_status check_tiling(brim_st_file *f, brim_error *err)
{
    const unsigned char *next = f->bytes + 8 + f->header;
    qsort(f->tensor, (size_t)f->n, sizeof *f->tensor, by_place);
    for (int64_t i = 0; i < f->n; i++) {
        const brim_st_tensor *t = &f->tensor[i];
        if (t->data != next)
            return brim_fail(
                err, BRIM_EFORMAT, "%s: %.200s: %s another tensor " DAMAGED, f->name, t->name,
                (const unsigned char *)t->data < next ? "overlaps" : "leaves a gap behind");
        next += t->bytes;
    }
    size_t rest = (size_t)(f->bytes + f->size - next);
    if (rest)
        return brim_fail(err, BRIM_EFORMAT, "%s: %zu bytes that belong to no tensor " DAMAGED,
                         f->name, rest);
    return BRIM_OK;
}

static brim_status check_metadata(const brim_st_file *f, json_t *metadata, brim_error *err)
{
    const char *key;
    json_t *value;
    bool ok = json_is_object(metadata);
    json_object_foreach(metadata, key, value) ok = ok && json_is_string(value);
    if (ok) return BRIM_OK;
    return brim_fail(err, BRIM_EFORMAT,
                     "%s: __metadata__ wants to be a map of text to text " DAMAGED, f->name);
}

static brim_status read_header(brim_st_file *f, brim_error *err)
{
    const unsigned char *b = f->bytes;
    uint64_t n = 0;
    if (f->size >= 8)
        for (int i = 7; i >= 0; i--) n = n << 8 | b[i];
    if (f->size < 8 || n > max_header || n > f->size - 8 || n < 2 || b[8] != '{')
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: does not start like a safetensors file (give a .safetensors file, or "
                         "get it again)",
                         f->name);
    f->header = n;
    json_error_t why;
    f->root = json_loadb((const char *)b + 8, n, JSON_REJECT_DUPLICATES, &why);
    if (!f->root || !json_is_object(f->root))
        return brim_fail(err, BRIM_EFORMAT, "%s: the header is no JSON: %.120s " DAMAGED, f->name,
                         f->root ? "not an object" : why.text);
    json_t *metadata = json_object_get(f->root, "__metadata__");
    if (metadata && !json_is_null(metadata)) BRIM_TRY(check_metadata(f, metadata, err));
    size_t count = json_object_size(f->root) - (metadata != NULL);
    f->tensor = BRIM_ARENA_ARRAY(&f->arena, brim_st_tensor, count);
    if (!f->tensor)
        return brim_fail(err, BRIM_ENOMEM, "%s: no memory for %zu tensors (close other programs)",
                         f->name, count);
    const char *key;
    json_t *info;
    json_object_foreach(f->root, key, info)
    {
        if (info == metadata) continue;
        BRIM_TRY(read_tensor(f, key, info, &f->tensor[f->n], err));
        f->n++;
    }
    BRIM_TRY(check_tiling(f, err));
    qsort(f->tensor, (size_t)f->n, sizeof *f->tensor, by_name);
    return BRIM_OK;
}

brim_status brim_st_parse(const char *name, const void *bytes, size_t n, brim_st_file **out,
                          brim_error *err)
{
    brim_st_file *f = brim_calloc(1, sizeof *f);
    if (f) {
        brim_arena_init(&f->arena);
        f->name = brim_arena_strdup(&f->arena, name);
    }
    if (!f || !f->name) {
        brim_st_close(f);
        return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", name);
    }
    f->bytes = bytes;
    f->size = n;
    brim_status s = read_header(f, err);
    if (s != BRIM_OK) {
        brim_st_close(f);
        return s;
    }
    *out = f;
    return BRIM_OK;
}

brim_status brim_st_open(const char *path, brim_st_file **out, brim_error *err)
{
    int fd;
    size_t n;
    BRIM_TRY(brim_file_open(path, &fd, &n, err));
    /* An empty file cannot be mapped; one byte past it is never read. */
    void *map = mmap(NULL, n ? n : 1, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    if (map == MAP_FAILED)
        return brim_fail(err, BRIM_ENOMEM, "%s: cannot be mapped into memory (check ulimit -v)",
                         path);
    brim_status s = brim_st_parse(path, map, n, out, err);
    if (s == BRIM_OK)
        (*out)->mapping = map;
    else
        munmap(map, n ? n : 1);
    return s;
}

void brim_st_close(brim_st_file *f)
{
    if (!f) return;
    json_decref(f->root);
    if (f->mapping) munmap(f->mapping, f->size ? f->size : 1);
    brim_arena_release(&f->arena);
    free(f);
}

int64_t brim_st_count(const brim_st_file *f)
{
    return f->n;
}

const brim_st_tensor *brim_st_at(const brim_st_file *f, int64_t i)
{
    return &f->tensor[i];
}

const brim_st_tensor *brim_st_find(const brim_st_file *f, const char *name)
{
    brim_st_tensor key = {.name = name};
    return bsearch(&key, f->tensor, (size_t)f->n, sizeof *f->tensor, by_name);
}

const char *brim_st_metadata(const brim_st_file *f, const char *key)
{
    return json_string_value(json_object_get(json_object_get(f->root, "__metadata__"), key));
}
