#include "backend/cuda/library.h"
#include "base/str.h"

#include <dlfcn.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

brim_cuda_symbols brim_cu;

static const struct {
    const char *title;
    const char *names[4]; /* best first */
    const char *remedy;
} libraries[BRIM_CUDA_LIBRARIES] = {
    [BRIM_LIB_driver] = {"NVIDIA's driver",
                         {"libcuda.so.1"},
                         "install the graphics driver, Debian's package nvidia-driver; in a "
                         "container, start it with its GPUs"},
    [BRIM_LIB_nvrtc] = {"NVIDIA's run-time compiler NVRTC",
                        {"libnvrtc.so.13", "libnvrtc.so.12"},
                        "install the CUDA toolkit 12 or 13, or `pip install nvidia-cuda-nvrtc`"},
    [BRIM_LIB_nvml] = {"NVIDIA's management library",
                       {"libnvidia-ml.so.1"},
                       "it comes with the driver"},
};

static const struct {
    brim_cuda_library library;
    const char *name;
    void **at;
} symbols[] = {
#define SYMBOL(library, result, name, arguments)                                                   \
    {BRIM_LIB_##library, #name, (void **)&brim_cu.name},
#include "backend/cuda/symbols.def"
#undef SYMBOL
};

/* $VARIABLE is the environment's; a pattern with one that is not set is left out. */
static const char *const folders[] = {
    "$CUDA_HOME/lib64",
    "$CUDA_PATH/lib64",
    "/usr/local/cuda/lib64",
    "/usr/local/cuda-*/lib64",
    "/opt/cuda/lib64",
    "/usr/lib/wsl/lib",
    "$CONDA_PREFIX/lib",
    "$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/*/lib",
    "$CONDA_PREFIX/lib/python3*/site-packages/nvidia/*/lib",
    "$HOME/.local/lib/python3*/site-packages/nvidia/*/lib",
    "/usr/local/lib/python3*/*-packages/nvidia/*/lib",
    "/usr/lib/python3/dist-packages/nvidia/*/lib",
};

typedef struct opened {
    bool tried;
    void *handle;
    char path[PATH_MAX];
    brim_error error;
} opened;
static opened libs[BRIM_CUDA_LIBRARIES];

/* Remembers the file that a handle came from. */
static void note_path(opened *o, void *symbol)
{
    Dl_info info;
    if (dladdr(symbol, &info) && info.dli_fname)
        snprintf(o->path, sizeof o->path, "%s", info.dli_fname);
}

static bool open_as(opened *o, const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s%s", folder, *folder ? "/" : "", name);
    o->handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return o->handle != NULL;
}

/* Code from a compiler of a later major version than the driver's does not load. */
static bool too_new(const char *name)
{
    const char *so = strstr(name, ".so.");
    int version = 0;
    if (strncmp(name, "libnvrtc", 8) || !brim_cu.cuDriverGetVersion) return false;
    return brim_cu.cuDriverGetVersion(&version) == CUDA_SUCCESS && so &&
           atoi(so + 4) > version / 1000;
}

static bool open_in(opened *o, const char *folder, const char *const *names)
{
    for (int k = 0; k < 4 && names[k]; k++)
        if (!too_new(names[k]) && open_as(o, folder, names[k])) return true;
    return false;
}

static bool open_in_list(opened *o, const char *list, const char *const *names)
{
    char folder[PATH_MAX];
    for (size_t n; *list; list += n + (list[n] == ':')) {
        n = strcspn(list, ":");
        snprintf(folder, sizeof folder, "%.*s", (int)n, list);
        if (n && open_in(o, folder, names)) return true;
    }
    return false;
}

static bool expand(char *out, size_t n, const char *pattern)
{
    if (*pattern != '$') return snprintf(out, n, "%s", pattern) < (int)n;
    char name[64];
    size_t k = strcspn(pattern, "/");
    snprintf(name, sizeof name, "%.*s", (int)k - 1, pattern + 1);
    const char *value = getenv(name);
    return value && *value && snprintf(out, n, "%s%s", value, pattern + k) < (int)n;
}

static bool open_in_pattern(opened *o, const char *pattern, const char *const *names)
{
    char text[PATH_MAX];
    glob_t found;
    bool ok = false;
    if (!expand(text, sizeof text, pattern) || glob(text, 0, NULL, &found)) return false;
    for (size_t k = found.gl_pathc; k-- > 0 && !ok;) ok = open_in(o, found.gl_pathv[k], names);
    globfree(&found);
    return ok;
}

static void find(opened *o, const char *const *names)
{
    const char *own = getenv("BRIM_CUDA_LIBS");
    if (own && *own) {
        open_in_list(o, own, names);
        return;
    }
    bool ok = open_in(o, "", names);
    for (size_t k = 0; k < sizeof folders / sizeof *folders && !ok; k++)
        ok = open_in_pattern(o, folders[k], names);
}

static brim_status not_found(brim_cuda_library l, brim_error *err)
{
    const char *own = getenv("BRIM_CUDA_LIBS");
    const char *const *names = libraries[l].names;
    return brim_fail(err, BRIM_ENOTFOUND, "device: %s (%s%s%s) is not here: looked in %s%s (%s)",
                     libraries[l].title, names[0], names[1] ? ", " : "", names[1] ? names[1] : "",
                     own && *own ? "$BRIM_CUDA_LIBS=" : "the loader's path",
                     own && *own ? own
                     : l == BRIM_LIB_driver
                         ? " and /usr/lib/wsl/lib"
                         : ", the CUDA toolkit's folders and Python's nvidia packages",
                     libraries[l].remedy);
}

static brim_status open_one(brim_cuda_library l, opened *o, brim_error *err)
{
    find(o, libraries[l].names);
    if (!o->handle) return not_found(l, err);
    for (size_t k = 0; k < sizeof symbols / sizeof *symbols; k++) {
        if (symbols[k].library != l) continue;
        *symbols[k].at = dlsym(o->handle, symbols[k].name);
        if (!*symbols[k].at)
            return brim_fail(
                err, BRIM_EUNSUPPORTED, "device: %s in %s has no function %s: it is too old (%s)",
                libraries[l].title, *o->path ? o->path : libraries[l].names[0], symbols[k].name,
                l == BRIM_LIB_driver ? "update it: 525 or later is wanted" : libraries[l].remedy);
        if (!*o->path) note_path(o, *symbols[k].at);
    }
    return BRIM_OK;
}

brim_status brim_cuda_library_open(brim_cuda_library l, brim_error *err)
{
    opened *o = &libs[l];
    if (!o->tried) {
        o->tried = true;
        open_one(l, o, &o->error);
    }
    return o->error.status ? brim_fail(err, o->error.status, "%s", o->error.text) : BRIM_OK;
}

const char *brim_cuda_library_path(brim_cuda_library l)
{
    return libs[l].path;
}
