/* Checking data sets: what is damaged, there twice, odd; and what the sets hold. */
#include "base/mem.h"
#include "cli/cli.h"
#include "data/check.h"
#include "data_files.h"
#include "tests.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

static brim_dataset *open_set(const char *path, brim_dataset_opts o)
{
    brim_dataset *d;
    brim_error err = {0};
    if (brim_dataset_open(path, &o, &d, &err) != BRIM_OK) fail_msg("%s", err.text);
    return d;
}

static brim_check check(const brim_dataset *d, const brim_dataset *val, int threads)
{
    brim_check c;
    brim_error err = {0};
    brim_check_opts o = {.set = d, .val = val, .channels = 3, .threads = threads};
    if (brim_check_run(&o, &c, &err) != BRIM_OK) fail_msg("%s", err.text);
    return c;
}

static void put_photo(const char *name, unsigned seed)
{
    bytes b = photo_make(seed);
    files_write_bytes(name, &b);
}

static bool ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), k = strlen(end);
    return n >= k && !strcmp(s + n - k, end);
}

static bool is(const brim_check *c, brim_check_id id, const char *end)
{
    char path[600];
    return ends_with(brim_dataset_path(c->set[id.set], id.sample, path, sizeof path), end);
}

/* ---- one set ---- */

static void finds_damage(void **state)
{
    bytes b = photo_make(1);
    put_photo("hurt/cat/1.jpg", 1);
    files_write("hurt/cat/2.jpg", b.at, b.n - 40);
    files_write("hurt/cat/3.jpg", b.at, 0);
    files_write("hurt/dog/4.png", "no image", 8);
    put_photo("hurt/dog/5.jpg", 5);
    bytes_free(&b);
    brim_dataset *d = open_set(files_path("hurt"), (brim_dataset_opts){0});
    brim_check c = check(d, NULL, 2);
    static const struct {
        const char *name, *why;
    } want[] = {{"cat/2.jpg", "JPEG: "}, {"cat/3.jpg", "empty"}, {"dog/4.png", "neither"}};
    assert_int_equal(c.damage.n, 3);
    for (int k = 0; k < 3; k++) {
        assert_true(is(&c, c.damage.at[k].id, want[k].name));
        assert_non_null(strstr(c.damage.at[k].why, want[k].why));
    }
    assert_int_equal(c.samples, 5);
    assert_int_equal(c.count[0][0], 3);
    assert_int_equal(c.count[1][0], 2);
    assert_int_equal(c.format[BRIM_IMAGE_JPEG], 3); /* the one cut short has a header */
    assert_int_equal(c.format[BRIM_IMAGE_PNG], 0);
    brim_check_release(&c);
    brim_dataset_free(d);
}

static void finds_twins(void **state)
{
    put_photo("twins/train/cat/1.jpg", 1);
    put_photo("twins/train/cat/2.jpg", 1);
    put_photo("twins/train/dog/3.jpg", 1); /* another class */
    put_photo("twins/train/dog/4.jpg", 4);
    put_photo("twins/train/dog/empty.jpg", 9);
    put_photo("twins/test/cat/5.jpg", 1); /* sorted before train, and yet second */
    put_photo("twins/test/dog/6.jpg", 6);
    put_photo("twins/test/dog/7.jpg", 6);
    files_write("twins/train/dog/8.jpg", "", 0);
    files_write("twins/train/dog/9.jpg", "", 0); /* nothing has no twin */
    brim_dataset *d = open_set(files_path("twins"), (brim_dataset_opts){0});
    brim_check c = check(d, NULL, 2);
    static const struct {
        const char *first, *second;
        bool conflict, leak;
    } want[] = {{"test/dog/6.jpg", "test/dog/7.jpg", false, false},
                {"train/cat/1.jpg", "test/cat/5.jpg", false, true},
                {"train/cat/1.jpg", "train/cat/2.jpg", false, false},
                {"train/cat/1.jpg", "train/dog/3.jpg", true, false}};
    assert_int_equal(c.twins.n, 4);
    for (int k = 0; k < 4; k++) {
        const brim_check_twin *t = &c.twins.at[k];
        assert_true(is(&c, t->first, want[k].first));
        assert_true(is(&c, t->second, want[k].second));
        assert_int_equal(t->conflict, want[k].conflict);
        assert_int_equal(t->leak, want[k].leak);
    }
    assert_int_equal(c.conflicts, 1);
    assert_int_equal(c.leaks, 1);
    assert_int_equal(c.count[0][0], 2);
    assert_int_equal(c.count[0][1], 1);
    brim_check_release(&c);
    brim_dataset_free(d);
}

