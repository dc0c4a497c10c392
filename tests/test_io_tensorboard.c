/* Event files, read back by an independent reader of records. */
#include "event_file.h"
#include "io/file.h"
#include "io/tensorboard.h"
#include "tests.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
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

/* RFC 3720, B.4. */
static void crc_known_answers(void **state)
{
    unsigned char b[32] = {0};
    assert_int_equal(brim_crc32c(b, 32), 0x8a9136aa);
    memset(b, 0xff, 32);
    assert_int_equal(brim_crc32c(b, 32), 0x62a8ab43);
    for (int i = 0; i < 32; i++) b[i] = (unsigned char)i;
    assert_int_equal(brim_crc32c(b, 32), 0x46dd794e);
    for (int i = 0; i < 32; i++) b[i] = (unsigned char)(31 - i);
    assert_int_equal(brim_crc32c(b, 32), 0x113fdb5c);
    assert_int_equal(brim_crc32c("123456789", 9), 0xe3069283);
    assert_int_equal(brim_crc32c("", 0), 0);
}

/* All records of all files of the folder; the last one into *last. */
static int count_records(unsigned char last[256], size_t *last_n, int *files)
{
    int records = 0;
    *files = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));) {
        if (!strstr(e->d_name, "events.out.tfevents.")) continue;
        char path[512], *text;
        size_t n, len;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        assert_int_equal(brim_file_read(path, 1 << 24, &text, &n, NULL), BRIM_OK);
        const unsigned char *p = (unsigned char *)text, *end = p + n, *body;
        while ((body = event_record(&p, end, &len))) {
            records++;
            assert_true(len <= 256);
            memcpy(last, body, len);
            *last_n = len;
        }
        (*files)++;
        free(text);
    }
    closedir(d);
    return records;
}

static void writes_events(void **state)
{
    brim_tb *tb, *again;
    brim_error err = {0};
    assert_int_equal(brim_tb_open(dir, &tb, &err), BRIM_OK);
    assert_int_equal(brim_tb_open(dir, &again, &err), BRIM_OK); /* beside the first */
    brim_tb_close(again);
    for (int i = 0; i < 2000; i++)
        assert_int_equal(brim_tb_scalar(tb, "train/loss", i, 1.0 / (i + 1), &err), BRIM_OK);
    assert_int_equal(brim_tb_scalar(tb, "a", 300, 0.5, &err), BRIM_OK);
    brim_tb_close(tb);
    brim_tb_close(NULL);
    unsigned char last[256];
    size_t n;
    int files;
    assert_int_equal(count_records(last, &n, &files), 2003);
    assert_int_equal(files, 2);
}

static void encodes_a_scalar(void **state)
{
    brim_tb *tb;
    brim_error err = {0};
    assert_int_equal(brim_tb_open(dir, &tb, &err), BRIM_OK);
    assert_int_equal(brim_tb_scalar(tb, "a", 300, 0.5, &err), BRIM_OK);
    assert_int_equal(brim_tb_flush(tb, &err), BRIM_OK);
    unsigned char last[256];
    size_t n;
    int files;
    assert_int_equal(count_records(last, &n, &files), 2);
    static const unsigned char want[] = {
        0x10, 0xac, 0x02,             /* step 300 */
        0x2a, 0x0a,                   /* summary, 10 bytes */
        0x0a, 0x08,                   /* value, 8 bytes */
        0x0a, 0x01, 'a',              /* tag */
        0x15, 0x00, 0x00, 0x00, 0x3f, /* simple_value 0.5f */
    };
    assert_int_equal(n, 9 + sizeof want);
    assert_int_equal(last[0], 0x09); /* wall_time, a double */
    assert_memory_equal(last + 9, want, sizeof want);
    brim_tb_close(tb);
}

static void missing_folder_is_an_error(void **state)
{
    brim_tb *tb;
    brim_error err = {0};
    assert_int_equal(brim_tb_open("/nonexistent/x", &tb, &err), BRIM_ENOTFOUND);
    assert_non_null(strstr(err.text, "mkdir -p"));
}

/* In a child: file size limit of 1000 bytes. */
static int write_past_the_limit(void)
{
    signal(SIGXFSZ, SIG_IGN);
    brim_tb *tb;
    brim_error err = {0};
    if (brim_tb_open(dir, &tb, &err) != BRIM_OK) return 2;
    struct rlimit lim = {.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
    if (getrlimit(RLIMIT_FSIZE, &lim) != 0) return 3;
    rlim_t before = lim.rlim_cur;
    lim.rlim_cur = 1000;
    if (setrlimit(RLIMIT_FSIZE, &lim) != 0) return 4;
    for (int i = 0; i < 100; i++) brim_tb_scalar(tb, "x", i, i, &err);
    if (brim_tb_flush(tb, &err) != BRIM_EIO) return 5;
    lim.rlim_cur = before;
    if (setrlimit(RLIMIT_FSIZE, &lim) != 0) return 6;
    if (brim_tb_scalar(tb, "x", 7, 7, &err) != BRIM_OK) return 7;
    if (brim_tb_flush(tb, &err) != BRIM_OK) return 8;
    brim_tb_close(tb);
    return 0;
}

static void a_full_disk_leaves_a_readable_file(void **state)
{
    pid_t pid = fork();
    if (pid == 0) _exit(write_past_the_limit());
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_true(WIFEXITED(st));
    assert_int_equal(WEXITSTATUS(st), 0);
    unsigned char last[256];
    size_t n;
    int files;
    assert_int_equal(count_records(last, &n, &files), 2); /* version and the point after */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crc_known_answers),
        cmocka_unit_test_setup_teardown(writes_events, make_dir, remove_dir),
        cmocka_unit_test_setup_teardown(encodes_a_scalar, make_dir, remove_dir),
        cmocka_unit_test(missing_folder_is_an_error),
        cmocka_unit_test_setup_teardown(a_full_disk_leaves_a_readable_file, make_dir, remove_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
