/* The body of a pointwise operator or of a fusion group: scalar instructions in SSA form, registers
 * numbered by instruction. Computed in float (double in references); loads widen, stores round. */
#ifndef BRIM_IR_BODY_H
#define BRIM_IR_BODY_H

#include "base/str.h"
#include "brim/types.h"

/* name, arguments, C text for the CUDA printer and the reference ({a} {b} {c} stand for the
 * arguments). */
#define BRIM_SCALAR_OPS(X)                                                                         \
    X(LOAD, 0, "in{i}")                                                                            \
    X(CONST, 0, "{imm}")                                                                           \
    X(ADD, 2, "{a} + {b}")                                                                         \
    X(SUB, 2, "{a} - {b}")                                                                         \
    X(MUL, 2, "{a} * {b}")                                                                         \
    X(DIV, 2, "{a} / {b}")                                                                         \
    X(FMA, 3, "{a} * {b} + {c}")                                                                   \
    X(MAX, 2, "max_nan({a}, {b})") /* NaN if either is NaN */                                      \
    X(MIN, 2, "min_nan({a}, {b})")                                                                 \
    X(NEG, 1, "-{a}")                                                                              \
    X(EXP, 1, "exp({a})")                                                                          \
    X(LOG, 1, "log({a})")                                                                          \
    X(SQRT, 1, "sqrt({a})")                                                                        \
    X(TANH, 1, "tanh({a})")                                                                        \
    X(ERF, 1, "erf({a})")                                                                          \
    X(SIGMOID, 1, "1 / (1 + exp(-{a}))")                                                           \
    X(GT, 2, "{a} > {b} ? 1 : 0")                                                                  \
    X(SELECT, 3, "{a} != 0 ? {b} : {c}")

typedef enum brim_scalar_op {
#define X(name, args, text) BRIM_S_##name,
    BRIM_SCALAR_OPS(X)
#undef X
        BRIM_SCALAR_OP_COUNT
} brim_scalar_op;

enum { BRIM_BODY_MAX = 64, BRIM_BODY_MAX_IN = 16, BRIM_BODY_MAX_OUT = 8 };

typedef struct brim_instr {
    uint8_t op;
    uint8_t a, b, c; /* registers; LOAD: a = input number */
    double imm;      /* CONST */
} brim_instr;

typedef struct brim_body {
    int n, n_in, n_out;
    bool full; /* more than BRIM_BODY_MAX instructions were asked for */
    brim_instr at[BRIM_BODY_MAX];
    uint8_t out[BRIM_BODY_MAX_OUT]; /* register of each output */
} brim_body;

int brim_body_load(brim_body *b, int input);
int brim_body_const(brim_body *b, double x);
int brim_body_op(brim_body *b, brim_scalar_op op, int x, int y, int z); /* unused arguments 0 */
double brim_body_eval1(const brim_instr *i, double a, double b,
                       double c); /* one instruction, in double */
/* Evaluates the whole body in double; in[k] are the inputs, reg gets every register. */
void brim_body_eval(const brim_body *b, const double *in, double *reg);
const char *brim_scalar_name(brim_scalar_op op);
int brim_scalar_args(brim_scalar_op op);
void brim_body_print(const brim_body *b, brim_str *out);

#endif
