/* Flat YAML: what is taken, what is refused and with which words, and that emit reads back. */
#include "base/mem.h"
#include "io/yaml.h"
#include "tests.h"

#include <stdio.h>
#include <string.h>

static void reads_scalars_and_lists(void **state)
{
    static const char text[] = "# a run\n"
                               "---\n"
                               "model: resnet18\n"
                               "lr: 1e-3   # small\n"
                               "data: \"a b: #c\"\n"
                               "empty: ''\n"
                               "steps: [30, 60, '90']\n"
                               "freeze:\n  - layer1.*\n  - layer2.*\n"
                               "none: []\n"
                               "long: >\n  two\n  lines\n";
    static const char *const want[][2] = {
        {"model", "resnet18"}, {"lr", "1e-3"},          {"data", "a b: #c"},
        {"empty", ""},         {"steps", "30\n60\n90"}, {"freeze", "layer1.*\nlayer2.*"},
        {"none", ""},          {"long", "two lines\n"},
    };
    brim_yaml y;
    brim_error err = {0};
    if (brim_yaml_parse("c.yaml", text, sizeof text - 1, &y, &err) != BRIM_OK)
        fail_msg("%s", err.text);
    assert_int_equal(y.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < y.n; i++) {
        assert_string_equal(y.at[i].key, want[i][0]);
        assert_string_equal(y.at[i].value, want[i][1]);
    }
    assert_int_equal(y.at[0].line, 3);
    assert_false(y.at[0].list);
    assert_true(y.at[4].list);
    assert_true(y.at[6].list);
    assert_int_equal(y.at[5].line, 8);
    brim_yaml_free(&y);
}

static void takes_empty_files(void **state)
{
    static const char *const text[] = {"", "\n\n", "# only this\n", "---\n", "--- {}\n"};
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        brim_yaml y;
        assert_int_equal(brim_yaml_parse("c.yaml", text[i], strlen(text[i]), &y, NULL), BRIM_OK);
        assert_int_equal(y.n, 0);
        brim_yaml_free(&y);
    }
}

