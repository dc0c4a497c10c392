/* TensorBoard event files: TFRecord framing with masked CRC32C, Event protobufs written by
 * hand-rolled varints (three message types). One writer per run; a resumed run opens a new file
 * beside the old. A writer belongs to one thread. */
#ifndef BRIM_IO_TENSORBOARD_H
#define BRIM_IO_TENSORBOARD_H

#include "base/error.h"

#include <stddef.h>
#include <stdint.h>

typedef struct brim_tb brim_tb;

/* Creates a new file "events.out.tfevents.TIME.HOST.PID.K" in a folder that exists. */
brim_status brim_tb_open(const char *folder, brim_tb **out, brim_error *err);
/* Adds one point to the curve `tag` (UTF-8, "train/loss"). Kept in memory until some 32 KiB are
 * there or flush is called. After a failed write the points since the last flush are lost, the file
 * stays readable and later points are taken again. */
brim_status brim_tb_scalar(brim_tb *tb, const char *tag, int64_t step, double value,
                           brim_error *err);
brim_status brim_tb_flush(brim_tb *tb, brim_error *err);
void brim_tb_close(brim_tb *tb); /* flushes; accepts NULL */

/* CRC-32C (Castagnoli) of n bytes, as iSCSI defines it (RFC 3720, B.4). */
uint32_t brim_crc32c(const void *bytes, size_t n);

#endif
