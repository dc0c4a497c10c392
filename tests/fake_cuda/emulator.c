/* Runs one kernel: blocks one after the other, the threads of a block as fibers in turn. */
#include "emulator_run.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MAX_THREADS = 1024, STACK_BYTES = 128 << 10, SHARED_BYTES = 256 << 10, SLOT_BYTES = 128 };

typedef struct emu_dim {
    unsigned x, y, z;
} emu_dim;
emu_dim threadIdx, blockIdx, blockDim, gridDim;

typedef enum fiber_state { READY, AT_BLOCK, AT_WARP, DONE } fiber_state;

typedef struct fiber {
    void *sp;
    fiber_state state;
    unsigned mask;   /* lanes that are waited for */
    unsigned parity; /* which of the two exchange buffers is next */
} fiber;

static struct {
    char *stacks;
    void *main_sp;
    fiber fiber[MAX_THREADS];
    unsigned n, current;
    emu_kernel kernel;
    const void *args;
    const char *name;
    char slot[MAX_THREADS / 32][2][32 * SLOT_BYTES];
    size_t shared_bytes;
    unsigned char shared[SHARED_BYTES] __attribute__((aligned(128)));
} e;

/* Saves what a call must keep, and goes on where `to` was left. */
void emu_switch(void **from, void *to);
__asm__(".text\n.globl emu_switch\n.type emu_switch,@function\nemu_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp,(%rdi)\nmovq %rsi,%rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\nret\n");

static void leave(fiber_state s)
{
    fiber *f = &e.fiber[e.current];
    f->state = s;
    emu_switch(&f->sp, e.main_sp);
}

static void fiber_main(void)
{
    e.kernel(e.args);
    leave(DONE);
    abort();
}

static void fiber_start(unsigned t)
{
    void **top = (void **)(e.stacks + (size_t)(t + 1) * STACK_BYTES);
    fiber *f = &e.fiber[t];
    *f = (fiber){.state = READY};
    *--top = NULL; /* so that the stack is as after a call */
    *--top = (void *)fiber_main;
    for (int k = 0; k < 6; k++) *--top = NULL;
    f->sp = top;
}

void emu_block_barrier(void)
{
    leave(AT_BLOCK);
}

const void *emu_exchange(unsigned mask, const void *mine, unsigned n)
{
    fiber *f = &e.fiber[e.current];
    unsigned lane = e.current % 32;
    char *slot = e.slot[e.current / 32][f->parity & 1];
    if (n > SLOT_BYTES || !(mask >> lane & 1)) {
        fprintf(stderr, "emulator: %s: lane %u is not in its own mask %08x\n", e.name, lane, mask);
        abort();
    }
    memcpy(slot + (size_t)lane * n, mine, n);
    f->parity++;
    f->mask = mask;
    leave(AT_WARP);
    return slot;
}

void *emu_dynamic_shared(void)
{
    return e.shared;
}

/* Lets a warp's lanes go on when all that are waited for have come. */
static bool release_warp(unsigned first)
{
    unsigned here = 0, lanes = e.n - first < 32 ? e.n - first : 32;
    for (unsigned k = 0; k < lanes; k++)
        if (e.fiber[first + k].state == AT_WARP) here |= 1u << k;
    bool any = false;
    for (unsigned k = 0; k < lanes; k++) {
        fiber *f = &e.fiber[first + k];
        unsigned wanted = f->mask & (lanes == 32 ? ~0u : (1u << lanes) - 1);
        if (f->state != AT_WARP || (wanted & here) != wanted) continue;
        f->state = READY;
        any = true;
    }
    return any;
}

static bool release_block(void)
{
    for (unsigned t = 0; t < e.n; t++)
        if (e.fiber[t].state != AT_BLOCK && e.fiber[t].state != DONE) return false;
    bool any = false;
    for (unsigned t = 0; t < e.n; t++)
        if (e.fiber[t].state == AT_BLOCK) e.fiber[t].state = READY, any = true;
    return any;
}

static void run_block(void)
{
    memset(e.shared, 0xff, e.shared_bytes); /* NaN: what nobody wrote */
    for (unsigned t = 0; t < e.n; t++) fiber_start(t);
    for (;;) {
        bool any = false, left = false;
        for (unsigned t = 0; t < e.n; t++) {
            if (e.fiber[t].state != READY) continue;
            e.current = t;
            threadIdx = (emu_dim){t, 0, 0};
            emu_switch(&e.main_sp, e.fiber[t].sp);
            any = true;
        }
        for (unsigned t = 0; t < e.n; t += 32) any |= release_warp(t);
        any |= release_block();
        for (unsigned t = 0; t < e.n; t++) left |= e.fiber[t].state != DONE;
        if (!left) return;
        if (!any) {
            fprintf(stderr, "emulator: %s: threads wait at different barriers\n", e.name);
            abort();
        }
    }
}

void emu_run(const char *name, emu_kernel kernel, const void *args, const unsigned grid[3],
             unsigned threads, unsigned shared_bytes)
{
    if (!e.stacks)
        e.stacks = mmap(NULL, (size_t)MAX_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (e.stacks == MAP_FAILED || threads > MAX_THREADS || shared_bytes > SHARED_BYTES) abort();
    e.kernel = kernel;
    e.args = args;
    e.name = name;
    e.n = threads;
    e.shared_bytes = shared_bytes;
    blockDim = (emu_dim){threads, 1, 1};
    gridDim = (emu_dim){grid[0], grid[1], grid[2]};
    for (unsigned z = 0; z < grid[2]; z++)
        for (unsigned y = 0; y < grid[1]; y++)
            for (unsigned x = 0; x < grid[0]; x++) {
                blockIdx = (emu_dim){x, y, z};
                run_block();
            }
}