static void finds_leaks_between_sets(void **state)
{
    bytes t = {0}, same = photo_make(2), other = photo_make(3);
    put_photo("sets/train/cat/1.jpg", 1);
    put_photo("sets/train/dog/2.jpg", 2);
    tar_add(&t, "dog/x.jpg", same.at, same.n);
    tar_add(&t, "cat/y.jpg", other.at, other.n);
    tar_end(&t);
    files_write_bytes("sets/other.tar", &t);
    bytes_free(&same);
    bytes_free(&other);
    brim_dataset *d = open_set(files_path("sets/train"), (brim_dataset_opts){0});
    brim_dataset *v = open_set(files_path("sets/other.tar"), (brim_dataset_opts){0});
    brim_check c = check(d, v, 2);
    assert_int_equal(c.samples, 4);
    assert_int_equal(c.twins.n, 1);
    assert_true(c.twins.at[0].leak);
    assert_false(c.twins.at[0].conflict);
    assert_true(is(&c, c.twins.at[0].first, "dog/2.jpg"));
    assert_true(is(&c, c.twins.at[0].second, "other.tar:dog/x.jpg"));
    assert_int_equal(c.count[1][0], 1);
    assert_int_equal(c.count[1][1], 1);
    brim_check_release(&c);
    brim_dataset_free(d);
    brim_dataset_free(v);
}

static void put_jpeg(const char *name, int w, int h, int channels, jpeg_kind kind, int orientation)
{
    uint8_t *p = pixels_make(w, h, channels, 1);
    bytes b = jpeg_make(p, w, h, kind, orientation);
    files_write_bytes(name, &b);
    free(p);
}

static void put_png(const char *name, int w, int h, int type, int depth)
{
    uint8_t *p = pixels_make(w, h, 8, 1);
    bytes b = png_make(p, w, h, type, depth, 0);
    files_write_bytes(name, &b);
    free(p);
}

static void counts_what_is_odd(void **state)
{
    put_jpeg("odd/a/grey.jpg", 10, 20, 1, JPEG_GREY, 0);
    put_jpeg("odd/a/cmyk.jpg", 11, 21, 4, JPEG_CMYK, 0);
    put_jpeg("odd/a/turned.jpg", 12, 50, 3, JPEG_RGB, 6); /* upright: 50 x 12 */
    put_png("odd/a/grey-alpha.png", 13, 23, 4, 8);
    put_png("odd/a/deep.png", 14, 24, 2, 16);
    put_png("odd/a/palette.png", 40, 25, 3, 8);
    uint8_t *p = pixels_make(16, 26, 4, 1);
    bytes b = webp_make(p, 16, 26, 4, 0);
    files_write_bytes("odd/a/alpha.webp", &b);
    free(p);
    files_write("odd/a/notes.TXT", "x", 1);
    files_write("odd/a/more.txt", "x", 1);
    files_write("odd/README", "x", 1);
    brim_dataset *d = open_set(files_path("odd"), (brim_dataset_opts){0});
    brim_check c = check(d, NULL, 2);
    assert_int_equal(c.damage.n, 0);
    assert_int_equal(c.format[BRIM_IMAGE_RAW], 0);
    assert_int_equal(c.format[BRIM_IMAGE_JPEG], 3);
    assert_int_equal(c.format[BRIM_IMAGE_PNG], 3);
    assert_int_equal(c.format[BRIM_IMAGE_WEBP], 1);
    static const int odd[] = {[BRIM_CHECK_GREY] = 2,
                              [BRIM_CHECK_ALPHA] = 2,
                              [BRIM_CHECK_CMYK] = 1,
                              [BRIM_CHECK_DEEP] = 1,
                              [BRIM_CHECK_TURNED] = 1};
    for (int k = 0; k < BRIM_CHECK_ODDS; k++) assert_int_equal(c.odd[k], odd[k]);
    assert_int_equal(c.width[0], 10);
    assert_int_equal(c.width[1], 14);
    assert_int_equal(c.width[2], 50);
    assert_int_equal(c.height[0], 12);
    assert_int_equal(c.height[1], 23);
    assert_int_equal(c.height[2], 26);
    int64_t n;
    assert_int_equal(brim_dataset_ignored(d), 3);
    assert_string_equal(brim_dataset_ignored_kind(d, 0, &n), "other");
    assert_string_equal(brim_dataset_ignored_kind(d, 1, &n), ".txt");
    assert_int_equal(n, 2);
    assert_null(brim_dataset_ignored_kind(d, 2, &n));
    brim_check_release(&c);
    brim_dataset_free(d);
}

