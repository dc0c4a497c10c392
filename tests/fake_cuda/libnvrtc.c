/* Stands in for NVRTC: compiles a kernel's source for the host, behind emulator.hpp, with g++. What
 * it gives as "cubin" is a shared library, which libcuda.c here loads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct program {
    char *source, *log, *image;
    size_t image_bytes;
} program;

static char *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *at = NULL;
    *n = 0;
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    at = calloc(*n + 1, 1);
    if (at && fread(at, 1, *n, f) != *n) *n = 0;
    fclose(f);
    return at;
}

int nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 98; /* no real one: its cache entries are its own */
    return 0;
}

const char *nvrtcGetErrorString(int r)
{
    return r ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}

int nvrtcCreateProgram(program **p, const char *source, const char *name, int n,
                       const char *const *headers, const char *const *names)
{
    (void)name, (void)n, (void)headers, (void)names;
    *p = calloc(1, sizeof **p);
    if (*p) (*p)->source = strdup(source);
    return *p ? 0 : 1;
}

int nvrtcDestroyProgram(program **p)
{
    free((*p)->source);
    free((*p)->log);
    free((*p)->image);
    free(*p);
    *p = NULL;
    return 0;
}

int nvrtcCompileProgram(program *p, int n, const char *const *options)
{
    char folder[] = "/tmp/brim-emu-XXXXXX", path[64], command[4096];
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/k.cpp", folder);
    FILE *f = fopen(path, "w");
    if (!f) return 1;
    fputs(p->source, f);
    fclose(f);
    int at = snprintf(
        command, sizeof command,
        "g++ -std=gnu++17 -O1 -w -fPIC -shared -fno-strict-aliasing -fno-gnu-unique -Wl,-Bsymbolic "
        "-ffp-contract=off -include '%s/emulator.hpp' -o %s/k.so %s/k.cpp",
        BRIM_EMULATOR_FOLDER, folder, folder);
    for (int k = 0; k < n; k++)
        if (!strncmp(options[k], "-D", 2))
            at += snprintf(command + at, sizeof command - (size_t)at, " '%s'", options[k]);
    snprintf(command + at, sizeof command - (size_t)at, " 2> %s/log", folder);
    int failed = system(command);
    size_t log_bytes;
    snprintf(path, sizeof path, "%s/log", folder);
    p->log = slurp(path, &log_bytes);
    unlink(path);
    snprintf(path, sizeof path, "%s/k.so", folder);
    p->image = slurp(path, &p->image_bytes);
    unlink(path);
    snprintf(path, sizeof path, "%s/k.cpp", folder);
    unlink(path);
    rmdir(folder);
    return failed || !p->image ? 6 : 0;
}

int nvrtcGetProgramLogSize(program *p, size_t *n)
{
    *n = p->log ? strlen(p->log) + 1 : 1;
    return 0;
}

int nvrtcGetProgramLog(program *p, char *log)
{
    strcpy(log, p->log ? p->log : "");
    return 0;
}

/* The image's length comes first: cuModuleLoadData is not told it. */
int nvrtcGetCUBINSize(program *p, size_t *n)
{
    *n = p->image_bytes + sizeof(size_t);
    return 0;
}

int nvrtcGetCUBIN(program *p, char *out)
{
    memcpy(out, &p->image_bytes, sizeof(size_t));
    memcpy(out + sizeof(size_t), p->image, p->image_bytes);
    return 0;
}
