// What every kernel includes first: CUDA under nvcc, the emulator (emu/cuda.h) under a C++ compiler.
#pragma once

#ifdef __CUDACC__

#include <cstdint>
#include <cuda_fp16.h>

#define SHARED_MEMORY(name) extern __shared__ __align__(16) unsigned char name[]

#else

#include "emu/cuda.h"

#endif

// Lanes of a warp, and the mask that names them all: the only one that we use.
constexpr unsigned kLanes = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

// One IEEE half as float; exact.
__device__ __forceinline__ float half_to_float(uint32_t bits) {
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits)));
#else
    uint32_t sign = (bits & 0x8000u) << 16, exponent = bits >> 10 & 31u, fraction = bits & 1023u;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * std::ldexp(float(fraction), -24);
    return __uint_as_float(sign | (exponent == 31 ? 255u : exponent + 112u) << 23 | fraction << 13);
#endif
}
