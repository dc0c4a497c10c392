/* Tables, bars, width of text, errors, and the status line in a pipe and on a terminal. */
#include "base/log.h"
#include "cli/cli.h"
#include "cli/table.h"
#include "cli/term.h"
#include "tests.h"

#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void tables_are_aligned(void **state)
{
    static const brim_column column[] = {
        {.title = "kind"}, {.title = "memory", .unit = "MiB", .right = true}, {.title = "note"}};
    brim_table t;
    brim_table_init(&t, column, 3);
    brim_table_cell(&t, "w\xc3\xa9ights");
    brim_table_cell(&t, "%.1f", 44.7);
    brim_table_cell(&t, "%s", "");
    brim_table_cell(&t, "x");
    brim_table_cell(&t, "1024.0");
    brim_table_cell(&t, "kept");
    brim_table_rule(&t);
    brim_table_cell(&t, "sum");
    brim_table_cell(&t, "1068.7");
    brim_table_cell(&t, "%s", "");
    brim_str s = {0};
    brim_table_print(&t, 1, &s);
    assert_string_equal(s.at, " kind     memory MiB  note\n"
                              " -------  ----------  ----\n"
                              " w\xc3\xa9ights        44.7\n"
                              " x            1024.0  kept\n"
                              " -------  ----------  ----\n"
                              " sum          1068.7\n");
    brim_str_free(&s);
    brim_table_free(&t);
}

static void tables_survive_failed_allocations(void **state)
{
    static const brim_column column[] = {{.title = "a"}, {.title = "b"}};
    for (int k = 1; k < 8; k++) {
        brim_table t;
        brim_str s = {0};
        brim_mem_fail_after(k);
        brim_table_init(&t, column, 2);
        for (int i = 0; i < 4; i++) brim_table_cell(&t, "%d", i);
        brim_table_rule(&t);
        brim_table_print(&t, 0, &s);
        brim_mem_fail_after(0);
        assert_true(s.failed);
        brim_str_free(&s);
        brim_table_free(&t);
    }
}

static const char *bar(double share, int width)
{
    static char text[256];
    brim_str s = {0};
    brim_bar(&s, share, width);
    snprintf(text, sizeof text, "%s", brim_str_text(&s));
    brim_str_free(&s);
    return text;
}

static void bars_fill(void **state)
{
    setenv("LC_ALL", "C", 1);
    assert_false(brim_term_utf8());
    assert_string_equal(bar(0.5, 8), "####    ");
    assert_string_equal(bar(-1, 2), "  ");
    assert_string_equal(bar(0.0 / 0.0, 2), "  ");
    assert_string_equal(bar(7, 2), "##");
    setenv("LC_ALL", "C.UTF-8", 1);
    assert_true(brim_term_utf8());
    assert_string_equal(bar(0.5, 3), "\xe2\x96\x88\xe2\x96\x8c "); /* one and a half */
    for (int i = 0; i <= 100; i++) assert_int_equal(brim_text_width(bar(i / 100.0, 13)), 13);
}

static void text_has_a_width(void **state)
{
    assert_int_equal(brim_text_width("abc"), 3);
    assert_int_equal(brim_text_width("\xc3\xa9"), 1);
    assert_int_equal(brim_text_width("e\xcc\x81"), 1);                /* a combining accent */
    assert_int_equal(brim_text_width("\xe6\xbc\xa2\xe5\xad\x97"), 4); /* two wide letters */
    assert_int_equal(brim_text_width("\033[1mab\033[0m"), 2);
    assert_int_equal(brim_text_width("\033["), 0);
    assert_int_equal(brim_text_width("\xff"), 1);
    brim_str s = {0};
    brim_text_clip(&s, "a\xe6\xbc\xa2z", 2);
    assert_string_equal(brim_str_text(&s), "a");
    brim_str_free(&s);
}

