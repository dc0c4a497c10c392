/* The persistent values of a session (weights, running statistics, optimizer state), by name,
 * shared by all of its programs. Declared from graphs first, then given memory once. */
#ifndef BRIM_BACKEND_STORE_H
#define BRIM_BACKEND_STORE_H

#include "backend/backend.h"

typedef struct brim_entry {
    const char *name; /* owned by the store */
    brim_value_kind kind;
    brim_dtype dtype;
    brim_layout layout;
    brim_shape shape;
    brim_init init;
    bool trainable, saved;
    size_t bytes, offset;
    void *data; /* on the device; NULL before brim_store_bind */
} brim_entry;

typedef struct brim_store {
    brim_arena arena;
    BRIM_VEC(brim_entry) entries;
    size_t bytes; /* of all entries, aligned */
} brim_store;

void brim_store_init(brim_store *s);
void brim_store_release(brim_store *s);

/* Adds the PARAM and STATE values of g that are not there yet; those that are must agree. */
brim_status brim_store_declare(brim_store *s, const brim_graph *g, brim_error *err);
brim_entry *brim_store_find(const brim_store *s, const char *name); /* NULL when absent */
/* Gives every entry its address from `base` (s->bytes long). */
void brim_store_bind(brim_store *s, void *base);
/* Fills entries with their initial content; random numbers depend on (seed, name) only. */
brim_status brim_store_fill(brim_store *s, const brim_backend *b, uint64_t seed, brim_error *err);
/* "NAME.half" <- round(NAME) for every half copy: after weights changed outside the optimizer. */
brim_status brim_store_refresh_halves(brim_store *s, const brim_backend *b, brim_error *err);
/* Row-major host copies, f32 for every real type. `count` elements; must match. */
brim_status brim_store_read(const brim_store *s, const brim_backend *b, const brim_entry *e,
                            float *out, brim_error *err);
brim_status brim_store_write(const brim_store *s, const brim_backend *b, const brim_entry *e,
                             const float *in, brim_error *err);

#endif
