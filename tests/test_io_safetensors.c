/* safetensors: round trips, the reference's own samples, hostile headers. */
#include "base/mem.h"
#include "base/str.h"
#include "io/file.h"
#include "io/safetensors.h"
#include "tests.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char dir[64];

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/brim-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char cmd[96];
    snprintf(cmd, sizeof cmd, "rm -rf '%s'", dir);
    return system(cmd) == 0 ? 0 : -1;
}

/* A file in memory: header length, header, `data` bytes of 0x55. */
static char *build(const char *header, size_t data, size_t *n)
{
    size_t h = strlen(header);
    *n = 8 + h + data;
    char *b = malloc(*n);
    memset(b, 0x55, *n);
    for (int i = 0; i < 8; i++) b[i] = (char)(h >> (8 * i));
    memcpy(b + 8, header, h);
    return b;
}

static void saves_and_reads_back(void **state)
{
    char path[128];
    snprintf(path, sizeof path, "%s/a.safetensors", dir);
    float w[6] = {1, 2, 3, 4, 5, 6}, one = 7;
    uint8_t u[3] = {1, 2, 3};
    int64_t step = 1234567890123;
    const brim_st_entry entry[] = {
        {.name = "u", .type = BRIM_U8, .rank = 1, .dim = {3}, .data = u},
        {.name = "layer1.0.weight", .type = BRIM_F32, .rank = 2, .dim = {2, 3}, .data = w},
        {.name = "scalar \"\xc3\xa9\"", .type = BRIM_F32, .rank = 0, .data = &one},
        {.name = "step", .type = BRIM_I64, .rank = 1, .dim = {1}, .data = &step},
        {.name = "empty", .type = BRIM_BF16, .rank = 2, .dim = {0, 4}},
    };
    const char *const metadata[][2] = {{"format", "pt"}, {"epoch", "3"}};
    brim_error err = {0};
    if (brim_st_save(path, entry, 5, metadata, 2, &err) != BRIM_OK) fail_msg("%s", err.text);
    brim_st_file *f;
    if (brim_st_open(path, &f, &err) != BRIM_OK) fail_msg("%s", err.text);
    assert_int_equal(brim_st_count(f), 5);
    assert_string_equal(brim_st_at(f, 0)->name, "empty");
    assert_string_equal(brim_st_at(f, 4)->name, "u");
    assert_string_equal(brim_st_metadata(f, "epoch"), "3");
    assert_null(brim_st_metadata(f, "none"));
    assert_null(brim_st_find(f, "layer1"));
    for (int i = 0; i < 5; i++) {
        const brim_st_tensor *t = brim_st_find(f, entry[i].name);
        assert_non_null(t);
        assert_int_equal(t->type, entry[i].type);
        assert_int_equal(t->rank, entry[i].rank);
        for (int k = 0; k < t->rank; k++) assert_int_equal(t->dim[k], entry[i].dim[k]);
        if (t->bytes) assert_memory_equal(t->data, entry[i].data, t->bytes);
        assert_int_equal((uintptr_t)t->data % brim_dtype_bytes(t->type), 0);
    }
    brim_st_close(f);
    brim_st_close(NULL);
}

