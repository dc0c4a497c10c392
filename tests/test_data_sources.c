/* Where samples come from: folders, archives, shards, IDX, CIFAR; and what is wrong with them. */
#include "base/mem.h"
#include "data/image.h"
#include "data_files.h"
#include "tests.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static brim_dataset *open_with(const char *path, brim_dataset_opts o)
{
    brim_dataset *d;
    brim_error err = {0};
    if (brim_dataset_open(path, &o, &d, &err) != BRIM_OK) fail_msg("%s", err.text);
    return d;
}

static brim_dataset *open_all(const char *path)
{
    return open_with(path, (brim_dataset_opts){.split = BRIM_SPLIT_ALL});
}

/* Opening fails with one line in which each of the words occurs. */
static void refuses_with(const char *path, brim_dataset_opts o, brim_status status,
                         const char *word, const char *other)
{
    brim_dataset *d = (brim_dataset *)1;
    brim_error err = {0};
    brim_status got = brim_dataset_open(path, &o, &d, &err);
    assert_null(d);
    if (got != status || !strstr(err.text, word) || !strstr(err.text, other) ||
        strchr(err.text, '\n'))
        fail_msg("status %d (wants %d), text \"%s\" (wants \"%s\", \"%s\")", got, status, err.text,
                 word, other);
}

static void refuses(const char *path, brim_status status, const char *word, const char *other)
{
    refuses_with(path, (brim_dataset_opts){0}, status, word, other);
}

/* Every sample can be read and decoded. */
static void reads_all(const brim_dataset *d)
{
    brim_scratch scratch = {0};
    brim_decoder *decoder = brim_decoder_new();
    for (int64_t i = 0; i < brim_dataset_size(d); i++) {
        brim_sample s;
        brim_image_info info;
        brim_image im;
        brim_error err = {0};
        brim_status st = brim_dataset_read(d, i, &scratch, &s, &err);
        if (st == BRIM_OK) st = brim_image_probe(&s, &info, &err);
        if (st == BRIM_OK) st = brim_image_decode(decoder, &s, &info, 3, NULL, &im, &err);
        if (st != BRIM_OK) fail_msg("sample %d: %s", (int)i, err.text);
        assert_in_range(brim_dataset_label(d, i), 0, brim_dataset_classes(d) - 1);
    }
    brim_decoder_free(decoder);
    brim_scratch_free(&scratch);
}

static const char *path_of(const brim_dataset *d, int64_t i)
{
    static char buf[600];
    return brim_dataset_path(d, i, buf, sizeof buf);
}

static void put_photo(const char *name, unsigned seed)
{
    bytes b = photo_make(seed);
    files_write_bytes(name, &b);
}

static void tar_photo(bytes *tar, const char *name, unsigned seed)
{
    bytes b = photo_make(seed);
    tar_add(tar, name, b.at, b.n);
    bytes_free(&b);
}

/* ---- folders ---- */

static void reads_class_folders(void **state)
{
    put_photo("plain/dog/b.jpg", 1);
    put_photo("plain/dog/a.JPEG", 2);
    put_photo("plain/cat/deep/er/x.jpg", 3);
    files_write("plain/cat/notes.txt", "x", 1);
    files_write("plain/dog/.hidden.jpg", "x", 1);
    brim_dataset *d = open_all(files_path("plain"));
    assert_string_equal(brim_dataset_kind(d), "folder");
    assert_int_equal(brim_dataset_size(d), 3);
    assert_int_equal(brim_dataset_classes(d), 2);
    assert_string_equal(brim_dataset_class_name(d, 0), "cat");
    assert_string_equal(brim_dataset_class_name(d, 1), "dog");
    assert_int_equal(brim_dataset_label(d, 0), 0);
    assert_string_equal(path_of(d, 1), files_path("plain/dog/a.JPEG"));
    assert_int_equal(brim_dataset_ignored(d), 1);
    assert_false(brim_dataset_has_split(d));
    assert_int_equal(brim_dataset_split(d, 0), BRIM_SPLIT_ALL);
    reads_all(d);
    brim_dataset_free(d);
}

