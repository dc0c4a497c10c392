/* TensorBoard event files: TFRecord framing with masked CRC32C, Event protobufs written by
 * hand-rolled varints (three message types). One writer per run; a resumed run opens a new file
 * beside the old. */
#ifndef BRIM_IO_TENSORBOARD_H
#define BRIM_IO_TENSORBOARD_H

#include "base/error.h"

#include <stdint.h>

typedef struct brim_tb brim_tb;
brim_status brim_tb_open(const char *folder, brim_tb **out, brim_error *err);
brim_status brim_tb_scalar(brim_tb *tb, const char *tag, int64_t step, double value,
                           brim_error *err);
brim_status brim_tb_flush(brim_tb *tb, brim_error *err);
void brim_tb_close(brim_tb *tb); /* flushes; accepts NULL */

#endif
