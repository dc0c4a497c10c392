/* Any bytes: refused with a text, or every tensor lies inside the file and its bytes can be read.
 */
#include "io/safetensors.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    brim_st_file *f;
    brim_error err = {0};
    if (brim_st_parse("fuzz", data, n, &f, &err) != BRIM_OK) {
        BRIM_CHECK(err.status != BRIM_OK && err.text[0]);
        return 0;
    }
    size_t total = 0;
    volatile uint8_t sink = 0;
    for (int64_t i = 0; i < brim_st_count(f); i++) {
        const brim_st_tensor *t = brim_st_at(f, i);
        const uint8_t *p = t->data;
        BRIM_CHECK(t->rank >= 0 && t->rank <= 8);
        BRIM_CHECK(p >= data && p + t->bytes <= data + n);
        BRIM_CHECK(brim_st_find(f, t->name) == t);
        if (t->bytes) sink = (uint8_t)(p[0] ^ p[t->bytes - 1]);
        total += t->bytes;
    }
    (void)sink;
    BRIM_CHECK(total <= n);
    brim_st_close(f);
    return 0;
}