static void writes_the_header_as_the_format_says(void **state)
{
    char path[128], *text;
    size_t n;
    snprintf(path, sizeof path, "%s/h.safetensors", dir);
    float x[2] = {0};
    const brim_st_entry entry = {.name = "x", .type = BRIM_F32, .rank = 1, .dim = {2}, .data = x};
    assert_int_equal(brim_st_save(path, &entry, 1, NULL, 0, NULL), BRIM_OK);
    assert_int_equal(brim_file_read(path, 1000, &text, &n, NULL), BRIM_OK);
    static const char want[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    size_t padded = (sizeof want - 1 + 7) / 8 * 8;
    assert_int_equal((unsigned char)text[0], padded);
    assert_memory_equal(text + 8, want, sizeof want - 1);
    for (size_t i = sizeof want - 1; i < padded; i++) assert_int_equal(text[8 + i], ' ');
    assert_int_equal(n, 8 + padded + 8);
    free(text);
    assert_int_equal(brim_st_save(path, NULL, 0, NULL, 0, NULL), BRIM_OK); /* no tensors at all */
    brim_st_file *f;
    assert_int_equal(brim_st_open(path, &f, NULL), BRIM_OK);
    assert_int_equal(brim_st_count(f), 0);
    brim_st_close(f);
}

static void refuses_to_save_nonsense(void **state)
{
    char path[128];
    snprintf(path, sizeof path, "%s/bad.safetensors", dir);
    float x[4] = {0};
    brim_st_entry e[2] = {{.name = "x", .type = BRIM_F32, .rank = 1, .dim = {4}, .data = x}};
    brim_error err = {0};
    e[1] = e[0];
    assert_int_equal(brim_st_save(path, e, 2, NULL, 0, &err), BRIM_EINVAL);
    assert_non_null(strstr(err.text, "x: given twice"));
    e[1].name = "__metadata__";
    assert_int_equal(brim_st_save(path, e, 2, NULL, 0, &err), BRIM_EINVAL);
    e[1].name = "caf\xe9";
    assert_int_equal(brim_st_save(path, e, 2, NULL, 0, &err), BRIM_EINVAL);
    e[1] = (brim_st_entry){.name = "y", .type = BRIM_F32, .rank = 9, .data = x};
    assert_int_equal(brim_st_save(path, e, 2, NULL, 0, &err), BRIM_ESHAPE);
    e[1] = (brim_st_entry){.name = "y", .rank = 2, .dim = {INT64_MAX, 3}, .data = x};
    assert_int_equal(brim_st_save(path, e, 2, NULL, 0, &err), BRIM_ESHAPE);
    e[1] = (brim_st_entry){.name = "y", .rank = 1, .dim = {1}, .data = NULL};
    assert_int_equal(brim_st_save(path, e, 2, NULL, 0, &err), BRIM_ESHAPE);
    e[1] = (brim_st_entry){.name = "y", .type = BRIM_DTYPE_COUNT, .data = x};
    assert_int_equal(brim_st_save(path, e, 2, NULL, 0, &err), BRIM_EDTYPE);
    assert_false(brim_file_exists(path));
}

#define T(name, dtype, shape, from, to)                                                            \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":[" #from "," #to   \
    "]}"

static void takes_what_the_format_allows(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        int tensors;
    } good[] = {
        {"{}", 0, 0},
        {"{}      ", 0, 0},
        {"{\"__metadata__\":{}}", 0, 0},
        {"{\"__metadata__\":null}", 0, 0},
        {"{" T("a", "F32", "[1]", 0, 4) "}", 4, 1},
        {"{" T("b", "F32", "[1]", 4, 8) "," T("a", "F32", "[1]", 0, 4) "}", 8, 2},
        {"{" T("a", "F32", "[]", 0, 4) "}", 4, 1},
        {"{" T("a", "F32", "[0,7]", 0, 0) "," T("b", "U8", "[2]", 0, 2) "}", 2, 2},
        {"{" T("b", "U8", "[2]", 0, 2) "," T("a", "F32", "[0]", 2, 2) "}", 2, 2},
        {"{" T("a", "BOOL", "[3]", 0, 3) "}", 3, 1},
        {"{" T("a", "F8_E4M3", "[3]", 0, 3) "}", 3, 1},
        {"{" T("a", "F4", "[2,3]", 0, 3) "}", 3, 1},
        {"{" T("a", "F64", "[1,1,1,1,1,1,1,1]", 0, 8) "}", 8, 1},
        {"{" T("\\u00e9", "U8", "[1]", 0, 1) "}", 1, 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t n;
        char *b = build(good[i].header, good[i].data, &n);
        brim_st_file *f;
        brim_error err = {0};
        if (brim_st_parse("t", b, n, &f, &err) != BRIM_OK) fail_msg("%s", err.text);
        assert_int_equal(brim_st_count(f), good[i].tensors);
        brim_st_close(f);
        free(b);
    }
}

static void refuses_damaged_headers(void **state)
{
    static const struct {
        const char *header;
        size_t data;
        const char *text;
    } bad[] = {
        {"", 0, "does not start like"},
        {"[]", 0, "does not start like"},
        {" {}", 0, "does not start like"},
        {"{", 0, "does not start like"},
        {"{]", 0, "no JSON"},
        {"{} x", 0, "no JSON"},
        {"{\"a\":1}", 0, "a: wants a dtype"},
        {"{\"a\":{}}", 0, "a: wants a dtype"},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "a: wants a dtype"},
        {"{\"__metadata__\":[]}", 0, "__metadata__"},
        {"{\"__metadata__\":{\"a\":1}}", 0, "__metadata__"},
        {"{" T("a", "F32", "[1]", 0, 4) "," T("a", "F32", "[1]", 4, 8) "}", 8, "duplicate"},
        {"{" T("a", "F32", "[1]", 0, 4) "," T("b", "F32", "[1]", 0, 4) "}", 4, "overlaps"},
        {"{" T("a", "F32", "[2]", 0, 8) "," T("b", "F32", "[1]", 4, 8) "}", 8, "overlaps"},
        {"{" T("a", "F32", "[1]", 0, 4) "," T("b", "F32", "[1]", 8, 12) "}", 12, "gap"},
        {"{" T("a", "F32", "[1]", 4, 8) "}", 8, "gap"},
        {"{" T("a", "F32", "[0]", 2, 2) "," T("b", "F32", "[1]", 0, 4) "}", 4, "overlaps"},
        {"{" T("a", "F32", "[1]", 0, 4) "}", 5, "1 bytes that belong to no tensor"},
        {"{" T("a", "F32", "[1]", 0, 4) "}", 3, "do not lie in"},
        {"{" T("a", "F32", "[1]", 4, 0) "}", 4, "do not lie in"},
        {"{" T("a", "F32", "[2]", 0, 4) "}", 4, "do not make"},
        {"{" T("a", "F4", "[3]", 0, 1) "}", 1, "do not make"},
        {"{" T("a", "F32", "[4611686018427387905]", 0, 4) "}", 4, "do not make"},
        {"{" T("a", "U8", "[4294967296,4294967296]", 0, 0) "}", 0, "do not make"},
        {"{" T("a", "F32", "[-1]", 0, 4) "}", 4, "wants a dtype"},
        {"{" T("a", "F32", "[1.0]", 0, 4) "}", 4, "wants a dtype"},
        {"{" T("a", "F32", "[99999999999999999999]", 0, 4) "}", 4, "no JSON"},
        {"{" T("a", "F32", "[1,1,1,1,1,1,1,1,1]", 0, 4) "}", 4, "wants a dtype"},
        {"{" T("a", "Q32", "[1]", 0, 4) "}", 4, "unknown element type Q32"},
        {"{" T("a\\u0000b", "F32", "[1]", 0, 4) "}", 4, "no JSON"},
        {"{" T("\xff", "F32", "[1]", 0, 4) "}", 4, "no JSON"},
        {"{" T("a", "F32", "[1]", -4, 0) "}", 4, "wants a dtype"},
        {"{" T("a", "F32", "[1]", 0, 9223372036854775807) "}", 4, "do not lie in"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n;
        char *b = build(bad[i].header, bad[i].data, &n);
        brim_st_file *f = NULL;
        brim_error err = {0};
        brim_status s = brim_st_parse("t", b, n, &f, &err);
        if ((s != BRIM_EFORMAT && s != BRIM_EUNSUPPORTED) || !strstr(err.text, bad[i].text))
            fail_msg("%s gives %d \"%s\"", bad[i].header, s, err.text);
        assert_null(f);
        free(b);
    }
}

static void refuses_damaged_lengths(void **state)
{
    size_t n;
    char *b = build("{" T("a", "F32", "[1]", 0, 4) "}", 4, &n);
    brim_st_file *f;
    for (size_t cut = 0; cut < n; cut++)
        assert_int_equal(brim_st_parse("t", b, cut, &f, NULL), BRIM_EFORMAT);
    memset(b, 0xff, 8);
    assert_int_equal(brim_st_parse("t", b, n, &f, NULL), BRIM_EFORMAT);
    memset(b, 0, 8);
    assert_int_equal(brim_st_parse("t", b, n, &f, NULL), BRIM_EFORMAT);
    free(b);
    char *deep = malloc(100001);
    memset(deep, '[', 100000);
    memcpy(deep, "{\"a\":", 5);
    deep[100000] = 0;
    b = build(deep, 0, &n);
    assert_int_equal(brim_st_parse("t", b, n, &f, NULL), BRIM_EFORMAT);
    free(b);
    free(deep);
    char path[128];
    brim_error err = {0};
    snprintf(path, sizeof path, "%s/zero.safetensors", dir);
    assert_int_equal(brim_file_save(path, "", 0, &err), BRIM_OK);
    assert_int_equal(brim_st_open(path, &f, &err), BRIM_EFORMAT);
    assert_int_equal(brim_st_open(dir, &f, &err), BRIM_EIO);
    assert_int_equal(brim_st_open("/nonexistent", &f, &err), BRIM_ENOTFOUND);
}

static void out_of_memory_is_an_error(void **state)
{
    size_t n;
    char *b = build("{" T("a", "F32", "[1]", 0, 4) "}", 4, &n);
    brim_st_file *f;
    for (int k = 1; k <= 2; k++) {
        brim_mem_fail_after(k);
        assert_int_equal(brim_st_parse("t", b, n, &f, NULL), BRIM_ENOMEM);
        brim_mem_fail_after(0);
    }
    free(b);
    float x[1] = {0};
    const brim_st_entry entry = {.name = "x", .type = BRIM_F32, .rank = 1, .dim = {1}, .data = x};
    char path[128];
    snprintf(path, sizeof path, "%s/m.safetensors", dir);
    for (int k = 1; k <= 3; k++) {
        brim_mem_fail_after(k);
        assert_int_equal(brim_st_save(path, &entry, 1, NULL, 0, NULL), BRIM_ENOMEM);
        brim_mem_fail_after(0);
    }
}

static brim_status count_up(const void *source, void *out, brim_error *err)
{
    int from = *(const int *)source;
    float *x = out;
    if (from < 0) return brim_fail(err, BRIM_EIO, "the device is gone");
    for (int i = 0; i < 4; i++) x[i] = (float)(from + i);
    return BRIM_OK;
}

/* Tensors that are fetched only while the file is written; a fetch that fails leaves the old file.
 */
static void saves_what_it_reads_on_the_way(void **state)
{
    int from[2] = {10, 20};
    brim_st_entry entry[2];
    for (int i = 0; i < 2; i++)
        entry[i] = (brim_st_entry){.name = i ? "b" : "a",
                                   .type = BRIM_F32,
                                   .rank = 1,
                                   .dim = {4},
                                   .read = count_up,
                                   .source = &from[i]};
    char path[128];
    brim_error err = {0};
    snprintf(path, sizeof path, "%s/r.safetensors", dir);
    assert_int_equal(brim_st_save(path, entry, 2, NULL, 0, &err), BRIM_OK);
    from[1] = -1;
    assert_int_equal(brim_st_save(path, entry, 2, NULL, 0, &err), BRIM_EIO);
    assert_non_null(strstr(err.text, "r.safetensors: the device is gone"));

    brim_st_file *f;
    float x[4];
    assert_int_equal(brim_st_open(path, &f, &err), BRIM_OK);
    memcpy(x, brim_st_find(f, "b")->data, sizeof x);
    assert_true(x[0] == 20 && x[3] == 23);
    memcpy(x, brim_st_find(f, "a")->data, sizeof x);
    assert_true(x[0] == 10 && x[3] == 13);
    brim_st_close(f);
}

/* The samples that the format's own project ships: all hold -3 .. 2. */
static void reads_the_reference_samples(void **state)
{
    static const struct {
        const char *file, *name, *dtype;
        brim_dtype type;
        size_t bytes;
    } sample[] = {
        {"b", "b", "I8", BRIM_DTYPE_COUNT, 6},   {"upper-B", "B", "U8", BRIM_U8, 6},
        {"h", "h", "I16", BRIM_DTYPE_COUNT, 12}, {"upper-H", "H", "U16", BRIM_DTYPE_COUNT, 12},
        {"i", "i", "I32", BRIM_I32, 24},         {"upper-I", "I", "U32", BRIM_DTYPE_COUNT, 24},
        {"e", "e", "F16", BRIM_F16, 12},         {"f", "f", "F32", BRIM_F32, 24},
        {"d", "d", "F64", BRIM_F64, 48},
    };
    const char *data = TEST_DATA_OR_SKIP();
    char path[512];
    brim_error err = {0};
    brim_st_file *all, *f;
    float w[6];
    snprintf(path, sizeof path, "%s/fixtures/safetensors/overall.safetensors", data);
    if (brim_st_open(path, &all, &err) != BRIM_OK) fail_msg("%s", err.text);
    assert_int_equal(brim_st_count(all), 9);
    for (size_t i = 0; i < sizeof sample / sizeof *sample; i++) {
        snprintf(path, sizeof path, "%s/fixtures/safetensors/%s.safetensors", data, sample[i].file);
        if (brim_st_open(path, &f, &err) != BRIM_OK) fail_msg("%s", err.text);
        assert_int_equal(brim_st_count(f), 1);
        assert_string_equal(brim_st_metadata(f, "test"), "a");
        const brim_st_tensor *t = brim_st_find(f, sample[i].name);
        const brim_st_tensor *u = brim_st_find(all, sample[i].name);
        assert_non_null(t);
        assert_non_null(u);
        assert_string_equal(t->dtype, sample[i].dtype);
        assert_int_equal(t->type, sample[i].type);
        assert_int_equal(t->bytes, sample[i].bytes);
        assert_int_equal(t->rank, 1);
        assert_int_equal(t->dim[0], 6);
        assert_int_equal(u->bytes, t->bytes);
        assert_memory_equal(t->data, u->data, t->bytes);
        for (int k = 0; k < 6; k++)
            if (t->type == BRIM_F32)
                assert_true(((const float *)memcpy(w, t->data, 24))[k] == k - 3);
        brim_st_close(f);
    }
    brim_st_close(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_and_reads_back),
        cmocka_unit_test(writes_the_header_as_the_format_says),
        cmocka_unit_test(refuses_to_save_nonsense),
        cmocka_unit_test(takes_what_the_format_allows),
        cmocka_unit_test(refuses_damaged_headers),
        cmocka_unit_test(refuses_damaged_lengths),
        cmocka_unit_test(out_of_memory_is_an_error),
        cmocka_unit_test(saves_what_it_reads_on_the_way),
        cmocka_unit_test(reads_the_reference_samples),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
