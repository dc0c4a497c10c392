// Pooling: a thread an output. X: element type.

struct place {
    int at[4];          // n, c, h, w
    long long x, y; // offset of the image's channel in x; of the element in y
};

// Threads run over dim with the innermost of memory innermost: channels last when `LAST`.
__device__ __forceinline__ bool place_of(const pool_args &a, place *p)
{
    long long i = thread_index();
    if (i >= a.n) return false;
    unsigned rest = (unsigned)i;
    if (LAST) {
        p->at[1] = rest % a.dim[1], rest /= a.dim[1];
        p->at[3] = rest % a.dim[3], rest /= a.dim[3];
        p->at[2] = rest % a.dim[2], rest /= a.dim[2];
    } else {
        p->at[3] = rest % a.dim[3], rest /= a.dim[3];
        p->at[2] = rest % a.dim[2], rest /= a.dim[2];
        p->at[1] = rest % a.dim[1], rest /= a.dim[1];
    }
    p->at[0] = rest;
    p->x = p->at[0] * a.sx[0] + p->at[1] * a.sx[1];
    p->y = 0;
    for (int k = 0; k < 4; k++) p->y += p->at[k] * a.sy[k];
    return true;
}

BRIM_KERNEL(256, max_pool, pool_args)
{
    place p;
    if (!place_of(a, &p)) return;
    const X *x = (const X *)a.x + p.x;
    float best = -INFINITY;
    int index = -1;
    for (int kh = 0; kh < a.kernel[0]; kh++)
        for (int kw = 0; kw < a.kernel[1]; kw++) {
            int h = p.at[2] * a.stride[0] - a.pad[0] + kh, w = p.at[3] * a.stride[1] - a.pad[1] + kw;
            if (h < 0 || w < 0 || h >= a.in[0] || w >= a.in[1]) continue;
            float v = to_float(x[h * a.sx[2] + w * a.sx[3]]);
            if (index < 0 || v > best || (v != v && best == best)) {
                best = v;
                index = kh * a.kernel[1] + kw;
            }
        }
    if (a.y) ((X *)a.y)[p.y] = from_float<X>::of(best);
    if (a.index) a.index[p.y] = (u8)index;
}

// The outputs along one axis whose window holds input i: from..to.
__device__ __forceinline__ void windows_of(const pool_args &a, int axis, int i, int *from, int *to)
{
    int first = i + a.pad[axis] - a.kernel[axis] + 1, s = a.stride[axis];
    *from = first <= 0 ? 0 : (first + s - 1) / s;
    *to = (i + a.pad[axis]) / s;
    if (*to >= a.out[axis]) *to = a.out[axis] - 1;
}

// Threads run over dx; x is dy, `index` lies as dy does.
BRIM_KERNEL(256, max_pool_bwd, pool_args)
{
    place p;
    if (!place_of(a, &p)) return;
    int h0, h1, w0, w1;
    windows_of(a, 0, p.at[2], &h0, &h1);
    windows_of(a, 1, p.at[3], &w0, &w1);
    float sum = 0;
    for (int i = h0; i <= h1; i++)
        for (int j = w0; j <= w1; j++) {
            long long o = p.x + i * a.sx[2] + j * a.sx[3];
            int tap = (p.at[2] + a.pad[0] - i * a.stride[0]) * a.kernel[1] + p.at[3] + a.pad[1] -
                      j * a.stride[1];
            if (a.index[o] == tap) sum += to_float(((const X *)a.x)[o]);
        }
    ((X *)a.y)[p.y] = from_float<X>::of(sum);
}

// What output i along an axis is divided by.
__device__ __forceinline__ float extent(const pool_args &a, int axis, int i)
{
    int least = a.count_pad ? -a.pad[axis] : 0;
    int most = a.count_pad ? a.in[axis] + a.pad[axis] : a.in[axis];
    int begin = i * a.stride[axis] - a.pad[axis], end = begin + a.kernel[axis];
    return (float)((end < most ? end : most) - (begin > least ? begin : least));
}

BRIM_KERNEL(256, avg_pool, pool_args)
{
    place p;
    if (!place_of(a, &p)) return;
    const X *x = (const X *)a.x + p.x;
    float sum = 0;
    for (int kh = 0; kh < a.kernel[0]; kh++)
        for (int kw = 0; kw < a.kernel[1]; kw++) {
            int h = p.at[2] * a.stride[0] - a.pad[0] + kh, w = p.at[3] * a.stride[1] - a.pad[1] + kw;
            if (h >= 0 && w >= 0 && h < a.in[0] && w < a.in[1])
                sum += to_float(x[h * a.sx[2] + w * a.sx[3]]);
        }
    ((X *)a.y)[p.y] = from_float<X>::of(sum / (extent(a, 0, p.at[2]) * extent(a, 1, p.at[3])));
}

// Threads run over dx; x is dy.
BRIM_KERNEL(256, avg_pool_bwd, pool_args)
{
    place p;
    if (!place_of(a, &p)) return;
    int h0, h1, w0, w1;
    windows_of(a, 0, p.at[2], &h0, &h1);
    windows_of(a, 1, p.at[3], &w0, &w1);
    float sum = 0;
    for (int i = h0; i <= h1; i++)
        for (int j = w0; j <= w1; j++)
            sum += __fdividef(to_float(((const X *)a.x)[p.x + i * a.sx[2] + j * a.sx[3]]),
                              extent(a, 0, i) * extent(a, 1, j));
    ((X *)a.y)[p.y] = from_float<X>::of(sum);
}
