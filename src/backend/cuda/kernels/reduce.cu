// Sums and maxima. X, Y: element types of input and output; MAX: maxima, else sums. The order of
// every sum depends on the shape only.

enum { LANES = 32, ROWS = 8, BLOCK = LANES * ROWS };

__device__ __forceinline__ float join(float a, float b)
{
    return MAX ? max_nan(a, b) : a + b;
}

__device__ __forceinline__ float nothing()
{
    return MAX ? -INFINITY : 0.0f;
}

__device__ __forceinline__ long long kept_offset(const reduce_args &a, long long i,
                                                 const long long *stride)
{
    long long at = 0;
    for (int d = a.kept - 1; d >= 0; d--) {
        at += i % a.kept_dim[d] * stride[d];
        i /= a.kept_dim[d];
    }
    return at;
}

__device__ __forceinline__ long long reduced_offset(const reduce_args &a, long long j)
{
    long long at = 0;
    for (int d = a.reduced - 1; d >= 0; d--) {
        at += j % a.reduced_dim[d] * a.reduced_x[d];
        j /= a.reduced_dim[d];
    }
    return at;
}

// Elements [from, to) of slice s of n.
__device__ __forceinline__ void slice_of(long long n, int s, int slices, long long *from,
                                         long long *to)
{
    *from = n * s / slices;
    *to = n * (s + 1) / slices;
}

__device__ __forceinline__ void put(const reduce_args &a, long long i, int slice, float v)
{
    if (a.slices > 1)
        a.part[slice * a.outputs + i] = v;
    else
        ((Y *)a.y)[kept_offset(a, i, a.kept_y)] = from_float<Y>::of(v * a.scale);
}

// A block takes 32 neighbouring outputs, its eight rows of threads take turns at the elements: for
// inputs whose innermost dimension is kept.
BRIM_KERNEL(256, reduce_across, reduce_args)
{
    __shared__ float row[ROWS][LANES];
    unsigned lane = threadIdx.x % LANES, r = threadIdx.x / LANES;
    long long i = (long long)blockIdx.x * LANES + lane, from, to;
    slice_of(a.count, blockIdx.y, a.slices, &from, &to);
    float v = nothing();
    if (i < a.outputs) {
        const X *x = (const X *)a.x + kept_offset(a, i, a.kept_x);
        for (long long j = from + r; j < to; j += ROWS) v = join(v, to_float(x[reduced_offset(a, j)]));
    }
    row[r][lane] = v;
    __syncthreads();
    if (r == 0 && i < a.outputs) {
        for (int k = 1; k < ROWS; k++) v = join(v, row[k][lane]);
        put(a, i, blockIdx.y, v);
    }
}

// A block takes one output: for inputs whose innermost dimension is reduced.
BRIM_KERNEL(256, reduce_along, reduce_args)
{
    __shared__ float shared[ROWS];
    long long i = blockIdx.x, from, to;
    slice_of(a.count, blockIdx.y, a.slices, &from, &to);
    const X *x = (const X *)a.x + kept_offset(a, i, a.kept_x);
    float v = nothing();
    for (long long j = from + threadIdx.x; j < to; j += BLOCK)
        v = join(v, to_float(x[reduced_offset(a, j)]));
    v = MAX ? block_max(v, shared) : block_sum(v, shared);
    if (threadIdx.x == 0) put(a, i, blockIdx.y, v);
}

BRIM_KERNEL(256, reduce_slices, reduce_args)
{
    long long i = thread_index();
    if (i >= a.outputs) return;
    float v = a.part[i];
    for (int s = 1; s < a.slices; s++) v = join(v, a.part[s * a.outputs + i]);
    ((Y *)a.y)[kept_offset(a, i, a.kept_y)] = from_float<Y>::of(v * a.scale);
}

// dx = x == m ? dy / (number of such x) : 0; kept_y are the strides of dy and m, both in the order of
// an output of the maximum. y is dx, with the strides of x.
BRIM_KERNEL(256, reduce_max_bwd, reduce_args)
{
    long long i = thread_index();
    if (i >= a.outputs) return;
    long long at = kept_offset(a, i, a.kept_x), small = kept_offset(a, i, a.kept_y);
    const X *x = (const X *)a.x + at;
    X *dx = (X *)a.y + at;
    float m = to_float(((const Y *)a.m)[small]), n = 0;
    for (long long j = 0; j < a.count; j++) n += to_float(x[reduced_offset(a, j)]) == m;
    float each = n > 0 ? to_float(((const Y *)a.dy)[small]) / n : 0;
    for (long long j = 0; j < a.count; j++) {
        long long o = reduced_offset(a, j);
        dx[o] = from_float<X>::of(to_float(x[o]) == m ? each : 0);
    }
}
