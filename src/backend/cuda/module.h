/* Kernels: CUDA C that NVRTC compiles for the card, kept in memory and in a cache on disk. */
#ifndef BRIM_CUDA_MODULE_H
#define BRIM_CUDA_MODULE_H

#include "backend/cuda/device.h"

/* The sources of kernels/, embedded in the library. */
typedef struct brim_cuda_source {
    const char *name; /* "batch_norm.cu" */
    const char *text;
} brim_cuda_source;
extern const brim_cuda_source brim_cuda_sources[];
extern const int brim_cuda_source_count;

/* Without a device (brim_cuda_assume) kernels are not loaded: *out is NULL then.
 *
 * Kernel `name` of kernels/FILE, compiled with `defines` ("-DX=half -DN=4", at most 16, or NULL).
 * Every file is compiled behind device.cuh and args.h. Errors: BRIM_ENOTFOUND, BRIM_EFORMAT with
 * the compiler's first message, BRIM_EDEVICE, BRIM_ENOMEM. */
brim_status brim_cuda_kernel(const char *file, const char *defines, const char *name,
                             CUfunction *out, brim_error *err);
/* The same from generated text; `title` is for messages. */
brim_status brim_cuda_kernel_from(const char *title, const char *text, const char *name,
                                  CUfunction *out, brim_error *err);

/* For a card that is only assumed: every kernel that is asked for is compiled, once, and `told`
 * gets the assembler's report on it (registers, spilled bytes). NULL: kernels are not compiled, as
 * is the default. */
typedef void (*brim_cuda_told)(void *user, const char *title, const char *defines,
                               const char *report);
void brim_cuda_tell(brim_cuda_told told, void *user);

/* Queues a kernel on the device's stream; failures are kept (brim_cuda_note). */
void brim_cuda_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned threads,
                      size_t shared_bytes, const void *args);

#endif
