// Matrix products, and convolutions as matrix products whose factors are read from images.
//
// X: type of A and B; Y: of C; Z: of bias. MMA: tensor cores (half types only), else plain
// arithmetic. SIDE_A, SIDE_B: how a factor is read. PACK_A, PACK_B: elements that lie side by side
// in memory and are read at once, along k when ALONG_A (ALONG_B), else along the rows (columns).
// LAST: channels are innermost, so a place among the taps is (kh, kw, c); else (c, kh, kw).
//
// Sides, for an output of `pixels`, an input of `image`:
//     PLAIN     strides, see gemm_side
//     WINDOW    row = pixel of the output (n, i, j), k = tap: what the window reads there
//     TAPS      row = tap, k = pixel of the output: the same, transposed (gradient of weights)
//     GATHER    row = pixel of the input (n, h, w), k = (kh, kw, o): the output that read it so
//     WEIGHTS   row = input channel, k = (kh, kw, o)

enum { PLAIN, WINDOW, TAPS, GATHER, WEIGHTS };
enum { BM = 64, BN = 64, BK = 32, THREADS = 128, PAD = 8 };

struct tap {
    int c, kh, kw;
};
// Place t among channels * kh * kw taps.
__device__ __forceinline__ tap tap_of(const gemm_args &g, int t)
{
    tap p;
    if (LAST) {
        p.c = t % g.channels, t /= g.channels;
        p.kw = t % g.kernel[1], p.kh = t / g.kernel[1];
    } else {
        p.kw = t % g.kernel[1], t /= g.kernel[1];
        p.kh = t % g.kernel[0], p.c = t / g.kernel[0];
    }
    return p;
}

// What the window of output pixel i reads at tap t; -1: padding.
__device__ __forceinline__ long long window_at(const gemm_args &g, const gemm_side &s, int i, int t)
{
    tap p = tap_of(g, t);
    int w = i % g.pixels[1] * g.stride[1] - g.pad[1] + p.kw * g.dilation[1];
    i /= g.pixels[1];
    int h = i % g.pixels[0] * g.stride[0] - g.pad[0] + p.kh * g.dilation[0];
    int n = i / g.pixels[0];
    if (h < 0 || w < 0 || h >= g.image[0] || w >= g.image[1]) return -1;
    return n * s.stride[0] + p.c * s.stride[1] + h * s.stride[2] + w * s.stride[3];
}

// The output pixel whose window reads input pixel i at tap t; -1: none.
__device__ __forceinline__ long long gather_at(const gemm_args &g, const gemm_side &s, int i, int t)
{
    tap p = tap_of(g, t);
    int w = i % g.image[1] + g.pad[1] - p.kw * g.dilation[1];
    i /= g.image[1];
    int h = i % g.image[0] + g.pad[0] - p.kh * g.dilation[0];
    int n = i / g.image[0];
    if (h < 0 || w < 0 || h % g.stride[0] || w % g.stride[1]) return -1;
    h /= g.stride[0], w /= g.stride[1];
    if (h >= g.pixels[0] || w >= g.pixels[1]) return -1;
    return n * s.stride[0] + p.c * s.stride[1] + h * s.stride[2] + w * s.stride[3];
}

template <int SIDE>
__device__ __forceinline__ long long side_at(const gemm_args &g, const gemm_side &s, int row, int k)
{
    if (SIDE == WINDOW) return window_at(g, s, row, k);
    if (SIDE == TAPS) return window_at(g, s, k, row);
    if (SIDE == GATHER) return gather_at(g, s, row, k);
    if (SIDE == WEIGHTS) {
        tap p = tap_of(g, k);
        return p.c * s.stride[0] + row * s.stride[1] + p.kh * s.stride[2] + p.kw * s.stride[3];
    }
    return row * s.row_stride + k / s.inner * s.outer_stride + k % s.inner * s.inner_stride;
}

typedef X tile[64][BK + PAD]; // [row][k]

// Brings rows row0.., places k0.. of a factor into a tile; what lies outside is 0.
template <int SIDE, int N, bool ALONG>
__device__ __forceinline__ void load_tile(tile &to, const gemm_args &g, const gemm_side &s,
                                          const X *from, int rows, int row0, int k0, int k1)
{
    enum { ACROSS = ALONG ? BK / N : 64 / N, COUNT = 64 * BK / N };
    for (int e = threadIdx.x; e < COUNT; e += THREADS) {
        int fast = e % ACROSS * N, slow = e / ACROSS;
        int r = ALONG ? slow : fast, k = ALONG ? fast : slow;
        pack<X, N> p;
        long long at = -1;
        if (row0 + r < rows && k0 + k < k1) at = side_at<SIDE>(g, s, row0 + r, k0 + k);
        if (at >= 0)
            p = load_pack<X, N>(from + at);
        else
            UNROLL for (int v = 0; v < N; v++) p.v[v] = from_float<X>::of(0);
        UNROLL for (int v = 0; v < N; v++) to[ALONG ? r : r + v][ALONG ? k + v : k] = p.v[v];
    }
}

