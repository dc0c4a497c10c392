/* JSON lines: what is written, jansson reads back. */
#include "io/json.h"
#include "io/utf8.h"
#include "tests.h"

#include <float.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <string.h>

static void writes_nested_values(void **state)
{
    brim_str s = {0};
    brim_json j;
    brim_json_begin(&j, &s, '{');
    brim_json_int(&j, "step", -3);
    brim_json_number(&j, "loss", 0.1);
    brim_json_number(&j, "bad", NAN);
    brim_json_bool(&j, "ok", true);
    brim_json_text(&j, "none", NULL);
    brim_json_key(&j, "list");
    brim_json_begin(&j, &s, '[');
    brim_json_int(&j, NULL, 1);
    brim_json_key(&j, NULL);
    brim_json_begin(&j, &s, '{');
    brim_json_end(&j, '}');
    brim_json_end(&j, ']');
    brim_json_number(&j, "inf", -INFINITY);
    brim_json_end(&j, '}');
    assert_string_equal(brim_str_text(&s), "{\"step\":-3,\"loss\":0.1,\"bad\":null,\"ok\":true,"
                                           "\"none\":null,\"list\":[1,{}],\"inf\":null}");
    brim_str_free(&s);
}

static void numbers_read_back_the_same(void **state)
{
    static const double x[] = {0.0,     -0.0,   1.0,    1e300, 0.1,      1.0 / 3,        DBL_MAX,
                               DBL_MIN, 5e-324, -1e-10, 65536, 16777217, 2.5000000000001};
    const char *locale = setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* a decimal comma, if installed */
    for (size_t i = 0; i < sizeof x / sizeof *x; i++) {
        brim_str s = {0};
        brim_json j;
        brim_json_begin(&j, &s, '[');
        brim_json_number(&j, NULL, x[i]);
        brim_json_end(&j, ']');
        json_t *v = json_loads(brim_str_text(&s), 0, NULL);
        assert_non_null(v);
        double got = json_number_value(json_array_get(v, 0));
        assert_true(got == x[i]);
        json_decref(v);
        brim_str_free(&s);
    }
    if (locale) setlocale(LC_NUMERIC, "C");
}

static void any_bytes_make_valid_json(void **state)
{
    static const char *const text[][2] = {
        {"plain", "plain"},
        {"a\"b\\c\n\t\x01\x7f", "a\"b\\c\n\t\x01\x7f"},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"caf\xe9.jpg", "caf\xef\xbf\xbd.jpg"},
        {"\xc0\x80", "\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},
        {"\xe2\x82", "\xef\xbf\xbd\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        brim_str s = {0};
        brim_json j;
        brim_json_begin(&j, &s, '{');
        brim_json_text(&j, text[i][0], text[i][0]);
        brim_json_end(&j, '}');
        json_t *v = json_loads(brim_str_text(&s), 0, NULL);
        assert_non_null(v);
        assert_string_equal(json_string_value(json_object_get(v, text[i][1])), text[i][1]);
        assert_null(strchr(brim_str_text(&s), '\n'));
        json_decref(v);
        brim_str_free(&s);
    }
}

static void utf8_is_strict(void **state)
{
    assert_int_equal(brim_utf8_length("", 0), 0);
    assert_int_equal(brim_utf8_length("\xf4\x8f\xbf\xbf", 4), 4); /* U+10FFFF */
    assert_int_equal(brim_utf8_length("\xf4\x90\x80\x80", 4), 0);
    assert_int_equal(brim_utf8_length("\xe0\x9f\xbf", 3), 0); /* overlong */
    assert_int_equal(brim_utf8_length("\xf0\x8f\xbf\xbf", 4), 0);
    assert_int_equal(brim_utf8_length("\xe2\x82\xac", 2), 0); /* cut */
    assert_int_equal(brim_utf8_length("\xe2\x82\x41", 3), 0);
    assert_true(brim_utf8_valid("a\xc3\xa9z", 4));
    assert_false(brim_utf8_valid("a\xc3", 2));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_nested_values),
        cmocka_unit_test(numbers_read_back_the_same),
        cmocka_unit_test(any_bytes_make_valid_json),
        cmocka_unit_test(utf8_is_strict),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
