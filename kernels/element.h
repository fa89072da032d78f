// The element types of a store. Rows are read in packets of 16 bytes and widened exactly to float.
#pragma once

#include "device.h"

struct F32 {
    static constexpr unsigned kPacket = 4;  // elements in 16 bytes
    static __device__ __forceinline__ void widen(const uint4& packet, float (&out)[4]) {
        out[0] = __uint_as_float(packet.x);
        out[1] = __uint_as_float(packet.y);
        out[2] = __uint_as_float(packet.z);
        out[3] = __uint_as_float(packet.w);
    }
};

struct F16 {
    static constexpr unsigned kPacket = 8;
    static __device__ __forceinline__ void widen(const uint4& packet, float (&out)[8]) {
        const unsigned words[4] = {packet.x, packet.y, packet.z, packet.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            out[2 * k] = half_to_float(words[k] & 0xffffu);
            out[2 * k + 1] = half_to_float(words[k] >> 16);
        }
    }
};

// The upper half of a float.
struct BF16 {
    static constexpr unsigned kPacket = 8;
    static __device__ __forceinline__ void widen(const uint4& packet, float (&out)[8]) {
        const unsigned words[4] = {packet.x, packet.y, packet.z, packet.w};
#pragma unroll
        for (int k = 0; k < 4; k++) {
            out[2 * k] = __uint_as_float(words[k] << 16);
            out[2 * k + 1] = __uint_as_float(words[k] & 0xffff0000u);
        }
    }
};
