/* Any bytes: refused with a text, or what was read is the same after emitting and reading again. */
#include "io/yaml.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    brim_yaml y, again;
    brim_error err = {0};
    if (brim_yaml_parse("fuzz", (const char *)data, n, &y, &err) != BRIM_OK) {
        BRIM_CHECK(err.status != BRIM_OK && err.text[0] && y.n == 0);
        return 0;
    }
    brim_str s = {0};
    for (size_t i = 0; i < y.n; i++) {
        const char *one = y.at[i].value;
        if (y.at[i].list && *one && !strchr(one, '\n'))
            brim_yaml_emit_list(&s, y.at[i].key, &one, 1);
        else
            brim_yaml_emit(&s, y.at[i].key, one);
    }
    brim_status status = brim_yaml_parse("again", brim_str_text(&s), s.n, &again, &err);
    /* A key beyond 1024 bytes fits no single line: YAML's own limit. */
    bool long_key = false;
    for (size_t i = 0; i < y.n; i++) long_key = long_key || strlen(y.at[i].key) > 200;
    BRIM_CHECK(status == BRIM_OK || long_key || s.n > 1 << 20);
    if (status == BRIM_OK) {
        BRIM_CHECK(again.n == y.n);
        for (size_t i = 0; i < y.n; i++)
            BRIM_CHECK(strcmp(again.at[i].key, y.at[i].key) == 0 &&
                       strcmp(again.at[i].value, y.at[i].value) == 0);
        brim_yaml_free(&again);
    }
    brim_str_free(&s);
    brim_yaml_free(&y);
    return 0;
}
