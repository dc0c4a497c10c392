/* Two files of any bytes as images and labels; the first two bytes give the length of the labels.
 */
#include "fuzz_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2) return 0;
    size_t labels = (size_t)data[0] | (size_t)data[1] << 8;
    if (labels > n - 2) labels = n - 2;
    fuzz_set_write("x-labels-idx1-ubyte", data + 2, labels);
    fuzz_set_write("x-images-idx3-ubyte", data + 2 + labels, n - 2 - labels);
    fuzz_set_open("x-images-idx3-ubyte");
    return 0;
}
