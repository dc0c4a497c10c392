#include "backend/cuda/module.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/vec.h"
#include "io/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEFINES = 16 };

typedef struct module {
    uint64_t key[2];
    CUmodule handle;
} module;
static BRIM_VEC(module) modules;

static struct {
    brim_cuda_told told;
    void *user;
} listener;

void brim_cuda_tell(brim_cuda_told told, void *user)
{
    listener.told = told;
    listener.user = user;
}

static const char *source_of(const char *name)
{
    for (int k = 0; k < brim_cuda_source_count; k++)
        if (!strcmp(brim_cuda_sources[k].name, name)) return brim_cuda_sources[k].text;
    return NULL;
}

/* device.cuh, args.h and the kernel's own text, with the lines numbered as in the files. */
static brim_status whole_text(const char *title, const char *text, brim_str *out, brim_error *err)
{
    static const char *const before[] = {"device.cuh", "args.h", "mma.cuh"};
    if (!text) text = source_of(title);
    if (!text) return brim_fail(err, BRIM_ENOTFOUND, "kernels: there is no file %s", title);
    for (size_t k = 0; k < sizeof before / sizeof *before; k++)
        brim_str_printf(out, "#line 1 \"%s\"\n%s\n", before[k], source_of(before[k]));
    brim_str_printf(out, "#line 1 \"%s\"\n%s\n", title, text);
    return out->failed ? brim_fail(err, BRIM_ENOMEM, "%s: out of memory", title) : BRIM_OK;
}

/* ---- the compiler ---- */

/* The options as an array; `text` is cut at the spaces. */
static int split_defines(char *text, const char *options[MAX_DEFINES])
{
    int n = 0;
    for (char *save = NULL, *w = strtok_r(text, " ", &save); w && n < MAX_DEFINES;
         w = strtok_r(NULL, " ", &save))
        options[n++] = w;
    return n;
}

static brim_status compile_failed(nvrtcProgram p, const char *title, int cc, int r, brim_error *err)
{
    size_t n = 0;
    brim_cu.nvrtcGetProgramLogSize(p, &n);
    char *log = brim_calloc(n + 1, 1);
    if (log) brim_cu.nvrtcGetProgramLog(p, log);
    int major = 0, minor = 0;
    brim_cu.nvrtcVersion(&major, &minor);
    const char *first = log ? strstr(log, "error") : NULL;
    brim_status s =
        brim_fail(err, BRIM_EFORMAT, "kernels: NVRTC %d.%d cannot compile %s for sm_%d: %.300s",
                  major, minor, title, cc, first ? first : brim_cu.nvrtcGetErrorString(r));
    free(log);
    return s;
}

static void tell(nvrtcProgram p, const char *title, const char *defines)
{
    size_t n = 0;
    brim_cu.nvrtcGetProgramLogSize(p, &n);
    char *log = brim_calloc(n + 1, 1);
    if (!log) return;
    brim_cu.nvrtcGetProgramLog(p, log);
    listener.told(listener.user, title, defines ? defines : "", log);
    free(log);
}

static brim_status compile(const char *title, const char *text, const char *defines, int cc,
                           char **cubin, size_t *size, brim_error *err)
{
    char arch[48], flags[1024];
    const char *options[MAX_DEFINES + 3] = {arch, "--std=c++17", "--ptxas-options=-v"};
    snprintf(arch, sizeof arch, "--gpu-architecture=sm_%d", cc);
    snprintf(flags, sizeof flags, "%s", defines ? defines : "");
    int fixed = listener.told ? 3 : 2;
    int n = fixed + split_defines(flags, options + fixed);
    nvrtcProgram p;
    int r = brim_cu.nvrtcCreateProgram(&p, text, title, 0, NULL, NULL);
    if (r)
        return brim_fail(err, BRIM_ENOMEM, "kernels: %s: %s", title,
                         brim_cu.nvrtcGetErrorString(r));
    brim_status s = BRIM_OK;
    if ((r = brim_cu.nvrtcCompileProgram(p, n, options)))
        s = compile_failed(p, title, cc, r, err);
    else if (brim_cu.nvrtcGetCUBINSize(p, size) || !(*cubin = brim_malloc(*size + 1)))
        s = brim_fail(err, BRIM_ENOMEM, "kernels: %s: out of memory", title);
    else if ((r = brim_cu.nvrtcGetCUBIN(p, *cubin))) {
        free(*cubin);
        s = brim_fail(err, BRIM_EFORMAT, "kernels: %s: %s", title, brim_cu.nvrtcGetErrorString(r));
    }
    if (s == BRIM_OK && listener.told) tell(p, title, defines);
    brim_cu.nvrtcDestroyProgram(&p);
    return s;
}

