/* The option machinery: parsing, errors with their remedies, configuration files, help. */
#include "base/mem.h"
#include "cli/options.h"
#include "cli/suggest.h"
#include "io/file.h"
#include "tests.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

static const brim_option table[] = {
    {.group = "Data",
     .name = "data",
     .type = BRIM_OPTION_PATH,
     .arg = "DIR",
     .repeated = true,
     .help = "Folder of class folders"},
    {.name = "batch-size",
     .type = BRIM_OPTION_INT,
     .value = "128",
     .min = 1,
     .max = 65536,
     .words = "auto",
     .help = "Samples a step"},
    {.group = "Training",
     .name = "epochs",
     .type = BRIM_OPTION_INT,
     .value = "10",
     .min = 1,
     .max = INFINITY,
     .help = "Passes over the training set"},
    {.name = "lr", .type = BRIM_OPTION_FLOAT, .value = "0.1", .min = 0, .max = 100, .help = "Rate"},
    {.name = "momentum", .type = BRIM_OPTION_FLOAT, .help = "Any number"},
    {.name = "steps", .type = BRIM_OPTION_INT, .repeated = true, .help = "Where the rate falls"},
    {.name = "precision",
     .type = BRIM_OPTION_CHOICE,
     .words = "fp32|bf16|fp16",
     .value = "fp32",
     .help = "Type of the arithmetic"},
    {.name = "memory",
     .type = BRIM_OPTION_BYTES,
     .min = 1 << 20,
     .max = INFINITY,
     .help = "Hard cap"},
    {.name = "ema", .type = BRIM_OPTION_FLAG, .value = "off", .help = "Average the weights"},
    {.name = "augment", .type = BRIM_OPTION_FLAG, .value = "on", .help = "Random changes"},
    {.group = "Output", .name = "out", .type = BRIM_OPTION_PATH, .help = "Run folder"},
    {.name = "name", .type = BRIM_OPTION_TEXT, .help = "Shown in the report"},
    {.name = "json", .type = BRIM_OPTION_FLAG, .transient = true, .help = "For programs"},
    {.group = "General", .name = "config", .type = BRIM_OPTION_PATH, .help = "Options from a file"},
    {0},
};
static const brim_usage usage = {
    .command = "train",
    .synopsis = "--data DIR [options] [FILE]...",
    .about = "Trains a network on a folder of images, and saves everything that is needed to "
             "go on later.\nA second paragraph.",
    .options = table,
    .examples = "brim train --data photos\nbrim train --data photos --epochs 30",
    .max_args = 2,
};

/* Parses a command line of words separated by '~'. */
static brim_status parse_for(const brim_usage *u, const char *text, brim_options **o,
                             brim_error *err)
{
    static char buf[1024];
    char *argv[32] = {"train"}, *save = NULL;
    int argc = 1;
    snprintf(buf, sizeof buf, "%s", text);
    for (char *w = strtok_r(buf, "~", &save); w; w = strtok_r(NULL, "~", &save)) argv[argc++] = w;
    return brim_options_parse(u, argc, argv, o, err);
}

static brim_options *parse(const char *text)
{
    brim_options *o = NULL;
    brim_error err = {0};
    if (parse_for(&usage, text, &o, &err) != BRIM_OK) fail_msg("%s: %s", text, err.text);
    return o;
}

static void defaults_hold(void **state)
{
    brim_options *o = parse("");
    assert_int_equal(brim_options_int(o, "epochs"), 10);
    assert_true(brim_options_float(o, "lr") == 0.1);
    assert_true(brim_options_float(o, "momentum") == 0);
    assert_null(brim_options_text(o, "momentum"));
    assert_int_equal(brim_options_choice(o, "precision"), 0);
    assert_true(brim_options_is(o, "precision", "fp32"));
    assert_false(brim_options_flag(o, "ema"));
    assert_true(brim_options_flag(o, "augment"));
    assert_int_equal(brim_options_count(o, "data"), 0);
    assert_int_equal(brim_options_args(o), 0);
    assert_false(brim_options_given(o, "lr"));
    brim_options_free(o);
    brim_options_free(NULL);
}