__device__ __forceinline__ void finish(const gemm_args &g, int z, int row, int column, float v)
{
    if (row >= g.m || column >= g.n) return;
    int group = z % g.groups, batch = z / g.groups;
    if (g.bias) v += to_float(((const Z *)g.bias)[group * g.n + column]);
    if (g.relu && v < 0) v = 0;
    long long at = batch * g.c_batch + group * g.c_group + row / g.c_rows * g.c_outer +
                   row % g.c_rows * g.c_inner + column * g.c_column;
    ((Y *)g.c)[at] = from_float<Y>::of(v);
}

__device__ __forceinline__ void put(const gemm_args &g, int z, int row, int column, float v)
{
    if (g.slices == 1)
        finish(g, z, row, column, v);
    else if (row < g.m && column < g.n)
        g.part[(((long long)blockIdx.y * g.groups * g.batch + z) * g.m + row) * g.n + column] = v;
}

BRIM_KERNEL(128, gemm, gemm_args)
{
    __shared__ tile ta, tb;
    int across = (a.n + BN - 1) / BN, z = blockIdx.z;
    int m0 = blockIdx.x / across * BM, n0 = blockIdx.x % across * BN;
    int steps = (a.k + BK - 1) / BK;
    int from = (int)((long long)steps * blockIdx.y / a.slices);
    int to = (int)((long long)steps * (blockIdx.y + 1) / a.slices);
    const X *pa = (const X *)a.a.at + z / a.groups * a.a.batch_stride + z % a.groups * a.a.group_stride;
    const X *pb = (const X *)a.b.at + z / a.groups * a.b.batch_stride + z % a.groups * a.b.group_stride;
    unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#if MMA
    int wm = warp / 2 * 32, wn = warp % 2 * 32, r = lane / 4, t = lane % 4 * 2;
    float d[2][4][4] = {};
#else
    int tm = threadIdx.x / 16 * 8, tn = threadIdx.x % 16 * 4;
    float d[8][4] = {};
#endif
    for (int step = from; step < to; step++) {
        int k0 = step * BK;
        load_tile<SIDE_A, PACK_A, ALONG_A>(ta, a, a.a, pa, a.m, m0, k0, a.k);
        load_tile<SIDE_B, PACK_B, ALONG_B>(tb, a, a.b, pb, a.n, n0, k0, a.k);
        __syncthreads();
#if MMA
        UNROLL for (int k = 0; k < BK; k += 16) {
            unsigned fa[2][4], fb[4][2];
            UNROLL for (int i = 0; i < 2; i++)
                UNROLL for (int h = 0; h < 4; h++)
                    fa[i][h] = *(const unsigned *)&ta[wm + 16 * i + r + h % 2 * 8][k + t + h / 2 * 8];
            UNROLL for (int j = 0; j < 4; j++)
                UNROLL for (int h = 0; h < 2; h++)
                    fb[j][h] = *(const unsigned *)&tb[wn + 8 * j + r][k + t + h * 8];
            UNROLL for (int i = 0; i < 2; i++)
                UNROLL for (int j = 0; j < 4; j++) mma_16816<X>(d[i][j], fa[i], fb[j]);
        }
#else
        UNROLL_BY(8) for (int k = 0; k < BK; k++)
            UNROLL for (int i = 0; i < 8; i++)
                UNROLL for (int j = 0; j < 4; j++)
                    d[i][j] += to_float(ta[tm + i][k]) * to_float(tb[tn + j][k]);
#endif
        __syncthreads();
    }
#if MMA
    UNROLL for (int i = 0; i < 2; i++)
        UNROLL for (int j = 0; j < 4; j++)
            UNROLL for (int h = 0; h < 4; h++)
                put(a, z, m0 + wm + 16 * i + r + h / 2 * 8, n0 + wn + 8 * j + t + h % 2, d[i][j][h]);
#else
    UNROLL for (int i = 0; i < 8; i++)
        UNROLL for (int j = 0; j < 4; j++) put(a, z, m0 + tm + i, n0 + tn + j, d[i][j]);
#endif
}

// Sums the slices in their order.
BRIM_KERNEL(256, gemm_join, gemm_args)
{
    long long i = thread_index(), all = (long long)a.groups * a.batch * a.m * a.n;
    if (i >= all) return;
    float v = 0;
    for (int s = 0; s < a.slices; s++) v += a.part[s * all + i];
    finish(a, (int)(i / a.n / a.m), (int)(i / a.n % a.m), (int)(i % a.n), v);
}