/* ---- the cache on disk ---- */

/* A file holds the cubin behind this; what is cut off or of another key is compiled again. */
typedef struct cache_head {
    char magic[8];
    uint64_t key[2], bytes, sum;
} cache_head;
static const char magic[8] = "brimcub1";

static uint64_t sum_of(const char *at, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t k = 0; k < n; k++) h = (h ^ (unsigned char)at[k]) * 0x100000001b3u;
    return h;
}

static void key_of(const char *text, const char *defines, int cc, uint64_t key[2])
{
    int major = 0, minor = 0;
    char what[1100];
    brim_cu.nvrtcVersion(&major, &minor);
    snprintf(what, sizeof what, "sm_%d nvrtc %d.%d %s", cc, major, minor, defines ? defines : "");
    uint64_t a = brim_hash_text(text), b = brim_hash_text(what);
    brim_philox p = brim_philox4x32(a, b, sum_of(text + strlen(text) / 2, strlen(text) / 4));
    key[0] = a ^ (b << 1);
    key[1] = (uint64_t)p.v[0] << 32 | p.v[1];
}

/* $BRIM_CACHE, else the user's cache folder. False: there is none. */
static bool cache_path(const uint64_t key[2], char *out, size_t n)
{
    const char *own = getenv("BRIM_CACHE"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char folder[3000];
    if (own && *own)
        snprintf(folder, sizeof folder, "%s", own);
    else if (xdg && *xdg == '/')
        snprintf(folder, sizeof folder, "%s/brim", xdg);
    else if (home && *home == '/')
        snprintf(folder, sizeof folder, "%s/.cache/brim", home);
    else
        return false;
    if (brim_make_dirs(folder, NULL) != BRIM_OK) return false;
    return snprintf(out, n, "%s/%016llx%016llx.cubin", folder, (unsigned long long)key[0],
                    (unsigned long long)key[1]) < (int)n;
}

static char *cache_read(const uint64_t key[2], size_t *n)
{
    char path[4096], *file;
    size_t size;
    cache_head h;
    if (!cache_path(key, path, sizeof path) || !brim_file_exists(path) ||
        brim_file_read(path, 256u << 20, &file, &size, NULL) != BRIM_OK)
        return NULL;
    if (size >= sizeof h) memcpy(&h, file, sizeof h);
    bool ok = size >= sizeof h && !memcmp(h.magic, magic, sizeof magic) && h.key[0] == key[0] &&
              h.key[1] == key[1] && h.bytes == size - sizeof h &&
              h.sum == sum_of(file + sizeof h, h.bytes);
    if (!ok) {
        free(file);
        return NULL;
    }
    *n = h.bytes;
    memmove(file, file + sizeof h, *n);
    return file;
}

/* A cache that cannot be written costs time at the next start, no more. */
static void cache_write(const uint64_t key[2], const char *cubin, size_t n)
{
    char path[4096];
    brim_file_writer *w;
    cache_head h = {.key = {key[0], key[1]}, .bytes = n, .sum = sum_of(cubin, n)};
    memcpy(h.magic, magic, sizeof magic);
    if (!cache_path(key, path, sizeof path) || brim_file_replace(path, &w, NULL) != BRIM_OK) return;
    brim_file_write(w, &h, sizeof h);
    brim_file_write(w, cubin, n);
    brim_file_commit(w, NULL);
}

/* ---- modules ---- */

static const module *find(const uint64_t key[2])
{
    for (size_t k = 0; k < modules.n; k++)
        if (modules.at[k].key[0] == key[0] && modules.at[k].key[1] == key[1]) return &modules.at[k];
    return NULL;
}

static brim_status remember(const uint64_t key[2], CUmodule handle, brim_error *err)
{
    module m = {{key[0], key[1]}, handle};
    return brim_vec_push(&modules, m) ? BRIM_OK
                                      : brim_fail(err, BRIM_ENOMEM, "kernels: out of memory");
}

/* For a card that is assumed: compiled and forgotten. */
static brim_status only_compile(const char *title, const char *text, const char *defines,
                                brim_error *err)
{
    uint64_t key[2];
    char *cubin;
    size_t n;
    BRIM_TRY(brim_cuda_library_open(BRIM_LIB_nvrtc, err));
    key_of(text, defines, brim_cuda_get()->cc, key);
    if (find(key)) return BRIM_OK;
    BRIM_TRY(compile(title, text, defines, brim_cuda_get()->cc, &cubin, &n, err));
    free(cubin);
    return remember(key, NULL, err);
}

static brim_status load(const uint64_t key[2], const char *title, const char *cubin, CUmodule *out,
                        brim_error *err)
{
    char what[128];
    snprintf(what, sizeof what, "loading %.100s", title);
    BRIM_TRY(brim_cuda_result(brim_cu.cuModuleLoadData(out, cubin), what, err));
    return remember(key, *out, err);
}

static brim_status module_get(const char *title, const char *text, const char *defines,
                              CUmodule *out, brim_error *err)
{
    int cc = brim_cuda_get()->cc;
    uint64_t key[2];
    key_of(text, defines, cc, key);
    const module *known = find(key);
    if (known) {
        *out = known->handle;
        return BRIM_OK;
    }
    size_t n;
    char *cubin = cache_read(key, &n);
    if (!cubin) {
        BRIM_TRY(compile(title, text, defines, cc, &cubin, &n, err));
        cache_write(key, cubin, n);
    }
    brim_status s = load(key, title, cubin, out, err);
    free(cubin);
    return s;
}

static brim_status kernel(const char *title, const char *text, const char *defines,
                          const char *name, CUfunction *out, brim_error *err)
{
    brim_str whole = {0};
    CUmodule m;
    char what[160];
    snprintf(what, sizeof what, "finding %.60s in %.60s", name, title);
    brim_status s = whole_text(title, text, &whole, err);
    bool here = brim_cuda_get()->context != NULL;
    *out = NULL;
    if (s == BRIM_OK && !here && listener.told)
        s = only_compile(title, brim_str_text(&whole), defines, err);
    if (s == BRIM_OK && here) s = module_get(title, brim_str_text(&whole), defines, &m, err);
    if (s == BRIM_OK && here)
        s = brim_cuda_result(brim_cu.cuModuleGetFunction(out, m, name), what, err);
    brim_str_free(&whole);
    return s;
}

brim_status brim_cuda_kernel(const char *file, const char *defines, const char *name,
                             CUfunction *out, brim_error *err)
{
    return kernel(file, NULL, defines, name, out, err);
}

brim_status brim_cuda_kernel_from(const char *title, const char *text, const char *name,
                                  CUfunction *out, brim_error *err)
{
    return kernel(title, text, NULL, name, out, err);
}

void brim_cuda_launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned threads,
                      size_t shared_bytes, const void *args)
{
    void *list[] = {(void *)args};
    if (!gx || !gy || !gz) return;
    brim_cuda_note(brim_cu.cuLaunchKernel(f, gx, gy, gz, threads, 1, 1, (unsigned)shared_bytes,
                                          brim_cuda_get()->stream, list, NULL),
                   "starting a kernel");
}
