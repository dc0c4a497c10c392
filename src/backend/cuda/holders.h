/* Who holds the card's memory. */
#ifndef BRIM_CUDA_HOLDERS_H
#define BRIM_CUDA_HOLDERS_H

#include "base/str.h"

/* Appends "python (process 4711) holds 3.1 GiB, ...", the largest first, without this process;
 * nothing when NVML does not tell. */
void brim_cuda_holders(brim_str *out);

#endif
