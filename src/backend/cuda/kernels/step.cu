// Dropout, and what the training step adds around a model. X: element type of x.

// The element's index is the logical one whatever the layout: a thread takes four of them, for which
// one counter gives the numbers.
BRIM_KERNEL(256, dropout, step_args)
{
    long long quad = thread_index();
    if (quad * 4 >= a.n) return;
    unsigned long long high = (unsigned long long)(unsigned)a.rng[2] << 32 |
                              (unsigned long long)((unsigned)a.rng[3] & 0xffffu) << 16 | a.key;
    philox r = philox4x32((unsigned)a.rng[0], (unsigned)a.rng[1], high, (unsigned long long)quad);
    for (int k = 0; k < 4 && quad * 4 + k < a.n; k++) {
        long long rest = quad * 4 + k, x = 0, y = 0;
        for (int d = a.rank - 1; d >= 0; d--) {
            x += rest % a.dim[d] * a.sx[d];
            y += rest % a.dim[d] * a.sy[d];
            rest /= a.dim[d];
        }
        float v = to_float(((const X *)a.x)[x]) * a.keep_scale;
        ((X *)a.y)[y] = from_float<X>::of((r.v[k] >> 8) >= a.limit ? v : 0);
    }
}

// acc = ACC_BETA acc + g; what acc held before the first micro-batch is not read.
BRIM_KERNEL(256, accumulate, step_args)
{
    bool first = a.step[2] == 0;
    float *acc = (float *)a.y;
    for (long long i = thread_index(); i < a.n; i += thread_count()) {
        float g = to_float(((const X *)a.x)[i]);
        acc[i] = first ? g : acc[i] + g;
    }
}

// The gradient of the loss: the scale over the window's weight.
BRIM_KERNEL(32, loss_seed, step_args)
{
    if (threadIdx.x == 0) *a.seed = a.scaler[0] * a.step[1];
}
