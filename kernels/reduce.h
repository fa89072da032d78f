// Sums and extremes over the lanes of a warp and over the threads of a block.
//
// Sums go by the butterfly: at every level a lane adds its partner's part to its own. Addition commutes, so all
// lanes end with the same bits, and the tree is the same whichever lanes hold a value.
#pragma once

#include "device.h"

constexpr unsigned kThreads = 256;
constexpr unsigned kWarps = kThreads / kLanes;

template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int flip = kLanes / 2; flip > 0; flip /= 2) value += __shfl_xor_sync(kWholeWarp, value, flip);
    return value;
}

// One level of warp_sums(): lanes trade half of their values for their partners' parts of the other half. A recursion
// rather than a loop keeps the values in registers.
template <int kHalf, int kFlip, int N>
__device__ __forceinline__ void trade_halves(float (&values)[N], unsigned lane) {
    if constexpr (kHalf > 0) {
        const bool upper = lane & kFlip;
#pragma unroll
        for (int k = 0; k < kHalf; k++) {
            const float keep = upper ? values[k + kHalf] : values[k];
            const float give = upper ? values[k] : values[k + kHalf];
            values[k] = keep + __shfl_xor_sync(kWholeWarp, give, kFlip);
        }
        trade_halves<kHalf / 2, kFlip / 2>(values, lane);
    }
}

// Sums N values over the lanes together, N a power of two up to 32. Lane l returns the sum of values[l * N / 32].
// While there are several values, each level halves their number instead of adding all of them in every lane.
template <int N>
__device__ __forceinline__ float warp_sums(float (&values)[N], unsigned lane) {
    trade_halves<N / 2, int(kLanes) / 2>(values, lane);
#pragma unroll
    for (int flip = int(kLanes) / N / 2; flip > 0; flip /= 2) {
        values[0] += __shfl_xor_sync(kWholeWarp, values[0], flip);
    }
    return values[0];
}

struct Sum {
    template <class T>
    static __device__ __forceinline__ T combine(T a, T b) {
        return a + b;
    }
};
struct Max {
    template <class T>
    static __device__ __forceinline__ T combine(T a, T b) {
        return a > b ? a : b;
    }
};
struct Min {
    template <class T>
    static __device__ __forceinline__ T combine(T a, T b) {
        return a < b ? a : b;
    }
};

// Block-wide reductions. The two halves of the scratch take turns, so that one barrier a reduction is enough:
// whoever writes a half again has passed the other half's barrier, hence everybody has read this one.
class BlockReducer {
  public:
    static constexpr unsigned kScratch = 2 * kWarps;  // in uint64_t

    __device__ explicit BlockReducer(uint64_t* scratch) : scratch_(scratch), half_(0) {}

    // The combination of every thread's value, in every thread. All threads of the block must call.
    template <class Operation, class T>
    __device__ T reduce(T value) {
        static_assert(sizeof(T) <= sizeof(uint64_t), "scratch slots are 8 bytes");
#pragma unroll
        for (int flip = kLanes / 2; flip > 0; flip /= 2) {
            value = Operation::combine(value, __shfl_xor_sync(kWholeWarp, value, flip));
        }
        uint64_t* half = scratch_ + half_ * kWarps;
        half_ ^= 1;
        if (threadIdx.x % kLanes == 0) store(&half[threadIdx.x / kLanes], value);
        __syncthreads();
        T all = load<T>(&half[0]);
#pragma unroll
        for (unsigned warp = 1; warp < kWarps; warp++) all = Operation::combine(all, load<T>(&half[warp]));
        return all;
    }

  private:
    template <class T>
    static __device__ __forceinline__ void store(uint64_t* slot, T value) {
        *reinterpret_cast<T*>(slot) = value;
    }
    template <class T>
    static __device__ __forceinline__ T load(const uint64_t* slot) {
        return *reinterpret_cast<const T*>(slot);
    }

    uint64_t* scratch_;
    unsigned half_;
};