static void refuses_with_line_and_reason(void **state)
{
    static const char *const bad[][2] = {
        {"a: 1\nb: {c: 1}\n", "c.yaml:2: b: wants one value or a flat list"},
        {"a: [[1]]\n", "c.yaml:1: a: wants one value"},
        {"a: &x 1\n", "c.yaml:1: a: anchors"},
        {"a: [&x 1]\n", "c.yaml:1: a: anchors"},
        {"a: &x [1]\n", "c.yaml:1: a: anchors"},
        {"a: *x\n", "c.yaml:1: "},
        {"b: &b 1\na: *b\n", "c.yaml:1: b: anchors"},
        {"a: !!python/object:os.system x\n", "c.yaml:1: a: tags"},
        {"!!map {a: 1}\n", "c.yaml:1: anchors and tags"},
        {"a: 1\n\na: 2\n", "c.yaml:3: a: given twice, first in line 1"},
        {"a:\n", "c.yaml:1: a: has no value"},
        {"a: ~\n", "c.yaml:1: a: has no value"},
        {"a: [null]\n", "c.yaml:1: a: has no value"},
        {"a: [\"1\\n2\"]\n", "c.yaml:1: a: an item of a list has several lines"},
        {"a: \"x\\0y\"\n", "c.yaml:1: a: holds a zero byte"},
        {"- a\n- b\n", "c.yaml:1: not a list of options"},
        {"just text\n", "c.yaml:1: not a list of options"},
        {"a: 1\n---\nb: 2\n", "c.yaml:2: a second document"},
        {"a: 'x\n", "c.yaml:"},
        {"a: 1\n\tb: 2\n", "c.yaml:2: not YAML"},
        {"\x00\x01\x02\xff\xfe", "c.yaml:1: not YAML"},
        {"a: \xff\n", "c.yaml:1: not YAML"},
        {"[a]: 1\n", "c.yaml:1: key: wants one value"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        brim_yaml y;
        brim_error err = {0};
        size_t n = bad[i][0][0] ? strlen(bad[i][0]) : 5;
        brim_status s = brim_yaml_parse("c.yaml", bad[i][0], n, &y, &err);
        if (s != BRIM_EFORMAT || strncmp(err.text, bad[i][1], strlen(bad[i][1])) != 0)
            fail_msg("%s gives %d \"%s\"", bad[i][0], s, err.text);
        assert_int_equal(y.n, 0);
        assert_null(y.at);
    }
}

static void bounds_size_and_keys(void **state)
{
    brim_str s = {0};
    for (int i = 0; i <= 1000; i++) brim_str_printf(&s, "k%d: 1\n", i);
    brim_yaml y;
    brim_error err = {0};
    assert_int_equal(brim_yaml_parse("c.yaml", s.at, s.n, &y, &err), BRIM_EFORMAT);
    assert_non_null(strstr(err.text, "c.yaml:1001: more than 1000 keys"));
    s.n = 0;
    while (s.n <= 1 << 20) brim_str_add(&s, "# padding padding padding padding\n");
    assert_int_equal(brim_yaml_parse("c.yaml", s.at, s.n, &y, &err), BRIM_EFORMAT);
    brim_str_free(&s);
    assert_int_equal(brim_yaml_read("/nonexistent.yaml", &y, &err), BRIM_ENOTFOUND);
}

static void emitted_values_read_back(void **state)
{
    static const char *const value[] = {
        "resnet18",
        "1e-3",
        "-1",
        "8GiB",
        "a,b",
        "a b",
        "",
        "null",
        "~",
        "yes",
        "- x",
        "-x",
        "a: b",
        "a #b",
        "#a",
        "&a",
        "*a",
        "!t",
        "\"q\"",
        "it's",
        "@x",
        "a\nb",
        "\ttab ",
        "{a}",
        "[a]",
        "%x",
        "`x`",
        "|",
        ">",
        "a:",
        "=",
        "---",
        "...",
        "\x01\x1b[31m",
        "\xc3\xa9 \xf0\x9f\x98\x80",
        "\xc2\x85\xe2\x80\xa8x",
        "\xef\xbb\xbf",
        "C:\\data\\x",
        "/data/a.tar",
        "train-{0..4}.tar",
        "?",
        "? a",
        ",",
    };
    for (size_t i = 0; i < sizeof value / sizeof *value; i++) {
        brim_str s = {0};
        brim_yaml_emit(&s, "key", value[i]);
        brim_yaml y;
        brim_error err = {0};
        if (brim_yaml_parse("c.yaml", s.at, s.n, &y, &err) != BRIM_OK)
            fail_msg("%s: %s", s.at, err.text);
        assert_int_equal(y.n, 1);
        assert_string_equal(y.at[0].value, value[i]);
        brim_yaml_free(&y);
        brim_str_free(&s);
    }
    brim_str s = {0};
    brim_yaml_emit(&s, "model", "resnet18");
    brim_yaml_emit(&s, "out", "my runs/a");
    assert_string_equal(s.at, "model: resnet18\nout: \"my runs/a\"\n");
    brim_str_free(&s);
}

static void emitted_lists_read_back(void **state)
{
    static const char *const item[] = {"a", "b,c", "[x]", "", "d e", "train-{0..4}.tar"};
    brim_str s = {0};
    brim_yaml_emit_list(&s, "data", item, 6);
    brim_yaml_emit_list(&s, "none", NULL, 0);
    assert_string_equal(s.at, "data: [a, \"b,c\", \"[x]\", \"\", \"d e\", \"train-{0..4}.tar\"]\n"
                              "none: []\n");
    brim_yaml y;
    assert_int_equal(brim_yaml_parse("c.yaml", s.at, s.n, &y, NULL), BRIM_OK);
    assert_string_equal(y.at[0].value, "a\nb,c\n[x]\n\nd e\ntrain-{0..4}.tar");
    assert_string_equal(y.at[1].value, "");
    brim_yaml_free(&y);
    brim_str_free(&s);
}

static void out_of_memory_is_an_error(void **state)
{
    static const char text[] = "a: 1\nb: [1, 2]\n";
    for (int k = 1; k < 100; k++) {
        brim_yaml y;
        brim_error err = {0};
        brim_mem_fail_after(k);
        brim_status s = brim_yaml_parse("c.yaml", text, sizeof text - 1, &y, &err);
        brim_mem_fail_after(0);
        if (s == BRIM_OK) {
            brim_yaml_free(&y);
            assert_true(k > 5);
            return;
        }
        assert_int_equal(s, BRIM_ENOMEM);
    }
    fail();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_scalars_and_lists),      cmocka_unit_test(takes_empty_files),
        cmocka_unit_test(refuses_with_line_and_reason), cmocka_unit_test(bounds_size_and_keys),
        cmocka_unit_test(emitted_values_read_back),     cmocka_unit_test(emitted_lists_read_back),
        cmocka_unit_test(out_of_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
