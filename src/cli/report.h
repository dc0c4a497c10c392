/* Texts that several commands print: memory by kind, time by operator. */
#ifndef BRIM_CLI_REPORT_H
#define BRIM_CLI_REPORT_H

#include "base/str.h"
#include "brim/session.h"

/* A table of memory by kind with its share. */
void brim_report_memory(brim_str *out, const brim_plan *p);
/* A table of where a training step's time goes, by operator and implementation. */
void brim_report_time(brim_str *out, const brim_session *s);

#endif
