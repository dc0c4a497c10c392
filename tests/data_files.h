/* Images, archives and raw data sets that tests make for themselves, in a temporary folder. A call
 * that fails, fails the test. */
#ifndef BRIM_TESTS_DATA_FILES_H
#define BRIM_TESTS_DATA_FILES_H

#include "data/dataset.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes that grow; zero before first use. */
typedef struct bytes {
    uint8_t *at;
    size_t n, cap;
} bytes;
void bytes_add(bytes *b, const void *from, size_t n);
void bytes_free(bytes *b);
bytes bytes_gzip(const bytes *b); /* a new one */

/* cmocka's group set-up and tear-down: make and remove the folder. */
int files_begin(void **state);
int files_end(void **state);
/* "DIR/name"; the last eight results stay valid. */
const char *files_path(const char *name);
/* Writes DIR/name, and the folders above it. */
void files_write(const char *name, const void *at, size_t n);
void files_write_bytes(const char *name, bytes *b); /* and frees b */

/* A member of a tar archive: a name above 100 bytes is written as GNU tar does. */
void tar_add(bytes *tar, const char *name, const void *at, size_t n);
/* One header block of any type with a checksum that fits; the caller adds the content. */
void tar_header(bytes *tar, const char *name, char type, size_t n);
void tar_end(bytes *tar);

/* IDX: u8 data of these dimensions. */
bytes idx_make(int rank, const uint32_t *dim, const uint8_t *data);
/* n records of CIFAR-10; record i has label i % 10 and bytes made from its number. */
bytes cifar_make(int n);

/* Smooth pixels that differ from seed to seed, [h,w,channels]; the caller frees them. */
uint8_t *pixels_make(int w, int h, int channels, unsigned seed);

typedef enum jpeg_kind { JPEG_GREY, JPEG_RGB, JPEG_PROGRESSIVE, JPEG_CMYK } jpeg_kind;
/* CMYK as Adobe writes it: inverted. orientation 0: no EXIF block. */
bytes jpeg_make(const uint8_t *pixels, int w, int h, jpeg_kind kind, int orientation);
/* type and depth as in the PNG format; rows packed, 16-bit samples big-endian. A palette image gets
 * the palette i -> (i, 255 - i, i / 2). orientation 0: no eXIf chunk; negative: behind the data. */
bytes png_make(const uint8_t *pixels, int w, int h, int type, int depth, int orientation);
/* Lossless; channels 3 or 4 (alpha). orientation 0: no EXIF chunk. */
bytes webp_make(const uint8_t *pixels, int w, int h, int channels, int orientation);

/* A small JPEG that differs from seed to seed. */
bytes photo_make(unsigned seed);

#endif
