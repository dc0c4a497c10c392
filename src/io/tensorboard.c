/* An event file is a sequence of records (TensorFlow's TFRecord):
 *
 *     8 bytes  length, little-endian        4 bytes  masked CRC32C of the length
 *     length   an Event, protobuf           4 bytes  masked CRC32C of the Event
 *
 *     Event   { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5
 * } Summary { repeated Value value = 1 }   Value { string tag = 1; float simple_value = 2 }
 *
 * from tensorboard/compat/proto/{event,summary}.proto and tensorflow/core/lib/io/record_writer. */
#include "io/tensorboard.h"
#include "base/mem.h"
#include "base/str.h"
#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FLUSH_BYTES = 32 * 1024, NAMES = 1000 };

struct brim_tb {
    int fd;
    char *path;
    off_t good; /* file size up to the last whole record */
    brim_str pending;
};

/* CRC32C (Castagnoli, reflected 0x82f63b78) by nibbles: a log line is some sixty bytes. */
uint32_t brim_crc32c(const void *bytes, size_t n)
{
    static const uint32_t table[16] = {
        0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3,
        0x61c69362, 0x7198540d, 0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9,
        0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
    };
    const unsigned char *p = bytes;
    uint32_t crc = 0xffffffffu;
    while (n--) {
        crc ^= *p++;
        crc = crc >> 4 ^ table[crc & 15];
        crc = crc >> 4 ^ table[crc & 15];
    }
    return ~crc;
}

static void add_le(brim_str *s, uint64_t x, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        char c = (char)(x >> (8 * i));
        brim_str_add_n(s, &c, 1);
    }
}

static void add_varint(brim_str *s, uint64_t x)
{
    for (; x >= 0x80; x >>= 7) add_le(s, (x & 0x7f) | 0x80, 1);
    add_le(s, x, 1);
}

/* A protobuf key: field number and wire type (0 varint, 1 eight bytes, 2 counted, 5 four bytes). */
static void add_key(brim_str *s, unsigned field, unsigned wire)
{
    add_varint(s, field << 3 | wire);
}

static void add_counted(brim_str *s, unsigned field, const char *bytes, size_t n)
{
    add_key(s, field, 2);
    add_varint(s, n);
    brim_str_add_n(s, bytes, n);
}

static void add_wall_time(brim_str *s)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    uint64_t bits;
    memcpy(&bits, &seconds, sizeof bits);
    add_key(s, 1, 1);
    add_le(s, bits, 8);
}

/* The mask keeps a CRC of data that holds CRCs from being weak. */
static uint32_t masked_crc(const void *bytes, size_t n)
{
    uint32_t crc = brim_crc32c(bytes, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static brim_status out_of_memory(const brim_tb *tb, brim_error *err)
{
    return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", tb->path);
}

/* Frames the event and keeps it; takes all of it or nothing. Frees the event. */
static brim_status add_record(brim_tb *tb, brim_str *event, brim_error *err)
{
    size_t before = tb->pending.n;
    brim_str *p = &tb->pending;
    if (!event->failed) {
        add_le(p, event->n, 8);
        if (!p->failed) add_le(p, masked_crc(p->at + before, 8), 4);
        brim_str_add_n(p, event->at, event->n);
        add_le(p, masked_crc(event->at, event->n), 4);
    }
    bool failed = event->failed || p->failed;
    brim_str_free(event);
    if (failed) {
        p->n = before;
        p->failed = false;
        return out_of_memory(tb, err);
    }
    return p->n >= FLUSH_BYTES ? brim_tb_flush(tb, err) : BRIM_OK;
}

/* A name that sorts by time and is new; TensorBoard wants "tfevents" in it. */
static brim_status create(brim_tb *tb, const char *folder, brim_error *err)
{
    char host[64] = "localhost";
    if (gethostname(host, sizeof host - 1) != 0 || strchr(host, '/')) strcpy(host, "localhost");
    for (int k = 0; k < NAMES; k++) {
        brim_str path = {0};
        brim_str_printf(&path, "%s/events.out.tfevents.%010lld.%s.%ld.%d", folder,
                        (long long)time(NULL), host, (long)getpid(), k);
        if (path.failed) {
            brim_str_free(&path);
            break;
        }
        free(tb->path);
        tb->path = path.at;
        tb->fd = open(tb->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (tb->fd >= 0) return BRIM_OK;
        if (errno != EEXIST) return brim_fail_write(err, errno, tb->path);
    }
    return brim_fail(err, BRIM_ENOMEM, "%s: no event file could be named (close other programs)",
                     folder);
}

static brim_status write_version(brim_tb *tb, brim_error *err)
{
    brim_str event = {0};
    add_wall_time(&event);
    add_counted(&event, 3, "brain.Event:2", 13);
    BRIM_TRY(add_record(tb, &event, err));
    return brim_tb_flush(tb, err);
}

brim_status brim_tb_open(const char *folder, brim_tb **out, brim_error *err)
{
    brim_tb *tb = brim_calloc(1, sizeof *tb);
    if (!tb) return brim_fail(err, BRIM_ENOMEM, "%s: out of memory (close other programs)", folder);
    tb->fd = -1;
    brim_status s = create(tb, folder, err);
    if (s == BRIM_OK) s = write_version(tb, err);
    if (s == BRIM_OK)
        *out = tb;
    else
        brim_tb_close(tb);
    return s;
}

brim_status brim_tb_scalar(brim_tb *tb, const char *tag, int64_t step, double value,
                           brim_error *err)
{
    float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    brim_str entry = {0}, summary = {0}, event = {0};
    add_counted(&entry, 1, tag, strlen(tag));
    add_key(&entry, 2, 5);
    add_le(&entry, bits, 4);
    add_counted(&summary, 1, brim_str_text(&entry), entry.n);
    add_wall_time(&event);
    add_key(&event, 2, 0);
    add_varint(&event, (uint64_t)step);
    add_counted(&event, 5, brim_str_text(&summary), summary.n);
    event.failed = event.failed || summary.failed || entry.failed;
    brim_str_free(&entry);
    brim_str_free(&summary);
    return add_record(tb, &event, err);
}

brim_status brim_tb_flush(brim_tb *tb, brim_error *err)
{
    size_t n = tb->pending.n;
    if (n == 0) return BRIM_OK;
    int errnum = brim_write_all(tb->fd, tb->pending.at, n);
    tb->pending.n = 0;
    if (!errnum) {
        tb->good += (off_t)n;
        return BRIM_OK;
    }
    /* Half a record would hide all later ones from readers: these are lost, the file stays whole.
     * Failing to cut is the same trouble as failing to write, and is reported as that. */
    if (ftruncate(tb->fd, tb->good) == 0) lseek(tb->fd, tb->good, SEEK_SET);
    return brim_fail_write(err, errnum, tb->path);
}

void brim_tb_close(brim_tb *tb)
{
    if (!tb) return;
    if (tb->fd >= 0) {
        brim_tb_flush(tb, NULL);
        close(tb->fd);
    }
    free(tb->path);
    brim_str_free(&tb->pending);
    free(tb);
}