/* Swaps a descriptor for another while fn runs, then reads what `from` got. */
static void capture(int fd, int to, int from, void (*fn)(void), char *out, size_t size)
{
    fflush(stdout);
    fflush(stderr);
    int saved = dup(fd);
    dup2(to, fd);
    fn();
    fflush(stdout);
    fflush(stderr);
    dup2(saved, fd);
    close(saved);
    size_t n = 0;
    fcntl(from, F_SETFL, O_NONBLOCK);
    for (ssize_t got; n + 1 < size && (got = read(from, out + n, size - 1 - n)) > 0;)
        n += (size_t)got;
    out[n] = 0;
}

static void show_some(void)
{
    brim_term_status("step 1", 3600);
    brim_term_status("step 2", 3600);
    brim_warn("image %d is damaged", 7);
    brim_term_status("step 3", 0);
    brim_term_status_end();
    brim_warn("after");
}

static void status_in_a_pipe_is_plain_lines(void **state)
{
    int p[2];
    char got[1024];
    assert_int_equal(pipe(p), 0);
    capture(2, p[1], p[0], show_some, got, sizeof got);
    assert_string_equal(got, "step 1\nbrim: warning: image 7 is damaged\nstep 3\n"
                             "brim: warning: after\n");
    close(p[0]);
    close(p[1]);
}

static void status_on_a_terminal_stays_below(void **state)
{
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) skip();
    int tty = open(ptsname(master), O_RDWR | O_NOCTTY);
    if (tty < 0) skip();
    struct winsize size = {.ws_col = 6, .ws_row = 24};
    ioctl(tty, TIOCSWINSZ, &size);
    char got[1024];
    capture(2, tty, master, show_some, got, sizeof got);
    assert_string_equal(got, "\rstep \033[K"
                             "\rstep \033[K"
                             "\r\033[Kbrim: warning: image 7 is damaged\r\n"
                             "\rstep \033[K"
                             "\rstep \033[K"
                             "\r\033[Kbrim: warning: after\r\n");
    close(tty);
    close(master);
}

static void fail_loudly(void)
{
    brim_error err = {0};
    brim_fail(&err, BRIM_EIO, "a\033[2Jb\n\xc3\xa9\xff\xc2\x9bz: broken (mend it)");
    assert_int_equal(brim_cli_failed("train", &err), 1);
    assert_int_equal(brim_cli_misused(NULL, &err), 2);
}

static void errors_cannot_steer_the_terminal(void **state)
{
    int p[2];
    char got[1024];
    assert_int_equal(pipe(p), 0);
    capture(2, p[1], p[0], fail_loudly, got, sizeof got);
    assert_string_equal(got, "brim: train: a?[2Jb?\xc3\xa9???z: broken (mend it)\n"
                             "brim: a?[2Jb?\xc3\xa9???z: broken (mend it)\n");
    close(p[0]);
    close(p[1]);
}

static void styles_need_a_terminal(void **state)
{
    FILE *null = fopen("/dev/null", "w");
    assert_false(brim_term_is_tty(null));
    assert_int_equal(brim_term_width(null), 80);
    assert_string_equal(brim_term_style(null, BRIM_STYLE_BOLD), "");
    fclose(null);
    int master = posix_openpt(O_RDWR | O_NOCTTY);
    if (master < 0 || grantpt(master) != 0 || unlockpt(master) != 0) skip();
    FILE *tty = fopen(ptsname(master), "w");
    if (!tty) skip();
    setenv("TERM", "xterm", 1);
    unsetenv("NO_COLOR");
    assert_string_equal(brim_term_style(tty, BRIM_STYLE_BOLD), "\033[1m");
    setenv("NO_COLOR", "1", 1);
    assert_string_equal(brim_term_style(tty, BRIM_STYLE_BOLD), "");
    fclose(tty);
    close(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_aligned),
        cmocka_unit_test(tables_survive_failed_allocations),
        cmocka_unit_test(bars_fill),
        cmocka_unit_test(text_has_a_width),
        cmocka_unit_test(status_in_a_pipe_is_plain_lines),
        cmocka_unit_test(status_on_a_terminal_stays_below),
        cmocka_unit_test(errors_cannot_steer_the_terminal),
        cmocka_unit_test(styles_need_a_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
