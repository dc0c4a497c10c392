/* Texts that several commands print: memory by kind, time by operator. */
#ifndef BRIM_CLI_REPORT_H
#define BRIM_CLI_REPORT_H

#include "base/str.h"
#include "train/train.h"

/* A table of memory by kind with its share. */
void brim_report_memory(brim_str *out, const brim_plan *p);
/* A table of where a training step's time goes, by operator and implementation. */
void brim_report_time(brim_str *out, const brim_session *s);

/* A confusion matrix with each class's recall, behind an empty line; nothing beyond 20 classes. The
 * names may be NULL: "class K". */
void brim_report_confusion(brim_str *out, const brim_eval_result *r, const char *const *names);

#endif
