/* The least that reading JPEG files for training can cost: TurboJPEG decodes each at the smallest
 * scale of the DCT (8/8, 4/8, 2/8, ...) whose sides still reach SIZE, to RGB, and does nothing
 * with it. One thread, files in memory. Speaks take_turns.py's protocol; a step is one image.
 *
 *     turbojpeg_bare DIR [SIZE]
 *     cc -O2 bench/turbojpeg_bare.c -o turbojpeg_bare $(pkg-config --cflags --libs libturbojpeg) */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <turbojpeg.h>

struct file {
    unsigned char *at;
    unsigned long n;
};

static struct file *files;
static size_t n_files, cap_files;

static int take(const char *path, const struct stat *st, int type, struct FTW *where)
{
    (void)where;
    const char *dot = strrchr(path, '.');
    if (type != FTW_F || st->st_size == 0 || !dot) return 0;
    if (strcasecmp(dot, ".jpg") && strcasecmp(dot, ".jpeg")) return 0;
    if (n_files == cap_files) {
        cap_files = cap_files ? 2 * cap_files : 256;
        files = realloc(files, cap_files * sizeof *files);
        if (!files) return -1;
    }
    struct file f = {malloc((size_t)st->st_size), (unsigned long)st->st_size};
    FILE *in = fopen(path, "rb");
    if (!f.at || !in || fread(f.at, 1, f.n, in) != f.n) return -1;
    fclose(in);
    files[n_files++] = f;
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The smallest power-of-two scale at which both sides are at least size, or 1. */
static tjscalingfactor scale_for(int w, int h, int size)
{
    tjscalingfactor s = {1, 1};
    while (s.denom < 8) {
        tjscalingfactor half = {1, 2 * s.denom};
        if (TJSCALED(w, half) < size || TJSCALED(h, half) < size) break;
        s = half;
    }
    return s;
}

static int decode(tjhandle jpeg, struct file f, int size, unsigned char **pixels, size_t *cap)
{
    int w, h, subsampling, space;
    if (tjDecompressHeader3(jpeg, f.at, f.n, &w, &h, &subsampling, &space)) return 0;
    tjscalingfactor s = scale_for(w, h, size);
    int sw = TJSCALED(w, s), sh = TJSCALED(h, s);
    size_t need = (size_t)sw * (size_t)sh * 3;
    if (need > *cap) {
        free(*pixels);
        *pixels = malloc(need);
        *cap = *pixels ? need : 0;
        if (!*pixels) return 0;
    }
    return tjDecompress2(jpeg, f.at, f.n, *pixels, sw, 0, sh, TJPF_RGB, 0) == 0;
}

int main(int argc, char **argv)
{
    if (argc < 2) return fprintf(stderr, "usage: turbojpeg_bare DIR [SIZE]\n"), 2;
    int size = argc > 2 ? atoi(argv[2]) : 224;
    if (nftw(argv[1], take, 16, FTW_PHYS)) return perror(argv[1]), 1;
    tjhandle jpeg = tjInitDecompress();
    if (!n_files || !jpeg) return fprintf(stderr, "turbojpeg_bare: no JPEG file\n"), 1;

    unsigned char *pixels = NULL;
    size_t cap = 0, done = 0;
    char line[64];
    for (size_t i = 0; i < n_files; i++)
        if (!decode(jpeg, files[i], size, &pixels, &cap))
            return fprintf(stderr, "turbojpeg_bare: a file cannot be decoded\n"), 1;
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int n = atoi(line);
        double start = now();
        for (int i = 0; i < n; i++) decode(jpeg, files[done++ % n_files], size, &pixels, &cap);
        printf("%.6f\n", (now() - start) * 1e3 / n);
        fflush(stdout);
    }
    for (size_t i = 0; i < n_files; i++) free(files[i].at);
    free(files);
    free(pixels);
    tjDestroy(jpeg);
    return 0;
}
