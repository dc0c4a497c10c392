/* Base: half types, Philox, byte sizes, strings, arena, errors. */
#include "base/arena.h"
#include "base/half.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"
#include "tests.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>

static void half_round_trips(void **state)
{
    for (uint32_t h = 0; h < 65536; h++) {
        float f = brim_f16_to_f32((uint16_t)h), b = brim_bf16_to_f32((uint16_t)h);
        if (isnan(f))
            assert_true(isnan(brim_f16_to_f32(brim_f32_to_f16(f))));
        else
            assert_int_equal(brim_f32_to_f16(f), h);
        if (isnan(b))
            assert_true(isnan(brim_bf16_to_f32(brim_f32_to_bf16(b))));
        else
            assert_int_equal(brim_f32_to_bf16(b), h);
    }
}

/* Rounding to nearest even against the two neighbours, by distance in double. */
static void half_rounds_to_nearest_even(void **state)
{
    brim_rng r;
    brim_rng_init(&r, 1, 2);
    for (int i = 0; i < 200000; i++) {
        float x = (float)ldexp(brim_rng_uniform(&r, -1, 1), (int)brim_rng_below(&r, 44) - 26);
        uint16_t h = brim_f32_to_f16(x);
        double got = brim_f16_to_f32(h), d = fabs(got - x);
        if (isinf(got)) {
            assert_true(fabsf(x) >= 65520);
            continue;
        }
        for (int step = -1; step <= 1; step += 2) {
            uint16_t n = (uint16_t)(h + step);
            double other = brim_f16_to_f32(n);
            if (isfinite(other) && (other < 0) == (got < 0)) {
                assert_true(d <= fabs(other - x));
                if (d == fabs(other - x)) assert_int_equal(h & 1, 0);
            }
        }
    }
}

/* Known answers from the Random123 distribution (kat_vectors, philox4x32 10). */
static void philox_known_answers(void **state)
{
    brim_philox z = brim_philox4x32(0, 0, 0);
    assert_int_equal(z.v[0], 0x6627e8d5);
    assert_int_equal(z.v[1], 0xe169c58d);
    assert_int_equal(z.v[2], 0xbc57ac4c);
    assert_int_equal(z.v[3], 0x9b00dbd8);
    brim_philox f = brim_philox4x32(UINT64_MAX, UINT64_MAX, UINT64_MAX);
    assert_int_equal(f.v[0], 0x408f276d);
    assert_int_equal(f.v[1], 0x41c83b0e);
    assert_int_equal(f.v[2], 0xa20bc7c6);
    assert_int_equal(f.v[3], 0x6d5451fd);
}

static void normal_has_unit_variance(void **state)
{
    brim_rng r;
    brim_rng_init(&r, 5, 0);
    double sum = 0, sq = 0;
    int n = 100000;
    for (int i = 0; i < n; i++) {
        double x = brim_rng_normal(&r);
        sum += x;
        sq += x * x;
    }
    assert_true(fabs(sum / n) < 0.02);
    assert_true(fabs(sq / n - 1) < 0.03);
}

static void byte_sizes(void **state)
{
    static const struct {
        const char *text;
        size_t bytes;
    } good[] = {{"8GiB", 8ull << 30},
                {"512MiB", 512ull << 20},
                {"4G", 4ull << 30},
                {"1000", 1000},
                {"1.5k", 1536}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        size_t n = 0;
        assert_true(brim_bytes_parse(good[i].text, &n));
        assert_int_equal(n, good[i].bytes);
    }
    static const char *const bad[] = {"", "-1", "8X", "GiB", "1e30G", "nan", "inf"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        size_t n = 0;
        assert_false(brim_bytes_parse(bad[i], &n));
    }
    char buf[32];
    assert_string_equal(brim_bytes_text(buf, 0), "0 B");
    assert_string_equal(brim_bytes_text(buf, 1023), "1023 B");
    assert_string_equal(brim_bytes_text(buf, 1536), "1.50 KiB");
    assert_string_equal(brim_bytes_text(buf, 8.0 * (1 << 30)), "8.00 GiB");
}

static void errors_keep_their_text(void **state)
{
    brim_error e = {0};
    assert_int_equal(brim_fail(&e, BRIM_ESHAPE, "weight: wants %d", 3), BRIM_ESHAPE);
    brim_error_context(&e, "layer%d", 7);
    assert_string_equal(e.text, "layer7: weight: wants 3");
    brim_fail(&e, BRIM_EIO, "again: %s", e.text);
    assert_string_equal(e.text, "again: layer7: weight: wants 3");
}

static void keep_line(const char *line, void *user)
{
    snprintf(user, 64, "%s", line);
}

/* What a file's name holds must not write over the terminal or fake a second line. */
static void messages_are_one_line(void **state)
{
    brim_error e = {0};
    char line[64] = "";
    brim_fail(&e, BRIM_EIO, "%s: gone", "a\nb\033[2Jc\x7f\xc3\xa9");
    brim_error_context(&e, "%s", "x\ry");
    assert_string_equal(e.text, "x?y: a?b?[2Jc?\xc3\xa9: gone");
    brim_fail_errno(&e, ENOENT, "a\tb");
    assert_string_equal(e.text, "a?b: No such file or directory");
    brim_log_set_sink(keep_line, line);
    brim_warn("%s", "a\nbrim: b");
    brim_log_set_sink(NULL, NULL);
    assert_string_equal(line, "brim: warning: a?brim: b");
}

static void allocation_failures_are_survived(void **state)
{
    brim_arena a;
    brim_arena_init(&a);
    brim_mem_fail_after(1);
    assert_null(brim_arena_alloc(&a, 8));
    brim_str s = {0};
    brim_str_add(&s, "x");
    brim_mem_fail_after(0);
    assert_true(s.failed);
    assert_non_null(brim_arena_alloc(&a, 1 << 20));
    brim_arena_release(&a);
    brim_str_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_round_trips),
        cmocka_unit_test(half_rounds_to_nearest_even),
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(normal_has_unit_variance),
        cmocka_unit_test(byte_sizes),
        cmocka_unit_test(errors_keep_their_text),
        cmocka_unit_test(messages_are_one_line),
        cmocka_unit_test(allocation_failures_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
