/* Classes and splits: from the folders that samples lie in, or from the labels that storage has. */
#include "data/labels.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

static brim_status no_memory(const char *path, brim_error *err)
{
    return brim_fail(err, BRIM_ENOMEM, "%s: out of memory", path);
}

/* Length of the first component of a path. */
static size_t component(const char *p)
{
    return strcspn(p, "/");
}

/* ---- splits ---- */

brim_split brim_split_of_word(const char *at, size_t n)
{
    static const struct {
        const char *word;
        brim_split split;
    } words[] = {{"train", BRIM_SPLIT_TRAIN},    {"training", BRIM_SPLIT_TRAIN},
                 {"val", BRIM_SPLIT_VAL},        {"valid", BRIM_SPLIT_VAL},
                 {"validation", BRIM_SPLIT_VAL}, {"test", BRIM_SPLIT_VAL}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i].word) == n && !strncasecmp(at, words[i].word, n)) return words[i].split;
    return BRIM_SPLIT_ALL;
}

/* While every name starts with the same folder and classes lie deeper, that folder says nothing. */
static void strip_common_folder(brim_source *s)
{
    for (size_t i = 0; i < s->items.n; i++) s->items.at[i].inner = s->items.at[i].name;
    while (s->items.n) {
        const char *first = s->items.at[0].inner;
        size_t n = component(first);
        for (size_t i = 0; i < s->items.n; i++) {
            const char *p = s->items.at[i].inner;
            if (component(p) != n || strncmp(p, first, n) || !p[n] || !strchr(p + n + 1, '/'))
                return;
        }
        for (size_t i = 0; i < s->items.n; i++) s->items.at[i].inner += n + 1;
    }
}

/* When all top folders are named like splits, they are no classes; with both kinds there, the set
 * has splits of its own. */
static void find_folder_splits(brim_dataset *d)
{
    brim_source *s = &d->src;
    bool train = false, val = false;
    for (size_t i = 0; i < s->items.n; i++) {
        const char *p = s->items.at[i].inner;
        brim_split k = brim_split_of_word(p, component(p));
        if (k == BRIM_SPLIT_ALL) return;
        train |= k == BRIM_SPLIT_TRAIN;
        val |= k == BRIM_SPLIT_VAL;
    }
    d->own_split = train && val;
    for (size_t i = 0; i < s->items.n; i++) {
        brim_item *it = &s->items.at[i];
        size_t n = component(it->inner);
        if (d->own_split) it->split = brim_split_of_word(it->inner, n);
        if (it->inner[n]) it->inner += n + 1;
    }
}

static void keep_split(brim_source *s, brim_split want)
{
    size_t kept = 0;
    for (size_t i = 0; i < s->items.n; i++)
        if (want == BRIM_SPLIT_ALL || s->items.at[i].split == want)
            s->items.at[kept++] = s->items.at[i];
    s->items.n = kept;
}

/* The items of each class in their order: those of class c are at[start[c]] .. at[start[c + 1]]. */
typedef struct by_class {
    int64_t *at, *start;
} by_class;

static bool group_by_class(const brim_dataset *d, by_class *g)
{
    const brim_source *s = &d->src;
    g->at = brim_malloc(s->items.n * sizeof *g->at);
    g->start = brim_calloc((size_t)d->classes + 2, sizeof *g->start);
    if (!g->at || !g->start) return false;
    for (size_t i = 0; i < s->items.n; i++) g->start[s->items.at[i].label + 2]++;
    for (int c = 0; c < d->classes; c++) g->start[c + 2] += g->start[c + 1];
    for (size_t i = 0; i < s->items.n; i++)
        g->at[g->start[s->items.at[i].label + 1]++] = (int64_t)i;
    return true;
}

/* A fixed pseudo-random share of each class for validation; training and validation each get at
 * least one image of a class that has two, training that of a class that has one. */
static brim_status hold_out_fraction(brim_dataset *d, const brim_dataset_opts *o, brim_error *err)
{
    by_class g;
    bool ok = group_by_class(d, &g);
    for (size_t i = 0; i < d->src.items.n; i++) d->src.items.at[i].split = BRIM_SPLIT_TRAIN;
    for (int c = 0; c < d->classes && ok; c++) {
        int64_t *order = g.at + g.start[c], n = g.start[c + 1] - g.start[c];
        int64_t take = (int64_t)((double)n * o->val_fraction + 0.5);
        if (take < 1) take = 1;
        if (take > n - 1) take = n - 1;
        brim_rng r;
        brim_rng_init(&r, o->seed ^ 0x6272696d73706c74u, (uint64_t)c);
        for (int64_t k = 0; k < take; k++) {
            int64_t m = k + (int64_t)brim_rng_below(&r, (uint64_t)(n - k)), t = order[m];
            order[m] = order[k];
            order[k] = t;
            d->src.items.at[t].split = BRIM_SPLIT_VAL;
        }
    }
    free(g.at);
    free(g.start);
    return ok ? BRIM_OK : no_memory("data", err);
}

