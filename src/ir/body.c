#include "ir/body.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    int args;
} scalar_ops[] = {
#define X(name, args, text) {#name, args},
    BRIM_SCALAR_OPS(X)
#undef X
};

const char *brim_scalar_name(brim_scalar_op op)
{
    return scalar_ops[op].name;
}

int brim_scalar_args(brim_scalar_op op)
{
    return scalar_ops[op].args;
}

static int push(brim_body *b, brim_instr i)
{
    /* The same instruction twice is one register. */
    for (int k = 0; k < b->n; k++)
        if (b->at[k].op == i.op && b->at[k].a == i.a && b->at[k].b == i.b && b->at[k].c == i.c &&
            !memcmp(&b->at[k].imm, &i.imm, sizeof i.imm)) /* -0 is not 0 */
            return k;
    if (b->n == BRIM_BODY_MAX) {
        b->full = true;
        return 0;
    }
    b->at[b->n] = i;
    return b->n++;
}

int brim_body_load(brim_body *b, int input)
{
    return push(b, (brim_instr){.op = BRIM_S_LOAD, .a = (uint8_t)input});
}

int brim_body_const(brim_body *b, double x)
{
    return push(b, (brim_instr){.op = BRIM_S_CONST, .imm = x});
}

int brim_body_op(brim_body *b, brim_scalar_op op, int x, int y, int z)
{
    return push(b,
                (brim_instr){.op = (uint8_t)op, .a = (uint8_t)x, .b = (uint8_t)y, .c = (uint8_t)z});
}

double brim_body_eval1(const brim_instr *i, double a, double b, double c)
{
    switch ((brim_scalar_op)i->op) {
    case BRIM_S_CONST: return i->imm;
    case BRIM_S_ADD: return a + b;
    case BRIM_S_SUB: return a - b;
    case BRIM_S_MUL: return a * b;
    case BRIM_S_DIV: return a / b;
    case BRIM_S_FMA: return a * b + c;
    case BRIM_S_MAX: return a != a || b != b ? NAN : a > b ? a : b;
    case BRIM_S_MIN: return a != a || b != b ? NAN : a < b ? a : b;
    case BRIM_S_NEG: return -a;
    case BRIM_S_EXP: return exp(a);
    case BRIM_S_LOG: return log(a);
    case BRIM_S_SQRT: return sqrt(a);
    case BRIM_S_TANH: return tanh(a);
    case BRIM_S_ERF: return erf(a);
    case BRIM_S_SIGMOID: return 1 / (1 + exp(-a));
    case BRIM_S_GT: return a > b ? 1 : 0;
    case BRIM_S_SELECT: return a != 0 ? b : c;
    case BRIM_S_LOAD:
    case BRIM_SCALAR_OP_COUNT: break;
    }
    return NAN;
}

void brim_body_eval(const brim_body *b, const double *in, double *reg)
{
    for (int k = 0; k < b->n; k++) {
        const brim_instr *i = &b->at[k];
        reg[k] =
            i->op == BRIM_S_LOAD ? in[i->a] : brim_body_eval1(i, reg[i->a], reg[i->b], reg[i->c]);
    }
}

void brim_body_print(const brim_body *b, brim_str *out)
{
    for (int k = 0; k < b->n; k++) {
        const brim_instr *i = &b->at[k];
        int args = scalar_ops[i->op].args;
        brim_str_printf(out, "%sr%d=%s", k ? "; " : "", k, scalar_ops[i->op].name);
        if (i->op == BRIM_S_LOAD)
            brim_str_printf(out, " in%d", i->a);
        else if (i->op == BRIM_S_CONST)
            brim_str_printf(out, " %g", i->imm);
        if (args > 0) brim_str_printf(out, " r%d", i->a);
        if (args > 1) brim_str_printf(out, " r%d", i->b);
        if (args > 2) brim_str_printf(out, " r%d", i->c);
    }
    brim_str_add(out, " ->");
    for (int k = 0; k < b->n_out; k++) brim_str_printf(out, " r%d", b->out[k]);
}
