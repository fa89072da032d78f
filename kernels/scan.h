// The cheap look at a whole pool: float32 products of every row with up to four staged vectors in one read.
//
// The error of a product summed in chains of at most m roundings is at most gamma_m |x||v|, gamma_m = m u / (1 - m u),
// u = 2^-24, as long as nothing overflows and the result is far from the subnormal range. Staged vectors are scaled by
// a power of two to a norm in [1, 2), and rows whose norm lies outside [2^-40, 2^50] are not judged by this scan at
// all (Room::length is infinite), so neither happens.
#pragma once

#include "element.h"
#include "room.h"

// Norms within which float32 products are neither near overflow nor near the subnormal range, squared.
constexpr float kLeastSquare = 0x1p-80f;
constexpr float kMostSquare = 0x1p100f;
constexpr double kUnitRoundoff = 0x1p-24;

// Candidate `i`'s row, in packets of 16 bytes.
template <class Element>
__device__ __forceinline__ const uint4* row_of(const Plan& plan, const Task& task, const Room& room, unsigned i) {
    const unsigned packets = plan.stride / Element::kPacket;
    return static_cast<const uint4*>(task.rows) + size_t(room.row[i]) * packets;
}

// The power of two that brings a vector with this inverse norm to a norm in [1, 2).
__device__ __forceinline__ int staging_exponent(double inverse) {
    int exponent;
    frexp(inverse, &exponent);
    return exponent;
}

// Copies the vectors of the batch into shared memory, scaled.
template <class Element>
__device__ void stage(const Plan& plan, const Task& task, const Room& room) {
    const unsigned packets = plan.stride / Element::kPacket;
    for (unsigned c = 0; c < room.shared->batched; c++) {
        float* staged = room.staged + size_t(c) * plan.stride;
        const unsigned source = room.batch[c];
        if (source == kQuery) {
            for (unsigned k = threadIdx.x; k < plan.stride; k += kThreads) {
                staged[k] = scalbnf(task.query[k], room.shared->query_exponent);
            }
            continue;
        }
        const uint4* row = row_of<Element>(plan, task, room, source);
        const int exponent = room.exponent[source];
        for (unsigned at = threadIdx.x; at < packets; at += kThreads) {
            float values[Element::kPacket];
            Element::widen(__ldg(row + at), values);
#pragma unroll
            for (unsigned k = 0; k < Element::kPacket; k++) {
                staged[at * Element::kPacket + k] = scalbnf(values[k], exponent);
            }
        }
    }
}

// One read of the pool: the products of every row with the batch's staged vectors go to Room::target, and its own
// squares to Room::score where `squares` asks for them. A warp reads kRows rows side by side.
template <class Element, bool squares>
__device__ void scan(const Plan& plan, const Task& task, const Room& room) {
    constexpr unsigned kPacket = Element::kPacket;
    const unsigned lane = threadIdx.x % kLanes, warp = threadIdx.x / kLanes;
    const unsigned packets = plan.stride / kPacket, batched = room.shared->batched;
    for (unsigned first = warp * kRows; first < task.count; first += kWarps * kRows) {
        const uint4* rows[kRows];
#pragma unroll
        for (unsigned r = 0; r < kRows; r++) {
            // A short last group reads its last row again.
            const unsigned i = first + r < task.count ? first + r : task.count - 1;
            rows[r] = row_of<Element>(plan, task, room, i);
        }
        float sums[kRows * kColumns] = {};
        float own[kRows] = {};
        for (unsigned at = lane; at < packets; at += kLanes) {
            float values[kRows][kPacket];
#pragma unroll
            for (unsigned r = 0; r < kRows; r++) Element::widen(__ldg(rows[r] + at), values[r]);
#pragma unroll
            for (unsigned c = 0; c < kColumns; c++) {
                if (c < batched) {
                    const float4* staged =
                        reinterpret_cast<const float4*>(room.staged + size_t(c) * plan.stride + at * kPacket);
#pragma unroll
                    for (unsigned quarter = 0; quarter < kPacket / 4; quarter++) {
                        const float4 four = staged[quarter];
#pragma unroll
                        for (unsigned r = 0; r < kRows; r++) {
                            float& sum = sums[r * kColumns + c];
                            sum = fmaf(values[r][4 * quarter], four.x, sum);
                            sum = fmaf(values[r][4 * quarter + 1], four.y, sum);
                            sum = fmaf(values[r][4 * quarter + 2], four.z, sum);
                            sum = fmaf(values[r][4 * quarter + 3], four.w, sum);
                        }
                    }
                }
            }
            if (squares) {
#pragma unroll
                for (unsigned r = 0; r < kRows; r++) {
#pragma unroll
                    for (unsigned k = 0; k < kPacket; k++) own[r] = fmaf(values[r][k], values[r][k], own[r]);
                }
            }
        }
        const float sum = warp_sums(sums, lane);
        const unsigned r = lane / (kLanes / kRows), c = lane / 2 % kColumns;
        if (lane % 2 == 0 && c < batched && first + r < task.count) room.target[c][first + r] = sum;
        if (squares) {
            const float square = warp_sums(own, lane);
            if (lane % (kLanes / kRows) == 0 && first + r < task.count) room.score[first + r] = square;
        }
    }
}

// gamma of one product of `scan`: a lane's steps, then the sum over the lanes.
__device__ inline double product_error(const Plan& plan, unsigned packet) {
    const unsigned steps = (plan.stride / packet + kLanes - 1) / kLanes * packet;
    const double roundings = (steps + 5) * kUnitRoundoff;
    return roundings / (1.0 - roundings);
}

// The error of a score of a candidate of length 1 whose selected memories, `support` of them with a weight, are of
// length 1 too: that of a product and of the approximate inverse norm (half of a product's, and some roundings), and
// one rounding for every column that is added up.
__device__ inline double score_error(const Plan& plan, unsigned packet, unsigned support) {
    return 1.51 * product_error(plan, packet) + (support + 16) * (1.01 * kUnitRoundoff);
}

// Scores of all candidates from the columns of the support: b_i - sum_j a_j G_ij.
__device__ inline void score_all(const Plan& plan, const Task& task, const Room& room, unsigned support) {
    for (unsigned i = threadIdx.x; i < task.count; i += kThreads) {
        float taken = 0.0f;
        for (unsigned k = 0; k < support; k++) {
            const unsigned slot = room.slot[room.order[room.support[k]]];
            taken = fmaf(room.factors[k], room.column_store[size_t(slot) * plan.capacity + i], taken);
        }
        const float gain = plan.normalize ? float(room.inverse[i]) : 1.0f;
        room.score[i] = isinf(room.length[i]) ? 0.0f : room.similarity[i] - gain * taken;
    }
}
