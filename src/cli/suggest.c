#include "cli/suggest.h"

#include <stdint.h>
#include <string.h>

enum { MAX = 63 };

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

size_t brim_edit_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    if (n > MAX || m > MAX) return SIZE_MAX;
    size_t row[3][MAX + 1]; /* for the prefixes of a of length i, i - 1, i - 2 */
    for (size_t j = 0; j <= m; j++) row[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        memcpy(row[2], row[1], sizeof row[1]);
        memcpy(row[1], row[0], sizeof row[0]);
        row[0][0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t d = row[1][j - 1] + (a[i - 1] != b[j - 1]);
            d = smaller(d, smaller(row[1][j], row[0][j - 1]) + 1);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d = smaller(d, row[2][j - 2] + 1);
            row[0][j] = d;
        }
    }
    return row[0][m];
}

void brim_suggest(brim_suggestion *s, const char *known)
{
    size_t n = strlen(s->word), d = brim_edit_distance(s->word, known);
    size_t allowed = n < 3 ? 1 : 1 + n / 3;
    if (n >= 3 && strncmp(s->word, known, n) == 0) d = 1; /* the beginning of it */
    if (d > allowed || d >= strlen(known) || (s->best && d >= s->distance)) return;
    s->best = known;
    s->distance = d;
}
