// Batch normalisation. X: element type; V: channels a thread takes at once (a pack); LANES: threads
// side by side along the channels, 256 / LANES rows of them; LAST: channels are innermost in memory.
// A thread keeps its channels' constants in registers and walks down the rows of its slice.

enum { ROWS = 256 / LANES };

__device__ __forceinline__ long long offset(const norm_args &a, long long row, int c)
{
    if (LAST) return row * a.channels + c;
    return (row / a.inner * a.channels + c) * a.inner + row % a.inner;
}

// The thread's first channel; false when there is none.
__device__ __forceinline__ bool channel_of(const norm_args &a, int *c)
{
    *c = (int)((blockIdx.x * LANES + threadIdx.x % LANES) * V);
    return *c < a.channels;
}

__device__ __forceinline__ void rows_of(const norm_args &a, long long *from, long long *to)
{
    *from = a.count * blockIdx.y / a.slices;
    *to = a.count * (blockIdx.y + 1) / a.slices;
}

// Sums over the block's rows of threads, in their order; the first row gets them.
__device__ __forceinline__ void join_rows(float p[V], float q[V])
{
    __shared__ float shared[2][V][256];
    for (int v = 0; v < V; v++) {
        shared[0][v][threadIdx.x] = p[v];
        shared[1][v][threadIdx.x] = q[v];
    }
    __syncthreads();
    if (threadIdx.x >= LANES) return;
    for (int r = 1; r < ROWS; r++)
        for (int v = 0; v < V; v++) {
            p[v] += shared[0][v][threadIdx.x + r * LANES];
            q[v] += shared[1][v][threadIdx.x + r * LANES];
        }
}

// Sums of x - s and (x - s)^2 over the slice, s its first row: so that squares do not cancel.
BRIM_KERNEL(256, moments, norm_args)
{
    int c;
    long long from, to;
    bool mine = channel_of(a, &c);
    rows_of(a, &from, &to);
    const X *x = (const X *)a.x;
    float sum[V] = {0}, squares[V] = {0}, first[V] = {0};
    if (mine && from < to) {
        pack<X, V> p = load_pack<X, V>(x + offset(a, from, c));
        for (int v = 0; v < V; v++) first[v] = to_float(p.v[v]);
        for (long long r = from + threadIdx.x / LANES; r < to; r += ROWS) {
            p = load_pack<X, V>(x + offset(a, r, c));
            UNROLL for (int v = 0; v < V; v++) {
                float d = to_float(p.v[v]) - first[v];
                sum[v] += d;
                squares[v] += d * d;
            }
        }
    }
    join_rows(sum, squares);
    if (!mine || threadIdx.x >= LANES) return;
    float n = (float)(to - from);
    for (int v = 0; v < V; v++) {
        float d = n > 0 ? sum[v] / n : 0;
        a.part[2 * blockIdx.y * a.channels + c + v] = first[v] + d;
        a.part[(2 * blockIdx.y + 1) * a.channels + c + v] = squares[v] - sum[v] * d;
    }
}

// Chan's rule joins the slices' means and squares (Chan, Golub, LeVeque 1983).
BRIM_KERNEL(256, statistics, norm_args)
{
    int c = (int)thread_index();
    if (c >= a.channels) return;
    float mean = 0, squares = 0, n = 0;
    for (int s = 0; s < a.slices; s++) {
        float k = (float)(a.count * (s + 1) / a.slices - a.count * s / a.slices);
        float d = a.part[2 * s * a.channels + c] - mean;
        if (k == 0) continue;
        n += k;
        mean += d * (k / n);
        squares += a.part[(2 * s + 1) * a.channels + c] + d * d * (k / n) * (n - k);
    }
    float variance = n > 0 ? squares / n : 0;
    variance = variance < 0 ? 0 : variance;
    float rstd = 1 / sqrtf(variance + a.eps);
    a.sums[c] = mean;
    a.sums[a.channels + c] = rstd;
    if (a.mean) a.mean[c] = mean;
    if (a.rstd) a.rstd[c] = rstd;
    if (n < 2) return;
    a.running_mean[c] = (1 - a.momentum) * a.running_mean[c] + a.momentum * mean;
    a.running_var[c] = (1 - a.momentum) * a.running_var[c] + a.momentum * variance * n / (n - 1);
}

// For inference: what was kept.
BRIM_KERNEL(256, kept_statistics, norm_args)
{
    int c = (int)thread_index();
    if (c >= a.channels) return;
    a.sums[c] = a.running_mean[c];
    a.sums[a.channels + c] = 1 / sqrtf(a.running_var[c] + a.eps);
}

