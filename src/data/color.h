/* Changes of colour in place, on 8-bit pixels [h, w, channels], rows packed. Each gives Pillow's
 * values (ImageEnhance, ImageOps), which is what torchvision applies to images. Factor 1 changes
 * nothing. On grey images what concerns colour does nothing. */
#ifndef BRIM_DATA_COLOR_H
#define BRIM_DATA_COLOR_H

#include "base/rng.h"
#include "data/pipeline.h"

typedef struct brim_pixels {
    uint8_t *at;
    int w, h, channels;
} brim_pixels;

void brim_color_brightness(brim_pixels p, double factor); /* 0: black */
void brim_color_contrast(brim_pixels p, double factor);   /* 0: the mean grey */
void brim_color_saturation(brim_pixels p, double factor); /* 0: grey */
void brim_color_hue(brim_pixels p, double turns);         /* -0.5 .. 0.5 of the colour wheel */
/* 0: smoothed by 1 1 1, 1 5 1, 1 1 1; the border stays. tmp: as many bytes as p. */
void brim_color_sharpness(brim_pixels p, double factor, uint8_t *tmp);
void brim_color_posterize(brim_pixels p, int bits);     /* keeps the highest bits */
void brim_color_solarize(brim_pixels p, int threshold); /* inverts values from there on */
void brim_color_autocontrast(brim_pixels p);            /* each channel to the full range */
void brim_color_equalize(brim_pixels p);                /* each channel's histogram flat */

/* torchvision's ColorJitter: brightness, contrast, saturation and hue in random order, each by a
 * random factor of the strength in `a`; strength 0 leaves one out. */
void brim_color_jitter(const brim_augment *a, brim_pixels p, brim_rng *r);

#endif
