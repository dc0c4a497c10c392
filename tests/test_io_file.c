/* Whole files: reading, atomic replacement, folders; full disks, links, permissions, kill -9. */
#include "base/mem.h"
#include "io/file.h"
#include "tests.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[32];

static const char *in_dir(const char *name)
{
    static char buf[4][256]; /* room for four names in one call */
    static int k;
    k = (k + 1) % 4;
    snprintf(buf[k], sizeof buf[k], "%s/%s", dir, name);
    return buf[k];
}

static int make_dir(void **state)
{
    strcpy(dir, "/tmp/brim-test-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "chmod -R u+rwx '%s' && rm -rf '%s'", dir, dir);
    return system(cmd) == 0 ? 0 : -1;
}

static void assert_file_is(const char *path, const char *want)
{
    char *text;
    size_t n;
    brim_error err = {0};
    if (brim_file_read(path, 1 << 20, &text, &n, &err) != BRIM_OK) fail_msg("%s", err.text);
    assert_int_equal(n, strlen(want));
    assert_string_equal(text, want);
    free(text);
}

static int temporaries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += strstr(e->d_name, ".brim~") != NULL;
    closedir(d);
    return n;
}

/* Runs fn in a child process; fn returns whether it saw what it expected, -1 to skip. */
static void in_child(int (*fn)(void))
{
    pid_t pid = fork();
    if (pid == 0) _exit(fn() & 0xff);
    int st;
    assert_int_equal(waitpid(pid, &st, 0), pid);
    assert_true(WIFEXITED(st));
    if (WEXITSTATUS(st) == 0xff) skip();
    assert_int_equal(WEXITSTATUS(st), 1);
}

static void reads_whole_files(void **state)
{
    const char *p = in_dir("f");
    brim_error err = {0};
    assert_int_equal(brim_file_save(p, "", 0, &err), BRIM_OK);
    assert_file_is(p, "");
    assert_int_equal(brim_file_save(p, "hello", 5, &err), BRIM_OK);
    assert_file_is(p, "hello");
    char *text = NULL;
    size_t n = 0;
    assert_int_equal(brim_file_read(p, 5, &text, &n, &err), BRIM_OK);
    free(text);
    text = NULL;
    assert_int_equal(brim_file_read(p, 4, &text, &n, &err), BRIM_EFORMAT);
    assert_null(text);
    assert_non_null(strstr(err.text, "longer than the 4 bytes"));
    assert_int_equal(brim_file_read("/proc/self/status", 1 << 20, &text, &n, &err), BRIM_OK);
    assert_true(n > 100 && text[n] == 0); /* fstat says 0 bytes */
    free(text);
}

static void refuses_what_is_no_file(void **state)
{
    char *text;
    size_t n;
    brim_error err = {0};
    assert_int_equal(brim_file_read(in_dir("none"), 10, &text, &n, &err), BRIM_ENOTFOUND);
    assert_non_null(strstr(err.text, "no such file"));
    assert_int_equal(brim_file_read(dir, 10, &text, &n, &err), BRIM_EIO);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(mkfifo(in_dir("pipe"), 0600), 0);
    assert_int_equal(brim_file_read(in_dir("pipe"), 10, &text, &n, &err), BRIM_EIO);
    assert_int_equal(brim_file_save(in_dir("pipe"), "x", 1, &err), BRIM_EIO);
    assert_int_equal(brim_file_save("/dev/null", "x", 1, &err), BRIM_EIO);
    assert_non_null(strstr(err.text, "is a device or a pipe"));
    assert_int_equal(brim_file_save(dir, "x", 1, &err), BRIM_EIO);
    assert_int_equal(brim_file_save("", "x", 1, &err), BRIM_EINVAL);
    assert_int_equal(brim_file_save(in_dir("no/such/folder"), "x", 1, &err), BRIM_ENOTFOUND);
    assert_non_null(strstr(err.text, "mkdir -p"));
    char longest[600];
    memset(longest, 'a', sizeof longest);
    longest[0] = '/';
    longest[sizeof longest - 1] = 0;
    assert_int_equal(brim_file_save(longest, "x", 1, &err), BRIM_EIO);
}

