/* Any bytes as an archive: class folders, WebDataset pairs, gzipped or not. */
#include "fuzz_set.h"

#include <stdio.h>
#include <string.h>

enum { BLOCK = 512 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerMutate(uint8_t *data, size_t n, size_t max);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    fuzz_set_write("x.tar", data, n);
    fuzz_set_open("x.tar");
    return 0;
}

/* Mutations of a header would end at its checksum: in most inputs it is made right again, in every
 * block that has the look of a header. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t max, unsigned seed)
{
    n = LLVMFuzzerMutate(data, n, max);
    for (size_t at = 0; at + BLOCK <= n && seed % 8; at += BLOCK) {
        uint8_t *h = data + at;
        unsigned sum = 8 * ' ';
        if (memcmp(h + 257, "ustar", 5)) continue;
        for (int k = 0; k < BLOCK; k++) sum += k >= 148 && k < 156 ? 0 : h[k];
        snprintf((char *)h + 148, 8, "%06o", sum);
        h[155] = ' ';
    }
    return n;
}