BRIM_KERNEL(256, apply, norm_args)
{
    int c;
    long long from, to;
    if (!channel_of(a, &c)) return;
    rows_of(a, &from, &to);
    float mean[V], scale[V], beta[V];
    for (int v = 0; v < V; v++) {
        mean[v] = a.sums[c + v];
        scale[v] = a.sums[a.channels + c + v] * a.gamma[c + v];
        beta[v] = a.beta[c + v];
    }
    for (long long r = from + threadIdx.x / LANES; r < to; r += ROWS) {
        long long at = offset(a, r, c);
        pack<X, V> p = load_pack<X, V>((const X *)a.x + at), q;
        if (a.residual) q = load_pack<X, V>((const X *)a.residual + at);
        UNROLL for (int v = 0; v < V; v++) {
            float y = (to_float(p.v[v]) - mean[v]) * scale[v] + beta[v];
            if (a.residual) y += to_float(q.v[v]);
            p.v[v] = from_float<X>::of(a.relu && y < 0 ? 0 : y);
        }
        store_pack<X, V>((X *)a.y + at, p);
    }
}

// dy where relu was on.
__device__ __forceinline__ void masked(const norm_args &a, long long at, float g[V])
{
    pack<X, V> p = load_pack<X, V>((const X *)a.dy + at), q;
    if (a.relu) q = load_pack<X, V>((const X *)a.act + at);
    UNROLL for (int v = 0; v < V; v++) g[v] = a.relu && !(to_float(q.v[v]) > 0) ? 0 : to_float(p.v[v]);
}

// Sums of g xhat and g over the slice.
BRIM_KERNEL(256, bwd_sums, norm_args)
{
    int c;
    long long from, to;
    bool mine = channel_of(a, &c);
    rows_of(a, &from, &to);
    float dot[V] = {0}, sum[V] = {0}, mean[V], rstd[V], g[V];
    if (mine) {
        for (int v = 0; v < V; v++) {
            mean[v] = a.mean[c + v];
            rstd[v] = a.rstd[c + v];
        }
        for (long long r = from + threadIdx.x / LANES; r < to; r += ROWS) {
            long long at = offset(a, r, c);
            pack<X, V> p = load_pack<X, V>((const X *)a.x + at);
            masked(a, at, g);
            UNROLL for (int v = 0; v < V; v++) {
                sum[v] += g[v];
                dot[v] += g[v] * ((to_float(p.v[v]) - mean[v]) * rstd[v]);
            }
        }
    }
    join_rows(dot, sum);
    if (!mine || threadIdx.x >= LANES) return;
    for (int v = 0; v < V; v++) {
        a.part[2 * blockIdx.y * a.channels + c + v] = dot[v];
        a.part[(2 * blockIdx.y + 1) * a.channels + c + v] = sum[v];
    }
}

BRIM_KERNEL(256, bwd_join, norm_args)
{
    int c = (int)thread_index();
    if (c >= a.channels) return;
    float dot = 0, sum = 0;
    for (int s = 0; s < a.slices; s++) {
        dot += a.part[2 * s * a.channels + c];
        sum += a.part[(2 * s + 1) * a.channels + c];
    }
    a.sums[c] = dot;
    a.sums[a.channels + c] = sum;
    if (a.dgamma) a.dgamma[c] = dot;
    if (a.dbeta) a.dbeta[c] = sum;
}

BRIM_KERNEL(256, bwd_apply, norm_args)
{
    int c;
    long long from, to;
    if (!channel_of(a, &c)) return;
    rows_of(a, &from, &to);
    float mean[V], rstd[V], scale[V], dot[V], sum[V], g[V], n = (float)a.count;
    for (int v = 0; v < V; v++) {
        mean[v] = a.mean[c + v];
        rstd[v] = a.rstd[c + v];
        scale[v] = a.gamma[c + v] * rstd[v];
        dot[v] = a.sums[c + v] / n;
        sum[v] = a.sums[a.channels + c + v] / n;
    }
    for (long long r = from + threadIdx.x / LANES; r < to; r += ROWS) {
        long long at = offset(a, r, c);
        pack<X, V> p = load_pack<X, V>((const X *)a.x + at), q;
        masked(a, at, g);
        UNROLL for (int v = 0; v < V; v++) {
            float xhat = (to_float(p.v[v]) - mean[v]) * rstd[v];
            p.v[v] = from_float<X>::of(scale[v] * (g[v] - sum[v] - xhat * dot[v]));
            q.v[v] = from_float<X>::of(g[v]);
        }
        if (a.dx) store_pack<X, V>((X *)a.dx + at, p);
        if (a.dresidual) store_pack<X, V>((X *)a.dresidual + at, q);
    }
}
