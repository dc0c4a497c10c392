#include "fuzz_set.h"
#include "data/dataset.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/brim-fuzz-XXXXXX";
static const char *names[8]; /* written so far */
static char path[128];

static const char *path_of(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void clean_up(void)
{
    for (size_t k = 0; k < 8 && names[k]; k++) unlink(path_of(names[k]));
    rmdir(folder);
}

void fuzz_set_write(const char *name, const uint8_t *data, size_t n)
{
    size_t k = 0;
    if (!names[0]) {
        BRIM_CHECK(mkdtemp(folder));
        atexit(clean_up);
    }
    while (k < 7 && names[k] && strcmp(names[k], name)) k++;
    names[k] = name;
    int fd = open(path_of(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    BRIM_CHECK(fd >= 0 && write(fd, data, n) == (ssize_t)n);
    close(fd);
}

static void check_sample(const brim_dataset *d, int64_t i, brim_scratch *scratch)
{
    brim_sample s;
    brim_error err = {0};
    char text[300];
    int label = brim_dataset_label(d, i);
    BRIM_CHECK(label >= 0 && label < brim_dataset_classes(d));
    BRIM_CHECK(brim_dataset_class_name(d, label) && brim_dataset_path(d, i, text, sizeof text)[0]);
    BRIM_CHECK(brim_dataset_read(d, i, scratch, &s, &err) == BRIM_OK);
    BRIM_CHECK(!s.raw || s.n == (size_t)s.w * (size_t)s.h * (size_t)s.channels);
    volatile uint8_t sink = 0;
    for (size_t k = 0; k < s.n; k++) sink = (uint8_t)(sink ^ s.bytes[k]);
    (void)sink;
}

void fuzz_set_open(const char *name)
{
    brim_dataset *d;
    brim_error err = {0};
    brim_scratch scratch = {0};
    brim_dataset_opts o = {.split = BRIM_SPLIT_TRAIN, .val_fraction = 0.25};
    if (brim_dataset_open(path_of(name), &o, &d, &err) != BRIM_OK) {
        BRIM_CHECK(!d && err.status != BRIM_OK && err.status != BRIM_ENOMEM && err.text[0]);
        for (const char *p = err.text; *p; p++) BRIM_CHECK((unsigned char)*p >= ' ');
        return;
    }
    BRIM_CHECK(brim_dataset_size(d) > 0);
    for (int64_t i = 0; i < brim_dataset_size(d); i++) check_sample(d, i, &scratch);
    brim_scratch_free(&scratch);
    brim_dataset_free(d);
}
