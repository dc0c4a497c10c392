/* Compiles the kernels that the zoo's trainings ask for, for every generation of cards, with NVRTC
 * and without a card: none may spill registers to memory. A few models and
 * precisions each, since a compilation takes half a second; `test_cuda_kernels CC...` does all for
 * those. Prints a line a generation. Skipped where NVRTC is not installed. */
#include "backend/cuda/module.h"
#include "brim/model.h"
#include "brim/session.h"
#include "train/train.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_REGISTERS = 168, SKIPPED = 77 };

typedef struct report {
    int kernels, modules, registers, failures;
    char widest[64];
} report;

/* The numbers of "Used 36 registers" and "12 bytes spill stores, 0 bytes spill loads", kernel by
 * kernel. */
static void read_report(void *user, const char *title, const char *defines, const char *text)
{
    report *r = user;
    char name[64] = "?";
    r->modules++;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *end = strchr(line, '\n');
        const char *at = strstr(line, "entry function '"),
                   *spill = strstr(line, "bytes spill stores");
        const char *used = strstr(line, "Used ");
        if (at && (!end || at < end)) sscanf(at + 16, "%63[^']", name);
        if (spill && (!end || spill < end)) {
            const char *number = spill - 2;
            while (number > line && number[-1] >= '0' && number[-1] <= '9') number--;
            if (atoi(number)) {
                printf("%s %s: %s spills %d bytes\n", title, defines, name, atoi(number));
                r->failures++;
            }
        }
        if (!used || (end && used > end)) continue;
        int n = atoi(used + 5);
        r->kernels++;
        if (n > r->registers) {
            r->registers = n;
            snprintf(r->widest, sizeof r->widest, "%s", name);
        }
        if (n > MOST_REGISTERS) {
            printf("%s %s: %s uses %d registers\n", title, defines, name, n);
            r->failures++;
        }
    }
}

static brim_status plan(const char *name, int size, brim_dtype precision, brim_error *err)
{
    brim_classifier c = {.model = {.name = name,
                                   .classes = 100,
                                   .channels = 3,
                                   .height = size,
                                   .width = size,
                                   .dropout = 0.1},
                         .std = {1, 1, 1},
                         .mixed = true,
                         .label_smoothing = 0.1};
    brim_session_opts o;
    brim_plan p;
    brim_session_opts_init(&o);
    o.device = "cuda";
    o.precision = precision;
    o.batch = 16;
    o.micro_batch = 8;
    o.optimizer.ema = true;
    return brim_session_plan_only(brim_classifier_build, &c, &o, &p, err);
}

/* precision: one, for a few models; F64: all of all. */
static int check(int cc, brim_dtype precision)
{
    static const struct {
        const char *name;
        int size;
    } models[] = {{"mlp", 28}, {"resnet20", 32}, {"resnet18", 224}, {"resnet50", 224}};
    static const brim_dtype types[] = {BRIM_F32, BRIM_BF16, BRIM_F16};
    report r = {0};
    brim_error err = {0};
    brim_cuda_device like = {.name = "assumed", .cc = cc, .driver = 13000, .sms = 24};
    brim_cuda_assume(&like);
    brim_cuda_tell(read_report, &r);
    for (size_t m = precision == BRIM_F64 ? 0 : 1; m < (precision == BRIM_F64 ? 4u : 3u); m++)
        for (size_t t = 0; t < sizeof types / sizeof *types; t++)
            if ((precision == BRIM_F64 || precision == types[t]) &&
                plan(models[m].name, models[m].size, types[t], &err) != BRIM_OK) {
                printf("sm_%d: %s: %s\n", cc, models[m].name, err.text);
                return 1;
            }
    printf("sm_%-4d %3d modules, %3d kernels, at most %d registers (%s), %d failures\n", cc,
           r.modules, r.kernels, r.registers, r.widest, r.failures);
    fflush(stdout);
    return r.failures > 0 || r.kernels < 10;
}

int main(int argc, char **argv)
{
    static const struct {
        int cc;
        brim_dtype precision;
    } all[] = {{75, BRIM_F16}, {80, BRIM_BF16}, {86, BRIM_F16},  {89, BRIM_BF16},
               {89, BRIM_F32}, {90, BRIM_BF16}, {120, BRIM_BF16}};
    brim_error err = {0};
    int failed = 0;
    if (brim_cuda_library_open(BRIM_LIB_nvrtc, &err) != BRIM_OK) {
        fprintf(stderr, "%s\n", err.text);
        return SKIPPED;
    }
    for (int k = 1; k < argc; k++) failed |= check(atoi(argv[k]), BRIM_F64);
    for (size_t k = 0; argc < 2 && k < sizeof all / sizeof *all; k++)
        failed |= check(all[k].cc, all[k].precision);
    return failed;
}
