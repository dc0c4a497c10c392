// SGD and AdamW over all weights: squares of the gradients block by block, one decision, then the
// update. A block takes STRETCH elements of one weight.

enum { THREADS = 256, STRETCH = 4096 };

__device__ __forceinline__ float gradient(const optim_weight &w, long long i)
{
    if (w.grad_type == 0) return ((const float *)w.grad)[i];
    if (w.grad_type == 1) return to_float(((const bf16 *)w.grad)[i]);
    return to_float(((const f16 *)w.grad)[i]);
}

// The weight that this block works on.
__device__ __forceinline__ int weight_of(const optim_args &a)
{
    int k = 0;
    while (k + 1 < a.weights && (int)blockIdx.x >= a.w[k + 1].first) k++;
    return k;
}

BRIM_KERNEL(256, squares, optim_args)
{
    __shared__ float shared[THREADS / 32];
    const optim_weight &w = a.w[weight_of(a)];
    long long from = (long long)(blockIdx.x - w.first) * STRETCH, to = from + STRETCH;
    float sum = 0, bad = 0;
    for (long long i = from + threadIdx.x; i < to && i < w.n; i += THREADS) {
        float g = gradient(w, i);
        bad += g - g; // 0 for finite numbers only
        sum += g * g;
    }
    sum = block_sum(sum, shared);
    bad = block_sum(bad, shared);
    if (threadIdx.x == 0) a.squares[a.first_part + blockIdx.x] = bad == 0 ? sum : NAN;
}

__device__ __forceinline__ void skip_step(const optim_args &a)
{
    float *s = a.scaler;
    if (a.dynamic) s[0] = fmaxf(s[0] * a.backoff, a.min_scale);
    s[1] = 0;
    s[2] += 1;
    s[4] = 1;
}

__device__ __forceinline__ void count_step(const optim_args &a, float norm)
{
    float *s = a.scaler, good = s[1] + 1;
    if (a.dynamic && good >= (float)a.growth_interval) {
        s[0] = fminf(s[0] * a.growth, a.max_scale);
        good = 0;
    }
    s[1] = good;
    s[3] = norm;
    s[4] = 0;
    s[5] += 1;
}

// scaler: scale, good, skipped, grad_norm, overflow, updates (ir/step.h).
BRIM_KERNEL(256, decide, optim_args)
{
    __shared__ double shared[THREADS];
    double sum = 0;
    for (int k = threadIdx.x; k < a.parts; k += THREADS) sum += a.squares[k];
    shared[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x) return;
    sum = 0;
    for (int k = 0; k < THREADS; k++) sum += shared[k];
    double scale = a.scaler[0], norm = sqrt(sum) / scale;
    a.control->skip = norm != norm;
    if (norm != norm) {
        skip_step(a);
        return;
    }
    count_step(a, (float)norm);
    double clip = a.clip > 0 ? a.clip / (norm + 1e-6) : 1, updates = a.scaler[5];
    a.control->factor = (float)((clip < 1 ? clip : 1) / scale);
    a.control->fix1 = (float)(1 / (1 - pow(a.beta1, updates)));
    a.control->fix2 = (float)(1 / (1 - pow(a.beta2, updates)));
}

BRIM_KERNEL(256, update, optim_args)
{
    optim_control c = *a.control;
    if (c.skip) return;
    const optim_weight &w = a.w[weight_of(a)];
    long long from = (long long)(blockIdx.x - w.first) * STRETCH, to = from + STRETCH;
    float lr = a.step[0], keep = a.step[3], decay = w.decay ? a.decay : 0;
    float beta1 = (float)a.beta1, beta2 = (float)a.beta2;
    float rest1 = (float)(1 - a.beta1), rest2 = (float)(1 - a.beta2);
    for (long long i = from + threadIdx.x; i < to && i < w.n; i += THREADS) {
        float p = w.param[i], g = gradient(w, i) * c.factor;
        if (a.adamw) {
            float m = beta1 * w.m[i] + rest1 * g, v = beta2 * w.v[i] + rest2 * g * g;
            w.m[i] = m;
            w.v[i] = v;
            p = p - lr * decay * p - lr * (m * c.fix1) / (sqrtf(v * c.fix2) + a.eps);
        } else {
            g += decay * p;
            if (a.momentum != 0) {
                float m = a.momentum * w.m[i] + g;
                w.m[i] = m;
                g = a.nesterov ? g + a.momentum * m : m;
            }
            p -= lr * g;
        }
        w.param[i] = p;
        if (w.shadow && w.shadow_type == 1) ((bf16 *)w.shadow)[i] = from_float<bf16>::of(p);
        if (w.shadow && w.shadow_type == 2) ((f16 *)w.shadow)[i] = from_float<f16>::of(p);
        if (w.ema) w.ema[i] = keep * w.ema[i] + (1 - keep) * p;
    }
}
