/* Learning rates at chosen updates, against values worked out by hand. */
#include "tests.h"
#include "train/schedule.h"

#include <math.h>

/* Points after the first lie at updates above 0; the list ends before the next 0. */
typedef struct curve {
    brim_schedule s;
    int64_t steps, per_epoch;
    struct {
        int64_t step;
        double want;
    } at[8];
} curve;

static void check(const curve *c, size_t n)
{
    for (size_t k = 0; k < n; k++)
        for (int i = 0; i < 8 && (i == 0 || c[k].at[i].step); i++) {
            int64_t step = c[k].at[i].step;
            double got = brim_schedule_at(&c[k].s, step, c[k].steps, c[k].per_epoch),
                   want = c[k].at[i].want;
            if (!(fabs(got - want) <= 1e-12 * (1 + want)))
                fail_msg("row %zu, update %d: %.15g, wants %.15g", k, (int)step, got, want);
        }
}
#define CHECK(table) check(table, sizeof(table) / sizeof *(table))

/* 6 updates of warm-up: 1/7 of the rate first, 6/7 last, and no update at 0. */
static void constant_stays_after_the_warm_up(void **state)
{
    static const curve c[] = {
        {{BRIM_LR_CONSTANT, .lr = 0.4}, 40, 4, {{0, 0.4}, {39, 0.4}}},
        {{BRIM_LR_CONSTANT, .lr = 0.4, .warmup_epochs = 1.5},
         40,
         4,
         {{0, 0.4 / 7}, {2, 1.2 / 7}, {5, 2.4 / 7}, {6, 0.4}, {39, 0.4}}},
    };
    CHECK(c);
}

/* cos of 60, 90 and 120 degrees is 1/2, 0 and -1/2: 3/4, 1/2 and 1/4 of the way is left. */
static void cosine_falls_to_its_share(void **state)
{
    static const curve c[] = {
        {{BRIM_LR_COSINE, .lr = 2},
         120,
         5,
         {{0, 2}, {40, 1.5}, {60, 1}, {80, 0.5}, {120, 0}, {500, 0}}},
        {{BRIM_LR_COSINE, .lr = 2, .min_factor = 0.1},
         120,
         5,
         {{0, 2}, {40, 1.55}, {60, 1.1}, {80, 0.65}, {120, 0.2}, {500, 0.2}}},
        {{BRIM_LR_COSINE, .lr = 2, .warmup_epochs = 2, .min_factor = 0.1},
         130,
         5,
         {{0, 2 / 11.0},
          {4, 10 / 11.0},
          {9, 20 / 11.0},
          {10, 2},
          {50, 1.55},
          {70, 1.1},
          {130, 0.2}}},
        {{BRIM_LR_COSINE, .lr = 2, .warmup_epochs = 9}, /* never over */
         20,
         5,
         {{0, 2 / 46.0}, {19, 40 / 46.0}}},
    };
    CHECK(c);
}

/* Epochs are counted from the start, warm-up or not. */
static void step_drops_at_the_end_of_its_epochs(void **state)
{
    static const curve c[] = {
        {{BRIM_LR_STEP, .lr = 0.8, .step_epochs = 2, .gamma = 0.5},
         100,
         10,
         {{0, 0.8}, {19, 0.8}, {20, 0.4}, {39, 0.4}, {40, 0.2}, {99, 0.05}}},
        {{BRIM_LR_STEP, .lr = 0.8, .step_epochs = 0.5, .gamma = 0.1},
         100,
         10,
         {{4, 0.8}, {5, 0.08}, {10, 0.008}}},
        {{BRIM_LR_STEP, .lr = 0.8, .warmup_epochs = 1, .step_epochs = 2, .gamma = 0.5},
         100,
         10,
         {{0, 0.8 / 11}, {9, 8 / 11.0}, {10, 0.8}, {19, 0.8}, {20, 0.4}}},
    };
    CHECK(c);
}

/* Of the updates 0 .. 100 the top is at 30, half way up at 15, half way down at 65. */
static void one_cycle_goes_up_and_down(void **state)
{
    static const curve c[] = {
        {{BRIM_LR_ONECYCLE, .lr = 25},
         101,
         10,
         {{0, 1}, {10, 7}, {15, 13}, {20, 19}, {30, 25}, {65, 12.50005}, {100, 1e-4}, {200, 1e-4}}},
        {{BRIM_LR_ONECYCLE, .lr = 25}, 1, 1, {{0, 1}}},
    };
    CHECK(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_stays_after_the_warm_up),
        cmocka_unit_test(cosine_falls_to_its_share),
        cmocka_unit_test(step_drops_at_the_end_of_its_epochs),
        cmocka_unit_test(one_cycle_goes_up_and_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
