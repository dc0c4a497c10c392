#include "train/schedule.h"

#include <math.h>

static double cosine(double from, double to, double t)
{
    return to + (from - to) * 0.5 * (1 + cos(3.14159265358979323846 * t));
}

static double one_cycle(double lr, double t)
{
    double start = lr / 25, end = start / 1e4, up = 0.3;
    return t < up ? cosine(start, lr, t / up) : cosine(lr, end, (t - up) / (1 - up));
}

double brim_schedule_at(const brim_schedule *s, int64_t step, int64_t steps, int64_t per_epoch)
{
    double last = steps > 1 ? (double)(steps - 1) : 1;
    if (s->kind == BRIM_LR_ONECYCLE) return one_cycle(s->lr, fmin((double)step / last, 1));
    double warm = s->warmup_epochs * (double)per_epoch, at = (double)step;
    if (at < warm) return s->lr * (at + 1) / (warm + 1);
    if (s->kind == BRIM_LR_COSINE) {
        double span = (double)steps - warm;
        return cosine(s->lr, s->lr * s->min_factor, span > 0 ? fmin((at - warm) / span, 1) : 1);
    }
    if (s->kind == BRIM_LR_STEP && s->step_epochs > 0)
        return s->lr * pow(s->gamma, floor(at / (s->step_epochs * (double)per_epoch)));
    return s->lr;
}
