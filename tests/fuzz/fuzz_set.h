/* Sets of images made from fuzzed bytes, in a temporary folder that goes away at exit. */
#ifndef BRIM_FUZZ_SET_H
#define BRIM_FUZZ_SET_H

#include <stddef.h>
#include <stdint.h>

/* Writes FOLDER/name. */
void fuzz_set_write(const char *name, const uint8_t *data, size_t n);
/* Opens FOLDER/name: refused with one line of text, or every sample has a class and bytes. */
void fuzz_set_open(const char *name);

#endif