static void sums_up_the_pixels(void **state)
{
    bytes b = cifar_make(20);
    double sum[3] = {0}, square[3] = {0};
    for (int i = 0; i < 20; i++)
        for (int k = 0; k < 3072; k++) {
            double v = b.at[i * 3073 + 1 + k] / 255.0;
            sum[k / 1024] += v;
            square[k / 1024] += v * v;
        }
    bytes other = cifar_make(3); /* for validation: does not count */
    files_write_bytes("sum/data_batch_1.bin", &b);
    files_write_bytes("sum/test_batch.bin", &other);
    brim_dataset *d = open_set(files_path("sum"), (brim_dataset_opts){0});
    brim_check c = check(d, NULL, 3);
    for (int k = 0; k < 3; k++) {
        double mean = sum[k] / 20 / 1024, std = sqrt(square[k] / 20 / 1024 - mean * mean);
        assert_true(fabs(c.mean[k] - mean) < 1e-9);
        assert_true(fabs(c.std[k] - std) < 1e-9);
    }
    assert_int_equal(c.bytes, 23 * 3072);
    assert_int_equal(c.format[BRIM_IMAGE_RAW], 23);
    brim_check_release(&c);
    brim_dataset_free(d);
}

static void lists_empty_class_folders(void **state)
{
    put_photo("hole/train/cat/1.jpg", 1);
    put_photo("hole/val/cat/1.jpg", 2);
    files_write("hole/train/owl/notes.txt", "x", 1);
    mkdir(files_path("hole/train/ant"), 0777);
    mkdir(files_path("hole/train/cat/inner"), 0777); /* no class */
    mkdir(files_path("hole/val/bee"), 0777);         /* harmless there */
    brim_dataset *d = open_set(files_path("hole"), (brim_dataset_opts){.allow_empty = true});
    assert_string_equal(brim_dataset_empty_folder(d, 0), "train/ant");
    assert_string_equal(brim_dataset_empty_folder(d, 1), "train/owl");
    assert_null(brim_dataset_empty_folder(d, 2));
    brim_dataset_free(d);
}

/* ---- threads, memory, real files ---- */

