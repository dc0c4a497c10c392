/* A folder of class folders. Names come sorted, so the order does not depend on the file system. */
#include "data/source.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 8 };

/* A folder on the way down. A link may lead back to one of these: it is not entered again. */
typedef struct place {
    const struct place *above;
    const char *relative; /* to the root; "" is the root */
    int depth;
    dev_t dev;
    ino_t ino;
} place;

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static brim_status walk(brim_source *s, const place *at, brim_error *err);

static brim_status enter(brim_source *s, const place *above, const char *relative,
                         const struct stat *st, brim_error *err)
{
    for (const place *p = above; p; p = p->above)
        if (p->dev == st->st_dev && p->ino == st->st_ino) return BRIM_OK;
    if (above->depth == MAX_DEPTH) return BRIM_OK;
    place here = {above, relative, above->depth + 1, st->st_dev, st->st_ino};
    size_t before = s->items.n;
    BRIM_TRY(walk(s, &here, err));
    if (s->items.n == before && !brim_vec_push(&s->empty, relative))
        return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", s->root);
    return BRIM_OK;
}

/* An image that cannot be looked at (a link to nowhere) is a sample, too: reading it fails then,
 * and it is counted as damaged. */
static brim_status visit(brim_source *s, const place *at, const char *name, brim_error *err)
{
    const char *inner =
        brim_arena_printf(&s->arena, "%s%s%s", at->relative, *at->relative ? "/" : "", name);
    const char *full = brim_arena_printf(&s->arena, "%s/%s", s->root, inner);
    struct stat st;
    if (!inner || !full) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", s->root);
    bool there = stat(full, &st) == 0;
    if (there && S_ISDIR(st.st_mode)) return enter(s, at, inner, &st, err);
    if (there && !S_ISREG(st.st_mode)) return brim_source_ignore(s, "", err);
    if (!brim_image_name(name)) return brim_source_ignore(s, name, err);
    uint64_t bytes = there ? (uint64_t)st.st_size : 0;
    return brim_source_add(s, (brim_item){.name = inner, .label = -1, .bytes = bytes}, err);
}

static brim_status walk(brim_source *s, const place *at, brim_error *err)
{
    const char *full =
        brim_arena_printf(&s->arena, "%s%s%s", s->root, *at->relative ? "/" : "", at->relative);
    if (!full) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", s->root);
    struct dirent **entry;
    int n = scandir(full, &entry, visible, by_name);
    if (n < 0) return brim_fail_errno(err, errno, "%s: cannot be listed", full);
    brim_status st = BRIM_OK;
    for (int i = 0; i < n; i++) {
        if (st == BRIM_OK) st = visit(s, at, entry[i]->d_name, err);
        free(entry[i]);
    }
    free(entry);
    return st;
}

brim_status brim_source_folder(brim_source *s, const char *path, brim_error *err)
{
    struct stat st;
    s->kind = "folder";
    s->root = brim_arena_strdup(&s->arena, path);
    if (!s->root) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    if (stat(path, &st)) return brim_fail_errno(err, errno, "%s: cannot be read", path);
    place root = {NULL, "", 0, st.st_dev, st.st_ino};
    return walk(s, &root, err);
}
