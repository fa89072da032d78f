// Kernels with one deliberate fault each, and one without: what the emulator must tell apart.
#pragma once

#include "../device.h"

// Every thread passes its value to its neighbour through shared memory.
extern "C" __global__ void neighbour(unsigned* out, unsigned with_barrier) {
    SHARED_MEMORY(memory);
    unsigned* values = reinterpret_cast<unsigned*>(memory);
    values[threadIdx.x] = threadIdx.x;
    if (with_barrier) __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = values[(threadIdx.x + 1) % blockDim.x];
}

// The same inside a warp.
extern "C" __global__ void warp_neighbour(unsigned* out, unsigned with_barrier) {
    SHARED_MEMORY(memory);
    unsigned* values = reinterpret_cast<unsigned*>(memory);
    values[threadIdx.x] = threadIdx.x;
    if (with_barrier) __syncwarp();
    out[threadIdx.x] = values[threadIdx.x ^ 1];
}

// Shuffles and ballots; out[0..32] the butterfly's sum, out[32..64] the ballot of odd lanes.
extern "C" __global__ void warp_primitives(unsigned* out) {
    unsigned sum = threadIdx.x;
    for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(kWholeWarp, sum, flip);
    out[threadIdx.x] = sum;
    out[threadIdx.x + 32] = __ballot_sync(kWholeWarp, threadIdx.x & 1);
}

// Two different barriers for two halves of a block.
extern "C" __global__ void divergent_barrier(unsigned* out) {
    if (threadIdx.x < 32) {
        __syncthreads();
    } else {
        __syncthreads();
    }
    out[threadIdx.x] = 1;
}

// Lanes of one warp in different primitives.
extern "C" __global__ void divergent_warp(unsigned* out) {
    if (threadIdx.x < 16) {
        __syncwarp();
    } else {
        out[threadIdx.x] = __ballot_sync(kWholeWarp, 1);
    }
}

// Half of a warp waits for the other, which waits for the block.
extern "C" __global__ void deadlock(unsigned* out) {
    if (threadIdx.x < 16) __syncwarp();
    if (threadIdx.x >= 16) __syncthreads();
    out[threadIdx.x] = 1;
}

// Stops half of the threads before a barrier: allowed, those that have returned are not waited for.
extern "C" __global__ void early_return(unsigned* out) {
    if (threadIdx.x % 2) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

// Reads, then writes at an index; past the end of a buffer if told so.
extern "C" __global__ void touch(unsigned* out, unsigned at) {
    if (threadIdx.x == 0) out[at] = 1;
}

// Reads shared memory that nobody wrote, or writes past its end.
extern "C" __global__ void shared_touch(unsigned* out, unsigned at, unsigned write) {
    SHARED_MEMORY(memory);
    unsigned* values = reinterpret_cast<unsigned*>(memory);
    if (threadIdx.x != 0) return;
    if (write) {
        values[at] = 1;
    } else {
        out[0] = values[at];
    }
}

// Blocks that take numbers from one counter.
extern "C" __global__ void queue(unsigned* next, unsigned* taken_by, unsigned count) {
    SHARED_MEMORY(memory);
    unsigned* mine = reinterpret_cast<unsigned*>(memory);
    for (;;) {
        if (threadIdx.x == 0) *mine = atomicAdd(next, 1u);
        __syncthreads();
        if (*mine >= count) return;
        if (threadIdx.x == 0) taken_by[*mine] = blockIdx.x;
        __syncthreads();
    }
}