static void reads_every_form(void **state)
{
    brim_options *o = parse("--epochs~3~--lr=1e-3~--momentum~-0.5~--precision=bf16~--memory~8GiB~"
                            "--ema~--no-augment~one~--json~off~--data~a,b~--data=c~--steps~1,2~"
                            "--steps=3~--batch_size=auto~--name=~--~--two");
    assert_int_equal(brim_options_int(o, "epochs"), 3);
    assert_true(brim_options_float(o, "lr") == 1e-3);
    assert_true(brim_options_float(o, "momentum") == -0.5);
    assert_int_equal(brim_options_choice(o, "precision"), 1);
    assert_int_equal(brim_options_bytes(o, "memory"), 8ull << 30);
    assert_true(brim_options_flag(o, "ema"));
    assert_false(brim_options_flag(o, "augment"));
    assert_false(brim_options_flag(o, "json"));
    assert_int_equal(brim_options_count(o, "data"), 2);
    assert_string_equal(brim_options_item(o, "data", 0), "a,b");
    assert_string_equal(brim_options_item(o, "data", 1), "c");
    assert_int_equal(brim_options_count(o, "steps"), 3);
    assert_string_equal(brim_options_item(o, "steps", 2), "3");
    assert_true(brim_options_is(o, "batch-size", "auto"));
    assert_string_equal(brim_options_text(o, "name"), "");
    assert_int_equal(brim_options_args(o), 2);
    assert_string_equal(brim_options_arg(o, 0), "one");
    assert_string_equal(brim_options_arg(o, 1), "--two");
    assert_true(brim_options_given(o, "lr"));
    brim_error err = {0};
    assert_int_equal(brim_options_set(o, "epochs", "7", &err), BRIM_OK);
    assert_int_equal(brim_options_int(o, "epochs"), 7);
    assert_int_equal(brim_options_set(o, "epochs", "-7", &err), BRIM_EINVAL);
    brim_options_free(o);
    o = parse("--lr~1~--lr~2~-"); /* the last counts; "-" is an argument */
    assert_true(brim_options_float(o, "lr") == 2);
    assert_string_equal(brim_options_arg(o, 0), "-");
    brim_options_free(o);
    o = parse("--help~--nonsense");
    assert_true(brim_options_help_asked(o));
    brim_options_free(o);
}