/* ---- classes from folders ---- */

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Keeps those empty folders that lie where class folders do. torchvision refuses a class folder
 * without images, too: it shifts the classes of whoever counts it. In the validation part alone it
 * does no harm. */
static void keep_empty_classes(brim_source *s)
{
    const brim_item *first = s->items.at, *end = first + s->items.n;
    while (first < end && first->split == BRIM_SPLIT_VAL) first++;
    size_t kept = 0, common = first < end ? (size_t)(first->inner - first->name) : 0;
    for (size_t i = 0; i < s->empty.n && first < end; i++) {
        const char *p = s->empty.at[i];
        if (strlen(p) > common && !strncmp(p, first->name, common) && !strchr(p + common, '/'))
            s->empty.at[kept++] = p;
    }
    s->empty.n = kept;
}

/* A copy of the class folder's name; the last one made is given again while it fits. */
static const char *class_folder(brim_arena *a, const brim_item *it, const char *last)
{
    size_t n = component(it->inner);
    if (last && strlen(last) == n && !strncmp(last, it->inner, n)) return last;
    return brim_arena_printf(a, "%.*s", (int)n, it->inner);
}

/* The sorted names of all class folders to d->name. */
static brim_status collect_names(brim_dataset *d, const char **folder, brim_error *err)
{
    brim_source *s = &d->src;
    qsort(folder, s->items.n, sizeof *folder, by_text);
    size_t unique = 0;
    for (size_t i = 0; i < s->items.n; i++)
        if (!unique || strcmp(folder[unique - 1], folder[i])) folder[unique++] = folder[i];
    d->classes = (int)unique;
    d->name = BRIM_ARENA_ARRAY(&s->arena, const char *, unique + 1);
    if (!d->name) return brim_fail(err, BRIM_ENOMEM, "data: out of memory");
    memcpy(d->name, folder, unique * sizeof *folder);
    return BRIM_OK;
}

static brim_status classes_from_folders(brim_dataset *d, const char *path, brim_error *err)
{
    brim_source *s = &d->src;
    const char **folder = brim_malloc(2 * s->items.n * sizeof *folder), **sorted, *last = NULL;
    if (!folder) return no_memory(path, err);
    sorted = folder + s->items.n;
    brim_status st = BRIM_OK;
    for (size_t i = 0; i < s->items.n && st == BRIM_OK; i++) {
        const brim_item *it = &s->items.at[i];
        if (!it->inner[component(it->inner)])
            st = brim_fail(err, BRIM_EFORMAT, "%s: %s lies in no class folder (wants CLASS/IMAGE)",
                           path, it->name);
        folder[i] = sorted[i] = last = class_folder(&s->arena, it, last);
        if (!last) st = no_memory(path, err);
    }
    if (st == BRIM_OK) st = collect_names(d, sorted, err);
    for (size_t i = 0; i < s->items.n && st == BRIM_OK; i++) {
        const char **at =
            bsearch(&folder[i], d->name, (size_t)d->classes, sizeof *d->name, by_text);
        s->items.at[i].label = (int)(at - d->name);
    }
    free(folder);
    return st;
}

/* ---- classes from labels ---- */

/* Lines of a list of names in the folder of `path`, up to the last that is not empty. */
static brim_status read_class_list(brim_source *s, const char *path, const char *name,
                                   const char ***line, int *n, brim_error *err)
{
    struct stat st;
    const char *slash = strrchr(path, '/');
    int folder = slash ? (int)(slash - path + 1) : 0;
    char *file = stat(path, &st) == 0 && S_ISDIR(st.st_mode)
                     ? brim_arena_printf(&s->arena, "%s/%s", path, name)
                     : brim_arena_printf(&s->arena, "%.*s%s", folder, path, name);
    if (!file) return no_memory(path, err);
    FILE *f = fopen(file, "re");
    BRIM_VEC(const char *) lines = {0};
    char *text = NULL;
    size_t cap = 0;
    bool ok = true;
    while (f && ok && lines.n <= 1 << 20 && getline(&text, &cap, f) >= 0) {
        text[strcspn(text, "\r\n")] = 0;
        const char *copy = brim_arena_strdup(&s->arena, text);
        ok = copy && brim_vec_push(&lines, copy);
    }
    free(text);
    if (f) fclose(f);
    while (lines.n && !*lines.at[lines.n - 1]) lines.n--;
    *line = lines.at;
    *n = (int)lines.n;
    return ok ? BRIM_OK : no_memory(path, err);
}

