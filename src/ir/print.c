/* The graph as text:
 *   %12 conv1 bf16[8,64,16,16]nhwc = conv2d(%3, conv1.weight) stride=2,2 */
#include "ir/op.h"

static void print_type(const brim_value *v, brim_str *out)
{
    char buf[128];
    brim_str_printf(out, "%s%s%s", brim_dtype_name(v->dtype), brim_shape_text(buf, &v->shape),
                    v->layout == BRIM_LAYOUT_CHANNELS_LAST ? "nhwc" : "");
}

static void print_ref(const brim_value *v, brim_str *out)
{
    if (!v)
        brim_str_add(out, "-");
    else if (v->kind == BRIM_VALUE_TEMP)
        brim_str_printf(out, "%%%d", v->id);
    else
        brim_str_add(out, v->name);
}

static void print_node(const brim_node *n, brim_str *out)
{
    brim_str_add(out, "  ");
    for (int k = 0; k < n->n_out; k++) {
        brim_str_printf(out, "%s%%%d ", k ? ", " : "", n->out[k]->id);
        print_type(n->out[k], out);
    }
    brim_str_printf(out, "%s%s(", n->n_out ? " = " : "", n->op->name);
    for (int k = 0; k < n->n_in; k++) {
        if (k) brim_str_add(out, ", ");
        print_ref(n->in[k], out);
    }
    brim_str_add(out, ")");
    for (int a = 0; a < n->n_attr; a++) {
        brim_str_printf(out, " %s=", n->attr[a].key);
        if (n->attr[a].real)
            brim_str_printf(out, "%g", n->attr[a].f);
        else
            for (int k = 0; k < n->attr[a].n; k++)
                brim_str_printf(out, "%s%lld", k ? "," : "", (long long)n->attr[a].i[k]);
    }
    if (n->body) {
        brim_str_add(out, " {");
        brim_body_print(n->body, out);
        brim_str_add(out, "}");
    }
    brim_str_printf(out, "  # %s\n", n->name);
}

void brim_graph_print(const brim_graph *g, brim_str *out)
{
    static const char *const kind[] = {"", "input", "param", "state", "const"};
    for (size_t i = 0; i < g->values.n; i++) {
        const brim_value *v = g->values.at[i];
        if (v->kind == BRIM_VALUE_TEMP) continue;
        brim_str_printf(out, "%s %s ", kind[v->kind], v->name);
        print_type(v, out);
        if (v->kind == BRIM_VALUE_PARAM && !v->trainable) brim_str_add(out, " frozen");
        brim_str_add(out, "\n");
    }
    for (size_t i = 0; i < g->nodes.n; i++) print_node(g->nodes.at[i], out);
    for (size_t i = 0; i < g->outputs.n; i++) {
        brim_str_printf(out, "output %s = ", g->outputs.at[i].name);
        print_ref(g->outputs.at[i].value, out);
        brim_str_add(out, "\n");
    }
}

char *brim_graph_text(const brim_graph *g)
{
    brim_str s = {0};
    brim_graph_print(g, &s);
    if (s.failed) brim_str_free(&s);
    return s.at;
}
