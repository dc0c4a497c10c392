/* What every test program includes: cmocka and the folder with the large fixtures. */
#ifndef BRIM_TESTS_H
#define BRIM_TESTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* The folder in BRIM_TEST_DATA, or skips the calling test. */
#define TEST_DATA_OR_SKIP()                                                                        \
    (getenv("BRIM_TEST_DATA") ? getenv("BRIM_TEST_DATA") : (skip(), (const char *)NULL))

#endif
