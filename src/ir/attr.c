/* Attributes of nodes: lookup, change, and their text form "stride=2,2 eps=1e-05". */
#include "ir/graph.h"

#include <ctype.h>
#include <string.h>

const brim_attr *brim_attr_find(const brim_node *n, const char *key)
{
    for (int i = 0; i < n->n_attr; i++)
        if (!strcmp(n->attr[i].key, key)) return &n->attr[i];
    return NULL;
}

int64_t brim_attr_int(const brim_node *n, const char *key, int64_t otherwise)
{
    return brim_attr_int_at(n, key, 0, otherwise);
}

int64_t brim_attr_int_at(const brim_node *n, const char *key, int k, int64_t otherwise)
{
    const brim_attr *a = brim_attr_find(n, key);
    return a && !a->real && k < a->n ? a->i[k] : otherwise;
}

double brim_attr_float(const brim_node *n, const char *key, double otherwise)
{
    const brim_attr *a = brim_attr_find(n, key);
    return !a ? otherwise : a->real ? a->f : (double)a->i[0];
}

bool brim_attr_put(brim_graph *g, brim_node *n, brim_attr a)
{
    for (int i = 0; i < n->n_attr; i++)
        if (!strcmp(n->attr[i].key, a.key)) {
            n->attr[i] = a;
            return true;
        }
    brim_attr *more = BRIM_ARENA_ARRAY(&g->arena, brim_attr, n->n_attr + 1);
    if (!more) return false;
    if (n->n_attr) memcpy(more, n->attr, sizeof *more * (size_t)n->n_attr);
    more[n->n_attr] = a;
    n->attr = more;
    n->n_attr++;
    return true;
}

/* One "key=value"; a value with '.', 'e', "inf" or "nan" is real, else a list of integers. */
static bool parse_one(brim_arena *arena, const char *text, size_t len, brim_attr *out)
{
    char *copy = brim_arena_printf(arena, "%.*s", (int)len, text);
    char *eq = copy ? strchr(copy, '=') : NULL;
    if (!eq || eq == copy || !eq[1]) return false;
    *eq = 0;
    char *at = eq + 1, *end;
    *out = (brim_attr){.key = copy};
    if (strpbrk(at, ".einf")) {
        out->real = true;
        out->n = 1;
        out->f = strtod(at, &end);
        return *end == 0;
    }
    while (out->n < 8) {
        out->i[out->n++] = strtoll(at, &end, 10);
        if (end == at) return false;
        if (*end == 0) return true;
        if (*end != ',') return false;
        at = end + 1;
    }
    return false;
}

int brim_attr_parse(brim_arena *a, const char *text, brim_attr *out, int max)
{
    int n = 0;
    while (text && *text) {
        while (isspace((unsigned char)*text)) text++;
        size_t len = strcspn(text, " \t\n");
        if (!len) break;
        if (n == max || !parse_one(a, text, len, &out[n])) return -1;
        n++;
        text += len;
    }
    return n;
}