static brim_status name_classes(brim_dataset *d, const char *const *line, int n, const char *path,
                                brim_error *err)
{
    if (n > d->classes) d->classes = n; /* a part of a set may lack its last classes */
    d->name = BRIM_ARENA_ARRAY(&d->src.arena, const char *, d->classes + 1);
    for (int k = 0; d->name && k < d->classes; k++) {
        bool listed = k < n && *line[k];
        d->name[k] = listed ? line[k] : brim_arena_printf(&d->src.arena, "%d", k);
        if (!d->name[k]) d->name = NULL;
    }
    return d->name ? BRIM_OK : no_memory(path, err);
}

static brim_status classes_from_labels(brim_dataset *d, const char *path, brim_error *err)
{
    /* Brim's own, and those that come with CIFAR-10 and CIFAR-100. */
    static const char *const list[] = {"classes.txt", "batches.meta.txt", "fine_label_names.txt"};
    const char **line = NULL;
    int n = 0;
    for (size_t i = 0; i < d->src.items.n; i++)
        if (d->src.items.at[i].label >= d->classes) d->classes = d->src.items.at[i].label + 1;
    brim_status st = BRIM_OK;
    for (size_t k = 0; k < sizeof list / sizeof *list && n == 0 && st == BRIM_OK; k++) {
        free(line);
        st = read_class_list(&d->src, path, list[k], &line, &n, err);
    }
    if (st == BRIM_OK) st = name_classes(d, line, n, path, err);
    free(line);
    return st;
}

/* ---- the whole ---- */

/* The model's classes have numbers for names: its data came without any. */
static bool nameless(const brim_dataset_opts *o)
{
    return o->n_class_names && !strcmp(o->class_names[0], "0");
}

/* Brings labels into the order of the names that a checkpoint expects. */
static brim_status match_names(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                               brim_error *err)
{
    if (!o->class_names) return BRIM_OK;
    int *to = BRIM_ARENA_ARRAY(&d->src.arena, int, d->classes + 1);
    const char **name = BRIM_ARENA_ARRAY(&d->src.arena, const char *, o->n_class_names + 1);
    if (!to || !name) return no_memory(path, err);
    for (int k = 0; k < d->classes; k++) {
        to[k] = -1;
        for (int m = 0; m < o->n_class_names; m++)
            if (!strcmp(d->name[k], o->class_names[m])) to[k] = m;
        if (to[k] < 0)
            return brim_fail(
                err, BRIM_EFORMAT, "%s: class \"%s\" is not among the %d of %s (\"%s\", ...%s)",
                path, d->name[k], o->n_class_names, o->names_of ? o->names_of : "the model",
                o->n_class_names ? o->class_names[0] : "",
                nameless(o) ? "; give its training data names: a file classes.txt beside them, "
                              "a name a line"
                            : "");
    }
    for (size_t i = 0; i < d->src.items.n; i++)
        d->src.items.at[i].label = to[d->src.items.at[i].label];
    for (int m = 0; m < o->n_class_names; m++)
        if (!(name[m] = brim_arena_strdup(&d->src.arena, o->class_names[m])))
            return no_memory(path, err);
    d->name = name;
    d->classes = o->n_class_names;
    return BRIM_OK;
}

static brim_status assign_classes(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                                  brim_error *err)
{
    brim_source *s = &d->src;
    bool labelled = s->items.n == 0 || s->items.at[0].label >= 0;
    if (!labelled) {
        strip_common_folder(s);
        find_folder_splits(d);
    }
    if (d->own_split) keep_split(s, o->split);
    if (labelled || s->items.n == 0) return classes_from_labels(d, path, err);
    keep_empty_classes(s);
    if (s->empty.n && !o->allow_empty)
        return brim_fail(err, BRIM_EFORMAT,
                         "%s/%s: a class folder without images (remove it, or fill it)", path,
                         s->empty.at[0]);
    return classes_from_folders(d, path, err);
}

brim_status brim_labels_assign(brim_dataset *d, const char *path, const brim_dataset_opts *o,
                               brim_error *err)
{
    BRIM_TRY(assign_classes(d, path, o, err));
    BRIM_TRY(match_names(d, path, o, err));
    if (d->own_split || o->split == BRIM_SPLIT_ALL || !(o->val_fraction > 0)) return BRIM_OK;
    BRIM_TRY(hold_out_fraction(d, o, err));
    keep_split(&d->src, o->split);
    return BRIM_OK;
}
