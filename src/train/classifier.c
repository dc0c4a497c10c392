/* The graph of an image classifier: uint8 pixels in, normalised on the device, loss and metrics
 * out. */
#include "train/train.h"

brim_status brim_classifier_build(brim_graph *g, int64_t batch, void *classifier, brim_error *err)
{
    const brim_classifier *c = classifier;
    const brim_model_opts *m = &c->model;
    if (m->channels != 1 && m->channels != 3)
        return brim_fail(err, BRIM_EINVAL, "image: %d channels (1 or 3)", m->channels);
    int64_t image[] = {batch, m->channels, m->height, m->width}, channel[] = {1, m->channels, 1, 1};
    float scale[3], shift[3]; /* (x / 255 - mean) / std */
    for (int k = 0; k < m->channels; k++) {
        scale[k] = 1 / (255 * c->std[k]);
        shift[k] = -c->mean[k] / c->std[k];
    }
    brim_value *label = brim_input(g, "label", BRIM_I32, 1, &batch);
    brim_value *weight = brim_input(g, "weight", BRIM_F32, 1, &batch);
    brim_value *label2 = NULL, *lam = NULL;
    if (c->mixed && brim_graph_training(g)) {
        label2 = brim_input(g, "label2", BRIM_I32, 1, &batch);
        lam = brim_input(g, "lam", BRIM_F32, 1, &batch);
    }
    brim_scope(g, "input");
    brim_value *x = brim_cast(g, brim_input(g, "image", BRIM_U8, 4, image), BRIM_F32);
    x = brim_mul(g, x, brim_const(g, "scale", 4, channel, scale));
    x = brim_add(g, x, brim_const(g, "shift", 4, channel, shift));

    brim_value *logits = brim_model_build(g, m, x);
    brim_scope(g, "");
    double smoothing = brim_graph_training(g) ? c->label_smoothing : 0;
    brim_output_mark(g, "loss",
                     brim_cross_entropy(g, logits, label, weight, label2, lam, smoothing));
    brim_output_mark(g, "correct1", brim_topk_correct(g, logits, label, weight, 1));
    if (!brim_graph_training(g)) {
        if (m->classes > 5)
            brim_output_mark(g, "correct5", brim_topk_correct(g, logits, label, weight, 5));
        brim_output_mark(g, "logits", logits);
    }
    return brim_graph_check(g, err);
}

int brim_classifier_feeds(const brim_batch *b, brim_feed feed[5])
{
    feed[0] = (brim_feed){"image", b->image};
    feed[1] = (brim_feed){"label", b->label};
    feed[2] = (brim_feed){"weight", b->weight};
    feed[3] = (brim_feed){"label2", b->label2};
    feed[4] = (brim_feed){"lam", b->lam};
    return 5;
}
