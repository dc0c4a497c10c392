/* The kernels of one instruction set, as a table. */
#include "backend/cpu/kernels/kernels.h"

#define TEXT(x)  #x
#define TEXT2(x) TEXT(x)

extern const brim_kernels K(table);
const brim_kernels K(table) = {.isa = TEXT2(BRIM_ISA),
#define X(name, type, args) .name = K(name),
                               BRIM_KERNELS(X)
#undef X
};