static void mistakes_name_the_remedy(void **state)
{
    static const char *const bad[][2] = {
        {"--epochs~x", "--epochs: \"x\" is not a whole number (give a number such as 10)"},
        {"--epochs=", "--epochs: \"\" is not a whole number (give a number such as 10)"},
        {"--epochs~1.5", "--epochs: \"1.5\" is not a whole number (give a number such as 10)"},
        {"--epochs~ 3", "--epochs: \" 3\" is not a whole number (give a number such as 10)"},
        {"--epochs~99999999999999999999",
         "--epochs: \"99999999999999999999\" is not a whole number (give a number such as 10)"},
        {"--epochs~0", "--epochs: 0 is too small (give at least 1)"},
        {"--epochs~-3", "--epochs: -3 is too small (give at least 1)"},
        {"--batch-size~many",
         "--batch-size: \"many\" is not a whole number (give a number such as 128, or auto)"},
        {"--batch-size~100000", "--batch-size: 100000 is out of range (give 1 to 65536)"},
        {"--lr~nan", "--lr: \"nan\" is not a number (give a number such as 0.1)"},
        {"--lr~-1", "--lr: -1 is out of range (give 0 to 100)"},
        {"--momentum~1e999", "--momentum: \"1e999\" is not a number (give a number such as 0.1)"},
        {"--memory~8X", "--memory: \"8X\" is not a size (give a size such as 8GiB)"},
        {"--memory~1k", "--memory: 1k is too small (give at least 1.00 MiB)"},
        {"--precision~bf61",
         "--precision: \"bf61\" is not one of fp32, bf16 or fp16 (did you mean bf16?)"},
        {"--precision~double", "--precision: \"double\" is not a choice (give fp32, bf16 or fp16)"},
        {"--ema=maybe", "--ema: \"maybe\" is neither on nor off (give one of them)"},
        {"--no-ema=on", "--no-ema: takes no value (give --ema=on or =off)"},
        {"--no-epochs", "--no-epochs: it is not a switch (give --epochs N)"},
        {"--out", "--out: its value is missing (give --out FILE)"},
        {"--out~--ema", "--out: its value is missing (give --out FILE)"},
        {"--out=", "--out: the name is empty (give a path)"},
        {"--epoch~3", "--epoch: there is no such option (did you mean --epochs?)"},
        {"--precison=x", "--precison: there is no such option (did you mean --precision?)"},
        {"--no-augmnt", "--no-augmnt: there is no such option (did you mean --augment?)"},
        {"--xyzzy", "--xyzzy: there is no such option (brim train --help lists them)"},
        {"-e", "-e: options have two dashes (brim train --help lists them; a file: ./-e)"},
        {"a~b~c", "c: one argument too many (usage: brim train --data DIR [options] [FILE]...; "
                  "values of options go behind their --name, patterns in quotes)"},
        {"--steps~1,x", "--steps: \"x\" is not a whole number (give a number such as 10)"},
        {"--config~/nonexistent.yaml", "/nonexistent.yaml: no such file (check the path)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        brim_options *o = NULL;
        brim_error err = {0};
        brim_status s = parse_for(&usage, bad[i][0], &o, &err);
        if (s == BRIM_OK || strcmp(err.text, bad[i][1]) != 0)
            fail_msg("%s gives %d \"%s\"", bad[i][0], s, err.text);
        assert_null(o);
    }
}

static void required_things_are_asked_for(void **state)
{
    static const brim_option opt[] = {{.name = "data",
                                       .type = BRIM_OPTION_PATH,
                                       .arg = "DIR",
                                       .required = true,
                                       .help = "Images"},
                                      {0}};
    static const brim_usage u = {.command = "eval",
                                 .synopsis = "--data DIR FILE",
                                 .about = "",
                                 .options = opt,
                                 .min_args = 1,
                                 .max_args = -1};
    brim_options *o;
    brim_error err = {0};
    assert_int_equal(parse_for(&u, "f", &o, &err), BRIM_EINVAL);
    assert_string_equal(err.text, "--data: it must be given (--data DIR: Images)");
    assert_int_equal(parse_for(&u, "--data~x", &o, &err), BRIM_EINVAL);
    assert_string_equal(err.text, "an argument is missing (usage: brim eval --data DIR FILE)");
    assert_int_equal(parse_for(&u, "--data~x~a~b~c", &o, &err), BRIM_OK);
    assert_int_equal(brim_options_args(o), 3);
    brim_options_free(o);
}

static char file[64];

static void write_file(const char *text)
{
    brim_error err = {0};
    snprintf(file, sizeof file, "/tmp/brim-test-options-%ld.yaml", (long)getpid());
    if (brim_file_save(file, text, strlen(text), &err) != BRIM_OK) fail_msg("%s", err.text);
}

static void the_command_line_wins_over_the_file(void **state)
{
    write_file("epochs: 50\nbatch_size: 64\nlr: 0.2\ndata: [\"x,y\", z]\nsteps: 4,5\nema: yes\n");
    char line[128];
    snprintf(line, sizeof line, "--lr~0.3~--config~%s~--steps~9", file);
    brim_options *o = parse(line);
    assert_int_equal(brim_options_int(o, "epochs"), 50);
    assert_int_equal(brim_options_int(o, "batch-size"), 64);
    assert_true(brim_options_float(o, "lr") == 0.3);
    assert_true(brim_options_flag(o, "ema"));
    assert_true(brim_options_given(o, "epochs"));
    assert_int_equal(brim_options_count(o, "data"), 2);
    assert_string_equal(brim_options_item(o, "data", 0), "x,y");
    assert_int_equal(brim_options_count(o, "steps"), 1);
    brim_error err = {0};
    write_file("epochs: 60\nsteps: [1, 2]\ndata: q\n"); /* a second file replaces, not appends */
    assert_int_equal(brim_options_read(o, file, &err), BRIM_OK);
    assert_int_equal(brim_options_int(o, "epochs"), 60);
    assert_int_equal(brim_options_count(o, "data"), 1);
    assert_int_equal(brim_options_count(o, "steps"), 1);
    brim_options_free(o);
    unlink(file);
}

static void mistakes_in_the_file_name_the_line(void **state)
{
    static const char *const bad[][2] = {
        {"\nepochs: x\n", ":2: epochs: \"x\" is not a whole number (give a number such as 10)"},
        {"epoch: 3\n", ":1: epoch: there is no such option (did you mean epochs?)"},
        {"xyzzy: 3\n", ":1: xyzzy: there is no such option (brim train --help lists them)"},
        {"batch-size: 1\nbatch_size: 2\n",
         ":2: batch-size: given twice, first in line 1 (delete one)"},
        {"lr: [1, 2]\n", ":1: lr: takes one value, not a list (remove the brackets)"},
        {"lr: -5\n", ":1: lr: -5 is out of range (give 0 to 100)"}, /* though --lr is given */
        {"config: x\n", ":1: config: a file cannot read another (put its lines here)"},
        {"lr: {a: 1}\n", ":1: lr: wants one value or a flat list (do not nest)"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(bad[i][0]);
        char line[128], want[256];
        snprintf(line, sizeof line, "--lr~0.3~--config~%s", file);
        snprintf(want, sizeof want, "%s%s", file, bad[i][1]);
        brim_options *o;
        brim_error err = {0};
        assert_int_not_equal(parse_for(&usage, line, &o, &err), BRIM_OK);
        assert_string_equal(err.text, want);
    }
    unlink(file);
}

static void what_is_saved_reads_back(void **state)
{
    brim_options *o = parse("--data~a b~--data~c,d~--lr~1e-3~--name~x: #y~--json~--steps~1,2");
    brim_str text = {0}, again = {0};
    brim_options_save(o, &text);
    assert_string_equal(text.at, "data: [\"a b\", \"c,d\"]\nbatch-size: 128\nepochs: 10\nlr: 1e-3\n"
                                 "steps: [1, 2]\nprecision: fp32\nema: off\naugment: on\n"
                                 "name: \"x: #y\"\n");
    brim_options_free(o);
    write_file(text.at);
    char line[128];
    snprintf(line, sizeof line, "--config=%s", file);
    o = parse(line);
    brim_options_save(o, &again);
    assert_string_equal(again.at, text.at);
    brim_options_free(o);
    brim_str_free(&text);
    brim_str_free(&again);
    unlink(file);
}

static void help_is_complete_and_fits(void **state)
{
    for (int width = 80; width <= 100; width += 20) {
        brim_str text = {0};
        brim_options_help(&usage, width, &text);
        int column = 0;
        for (const char *p = text.at; *p; p++) {
            column = *p == '\n' ? 0 : column + 1;
            assert_true(column <= width);
            if (*p == '\n' && p > text.at) assert_true(p[-1] != ' ');
        }
        for (const brim_option *d = table; d->name; d++) {
            assert_non_null(strstr(text.at, d->name));
            assert_non_null(strstr(text.at, d->help));
        }
        assert_non_null(strstr(text.at, "\nData:\n  --data DIR        Folder of class folders"));
        assert_non_null(strstr(text.at, "--batch-size N    Samples a step (1 to 65536; or auto; "
                                        "default 128)\n"));
        assert_non_null(strstr(text.at, ": fp32, bf16, fp16 (default fp32)\n"));
        assert_non_null(strstr(text.at, "--[no-]augment"));
        assert_non_null(strstr(text.at, "  --ema "));
        assert_non_null(strstr(text.at, "\nExamples:\n  brim train --data photos\n"));
        brim_str_free(&text);
    }
}

static void edit_distances(void **state)
{
    static const struct {
        const char *a, *b;
        size_t d;
    } c[] = {{"", "", 0},       {"", "abc", 3},    {"abc", "abc", 0},
             {"abc", "abd", 1}, {"abc", "acb", 1}, {"kitten", "sitting", 3},
             {"abc", "bc", 1},  {"a", "", 1},      {"ca", "abc", 3}};
    for (size_t i = 0; i < sizeof c / sizeof *c; i++) {
        assert_int_equal(brim_edit_distance(c[i].a, c[i].b), c[i].d);
        assert_int_equal(brim_edit_distance(c[i].b, c[i].a), c[i].d);
    }
    char longest[100];
    memset(longest, 'a', 99);
    longest[99] = 0;
    assert_true(brim_edit_distance(longest, "a") == SIZE_MAX);
}

static void out_of_memory_is_an_error(void **state)
{
    for (int k = 1; k < 200; k++) {
        brim_options *o = NULL;
        brim_error err = {0};
        brim_mem_fail_after(k);
        brim_status s = parse_for(&usage, "--data~a~--data~b~--steps~1,2,3~--lr~1~x", &o, &err);
        brim_mem_fail_after(0);
        if (s == BRIM_OK) {
            brim_options_free(o);
            assert_true(k > 10);
            return;
        }
        assert_int_equal(s, BRIM_ENOMEM);
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold),
        cmocka_unit_test(reads_every_form),
        cmocka_unit_test(mistakes_name_the_remedy),
        cmocka_unit_test(required_things_are_asked_for),
        cmocka_unit_test(the_command_line_wins_over_the_file),
        cmocka_unit_test(mistakes_in_the_file_name_the_line),
        cmocka_unit_test(what_is_saved_reads_back),
        cmocka_unit_test(help_is_complete_and_fits),
        cmocka_unit_test(edit_distances),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