static void reads_the_splits_of_a_folder(void **state)
{
    put_photo("own/train/cat/1.jpg", 1);
    put_photo("own/train/dog/2.jpg", 2);
    put_photo("own/val/cat/3.jpg", 3);
    mkdir(files_path("own/val/dog"), 0777); /* no harm in validation */
    brim_dataset *d = open_with(files_path("own"), (brim_dataset_opts){.split = BRIM_SPLIT_TRAIN});
    assert_int_equal(brim_dataset_size(d), 2);
    assert_true(brim_dataset_has_split(d));
    reads_all(d);
    brim_dataset_free(d);
    const char *const names[] = {"cat", "dog"};
    d = open_with(
        files_path("own"),
        (brim_dataset_opts){.split = BRIM_SPLIT_VAL, .class_names = names, .n_class_names = 2});
    assert_int_equal(brim_dataset_size(d), 1);
    assert_int_equal(brim_dataset_classes(d), 2);
    assert_string_equal(path_of(d, 0), files_path("own/val/cat/3.jpg"));
    reads_all(d);
    brim_dataset_free(d);
    d = open_all(files_path("own"));
    assert_int_equal(brim_dataset_size(d), 3);
    assert_int_equal(brim_dataset_classes(d), 2);
    assert_int_equal(brim_dataset_split(d, 0), BRIM_SPLIT_TRAIN);
    assert_int_equal(brim_dataset_split(d, 2), BRIM_SPLIT_VAL);
    reads_all(d);
    brim_dataset_free(d);
}

static void holds_out_a_fixed_share_of_each_class(void **state)
{
    char name[64];
    for (unsigned i = 0; i < 30; i++) {
        snprintf(name, sizeof name, "share/%s/%02u.jpg", i < 20 ? "a" : i < 28 ? "b" : "c", i);
        put_photo(name, i);
    }
    bool seen[30] = {false};
    int count[2][3] = {{0}};
    for (int k = 0; k < 4; k++) { /* each part twice */
        brim_dataset *d =
            open_with(files_path("share"),
                      (brim_dataset_opts){.split = k % 2 ? BRIM_SPLIT_VAL : BRIM_SPLIT_TRAIN,
                                          .val_fraction = 0.25,
                                          .seed = 3});
        for (int64_t i = 0; i < brim_dataset_size(d); i++) {
            int number = atoi(strrchr(path_of(d, i), '/') + 1);
            assert_int_equal(seen[number], k >= 2);
            if (k < 2) count[k][brim_dataset_label(d, i)]++;
            seen[number] = true;
            if (k >= 2) seen[number] = false;
        }
        if (k == 1)
            for (int i = 0; i < 30; i++) assert_true(seen[i]);
        brim_dataset_free(d);
    }
    assert_int_equal(count[1][0], 5);
    assert_int_equal(count[1][1], 2);
    assert_int_equal(count[1][2], 1); /* of two */
}

