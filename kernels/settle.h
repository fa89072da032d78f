// Float64 arithmetic on single rows: what decides. Every row takes the same path, so equal rows have equal bits.
#pragma once

#include "scan.h"

// A product in float64 and, beside it, the row's own square.
struct Product {
    double with, own;
};

// x.v for a row and a float64 vector, and x.x; by one warp.
template <class Element>
__device__ Product row_by_vector(const uint4* row, const double* vector, unsigned packets) {
    constexpr unsigned kPacket = Element::kPacket;
    double with[kPacket] = {}, own[kPacket] = {};
    for (unsigned at = threadIdx.x % kLanes; at < packets; at += kLanes) {
        float values[kPacket];
        Element::widen(__ldg(row + at), values);
#pragma unroll
        for (unsigned k = 0; k < kPacket; k++) {
            const double value = values[k];
            with[k] = fma(value, vector[at * kPacket + k], with[k]);
            own[k] = fma(value, value, own[k]);
        }
    }
#pragma unroll
    for (unsigned half = kPacket / 2; half > 0; half /= 2) {
#pragma unroll
        for (unsigned k = 0; k < half; k++) {
            with[k] += with[k + half];
            own[k] += own[k + half];
        }
    }
    return {warp_sum(with[0]), warp_sum(own[0])};
}

// x.y for two rows; by one warp.
template <class Element>
__device__ double row_by_row(const uint4* left, const uint4* right, unsigned packets) {
    constexpr unsigned kPacket = Element::kPacket;
    double sums[kPacket] = {};
    for (unsigned at = threadIdx.x % kLanes; at < packets; at += kLanes) {
        float a[kPacket], b[kPacket];
        Element::widen(__ldg(left + at), a);
        Element::widen(__ldg(right + at), b);
#pragma unroll
        for (unsigned k = 0; k < kPacket; k++) sums[k] = fma(double(a[k]), double(b[k]), sums[k]);
    }
#pragma unroll
    for (unsigned half = kPacket / 2; half > 0; half /= 2) {
#pragma unroll
        for (unsigned k = 0; k < half; k++) sums[k] += sums[k + half];
    }
    return warp_sum(sums[0]);
}

// x.q for a row and the query; by one warp.
template <class Element>
__device__ double row_by_query(const uint4* row, const float* query, unsigned packets) {
    constexpr unsigned kPacket = Element::kPacket;
    double sums[kPacket] = {};
    for (unsigned at = threadIdx.x % kLanes; at < packets; at += kLanes) {
        float values[kPacket];
        Element::widen(__ldg(row + at), values);
#pragma unroll
        for (unsigned k = 0; k < kPacket; k++) {
            sums[k] = fma(double(values[k]), double(query[at * kPacket + k]), sums[k]);
        }
    }
#pragma unroll
    for (unsigned half = kPacket / 2; half > 0; half /= 2) {
#pragma unroll
        for (unsigned k = 0; k < half; k++) sums[k] += sums[k + half];
    }
    return warp_sum(sums[0]);
}

// What a vector counts for: 1 / |x|, or 1 where vectors are taken as they are.
__device__ __forceinline__ double gain_of(const Plan& plan, double inverse) {
    return plan.normalize ? inverse : 1.0;
}

__device__ __forceinline__ void refuse(const Room& room, unsigned row, Fault fault) {
    atomicMin(&room.shared->fault, 4 * row + fault);
}

// 1 / |x| from x.x; refuses vectors without direction, and squares that are no number. `row` as in Outcome.
__device__ inline double inverse_norm(const Room& room, unsigned row, double square) {
    if (!isfinite(square)) {
        refuse(room, row, kNotFinite);
        return 1.0;
    }
    if (square == 0.0) {
        refuse(room, row, kZero);
        return 1.0;
    }
    return 1.0 / sqrt(square);
}

// Settles the score of every listed candidate in float64, x.r; a warp each.
template <class Element>
__device__ void settle(const Plan& plan, const Task& task, const Room& room, unsigned epoch) {
    const unsigned packets = plan.stride / Element::kPacket, lane = threadIdx.x % kLanes;
    for (unsigned k = threadIdx.x / kLanes; k < room.shared->listed; k += kWarps) {
        const unsigned i = room.list[k];
        const Product product = row_by_vector<Element>(row_of<Element>(plan, task, room, i), room.residual, packets);
        if (lane == 0) {
            room.inverse[i] = 1.0 / sqrt(product.own);
            room.exact[i] = product.with * gain_of(plan, room.inverse[i]);
            room.epoch[i] = static_cast<uint8_t>(epoch);
        }
    }
}

// The residual q - sum_j a_j x_j in float64 from the rows of the support; returns this thread's part of its square.
template <class Element>
__device__ double refresh_residual(const Plan& plan, const Task& task, const Room& room, unsigned support) {
    constexpr unsigned kPacket = Element::kPacket;
    const double gain = room.shared->query_gain;
    double square = 0.0;
    for (unsigned at = threadIdx.x; at < plan.stride / kPacket; at += kThreads) {
        double rest[kPacket];
#pragma unroll
        for (unsigned k = 0; k < kPacket; k++) rest[k] = gain * double(task.query[at * kPacket + k]);
        for (unsigned j = 0; j < support; j++) {
            const double coefficient = room.coefficients[j];
            float values[kPacket];
            Element::widen(__ldg(row_of<Element>(plan, task, room, room.order[room.support[j]]) + at), values);
#pragma unroll
            for (unsigned k = 0; k < kPacket; k++) rest[k] = fma(-coefficient, double(values[k]), rest[k]);
        }
#pragma unroll
        for (unsigned k = 0; k < kPacket; k++) {
            room.residual[at * kPacket + k] = rest[k];
            square = fma(rest[k], rest[k], square);
        }
    }
    return square;
}
