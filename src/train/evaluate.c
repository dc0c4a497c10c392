/* One pass over a set: loss, top-1, top-5, confusion matrix. */
#include "base/clock.h"
#include "base/mem.h"
#include "train/train.h"

void brim_eval_result_release(brim_eval_result *r)
{
    free(r->confusion);
    r->confusion = NULL;
}

/* The largest logit; ties go to the lower index, as in topk_correct. */
static int argmax(const float *x, int n)
{
    int best = 0;
    for (int k = 1; k < n; k++)
        if (x[k] > x[best]) best = k;
    return best;
}

static brim_status evaluate_batch(brim_session *s, const brim_batch *b, float *logits,
                                  brim_eval_result *r, brim_error *err)
{
    brim_feed feed[5];
    brim_micro m = {feed, brim_classifier_feeds(b, feed), brim_session_plan(s)->micro_batch};
    BRIM_TRY(brim_session_eval(s, &m, err));
    r->loss += brim_session_scalar(s, "loss");
    r->top1 += brim_session_scalar(s, "correct1");
    if (r->classes > 5) r->top5 += brim_session_scalar(s, "correct5");
    brim_session_read(s, "logits", logits, m.rows * r->classes);
    for (int64_t i = 0; i < b->n; i++) {
        if (b->weight[i] == 0) continue;
        r->samples++;
        r->confusion[b->label[i] * r->classes + argmax(logits + i * r->classes, r->classes)]++;
    }
    r->damaged += b->damaged;
    return BRIM_OK;
}

brim_status brim_evaluate(brim_session *s, brim_pipeline *p, int classes, brim_eval_result *out,
                          brim_error *err)
{
    int64_t start = brim_now_ns(), rows = brim_session_plan(s)->micro_batch;
    *out = (brim_eval_result){.classes = classes};
    out->confusion = brim_calloc((size_t)classes * (size_t)classes, sizeof *out->confusion);
    float *logits = brim_malloc((size_t)(rows * classes) * sizeof *logits);
    brim_status st = out->confusion && logits
                         ? BRIM_OK
                         : brim_fail(err, BRIM_ENOMEM, "evaluation: out of memory");
    if (st == BRIM_OK) st = brim_pipeline_seek(p, 0, 0, err);
    while (st == BRIM_OK) {
        const brim_batch *b;
        st = brim_pipeline_next(p, &b, NULL, err);
        if (st != BRIM_OK || !b) break;
        st = evaluate_batch(s, b, logits, out, err);
        brim_pipeline_release(p, b);
    }
    free(logits);
    double n = out->samples ? (double)out->samples : 1;
    out->loss /= n;
    out->top1 /= n;
    out->top5 = classes > 5 ? out->top5 / n : 1;
    out->seconds = (double)(brim_now_ns() - start) / 1e9;
    if (st != BRIM_OK) brim_eval_result_release(out);
    return st;
}