static uint64_t fingerprint(const char *path)
{
    brim_dataset *d;
    brim_error err = {0};
    if (brim_dataset_open(files_path(path), &(brim_dataset_opts){0}, &d, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    uint64_t h = brim_dataset_fingerprint(d);
    brim_dataset_free(d);
    return h;
}

static void tells_sets_apart(void **state)
{
    for (int set = 0; set < 5; set++) { /* a copy, other bytes, another name, another class */
        static const char *const last[] = {"b/4.jpg", "b/4.jpg", "b/4.jpg", "b/5.jpg", "a/4.jpg"};
        char name[64];
        for (int k = 0; k < 4; k++) {
            snprintf(name, sizeof name, "sets/%d/%c/%d.jpg", set, "aabb"[k], k);
            put_photo(name, (unsigned)k);
        }
        snprintf(name, sizeof name, "sets/%d/%s", set, last[set]);
        put_photo(name, set == 2 ? 99 : 4);
    }
    uint64_t h = fingerprint("sets/0");
    assert_true(fingerprint("sets/1") == h);
    for (int set = 2; set < 5; set++) {
        char name[64];
        snprintf(name, sizeof name, "sets/%d", set);
        assert_true(fingerprint(name) != h);
    }
    bytes a = cifar_make(3), b = cifar_make(3), c = cifar_make(3);
    b.at[3073 + 5] ^= 1; /* a pixel of the second image */
    files_write_bytes("a.bin", &a);
    files_write_bytes("b.bin", &b);
    files_write_bytes("c.bin", &c);
    assert_true(fingerprint("a.bin") != fingerprint("b.bin"));
    assert_true(fingerprint("a.bin") == fingerprint("c.bin"));
}

static void survives_links(void **state)
{
    put_photo("links/cat/1.jpg", 1);
    assert_int_equal(symlink("..", files_path("links/cat/up")), 0);
    assert_int_equal(symlink("nowhere.jpg", files_path("links/cat/2.jpg")), 0);
    assert_int_equal(symlink("nowhere", files_path("links/cat/other")), 0);
    brim_dataset *d = open_all(files_path("links"));
    brim_scratch scratch = {0};
    brim_sample s;
    brim_error err = {0};
    assert_int_equal(brim_dataset_size(d), 2);
    assert_int_equal(brim_dataset_read(d, 1, &scratch, &s, &err), BRIM_ENOTFOUND);
    assert_non_null(strstr(err.text, "cannot be read"));
    brim_scratch_free(&scratch);
    brim_dataset_free(d);
}

static void refuses_what_is_no_class_folder(void **state)
{
    const char *const other[] = {"bird", "fish"};
    const char *const numbers[] = {"0", "1"};
    mkdir(files_path("nothing"), 0777);
    put_photo("flat/1.jpg", 1);
    put_photo("hole/cat/1.jpg", 1);
    files_write("hole/dog/readme.txt", "x", 1);
    put_photo("wrap/inner/cat/1.jpg", 1);
    put_photo("wrap/inner/dog/1.jpg", 2);
    mkdir(files_path("wrap/inner/owl"), 0777);
    refuses(files_path("absent"), BRIM_ENOTFOUND, "absent", "No such file");
    refuses(files_path("nothing"), BRIM_EFORMAT, "nothing", "no images");
    refuses(files_path("flat"), BRIM_EFORMAT, "1.jpg", "CLASS/IMAGE");
    refuses(files_path("hole"), BRIM_EFORMAT, "hole/dog", "without images");
    refuses(files_path("wrap"), BRIM_EFORMAT, "wrap/inner/owl", "without images");
    refuses(files_path("flat/1.jpg"), BRIM_EUNSUPPORTED, "1.jpg", "no kind of data set");
    refuses_with(files_path("plain"), (brim_dataset_opts){.class_names = other, .n_class_names = 2},
                 BRIM_EFORMAT, "\"cat\"", "bird");
    refuses_with(files_path("plain"),
                 (brim_dataset_opts){.class_names = numbers, .n_class_names = 2}, BRIM_EFORMAT,
                 "\"cat\"", "classes.txt");
    put_photo("one/cat/1.jpg", 1);
    refuses_with(files_path("one"),
                 (brim_dataset_opts){.split = BRIM_SPLIT_VAL, .val_fraction = 0.9}, BRIM_EFORMAT,
                 "validation part is empty", "--val-data");
}

/* ---- archives ---- */

/* Class folders in an archive: names short, long (GNU) and longer (pax), junk in between. */
static bytes folder_tar(void)
{
    bytes t = {0};
    char name[200] = "set/dog/";
    memset(name + 8, 'y', 150);
    strcpy(name + 158, ".jpg");
    tar_header(&t, "set/", '5', 0);
    tar_photo(&t, "./set/cat/1.jpg", 1);
    tar_add(&t, "set/README", "hello", 5);
    tar_photo(&t, name, 2);
    static const char pax[512] = "30 mtime=1700000000.123456789\n29 path=set/cat/from-pax.jpg\n";
    tar_header(&t, "PaxHeaders/x", 'x', strlen(pax));
    bytes_add(&t, pax, 512);
    tar_photo(&t, "short.jpg", 3);
    tar_header(&t, "set/cat/link.jpg", '2', 0);
    tar_end(&t);
    return t;
}

static void reads_an_archive_of_folders(void **state)
{
    bytes t = folder_tar(), gz = bytes_gzip(&t);
    files_write("a.tgz", gz.at, gz.n);
    files_write_bytes("a.tar.gz", &gz);
    files_write_bytes("a.tar", &t);
    static const char *const name[] = {"a.tar", "a.tar.gz", "a.tgz"};
    for (int k = 0; k < 3; k++) {
        brim_dataset *d = open_all(files_path(name[k]));
        assert_string_equal(brim_dataset_kind(d), "tar");
        assert_int_equal(brim_dataset_size(d), 3);
        assert_string_equal(brim_dataset_class_name(d, 1), "dog");
        assert_int_equal(brim_dataset_label(d, 1), 1);
        assert_non_null(strstr(path_of(d, 2), "set/cat/from-pax.jpg"));
        assert_non_null(strstr(path_of(d, 2), name[k]));
        assert_true(brim_dataset_memory_bytes(d) > 2048);
        reads_all(d);
        brim_dataset_free(d);
    }
}

static void reads_the_splits_of_archives(void **state)
{
    bytes one = {0}, train = {0}, val = {0};
    tar_photo(&one, "x/train/cat/1.jpg", 1);
    tar_photo(&one, "x/test/cat/2.jpg", 2);
    tar_end(&one);
    files_write_bytes("splits.tar", &one);
    brim_dataset *d =
        open_with(files_path("splits.tar"), (brim_dataset_opts){.split = BRIM_SPLIT_VAL});
    assert_int_equal(brim_dataset_size(d), 1);
    assert_non_null(strstr(path_of(d, 0), "test/cat/2.jpg"));
    brim_dataset_free(d);

    for (unsigned k = 0; k < 5; k++) {
        char name[32];
        snprintf(name, sizeof name, "%s/%u.jpg", k % 2 ? "cat" : "dog", k);
        tar_photo(k < 3 ? &train : &val, name, k);
    }
    bytes gz = bytes_gzip(&train);
    files_write("pair/train.tar", train.at, train.n);
    files_write("lone/train.tar", train.at, train.n);
    files_write_bytes("pair/train.tar.gz", &gz); /* there twice, counts once */
    files_write_bytes("pair/val.tar", &val);
    bytes_free(&train);
    d = open_all(files_path("pair"));
    assert_int_equal(brim_dataset_size(d), 5);
    assert_true(brim_dataset_has_split(d));
    assert_int_equal(brim_dataset_split(d, 4), BRIM_SPLIT_VAL);
    brim_dataset_free(d);
    /* One part alone is a set without splits: a share can be held out. */
    d = open_with(files_path("lone"),
                  (brim_dataset_opts){.split = BRIM_SPLIT_VAL, .val_fraction = 0.5});
    assert_int_equal(brim_dataset_size(d), 1); /* of two dogs; the only cat is for training */
    brim_dataset_free(d);
}

/* Two shards with three samples each, classes as text. */
static void put_shards(void)
{
    for (unsigned shard = 8; shard < 11; shard++) {
        bytes t = {0};
        char name[64], cls[16];
        for (unsigned k = 0; k < 3; k++) {
            snprintf(name, sizeof name, "%03u.cls", k);
            snprintf(cls, sizeof cls, "%u\n", (shard + k) % 4);
            if (k == 1) tar_add(&t, name, cls, strlen(cls)); /* before or behind its image */
            snprintf(name, sizeof name, "%03u.json", k);
            tar_add(&t, name, "{}", 2);
            snprintf(name, sizeof name, "%03u.jpg", k);
            tar_photo(&t, name, shard * 10 + k);
            snprintf(name, sizeof name, "%03u.cls", k);
            if (k != 1) tar_add(&t, name, cls, strlen(cls));
        }
        tar_end(&t);
        snprintf(name, sizeof name, "shards/part-%03u.tar", shard);
        files_write_bytes(name, &t);
    }
    files_write("shards/classes.txt", "ant\r\nbee\n\ncow\nduck\n\n", 21);
}

static void reads_shards_by_pattern(void **state)
{
    put_shards();
    static const struct {
        const char *pattern;
        int samples;
    } row[] = {{"shards/part-{008..010}.tar", 9},
               {"shards/part-{008,010}.tar", 6},
               {"shards/part-0{08,09,10}.tar", 9},
               {"shards/part-009.tar", 3}};
    for (size_t k = 0; k < sizeof row / sizeof *row; k++) {
        brim_dataset *d = open_all(files_path(row[k].pattern));
        assert_string_equal(brim_dataset_kind(d), "webdataset");
        assert_int_equal(brim_dataset_size(d), row[k].samples);
        assert_int_equal(brim_dataset_classes(d), 5); /* as the list says */
        assert_string_equal(brim_dataset_class_name(d, 0), "ant");
        assert_string_equal(brim_dataset_class_name(d, 2), "2"); /* an empty line */
        assert_string_equal(brim_dataset_class_name(d, 3), "cow");
        reads_all(d);
        brim_dataset_free(d);
    }
    brim_dataset *d = open_all(files_path("shards/part-{008..010}.tar"));
    for (int k = 0; k < 9; k++) assert_int_equal(brim_dataset_label(d, k), (8 + k / 3 + k % 3) % 4);
    assert_string_equal(path_of(d, 3), files_path("shards/part-009.tar:000.jpg"));
    brim_dataset_free(d);
    refuses(files_path("shards/part-{008..011}.tar"), BRIM_ENOTFOUND, "part-011.tar", "No such");
    refuses(files_path("shards/part-{10..8}.tar"), BRIM_EINVAL, "{10..8}", "empty");
    refuses(files_path("shards/part-{0..999999}.tar"), BRIM_EINVAL, "999999", "too long");
    refuses(files_path("shards/part-{8..10.tar"), BRIM_EINVAL, "part-{8", "brace");
}

static void refuses_pair(const char *name, const char *cls, size_t n, const char *word)
{
    bytes t = {0};
    tar_photo(&t, "a.jpg", 1);
    if (cls) tar_add(&t, "a.cls", cls, n);
    tar_photo(&t, "b.jpg", 2);
    tar_add(&t, "b.cls", "0", 1);
    tar_end(&t);
    files_write_bytes(name, &t);
    refuses(files_path(name), BRIM_EFORMAT, name, word);
}

static void refuses_damaged_pairs(void **state)
{
    refuses_pair("pair1.tar", NULL, 0, "a.jpg: has no .cls");
    refuses_pair("pair2.tar", "cat", 3, "a.cls: not a class index");
    refuses_pair("pair3.tar", "-1", 2, "a.cls: not a class index");
    refuses_pair("pair4.tar", "", 0, "a.cls: not a class index");
    refuses_pair("pair5.tar", "99999999999999999999", 20, "a.cls: not a class index");
    refuses_pair("pair6.tar", "4294967296", 10, "a.cls: not a class index");
    refuses_pair("pair7.tar", "1x", 2, "a.cls: not a class index");
    /* Archives with and without classes make no set. */
    bytes folders = {0}, pairs = {0};
    tar_photo(&folders, "cat/a.jpg", 1);
    tar_photo(&pairs, "a.jpg", 2);
    tar_add(&pairs, "a.cls", "0", 1);
    files_write_bytes("mix-a.tar", &folders);
    files_write_bytes("mix-b.tar", &pairs);
    refuses(files_path("mix-{a,b}.tar"), BRIM_EINVAL, "mix-b.tar", "webdataset");
    refuses(files_path("mix-{b,a}.tar"), BRIM_EINVAL, "mix-a.tar", "webdataset");
}

static void refuses_damaged_archives(void **state)
{
    bytes t = folder_tar(), gz = bytes_gzip(&t);
    /* Cut inside a content, inside a header, and the compressed bytes. */
    files_write("cut1.tar", t.at, 1024 + 512 + 100);
    refuses(files_path("cut1.tar"), BRIM_EFORMAT, "cut1.tar", "cut off");
    size_t second = 1024 + 1024; /* behind the first photo; less than 1024 bytes */
    while (memcmp(t.at + second, "set/README", 10)) second += 512;
    files_write("cut2.tar", t.at, second + 200);
    refuses(files_path("cut2.tar"), BRIM_EFORMAT, "cut2.tar", "cut off");
    files_write("cut3.tar.gz", gz.at, gz.n / 2);
    refuses(files_path("cut3.tar.gz"), BRIM_EFORMAT, "cut3.tar.gz", "cut off");
    gz.at[gz.n / 2] ^= 0x55;
    gz.at[gz.n / 2 + 1] ^= 0x55;
    files_write("bad.tar.gz", gz.at, gz.n);
    refuses(files_path("bad.tar.gz"), BRIM_EFORMAT, "bad.tar.gz", "gzip");
    /* A flipped bit in a header; a size beyond the file; sizes that are no numbers. */
    bytes copy = {0};
    bytes_add(&copy, t.at, t.n);
    copy.at[second + 5] ^= 1;
    files_write("sum.tar", copy.at, copy.n);
    refuses(files_path("sum.tar"), BRIM_EFORMAT, "sum.tar", "damaged tar header at byte");
    static const char *const size[] = {"77777777777", "9x", "\x80\xff\xff\xff\xff\xff\xff\xff\xff",
                                       "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"};
    for (int k = 0; k < 4; k++) {
        bytes b = {0};
        tar_header(&b, "cat/1.jpg", '0', 0);
        memcpy(b.at + 124, size[k], strlen(size[k]) < 12 ? strlen(size[k]) : 12);
        unsigned sum = 8 * ' ';
        for (int i = 0; i < 512; i++) sum += i >= 148 && i < 156 ? 0 : b.at[i];
        snprintf((char *)b.at + 148, 8, "%06o", sum);
        files_write_bytes("size.tar", &b);
        refuses(files_path("size.tar"), BRIM_EFORMAT, "size.tar",
                k == 0 ? "cut off" : "not a tar archive");
    }
    files_write("empty.tar", "", 0);
    refuses(files_path("empty.tar"), BRIM_EFORMAT, "empty.tar", "empty");
    files_write("text.tar", "hello", 5);
    refuses(files_path("text.tar"), BRIM_EFORMAT, "text.tar", "not a tar archive");
    mkdir(files_path("folder.tar"), 0777);
    refuses(files_path("folder.tar"), BRIM_EFORMAT, "folder.tar", "no images");
    bytes_free(&copy);
    bytes_free(&gz);
    bytes_free(&t);
}

/* Zeros shrink a thousandfold: a small file of them must not fill the memory. */
static void refuses_gzip_bombs(void **state)
{
    bytes zeros = {.at = calloc(1, 48 << 20), .n = 48 << 20};
    assert_non_null(zeros.at);
    bytes gz = bytes_gzip(&zeros);
    zeros.n = 14 << 20; /* large for its size, but no harm */
    bytes less = bytes_gzip(&zeros);
    bytes_free(&zeros);
    assert_true(gz.n < 64 << 10);
    files_write_bytes("bomb.tar.gz", &gz);
    files_write_bytes("zeros.tar.gz", &less);
    refuses(files_path("bomb.tar.gz"), BRIM_EFORMAT, "bomb.tar.gz", "unpacks to more than");
    refuses(files_path("zeros.tar.gz"), BRIM_EFORMAT, "zeros.tar.gz", "not a tar archive");
}

static void does_not_wait_for_a_pipe(void **state)
{
    assert_int_equal(mkfifo(files_path("pipe.tar"), 0600), 0);
    refuses(files_path("pipe.tar"), BRIM_EFORMAT, "pipe.tar", "not a regular file");
}

/* Lengths in pax headers that are wrong must not be followed. */
static void ignores_hostile_pax_headers(void **state)
{
    static const char *const pax[] = {"0000000005 path=x",
                                      "99999999 path=x\n",
                                      "7 path=",
                                      "5 path=x\n",
                                      "000000000000012 path=",
                                      "path=x",
                                      "18446744073709551615 path=x"};
    for (size_t k = 0; k < sizeof pax / sizeof *pax; k++) {
        bytes t = {0};
        char block[512];
        memset(block, 'A', sizeof block);
        memcpy(block, pax[k], strlen(pax[k]));
        tar_header(&t, "pax", 'x', strlen(pax[k]));
        bytes_add(&t, block, 512);
        tar_photo(&t, "cat/1.jpg", 1);
        files_write_bytes("pax.tar", &t);
        brim_dataset *d = open_all(files_path("pax.tar"));
        assert_non_null(strstr(path_of(d, 0), "cat/1.jpg"));
        brim_dataset_free(d);
    }
}

/* ---- raw files ---- */

static void reads_idx(void **state)
{
    uint32_t dim[] = {5, 4, 3}, labels[] = {5};
    uint8_t pixels[60], label[] = {0, 3, 2, 1, 3};
    for (int i = 0; i < 60; i++) pixels[i] = (uint8_t)(i * 4);
    bytes x = idx_make(3, dim, pixels), y = idx_make(1, labels, label);
    bytes xz = bytes_gzip(&x), yz = bytes_gzip(&y);
    files_write("mnist/train-images-idx3-ubyte", x.at, x.n);
    files_write("mnist/train-labels-idx1-ubyte", y.at, y.n);
    files_write_bytes("mnist/t10k-images-idx3-ubyte.gz", &xz);
    files_write_bytes("mnist/t10k-labels-idx1-ubyte.gz", &yz);
    bytes_free(&x);
    bytes_free(&y);
    static const char *const path[] = {"mnist/train-images-idx3-ubyte",
                                       "mnist/t10k-images-idx3-ubyte.gz", "mnist"};
    for (int k = 0; k < 3; k++) {
        brim_dataset *d = open_all(files_path(path[k]));
        brim_scratch scratch = {0};
        brim_sample s;
        assert_string_equal(brim_dataset_kind(d), "idx");
        assert_int_equal(brim_dataset_size(d), k == 2 ? 10 : 5);
        assert_int_equal(brim_dataset_classes(d), 4);
        assert_int_equal(brim_dataset_label(d, 1), 3);
        assert_int_equal(brim_dataset_read(d, 2, &scratch, &s, NULL), BRIM_OK);
        assert_true(s.raw && s.w == 3 && s.h == 4 && s.channels == 1 && s.n == 12);
        assert_memory_equal(s.bytes, pixels + 24, 12);
        assert_non_null(strstr(path_of(d, 2), "-images-idx3-ubyte"));
        assert_non_null(strstr(path_of(d, 2), "[2]"));
        reads_all(d);
        brim_dataset_free(d);
        brim_scratch_free(&scratch);
    }
}

/* Images and labels under DIR/NAME; NULL: no labels file. */
static void put_idx(const char *name, bytes x, bytes y)
{
    char path[64];
    snprintf(path, sizeof path, "%s/x-images-idx3-ubyte", name);
    files_write_bytes(path, &x);
    snprintf(path, sizeof path, "%s/x-labels-idx1-ubyte", name);
    if (y.n) files_write_bytes(path, &y);
}

static const char *idx_path(const char *name)
{
    char path[64];
    snprintf(path, sizeof path, "%s/x-images-idx3-ubyte", name);
    return files_path(path);
}

static void refuses_damaged_idx(void **state)
{
    static const uint8_t data[64] = {0};
    uint32_t two[] = {2, 3, 3}, n2[] = {2}, n3[] = {3}, zero[] = {2, 0, 3}, dots[] = {2, 1, 3},
             none[] = {0, 3, 3}, four[] = {2, 2, 2, 4};
    put_idx("idx1", idx_make(3, two, data), (bytes){0});
    refuses(idx_path("idx1"), BRIM_ENOTFOUND, "x-labels-idx1-ubyte", "No such file");
    put_idx("idx2", idx_make(3, two, data), idx_make(1, n3, data));
    refuses(idx_path("idx2"), BRIM_EFORMAT, "2 images", "3 labels");
    bytes cut = idx_make(3, two, data);
    cut.n--;
    put_idx("idx3", cut, idx_make(1, n2, data));
    refuses(idx_path("idx3"), BRIM_EFORMAT, "18 bytes", "17");
    put_idx("idx4", idx_make(3, zero, data), idx_make(1, n2, data));
    refuses(idx_path("idx4"), BRIM_EFORMAT, "0 x 3", "not read");
    put_idx("dots", idx_make(3, dots, data), idx_make(1, n2, data));
    refuses(idx_path("dots"), BRIM_EFORMAT, "1 x 3", "not read");
    put_idx("idx5", idx_make(3, none, data), idx_make(1, (uint32_t[]){0}, data));
    refuses(idx_path("idx5"), BRIM_EFORMAT, "idx5", "no images");
    put_idx("idx6", idx_make(4, four, data), idx_make(1, n2, data));
    refuses(idx_path("idx6"), BRIM_EFORMAT, "x 4", "not read");
    put_idx("idx7", idx_make(1, n2, data), idx_make(1, n2, data));
    refuses(idx_path("idx7"), BRIM_EFORMAT, "1 dimensions", "wants 3");
    bytes huge = idx_make(3, two, data);
    memset(huge.at + 4, 0xff, 12); /* the product overflows */
    put_idx("idx8", huge, idx_make(1, n2, data));
    refuses(idx_path("idx8"), BRIM_EFORMAT, "idx8", "header tells");
    bytes real = idx_make(3, two, data);
    real.at[2] = 13; /* floats */
    put_idx("idx9", real, idx_make(1, n2, data));
    refuses(idx_path("idx9"), BRIM_EFORMAT, "idx9", "not an IDX file");
    files_write("tiny/x-images-idx3-ubyte", "\0\0\x08\x03", 4);
    files_write("tiny/x-labels-idx1-ubyte", "\0\0\x08\x01", 4);
    refuses(idx_path("tiny"), BRIM_EFORMAT, "tiny", "not an IDX file");
    refuses(files_path("idx2/x-labels-idx1-ubyte"), BRIM_EUNSUPPORTED, "labels", "no kind");
}

static void reads_cifar(void **state)
{
    bytes b = cifar_make(12), test = cifar_make(3), fine = {0};
    for (int i = 0; i < 2; i++) { /* CIFAR-100: coarse and fine label */
        uint8_t labels[2] = {7, (uint8_t)(40 + i)};
        bytes_add(&fine, labels, 2);
        bytes_add(&fine, b.at + 1, 3072);
    }
    files_write("cifar/data_batch_1.bin", b.at, b.n);
    files_write_bytes("cifar/test_batch.bin", &test);
    files_write("cifar/batches.meta.txt", "plane\ncar\nbird\n", 15);
    bytes gz = bytes_gzip(&fine);
    files_write_bytes("cifar100.bin", &fine);
    files_write_bytes("cifar100.bin.gz", &gz);
    brim_dataset *d = open_all(files_path("cifar"));
    brim_scratch scratch = {0};
    brim_sample s;
    assert_string_equal(brim_dataset_kind(d), "cifar");
    assert_int_equal(brim_dataset_size(d), 15);
    assert_int_equal(brim_dataset_classes(d), 10);
    assert_string_equal(brim_dataset_class_name(d, 1), "car");
    assert_int_equal(brim_dataset_split(d, 12), BRIM_SPLIT_VAL);
    assert_int_equal(brim_dataset_label(d, 11), 1);
    assert_int_equal(brim_dataset_read(d, 11, &scratch, &s, NULL), BRIM_OK);
    assert_true(s.raw && s.w == 32 && s.h == 32 && s.channels == 3);
    for (int i = 0; i < 1024; i++)
        for (int c = 0; c < 3; c++)
            assert_int_equal(s.bytes[3 * i + c], b.at[11 * 3073 + 1 + c * 1024 + i]);
    reads_all(d);
    brim_dataset_free(d);
    brim_scratch_free(&scratch);
    static const char *const hundred[] = {"cifar100.bin", "cifar100.bin.gz"};
    for (int k = 0; k < 2; k++) {
        d = open_all(files_path(hundred[k]));
        assert_int_equal(brim_dataset_size(d), 2);
        assert_int_equal(brim_dataset_label(d, 1), 41);
        brim_dataset_free(d);
    }
    /* Damaged: cut off, a label that does not exist, another kind beside it. */
    files_write("short.bin", b.at, b.n - 5);
    refuses(files_path("short.bin"), BRIM_EFORMAT, "short.bin", "whole number of CIFAR records");
    b.at[3073 * 4] = 10;
    files_write("label.bin", b.at, b.n);
    refuses(files_path("label.bin"), BRIM_EFORMAT, "record 4", "label 10");
    files_write("none.bin", b.at, 0);
    refuses(files_path("none.bin"), BRIM_EFORMAT, "none.bin", "empty");
    b.at[3073 * 4] = 4;
    files_write_bytes("both/train.bin", &b);
    bytes t = folder_tar();
    files_write_bytes("both/test.tar", &t);
    refuses(files_path("both"), BRIM_EINVAL, "test.tar", "kind");
}

/* Any allocation may fail: that is an error of its own, and nothing is lost (under ASan). */
static void survives_allocation_failures(void **state)
{
    put_photo("mem/cat/1.jpg", 1);
    put_photo("mem/dog/1.jpg", 2);
    put_shards();
    reads_idx(state);
    static const char *const path[] = {"mem", "shards/part-{008..010}.tar", "mnist"};
    for (int k = 0; k < 3; k++)
        for (long n = 1; n < 200; n++) {
            brim_dataset *d;
            brim_error err = {0};
            brim_dataset_opts o = {.split = BRIM_SPLIT_TRAIN, .val_fraction = 0.5};
            brim_mem_fail_after(n);
            brim_status st = brim_dataset_open(files_path(path[k]), &o, &d, &err);
            brim_mem_fail_after(0);
            brim_dataset_free(d);
            if (st == BRIM_OK) break;
            if (st != BRIM_ENOMEM) fail_msg("%s, %ld: %s", path[k], n, err.text);
            assert_non_null(strstr(err.text, "out of memory"));
            assert_true(n < 199);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_class_folders),
        cmocka_unit_test(reads_the_splits_of_a_folder),
        cmocka_unit_test(holds_out_a_fixed_share_of_each_class),
        cmocka_unit_test(tells_sets_apart),
        cmocka_unit_test(survives_links),
        cmocka_unit_test(refuses_what_is_no_class_folder),
        cmocka_unit_test(reads_an_archive_of_folders),
        cmocka_unit_test(reads_the_splits_of_archives),
        cmocka_unit_test(reads_shards_by_pattern),
        cmocka_unit_test(refuses_damaged_pairs),
        cmocka_unit_test(refuses_damaged_archives),
        cmocka_unit_test(refuses_gzip_bombs),
        cmocka_unit_test(does_not_wait_for_a_pipe),
        cmocka_unit_test(ignores_hostile_pax_headers),
        cmocka_unit_test(reads_idx),
        cmocka_unit_test(refuses_damaged_idx),
        cmocka_unit_test(reads_cifar),
        cmocka_unit_test(survives_allocation_failures),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
