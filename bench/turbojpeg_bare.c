/* The least that reading JPEG files for training can cost: TurboJPEG decodes each at the smallest
 * scale of the DCT (8/8, 4/8, 2/8, ...) whose sides still reach SIZE, to RGB, and does nothing
 * with it. One thread, files in memory. Prints one JSON line.
 *
 *     turbojpeg_bare DIR|FILE... [-s SIZE] [-t SECONDS]
 *     cc -O2 bench/turbojpeg_bare.c -o turbojpeg_bare $(pkg-config --cflags --libs libturbojpeg) */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <turbojpeg.h>
#include <unistd.h>

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
    int size = 224, opt;
    double seconds = 10;
    while ((opt = getopt(argc, argv, "s:t:")) != -1) {
        if (opt == 's')
            size = atoi(optarg);
        else if (opt == 't')
            seconds = atof(optarg);
        else
            return 2;
    }
    for (int i = optind; i < argc; i++)
        if (nftw(argv[i], take, 16, FTW_PHYS)) return perror(argv[i]), 1;
    tjhandle jpeg = tjInitDecompress();
    if (!n_files || !jpeg) return fprintf(stderr, "turbojpeg_bare: no JPEG file\n"), 1;

    unsigned char *pixels = NULL;
    size_t cap = 0, done = 0, bad = 0;
    for (size_t i = 0; i < n_files; i++) bad += !decode(jpeg, files[i], size, &pixels, &cap);
    double start = now(), elapsed;
    do {
        decode(jpeg, files[done % n_files], size, &pixels, &cap);
        done++;
        elapsed = now() - start;
    } while (elapsed < seconds);
    printf("{\"what\": \"turbojpeg\", \"size\": %d, \"files\": %zu, \"bad\": %zu, \"images\": %zu, "
           "\"images_per_s_per_core\": %.1f}\n",
           size, n_files, bad, done, (double)done / elapsed);
    for (size_t i = 0; i < n_files; i++) free(files[i].at);
    free(files);
    free(pixels);
    tjDestroy(jpeg);
    return 0;
}
