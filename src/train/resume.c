/* Going on with a run: reading state.safetensors back. */
#include "base/str.h"
#include "train/run_folder.h"
#include "train/session.h"
#include "train/signature.h"

#include <math.h>
#include <string.h>

/* False when it is not what brim_run_save_state writes. Sums may be NaN, in a run that diverged. */
static bool parse_position(const char *text, brim_position *p)
{
    long long step, epoch, micro, best_epoch, samples, damaged;
    int used = 0;
    if (!text ||
        sscanf(text, "%18lld %18lld %18lld %lg %18lld %lg %lg %18lld %18lld %lg %lg %lg%n", &step,
               &epoch, &micro, &p->best_top1, &best_epoch, &p->loss_sum, &p->top1_sum, &samples,
               &damaged, &p->window_loss, &p->window_top1, &p->window_weight, &used) != 12 ||
        text[used])
        return false;
    p->step = step;
    p->epoch = epoch;
    p->micro_done = micro;
    p->best_epoch = best_epoch;
    p->samples = samples;
    p->damaged = damaged;
    return step >= 0 && epoch >= 0 && micro >= 0 && best_epoch >= 0 && samples >= 0 &&
           damaged >= 0 && isfinite(p->best_top1);
}

brim_status brim_run_take_state(const char *name, const brim_st_file *f, brim_session *s,
                                const char *signature, brim_position *p, brim_error *err)
{
    const char *was = brim_st_metadata(f, "brim.signature");
    brim_position at;
    if (!was || !parse_position(brim_st_metadata(f, "brim.position"), &at))
        return brim_fail(err, BRIM_EFORMAT,
                         "%s: not a state file of brim train (start a new run with --init)", name);
    brim_status same = brim_signature_match(was, signature, err);
    if (same != BRIM_OK) {
        brim_error_context(err, "%s", name);
        return same;
    }
    BRIM_TRY(brim_session_take_state(s, name, f, err));
    *p = at;
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
    if (st == BRIM_OK) st = brim_run_take_state(path.at, f, s, signature, p, err);
    brim_st_close(f);
    brim_str_free(&path);
    return st;
}