static void replaces_and_abandons(void **state)
{
    const char *p = in_dir("r");
    brim_error err = {0};
    brim_file_writer *w;
    assert_int_equal(brim_file_save(p, "old", 3, &err), BRIM_OK);
    assert_int_equal(chmod(p, 0640), 0);
    assert_int_equal(brim_file_replace(p, &w, &err), BRIM_OK);
    brim_file_write(w, "half", 4);
    assert_file_is(p, "old");
    assert_int_equal(temporaries(dir), 1);
    brim_file_abandon(w);
    brim_file_abandon(NULL);
    assert_file_is(p, "old");
    assert_int_equal(temporaries(dir), 0);

    assert_int_equal(brim_file_replace(p, &w, &err), BRIM_OK);
    char big[200000]; /* larger than the buffer, behind something small */
    memset(big, 'x', sizeof big);
    brim_file_write(w, "ab", 2);
    brim_file_write(w, big, sizeof big - 1);
    brim_file_write(w, "c", 1);
    assert_int_equal(brim_file_commit(w, &err), BRIM_OK);
    char *text;
    size_t n;
    assert_int_equal(brim_file_read(p, 1 << 20, &text, &n, &err), BRIM_OK);
    assert_int_equal(n, sizeof big + 2);
    assert_int_equal(text[1], 'b');
    assert_int_equal(text[n - 1], 'c');
    free(text);
    struct stat st;
    assert_int_equal(stat(p, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0640);
    assert_int_equal(temporaries(dir), 0);
}

static void two_writers_do_not_meet(void **state)
{
    const char *p = in_dir("two");
    brim_error err = {0};
    brim_file_writer *a, *b;
    assert_int_equal(brim_file_replace(p, &a, &err), BRIM_OK);
    assert_int_equal(brim_file_replace(p, &b, &err), BRIM_OK); /* must not take a's temporary */
    brim_file_write(a, "a", 1);
    brim_file_write(b, "bb", 2);
    assert_int_equal(brim_file_commit(b, &err), BRIM_OK);
    assert_file_is(p, "bb");
    assert_int_equal(brim_file_commit(a, &err), BRIM_OK);
    assert_file_is(p, "a");
}

static void follows_links(void **state)
{
    brim_error err = {0};
    assert_int_equal(mkdir(in_dir("real"), 0777), 0);
    assert_int_equal(brim_file_save(in_dir("real/t"), "1", 1, &err), BRIM_OK);
    assert_int_equal(symlink("real/t", in_dir("link")), 0);
    assert_int_equal(brim_file_save(in_dir("link"), "2", 1, &err), BRIM_OK);
    struct stat st;
    assert_int_equal(lstat(in_dir("link"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
    assert_file_is(in_dir("real/t"), "2");
    assert_int_equal(symlink("nowhere", in_dir("dangling")), 0);
    assert_int_equal(brim_file_save(in_dir("dangling"), "2", 1, &err), BRIM_EIO);
    assert_non_null(strstr(err.text, "symbolic link to nothing"));
}

static void works_without_a_folder_in_the_path(void **state)
{
    char back[512];
    assert_non_null(getcwd(back, sizeof back));
    assert_int_equal(chdir(dir), 0);
    brim_error err = {0};
    assert_int_equal(brim_file_save("bare", "1", 1, &err), BRIM_OK);
    assert_int_equal(brim_file_save("bare", "2", 1, &err), BRIM_OK);
    assert_file_is("bare", "2");
    char name[251]; /* the temporary's name must still fit */
    memset(name, 'n', 250);
    name[250] = 0;
    assert_int_equal(brim_file_save(name, "1", 1, &err), BRIM_OK);
    assert_int_equal(chdir(back), 0);
}

static void makes_folders(void **state)
{
    brim_error err = {0};
    assert_int_equal(brim_make_dirs(in_dir("a//b/c/"), &err), BRIM_OK);
    assert_int_equal(brim_make_dirs(in_dir("a/b/c"), &err), BRIM_OK);
    assert_true(brim_file_exists(in_dir("a/b/c")));
    assert_false(brim_file_exists(in_dir("a/b/d")));
    assert_int_equal(brim_file_save(in_dir("a/file"), "1", 1, &err), BRIM_OK);
    assert_int_equal(brim_make_dirs(in_dir("a/file/x"), &err), BRIM_EIO);
    assert_non_null(strstr(err.text, "is not a folder"));
    assert_int_equal(brim_make_dirs("", &err), BRIM_EINVAL);
}

static int file_size_limited(void)
{
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit lim = {.rlim_cur = 100000, .rlim_max = 100000};
    if (setrlimit(RLIMIT_FSIZE, &lim) != 0) return -1;
    char *big = calloc(1, 300000);
    brim_error err = {0};
    brim_status s = brim_file_save(in_dir("limited"), big, 300000, &err);
    free(big);
    return s == BRIM_EIO && strstr(err.text, "too large") != NULL;
}

static int disk_full(void)
{
    if (mkdir(in_dir("small"), 0777) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", in_dir("small"), "tmpfs", 0, "size=65536") != 0)
        return -1;
    char *big = malloc(300000), *text;
    memset(big, 'x', 300000);
    brim_error err = {0};
    size_t n;
    const char *p = in_dir("small/f");
    bool ok = brim_file_save(p, "old", 3, &err) == BRIM_OK;
    ok = ok && brim_file_save(p, big, 300000, &err) == BRIM_EIO;
    ok = ok && strstr(err.text, "the disk is full") && temporaries(in_dir("small")) == 0;
    ok = ok && brim_file_read(p, 10, &text, &n, &err) == BRIM_OK && strcmp(text, "old") == 0;
    if (ok) free(text);
    free(big);
    umount(in_dir("small"));
    return ok;
}

static int folder_read_only(void)
{
    brim_error err = {0};
    if (brim_make_dirs(in_dir("closed"), &err) != BRIM_OK ||
        brim_file_save(in_dir("guarded"), "1", 1, &err) != BRIM_OK || chmod(dir, 0777) != 0 ||
        chmod(in_dir("closed"), 0555) != 0 || chmod(in_dir("guarded"), 0444) != 0)
        return -1;
    if (geteuid() == 0 && seteuid(65534) != 0) return -1; /* root may write anywhere */
    bool ok = brim_file_save(in_dir("guarded"), "2", 1, &err) == BRIM_EIO &&
              strstr(err.text, "write-protected") != NULL;
    ok = ok && brim_file_save(in_dir("closed/x"), "1", 1, &err) == BRIM_EIO &&
         strstr(err.text, "chmod u+w") != NULL;
    ok = ok && brim_make_dirs(in_dir("closed/x"), &err) == BRIM_EIO;
    return ok;
}

static void size_limit_is_reported(void **state)
{
    in_child(file_size_limited);
    assert_int_equal(temporaries(dir), 0);
    assert_false(brim_file_exists(in_dir("limited")));
}

static void full_disk_keeps_the_old_file(void **state)
{
    in_child(disk_full);
}

static void read_only_folder_says_what_to_do(void **state)
{
    in_child(folder_read_only);
}

/* Saves for ever: every version is one letter, many times. */
static void save_for_ever(const char *path)
{
    static char buf[300000];
    for (unsigned k = 0;; k++) {
        memset(buf, (int)('a' + k % 26), sizeof buf);
        brim_file_save(path, buf, sizeof buf, NULL);
    }
}

static void kill_leaves_a_whole_file(void **state)
{
    const char *p = in_dir("killed");
    brim_error err = {0};
    for (int round = 0; round < 20; round++) {
        pid_t pid = fork();
        if (pid == 0) save_for_ever(p);
        usleep(2000u + (unsigned)round * 1700u);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (!brim_file_exists(p)) continue;
        char *text;
        size_t n;
        assert_int_equal(brim_file_read(p, 1 << 20, &text, &n, &err), BRIM_OK);
        assert_int_equal(n, 300000);
        for (size_t i = 1; i < n; i++) assert_int_equal(text[i], text[0]);
        free(text);
    }
    assert_int_equal(brim_file_save(p, "end", 3, &err), BRIM_OK);
    assert_int_equal(temporaries(dir), 0); /* what the killed ones left is gone */
}

static void out_of_memory_is_an_error(void **state)
{
    brim_error err = {0};
    char *text;
    size_t n;
    assert_int_equal(brim_file_save(in_dir("m"), "1", 1, &err), BRIM_OK);
    for (int k = 1; k <= 4; k++) {
        brim_mem_fail_after(k);
        brim_status s = brim_file_save(in_dir("m"), "2", 1, &err);
        brim_mem_fail_after(0);
        assert_int_equal(s, BRIM_ENOMEM);
    }
    brim_mem_fail_after(1);
    assert_int_equal(brim_file_read(in_dir("m"), 10, &text, &n, &err), BRIM_ENOMEM);
    assert_int_equal(brim_make_dirs(in_dir("mm"), &err), BRIM_ENOMEM);
    brim_mem_fail_after(0);
    assert_file_is(in_dir("m"), "1");
    assert_int_equal(temporaries(dir), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_whole_files),
        cmocka_unit_test(refuses_what_is_no_file),
        cmocka_unit_test(replaces_and_abandons),
        cmocka_unit_test(two_writers_do_not_meet),
        cmocka_unit_test(follows_links),
        cmocka_unit_test(works_without_a_folder_in_the_path),
        cmocka_unit_test(makes_folders),
        cmocka_unit_test(size_limit_is_reported),
        cmocka_unit_test(full_disk_keeps_the_old_file),
        cmocka_unit_test(read_only_folder_says_what_to_do),
        cmocka_unit_test(kill_leaves_a_whole_file),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_dir, remove_dir);
}