static void same_result(const brim_check *a, const brim_check *b)
{
    assert_int_equal(a->damage.n, b->damage.n);
    for (size_t k = 0; k < a->damage.n; k++) {
        assert_int_equal(a->damage.at[k].id.sample, b->damage.at[k].id.sample);
        assert_string_equal(a->damage.at[k].why, b->damage.at[k].why);
    }
    assert_int_equal(a->twins.n, b->twins.n);
    for (size_t k = 0; k < a->twins.n; k++) {
        assert_int_equal(a->twins.at[k].first.sample, b->twins.at[k].first.sample);
        assert_int_equal(a->twins.at[k].second.sample, b->twins.at[k].second.sample);
    }
    assert_memory_equal(a->format, b->format, sizeof a->format);
    assert_memory_equal(a->odd, b->odd, sizeof a->odd);
    assert_memory_equal(a->width, b->width, sizeof a->width);
    assert_memory_equal(a->height, b->height, sizeof a->height);
    assert_memory_equal(a->mean, b->mean, sizeof a->mean);
    assert_memory_equal(a->std, b->std, sizeof a->std);
    assert_int_equal(a->bytes, b->bytes);
}

static void depends_on_no_thread_count(void **state)
{
    for (unsigned k = 0; k < 60; k++) {
        char name[64];
        bytes b = photo_make(k % 40);
        snprintf(name, sizeof name, "many/%c/%02u.jpg", 'a' + (int)(k % 7), k);
        files_write(name, b.at, k % 9 == 5 ? b.n / 2 : b.n);
        bytes_free(&b);
    }
    brim_dataset *d = open_set(files_path("many"), (brim_dataset_opts){0});
    brim_check one = check(d, NULL, 1);
    assert_int_equal(one.damage.n, 7);
    assert_true(one.twins.n > 10);
    static const int threads[] = {0, 2, 3, 16, 100};
    for (int k = 0; k < 5; k++) {
        brim_check other = check(d, NULL, threads[k]);
        same_result(&one, &other);
        brim_check_release(&other);
    }
    brim_check_release(&one);
    brim_dataset_free(d);
}

static void count_calls(void *user, int64_t done, int64_t all)
{
    int *calls = user;
    assert_in_range(done, 0, all);
    (*calls)++;
}

static void tells_its_progress(void **state)
{
    put_photo("slow/a/1.jpg", 1);
    brim_dataset *d = open_set(files_path("slow"), (brim_dataset_opts){0});
    int calls = 0;
    brim_check c;
    brim_error err = {0};
    brim_check_opts o = {
        .set = d, .channels = 1, .threads = 2, .progress = count_calls, .user = &calls};
    assert_int_equal(brim_check_run(&o, &c, &err), BRIM_OK);
    brim_check_release(&c);
    brim_dataset_free(d);
}

static void survives_allocation_failures(void **state)
{
    put_photo("mem/a/1.jpg", 1);
    put_photo("mem/a/2.jpg", 1);
    files_write("mem/b/3.jpg", "x", 1);
    brim_dataset *d = open_set(files_path("mem"), (brim_dataset_opts){0});
    for (long n = 1; n < 100; n++) {
        brim_check c;
        brim_error err = {0};
        brim_check_opts o = {.set = d, .channels = 3, .threads = 1};
        brim_mem_fail_after(n);
        brim_status st = brim_check_run(&o, &c, &err);
        brim_mem_fail_after(0);
        if (st == BRIM_OK) {
            brim_check_release(&c);
            assert_true(n > 8);
            brim_dataset_free(d);
            return;
        }
        assert_int_equal(st, BRIM_ENOMEM);
        assert_non_null(strstr(err.text, "out of memory"));
    }
    fail();
}

/* The odd images of other projects' tests, of which many are broken in every way. */
static void checks_the_odd_images(void **state)
{
    char path[512], cmd[1200];
    snprintf(path, sizeof path, "%s/fixtures/images/odd-images.tar.gz", TEST_DATA_OR_SKIP());
    snprintf(cmd, sizeof cmd, "mkdir -p '%s' && tar -xzf '%s' -C '%s'", files_path("real/odd"),
             path, files_path("real/odd"));
    assert_int_equal(system(cmd), 0);
    brim_dataset *d = open_set(files_path("real"), (brim_dataset_opts){.allow_empty = true});
    brim_check one = check(d, NULL, 1), two = check(d, NULL, 2);
    same_result(&one, &two);
    assert_in_range(one.samples, 700, 742);
    assert_true(one.damage.n > 100);
    assert_true(one.odd[BRIM_CHECK_CMYK] > 0 && one.odd[BRIM_CHECK_DEEP] > 0);
    brim_check_release(&one);
    brim_check_release(&two);
    brim_dataset_free(d);
}

