/* Going on with a run: reading state.safetensors back. */
#include "io/safetensors.h"
#include "base/str.h"
#include "train/run_folder.h"

#include <string.h>

static brim_status parse(const char *path, const brim_st_file *f, const char *signature,
                         brim_position *p, brim_error *err)
{
    const char *text = brim_st_metadata(f, "brim.position"),
               *was = brim_st_metadata(f, "brim.signature");
    long long step, epoch, micro, best_epoch, samples, damaged;
    if (!text || !was ||
        sscanf(text, "%lld %lld %lld %lg %lld %lg %lg %lld %lld", &step, &epoch, &micro,
               &p->best_top1, &best_epoch, &p->loss_sum, &p->top1_sum, &samples, &damaged) != 9)
        return brim_fail(err, BRIM_EFORMAT, "%s: not a state file of brim train", path);
    if (strcmp(was, signature))
        return brim_fail(err, BRIM_EINVAL,
                         "%s: the run was started as \"%s\" and cannot go on as \"%s\" (use the "
                         "same options, or "
                         "start a new run with --init)",
                         path, was, signature);
    p->step = step;
    p->epoch = epoch;
    p->micro_done = micro;
    p->best_epoch = best_epoch;
    p->samples = samples;
    p->damaged = damaged;
    return BRIM_OK;
}

brim_status brim_run_load_state(const brim_run_folder *r, brim_session *s, const char *signature,
                                brim_position *p, brim_error *err)
{
    brim_str path = {0};
    brim_str_printf(&path, "%s/state.safetensors", r->path);
    if (path.failed) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", r->path);
    brim_st_file *f = NULL;
    brim_status st = brim_st_open(path.at, &f, err);
    if (st == BRIM_OK) st = parse(path.at, f, signature, p, err);
    brim_st_close(f);
    if (st == BRIM_OK) st = brim_session_load_state(s, path.at, err);
    brim_str_free(&path);
    return st;
}
