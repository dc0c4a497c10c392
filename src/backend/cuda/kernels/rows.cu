// Softmax and layer normalisation: a block a row. X: element type.

enum { THREADS = 256 };

BRIM_KERNEL(256, softmax, rows_args)
{
    __shared__ float shared[THREADS / 32];
    const X *x = (const X *)a.x + (long long)blockIdx.x * a.n;
    X *y = (X *)a.y + (long long)blockIdx.x * a.n;
    float most = -INFINITY, sum = 0;
    for (int j = threadIdx.x; j < a.n; j += THREADS) most = max_nan(most, to_float(x[j]));
    most = block_max(most, shared);
    for (int j = threadIdx.x; j < a.n; j += THREADS) sum += expf(to_float(x[j]) - most);
    sum = block_sum(sum, shared);
    for (int j = threadIdx.x; j < a.n; j += THREADS)
        y[j] = from_float<X>::of(expf(to_float(x[j]) - most) / sum);
}

// dx = y (dy - sum(dy y)); x here is y.
BRIM_KERNEL(256, softmax_bwd, rows_args)
{
    __shared__ float shared[THREADS / 32];
    long long row = (long long)blockIdx.x * a.n;
    const X *y = (const X *)a.x + row, *dy = (const X *)a.dy + row;
    X *dx = (X *)a.y + row;
    float sum = 0;
    for (int j = threadIdx.x; j < a.n; j += THREADS) sum += to_float(dy[j]) * to_float(y[j]);
    sum = block_sum(sum, shared);
    for (int j = threadIdx.x; j < a.n; j += THREADS)
        dx[j] = from_float<X>::of(to_float(y[j]) * (to_float(dy[j]) - sum));
}

// Mean first, then squares of what is left: no cancellation.
BRIM_KERNEL(256, layer_norm, rows_args)
{
    __shared__ float shared[THREADS / 32];
    const X *x = (const X *)a.x + (long long)blockIdx.x * a.n;
    X *y = (X *)a.y + (long long)blockIdx.x * a.n;
    float sum = 0, squares = 0;
    for (int j = threadIdx.x; j < a.n; j += THREADS) sum += to_float(x[j]);
    float mean = block_sum(sum, shared) / (float)a.n;
    for (int j = threadIdx.x; j < a.n; j += THREADS) {
        float d = to_float(x[j]) - mean;
        squares += d * d;
    }
    float rstd = 1 / sqrtf(block_sum(squares, shared) / (float)a.n + a.eps);
    if (threadIdx.x == 0 && a.mean) a.mean[blockIdx.x] = mean;
    if (threadIdx.x == 0 && a.rstd) a.rstd[blockIdx.x] = rstd;
    if (!a.y) return;
    for (int j = threadIdx.x; j < a.n; j += THREADS)
        y[j] = from_float<X>::of((to_float(x[j]) - mean) * rstd * a.gamma[j] + a.beta[j]);
}

BRIM_KERNEL(256, layer_norm_bwd, rows_args)
{
    __shared__ float shared[THREADS / 32];
    long long row = (long long)blockIdx.x * a.n;
    const X *x = (const X *)a.x + row, *dy = (const X *)a.dy + row;
    X *dx = (X *)a.y + row;
    float mean = a.mean[blockIdx.x], rstd = a.rstd[blockIdx.x], sum = 0, dot = 0;
    for (int j = threadIdx.x; j < a.n; j += THREADS) {
        float g = to_float(dy[j]) * a.gamma[j];
        sum += g;
        dot += g * (to_float(x[j]) - mean) * rstd;
    }
    sum = block_sum(sum, shared) / (float)a.n;
    dot = block_sum(dot, shared) / (float)a.n;
    for (int j = threadIdx.x; j < a.n; j += THREADS) {
        float g = to_float(dy[j]) * a.gamma[j], xhat = (to_float(x[j]) - mean) * rstd;
        dx[j] = from_float<X>::of(rstd * (g - sum - xhat * dot));
    }
}

// Column sums of dy xhat and dy over a slice of the rows.
BRIM_KERNEL(256, layer_norm_bwd_columns, rows_args)
{
    int j = (int)thread_index();
    if (j >= a.n) return;
    long long from = a.rows * blockIdx.y / a.slices, to = a.rows * (blockIdx.y + 1) / a.slices;
    float dgamma = 0, dbeta = 0;
    for (long long r = from; r < to; r++) {
        float g = to_float(((const X *)a.dy)[r * a.n + j]);
        dgamma += g * (to_float(((const X *)a.x)[r * a.n + j]) - a.mean[r]) * a.rstd[r];
        dbeta += g;
    }
    a.part[(2 * blockIdx.y) * a.n + j] = dgamma;
    a.part[(2 * blockIdx.y + 1) * a.n + j] = dbeta;
}

BRIM_KERNEL(256, layer_norm_bwd_join, rows_args)
{
    int j = (int)thread_index();
    if (j >= a.n) return;
    float dgamma = 0, dbeta = 0;
    for (int s = 0; s < a.slices; s++) {
        dgamma += a.part[2 * s * a.n + j];
        dbeta += a.part[(2 * s + 1) * a.n + j];
    }
    if (a.dgamma) a.dgamma[j] = dgamma;
    if (a.dbeta) a.dbeta[j] = dbeta;
}
