// The part of CUDA C++ that our kernels use, for a C++ compiler: kernels/*.cu then run on the CPU.
//
// What is imitated: the thread hierarchy, block barriers, whole-warp primitives, atomics, dynamic shared memory.
// What is stricter than a card: see emu/block.h. What is missing: static __shared__ variables (use
// SHARED_MEMORY), partial warp masks, cooperative groups, tensor cores, inline PTX, asynchronous copies.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "block.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __restrict__ __restrict

struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};

#define threadIdx (emu::thread().index)
#define blockIdx (emu::block().index)
#define blockDim (emu::block().size)
#define gridDim (emu::block().grid)

#define SHARED_MEMORY(name) unsigned char* const name = emu::block().shared

// Call sites are part of a barrier: threads that meet at different lines have diverged.
#define EMU_SITE int line = __builtin_LINE()

inline void __syncthreads(EMU_SITE) {
    emu::block_barrier(line);
}

inline void __syncwarp(unsigned mask = 0xffffffffu, EMU_SITE) {
    emu::warp_exchange(mask, "__syncwarp", line, 0);
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, int flip, EMU_SITE) {
    return emu::shuffle(mask, "__shfl_xor_sync", line, value, emu::lane() ^ flip);
}

inline unsigned __ballot_sync(unsigned mask, int predicate, EMU_SITE) {
    const uint64_t* lanes = emu::warp_exchange(mask, "__ballot_sync", line, predicate != 0);
    unsigned bits = 0;
    for (int lane = 0; lane < emu::kWarp; lane++) bits |= unsigned(lanes[lane]) << lane;
    return bits;
}

// Blocks take turns on one OS thread, so that a plain read-modify-write is atomic.
inline unsigned atomicAdd(unsigned* address, unsigned value) {
    unsigned old = *address;
    *address = old + value;
    return old;
}

inline unsigned atomicMin(unsigned* address, unsigned value) {
    unsigned old = *address;
    *address = value < old ? value : old;
    return old;
}

inline uint4 __ldg(const uint4* address) {
    if (reinterpret_cast<uintptr_t>(address) % alignof(uint4)) emu::fail("a 16-byte load from a misaligned address");
    return *address;
}

inline float __uint_as_float(unsigned bits) {
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
}

inline unsigned __float_as_uint(float value) {
    unsigned bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits;
}

inline int __popc(unsigned bits) {
    return __builtin_popcount(bits);
}

inline unsigned min(unsigned a, unsigned b) {
    return a < b ? a : b;
}

using std::isfinite;
using std::isinf;
