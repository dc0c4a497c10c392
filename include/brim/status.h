/* Status codes and error text. Every call that can fail returns a brim_status; calls that read user
 * input, files or devices also take a brim_error and fill it with what, why and what to do. */
#ifndef BRIM_STATUS_H
#define BRIM_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

typedef enum brim_status {
    BRIM_OK = 0,
    BRIM_EINVAL,       /* an argument or option is wrong; nothing was changed */
    BRIM_ESHAPE,       /* shapes do not fit together; nothing was changed */
    BRIM_EDTYPE,       /* an element type is not accepted here; nothing was changed */
    BRIM_ENOMEM,       /* the host could not give memory; the object stays usable */
    BRIM_EMEMCAP,      /* the plan does not fit under the memory cap; nothing was started */
    BRIM_EIO,          /* reading or writing a file failed; the old file, if any, is intact */
    BRIM_EFORMAT,      /* a file is damaged or not of the named format */
    BRIM_ENOTFOUND,    /* a file, tensor, model or option name does not exist */
    BRIM_EUNSUPPORTED, /* valid, but this build or device cannot do it */
    BRIM_EDEVICE,      /* the device or its driver failed; the device must be reopened */
    BRIM_ENUMERIC,     /* a NaN or an infinity where none may be */
    BRIM_EINTERRUPTED  /* the user asked to stop; state is saved */
} brim_status;

/* Filled only on failure; otherwise untouched. `text` reads "what: why (what to do)". */
typedef struct brim_error {
    brim_status status;
    char text[1024];
} brim_error;

/* A short name for a status, "out of memory" for BRIM_ENOMEM. Never NULL; static storage. */
const char *brim_status_text(brim_status status);

#ifdef __cplusplus
}
#endif
#endif
