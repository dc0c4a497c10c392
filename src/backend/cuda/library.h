/* Finding and opening NVIDIA's shared libraries at run time. */
#ifndef BRIM_CUDA_LIBRARY_H
#define BRIM_CUDA_LIBRARY_H

#include "backend/cuda/api.h"
#include "base/error.h"

typedef enum brim_cuda_library {
    BRIM_LIB_driver,
    BRIM_LIB_nvrtc,
    BRIM_LIB_nvml,
    BRIM_CUDA_LIBRARIES
} brim_cuda_library;

/* The functions, by name; NULL while their library is not open. */
typedef struct brim_cuda_symbols {
#define SYMBOL(library, result, name, arguments) result(*name) arguments;
#include "backend/cuda/symbols.def"
#undef SYMBOL
} brim_cuda_symbols;
extern brim_cuda_symbols brim_cu;

/* Opens a library and fills its functions; once, later calls give the first result. Looks in
 * $BRIM_CUDA_LIBS (folders separated by ':', then nowhere else), in the loader's own path, in the
 * toolkit's folders and in Python's nvidia packages. BRIM_ENOTFOUND says where it looked and what
 * to install, BRIM_EUNSUPPORTED which function is missing. One thread at a time. */
brim_status brim_cuda_library_open(brim_cuda_library library, brim_error *err);

/* Where it was found, for reports; "" when it is not open. */
const char *brim_cuda_library_path(brim_cuda_library library);

#endif
