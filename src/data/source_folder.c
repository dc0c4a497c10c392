/* A folder of class folders. Names come sorted, so the order does not depend on the file system. */
#include "data/source.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_DEPTH = 8 };

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static brim_status walk(brim_source *s, const char *relative, int depth, brim_error *err);

static brim_status visit(brim_source *s, const char *relative, const char *name, int depth,
                         brim_error *err)
{
    const char *inner =
        brim_arena_printf(&s->arena, "%s%s%s", relative, *relative ? "/" : "", name);
    const char *full = brim_arena_printf(&s->arena, "%s/%s", s->root, inner);
    struct stat st;
    if (!inner || !full) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", s->root);
    if (stat(full, &st)) return brim_fail_errno(err, errno, "%s: cannot be read", full);
    if (S_ISDIR(st.st_mode)) return depth < MAX_DEPTH ? walk(s, inner, depth + 1, err) : BRIM_OK;
    if (!S_ISREG(st.st_mode) || !brim_image_name(name)) {
        s->ignored++;
        return BRIM_OK;
    }
    return brim_source_add(
        s, (brim_item){.name = inner, .label = -1, .bytes = (uint64_t)st.st_size}, err);
}

static brim_status walk(brim_source *s, const char *relative, int depth, brim_error *err)
{
    const char *full =
        brim_arena_printf(&s->arena, "%s%s%s", s->root, *relative ? "/" : "", relative);
    if (!full) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", s->root);
    struct dirent **entry;
    int n = scandir(full, &entry, visible, by_name);
    if (n < 0) return brim_fail_errno(err, errno, "%s: cannot be listed", full);
    brim_status st = BRIM_OK;
    for (int i = 0; i < n; i++) {
        if (st == BRIM_OK) st = visit(s, relative, entry[i]->d_name, depth, err);
        free(entry[i]);
    }
    free(entry);
    return st;
}

brim_status brim_source_folder(brim_source *s, const char *path, brim_error *err)
{
    s->kind = "folder";
    s->root = brim_arena_strdup(&s->arena, path);
    if (!s->root) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
    return walk(s, "", 0, err);
}
