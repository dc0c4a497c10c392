/* Any bytes as a CIFAR file. The first byte is left away; by it, the file is filled up to whole
 * records of CIFAR-10 or CIFAR-100, so that not every length is refused at once. */
#include "base/mem.h"
#include "fuzz_set.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static uint8_t file[8 * 3074];
    if (n < 1) return 0;
    size_t record = data[0] % 3 == 0 ? 1 : 3072 + data[0] % 3;
    size_t whole = (n - 1 + record - 1) / record * record;
    if (whole > sizeof file) return 0;
    memset(file, 0, whole);
    memcpy(file, data + 1, n - 1);
    fuzz_set_write("x.bin", file, whole);
    fuzz_set_open("x.bin");
    return 0;
}