/* ---- the command ---- */

/* Runs `brim data check ARGS...` on words separated by '~'; its output goes to DIR/out and DIR/err,
 * and stdout's is given. */
static const char *run(const char *args, int status)
{
    static char out[1 << 16];
    char *argv[16] = {"data"}, *save = NULL, words[1024];
    int argc = 1, keep[2] = {dup(1), dup(2)};
    snprintf(words, sizeof words, "%s", args);
    for (char *w = strtok_r(words, "~", &save); w; w = strtok_r(NULL, "~", &save)) argv[argc++] = w;
    fflush(stdout);
    for (int k = 0; k < 2; k++) {
        FILE *f = fopen(files_path(k ? "err" : "out"), "w");
        assert_non_null(f);
        dup2(fileno(f), k + 1);
        fclose(f);
    }
    int got = brim_cmd_data(argc, argv);
    fflush(stdout);
    for (int k = 0; k < 2; k++) {
        dup2(keep[k], k + 1);
        close(keep[k]);
    }
    FILE *f = fopen(files_path("out"), "r");
    assert_non_null(f);
    out[fread(out, 1, sizeof out - 1, f)] = 0;
    fclose(f);
    if (got != status) fail_msg("%s: status %d (wants %d)\n%s", args, got, status, out);
    return out;
}

static const char *run_on(const char *name, const char *options, int status)
{
    char args[900];
    snprintf(args, sizeof args, "check~%s%s", files_path(name), options);
    return run(args, status);
}

static void has(const char *text, const char *word)
{
    if (!strstr(text, word)) fail_msg("no \"%s\" in\n%s", word, text);
}

static void ends_with_the_right_status(void **state)
{
    static const char *const set[] = {"good", "twice", "bad", "empty"};
    for (int k = 0; k < 4; k++) { /* so that one can be held out */
        char name[32];
        snprintf(name, sizeof name, "%s/a/3.jpg", set[k]);
        put_photo(name, 3);
    }
    put_photo("single/a/1.jpg", 1);
    put_photo("single/b/2.jpg", 2);
    put_photo("good/a/1.jpg", 1);
    put_photo("good/b/2.jpg", 2);
    put_photo("twice/a/1.jpg", 1);
    put_photo("twice/b/2.jpg", 1);
    put_photo("bad/a/1.jpg", 1);
    files_write("bad/b/2.jpg", "x", 1);
    put_photo("empty/a/1.jpg", 1);
    mkdir(files_path("empty/b"), 0777);
    put_photo("late/train/a/1.jpg", 1);
    put_photo("late/val/b/2.jpg", 2);
    has(run_on("good", "", 0), "verdict   all 3 images are sound\n");
    has(run_on("single", "", 1), "no class has two images");
    has(run_on("twice", "", 0), "verdict   all 3 images are sound, 2 warnings\n");
    has(run_on("bad", "", 1), "verdict   1 problem\n");
    has(run_on("empty", "", 1), "no images: brim train refuses");
    has(run_on("late", "", 1), "\"b\" first: brim train refuses");
    run_on("nowhere", "", 1);
    run_on("good", "~--val-data~/nowhere", 1);
    run("", 2);
    run("chek", 2);
    run("check", 2);
    run_on("good", "~more", 2);
    run_on("good", "~--thread~1", 2);
    run_on("good", "~--channels~2", 2);
    has(run("--help", 0), "check");
    has(run("check~--help", 0), "--val-data PATH");
}

