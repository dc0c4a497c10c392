/* "did you mean": the nearest of some known words. */
#ifndef BRIM_CLI_SUGGEST_H
#define BRIM_CLI_SUGGEST_H

#include <stddef.h>

/* Edit distance: insertions, deletions, substitutions and swaps of neighbours, each 1. Words
 * longer than 63 bytes count as far from everything (SIZE_MAX). */
size_t brim_edit_distance(const char *a, const char *b);

/* Feed every known word; `best` ends as the nearest one that a typing error could have made of
 * `word` (about one error in three letters, or its beginning), else NULL. */
typedef struct brim_suggestion {
    const char *word;
    const char *best;
    size_t distance;
} brim_suggestion;
void brim_suggest(brim_suggestion *s, const char *known);

#endif
