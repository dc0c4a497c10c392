/* The orientation tag of EXIF (TIFF tag 0x0112 in the first directory). */
#include "data/decoder.h"

static uint32_t get(const uint8_t *p, int bytes, bool little)
{
    uint32_t x = 0;
    for (int k = 0; k < bytes; k++) x |= (uint32_t)p[k] << 8 * (little ? k : bytes - 1 - k);
    return x;
}

int brim_exif_orientation(const uint8_t *tiff, size_t n)
{
    if (n < 8) return 1;
    bool little = tiff[0] == 'I' && tiff[1] == 'I';
    if (!little && !(tiff[0] == 'M' && tiff[1] == 'M')) return 1;
    size_t at = get(tiff + 4, 4, little);
    if (at < 8 || at > n - 2) return 1;
    size_t entries = get(tiff + at, 2, little);
    for (size_t i = 0; i < entries && at + 2 + 12 * (i + 1) <= n; i++) {
        const uint8_t *e = tiff + at + 2 + 12 * i;
        if (get(e, 2, little) != 0x0112) continue;
        uint32_t type = get(e + 2, 2, little), value = get(e + 8, type == 4 ? 4 : 2, little);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}