static void lists_what_it_finds(void **state)
{
    bytes b = photo_make(1);
    put_photo("list/train/cat/1.jpg", 1);
    put_photo("list/train/dog/\033[31m.jpg", 1);
    put_photo("list/val/dog/3.jpg", 1);
    files_write("list/train/dog/4.jpg", b.at, b.n - 40);
    files_write("list/train/dog/old.gif", "x", 1);
    mkdir(files_path("list/train/owl"), 0777);
    bytes_free(&b);
    const char *text = run_on("list", "", 1);
    has(text, "4 in 2 classes");
    has(text, "train/dog/4.jpg: JPEG: ");
    has(text, "list/train/owl\n");
    has(text, "train/cat/1.jpg\n      = ");
    has(text, "train/dog/?[31m.jpg (class dog, not cat)\n");
    has(text, "val/dog/3.jpg (class dog, not cat) (for validation)\n");
    has(text, "1 .gif file is not read");
    has(text, "cat        1    0");
    assert_null(strchr(text, '\033'));
}

static double number_at(const json_t *root, const char *key, const char *inner)
{
    const json_t *v = json_object_get(root, key);
    if (inner) v = json_object_get(v, inner);
    assert_true(json_is_number(v));
    return json_number_value(v);
}

static void writes_json(void **state)
{
    lists_what_it_finds(state);
    json_error_t why;
    json_t *root = json_loads(run_on("list", "~--json", 1), 0, &why);
    if (!root) fail_msg("%s", why.text);
    assert_true(number_at(root, "images", NULL) == 4);
    assert_true(number_at(root, "ignored", NULL) == 1);
    assert_true(number_at(root, "formats", "jpeg") == 4);
    assert_true(number_at(root, "width", "median") == 24);
    assert_int_equal(json_array_size(json_object_get(root, "classes")), 2);
    assert_int_equal(json_array_size(json_object_get(root, "mean")), 3);
    assert_int_equal(json_array_size(json_object_get(root, "damaged")), 1);
    const json_t *twins = json_object_get(root, "duplicates");
    assert_int_equal(json_array_size(twins), 2);
    assert_true(json_is_true(json_object_get(json_array_get(twins, 1), "leak")));
    assert_true(json_is_true(json_object_get(json_array_get(twins, 1), "other_class")));
    assert_int_equal(json_array_size(json_object_get(root, "empty_folders")), 1);
    assert_true(json_is_false(json_object_get(root, "ok")));
    json_decref(root);
    /* Not one image decodes: no mean, and the object is still an object. */
    files_write("none/a/1.jpg", "x", 1);
    root = json_loads(run_on("none", "~--json~--channels~1", 1), 0, &why);
    if (!root) fail_msg("%s", why.text);
    assert_true(json_is_null(json_array_get(json_object_get(root, "mean"), 0)));
    json_decref(root);
}

static void says_the_same_with_any_threads(void **state)
{
    depends_on_no_thread_count(state);
    for (int json = 0; json < 2; json++) {
        const char *more = json ? "~--json" : "";
        char options[64], *one = NULL;
        for (int threads = 1; threads < 9; threads += 3) {
            snprintf(options, sizeof options, "~--threads~%d%s", threads, more);
            const char *text = run_on("many", options, 1);
            if (one)
                assert_string_equal(one, text);
            else
                one = strdup(text);
        }
        free(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_damage),
        cmocka_unit_test(finds_twins),
        cmocka_unit_test(finds_leaks_between_sets),
        cmocka_unit_test(counts_what_is_odd),
        cmocka_unit_test(sums_up_the_pixels),
        cmocka_unit_test(lists_empty_class_folders),
        cmocka_unit_test(depends_on_no_thread_count),
        cmocka_unit_test(tells_its_progress),
        cmocka_unit_test(survives_allocation_failures),
        cmocka_unit_test(checks_the_odd_images),
        cmocka_unit_test(ends_with_the_right_status),
        cmocka_unit_test(lists_what_it_finds),
        cmocka_unit_test(writes_json),
        cmocka_unit_test(says_the_same_with_any_threads),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
