// Softmax cross-entropy and top-k accuracy: a block a row, then one block sums the rows. X: type of
// the logits, W: of weight, L: of lam.

enum { THREADS = 256 };

struct target {
    int label[2];
    float factor[2]; // 0: left out
};

__device__ __forceinline__ target target_of(const loss_args &a, long long row)
{
    float w = a.weight ? to_float(((const W *)a.weight)[row]) : 1;
    float lam = a.label2 ? to_float(((const L *)a.lam)[row]) : 1;
    target t = {{a.label[row], a.label2 ? a.label2[row] : -1}, {w * lam, w * (1 - lam)}};
    for (int k = 0; k < 2; k++)
        if (t.label[k] < 0 || t.label[k] >= a.classes) t.factor[k] = 0;
    return t;
}

BRIM_KERNEL(256, cross_entropy, loss_args)
{
    __shared__ float shared[THREADS / 32];
    long long row = blockIdx.x;
    const X *x = (const X *)a.logits + row * a.classes;
    float most = -INFINITY, sum = 0, all = 0;
    for (int j = threadIdx.x; j < a.classes; j += THREADS) {
        float v = to_float(x[j]);
        most = max_nan(most, v);
        all += v / (float)a.classes;
    }
    most = block_max(most, shared);
    for (int j = threadIdx.x; j < a.classes; j += THREADS) sum += expf(to_float(x[j]) - most);
    sum = block_sum(sum, shared);
    float mean = block_sum(all, shared);
    if (threadIdx.x) return;
    float lse = most + logf(sum), loss = 0;
    target t = target_of(a, row);
    for (int k = 0; k < 2; k++) {
        if (t.factor[k] == 0) continue;
        float nll = lse - to_float(x[t.label[k]]), s = a.smoothing;
        loss += t.factor[k] * (s == 0 ? nll : (1 - s) * nll + s * (lse - mean));
    }
    if (a.lse) a.lse[row] = lse;
    a.row[row] = loss;
}

BRIM_KERNEL(256, cross_entropy_bwd, loss_args)
{
    long long row = blockIdx.x;
    const X *x = (const X *)a.logits + row * a.classes;
    X *dx = (X *)a.dlogits + row * a.classes;
    float lse = a.lse[row], s = a.smoothing, dloss = *(const float *)a.dloss;
    target t = target_of(a, row);
    for (int j = threadIdx.x; j < a.classes; j += THREADS) {
        float p = expf(to_float(x[j]) - lse), d = 0;
        for (int k = 0; k < 2; k++)
            if (t.factor[k] != 0)
                d += t.factor[k] * (p - (j == t.label[k] ? 1 - s : 0) - s / (float)a.classes);
        dx[j] = from_float<X>::of(t.factor[0] == 0 && t.factor[1] == 0 ? 0 : dloss * d);
    }
}

// The row's weight when its label is among the `top` largest logits.
BRIM_KERNEL(256, topk, loss_args)
{
    __shared__ float shared[THREADS / 32];
    long long row = blockIdx.x;
    const X *x = (const X *)a.logits + row * a.classes;
    int label = a.label[row];
    bool valid = label >= 0 && label < a.classes;
    float own = valid ? to_float(x[label]) : 0, before = 0;
    for (int j = threadIdx.x; valid && j < a.classes; j += THREADS) {
        float v = to_float(x[j]);
        before += v > own || (v == own && j < label);
    }
    before = block_sum(before, shared);
    if (threadIdx.x == 0)
        a.row[row] = valid && own == own && before < (float)a.top
                         ? (a.weight ? to_float(((const W *)a.weight)[row]) : 1)
                         : 0;
}

BRIM_KERNEL(256, sum_rows, loss_args)
{
    __shared__ float shared[THREADS / 32];
    float v = 0;
    for (long long r = threadIdx.x; r < a.rows; r += THREADS) v += a.row[r];
    v = block_sum(v, shared);
    if (threadIdx.x == 0) *a.sum = v;
}
