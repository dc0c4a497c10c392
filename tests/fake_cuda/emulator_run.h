/* Running a kernel that emulator.hpp made a function of. */
#ifndef BRIM_TEST_EMULATOR_RUN_H
#define BRIM_TEST_EMULATOR_RUN_H

#include <stdbool.h>

typedef void (*emu_kernel)(const void *args);

/* One thread at a time. `name` is for messages. */
void emu_run(const char *name, emu_kernel kernel, const void *args, const unsigned grid[3],
             unsigned threads, unsigned shared_bytes);

#endif
