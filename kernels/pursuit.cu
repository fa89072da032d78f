// MemPursuit, many pools in one launch: a block takes one pool after another and carries each from its vectors to the
// finished path.
//
// The order is the float64 order that src/pursuit/ defines. A float32 scan (scan.h) with a bound on its error proposes;
// whatever the bound leaves open is settled in float64 (settle.h), and so is everything that is reported. One step:
//
//   look    the best unselected candidate: scores from the scan, contenders within the bound settled as x.r
//   dots    its float64 products with the query and all selected memories
//   refit   the weights on the simplex (refit.h), by one warp
//   scan    the column of every weighted memory that has none yet, with those of the likeliest next picks in the same
//           read of the pool
//   score   b - Ga for all candidates, and the residual in float64 for the next look
//
// Once no candidate's score exceeds nu the weights are those of the optimum over the whole pool and never change again:
// the remaining steps only look.
#include "settle.h"

namespace {

// Scores closer than this are one score; the lowest index wins.
constexpr double kTie = 1e-12;
// The certificate is 0 from here on.
constexpr double kOptimal = 1e-13;
// What the float64 values themselves may be off by, for unit vectors.
constexpr double kRounding = 1e-14;

// One pool on one block.
template <class Element>
class Pursuit {
  public:
    __device__ Pursuit(const Plan& plan, const Room& room, BlockReducer& reducer, unsigned pool)
        : plan_(plan), room_(room), reducer_(reducer), task_(plan.tasks[pool]), pool_(pool) {}

    __device__ void run() {
        begin();
        first_scan();
        if (room_.shared->fault != UINT32_MAX) {
            finish(0, 0, 0);
            return;
        }
        steps();
    }

  private:
    static constexpr unsigned kPacket = Element::kPacket;

    struct Look {
        unsigned candidate;
        double score;
    };

    __device__ bool lead() const { return threadIdx.x == 0; }
    __device__ const uint4* row(unsigned candidate) const { return row_of<Element>(plan_, task_, room_, candidate); }
    __device__ unsigned packets() const { return plan_.stride / kPacket; }
    __device__ size_t at_step(unsigned step) const { return size_t(pool_) * plan_.budget + step; }

    // Clears the state, lists the first batch: the query, and the pool's first candidates. Retrieval returns pools
    // best first, so that the first pick is likely to be among them.
    __device__ void begin() {
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            room_.row[i] = task_.index ? task_.index[i] : i;
            room_.slot[i] = kNoSlot;
            room_.epoch[i] = 0;
            room_.selected[i] = 0;
        }
        const unsigned guesses = min(plan_.columns - 1, task_.count);
        if (threadIdx.x <= guesses) {
            const unsigned c = threadIdx.x;
            room_.batch[c] = c == 0 ? kQuery : c - 1;
            room_.target[c] = c == 0 ? room_.similarity : room_.column_store + size_t(c - 1) * plan_.capacity;
        }
        if (lead()) {
            room_.shared->fault = UINT32_MAX;
            room_.shared->batched = guesses + 1;
            room_.shared->used_slots = guesses;
        }
        __syncthreads();
        // What is staged needs its norm before the scan that brings the others'.
        const unsigned c = threadIdx.x / kLanes;
        if (c <= guesses) {
            double square = 0.0;
            if (c == 0) {
                for (unsigned k = threadIdx.x % kLanes; k < plan_.stride; k += kLanes) {
                    const double value = task_.query[k];
                    square = fma(value, value, square);
                }
                square = warp_sum(square);
            } else {
                square = row_by_row<Element>(row(c - 1), row(c - 1), packets());
            }
            if (threadIdx.x % kLanes == 0) {
                const double inverse = inverse_norm(room_, c, square);
                if (c == 0) {
                    room_.shared->query_gain = gain_of(plan_, inverse);
                    room_.shared->query_length = room_.shared->query_gain / inverse;
                    room_.shared->query_exponent = staging_exponent(inverse);
                } else {
                    room_.slot[c - 1] = static_cast<uint16_t>(c - 1);
                    room_.inverse[c - 1] = inverse;
                    room_.exponent[c - 1] = static_cast<int16_t>(staging_exponent(inverse));
                }
            }
        }
        __syncthreads();
    }

    // Similarities with the query, and norms.
    __device__ void first_scan() {
        stage<Element>(plan_, task_, room_);
        __syncthreads();
        scan<Element, true>(plan_, task_, room_);
        if (lead()) room_.shared->listed = 0;
        __syncthreads();
        passes_ = 1;
        // A row that the float32 square cannot judge is looked at in float64, and in every step again.
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            const float square = room_.score[i];
            const bool staged = room_.slot[i] != kNoSlot;
            if (square >= kLeastSquare && square <= kMostSquare) {
                if (!staged) {
                    room_.inverse[i] = 1.0 / sqrt(double(square));
                    room_.exponent[i] = static_cast<int16_t>(staging_exponent(room_.inverse[i]));
                }
                room_.length[i] = plan_.normalize ? 1.0f : 1.00001f * sqrtf(square);
            } else {
                room_.length[i] = INFINITY;
                if (!staged) room_.list[atomicAdd(&room_.shared->listed, 1u)] = static_cast<uint16_t>(i);
            }
        }
        __syncthreads();
        for (unsigned k = threadIdx.x / kLanes; k < room_.shared->listed; k += kWarps) {
            const unsigned i = room_.list[k];
            const double square = row_by_row<Element>(row(i), row(i), packets());
            if (threadIdx.x % kLanes == 0) {
                room_.inverse[i] = inverse_norm(room_, i + 1, square);
                room_.exponent[i] = static_cast<int16_t>(staging_exponent(room_.inverse[i]));
            }
        }
        __syncthreads();
        const double query = ldexp(room_.shared->query_gain, -room_.shared->query_exponent);
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            const double gain = gain_of(plan_, room_.inverse[i]) * query;
            room_.similarity[i] = isinf(room_.length[i]) ? 0.0f : float(room_.similarity[i] * gain);
            room_.score[i] = room_.similarity[i];
        }
        if (lead()) room_.shared->width = room_.shared->query_length * score_error(plan_, kPacket, 0);
    }

    __device__ void steps() {
        const unsigned budget = min(plan_.budget, task_.count);
        double loss = reducer_.reduce<Sum>(refresh_residual<Element>(plan_, task_, room_, 0));
        double objective = 0.5 * loss, nu = 0.0;
        unsigned epoch = 1, step = 0, run = 0, optimum = 0, stopped = 0;
        for (;;) {
            const bool last = step == budget || stopped, rest = step < task_.count;
            if (last && rest && !plan_.trace) break;
            Look best = {0, -INFINITY};
            if (rest) best = look(epoch);
            if (step > 0 && !optimum) {
                const double gap = best.score - nu;
                if (lead() && plan_.trace) plan_.trace[at_step(step - 1)].certificate = fmax(gap, 0.0);
                if (gap <= kOptimal) optimum = step;
            }
            if (last) break;

            append(best, step);
            const bool moved = !optimum && refit(step);
            if (moved) nu = room_.simplex.nu();
            step++;
            const double before = loss;
            if (moved) {
                // The last step's columns would serve nobody.
                const bool scored = step < task_.count && (step < budget || plan_.trace);
                const unsigned support = list_support(step);
                if (scored) {
                    fetch_columns(support);
                    score_all(plan_, task_, room_, support);
                }
                loss = reducer_.reduce<Sum>(refresh_residual<Element>(plan_, task_, room_, support));
                epoch++;
            }
            if (plan_.trace) {
                const double ridge = 0.5 * plan_.ridge * squared_weights(step);
                if (lead()) {
                    plan_.trace[at_step(step - 1)] = {sqrt(loss), 0.5 * loss + ridge, objective - 0.5 * loss - ridge, nu,
                                                      0.0};
                }
                objective = 0.5 * loss + ridge;
                double* weights = plan_.trace_weights + at_step(step - 1) * plan_.budget;
                for (unsigned k = threadIdx.x; k < step; k += kThreads) weights[k] = room_.simplex.weights[k];
            }
            if (plan_.patience && step > 1) {
                run = (before - loss) / fmax(before, 1e-12) <= plan_.tolerance ? run + 1 : 0;
                if (run >= plan_.patience) stopped = step;
            }
        }
        finish(step, optimum, stopped);
    }

    // The candidate to take: of all unselected within kTie of the best float64 score, the first.
    __device__ Look look(unsigned epoch) {
        const double width = room_.shared->width;
        double surely = -INFINITY;
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            if (!room_.selected[i]) surely = fmax(surely, score(i, epoch, -width));
        }
        if (lead()) room_.shared->listed = 0;
        surely = reducer_.reduce<Max>(surely);
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            // What is no number is in question too.
            if (!room_.selected[i] && room_.epoch[i] != epoch && !(score(i, epoch, width) < surely - kTie)) {
                room_.list[atomicAdd(&room_.shared->listed, 1u)] = static_cast<uint16_t>(i);
            }
        }
        __syncthreads();
        settled_ += room_.shared->listed;
        settle<Element>(plan_, task_, room_, epoch);
        __syncthreads();
        double best = -INFINITY;
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            if (!room_.selected[i] && room_.epoch[i] == epoch) best = fmax(best, room_.exact[i]);
        }
        best = reducer_.reduce<Max>(best);
        unsigned first = UINT32_MAX;
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            if (!room_.selected[i] && room_.epoch[i] == epoch && room_.exact[i] >= best - kTie) first = min(first, i);
        }
        first = reducer_.reduce<Min>(first);
        return {first, room_.exact[first]};
    }

    // The settled score, or the scan's moved by its error.
    __device__ double score(unsigned i, unsigned epoch, double width) const {
        return room_.epoch[i] == epoch ? room_.exact[i] : room_.score[i] + double(room_.length[i]) * width;
    }

    __device__ void append(const Look& best, unsigned step) {
        if (lead()) {
            plan_.order[at_step(step)] = best.candidate;
            plan_.scores[at_step(step)] = best.score;
            room_.order[step] = best.candidate;
            room_.selected[best.candidate] = 1;
            room_.simplex.weights[step] = 0.0;
        }
        __syncthreads();
    }

    // Gives the newest memory its weight; true where the weights moved.
    __device__ bool refit(unsigned step) {
        const unsigned newest = room_.order[step];
        const double gain = gain_of(plan_, room_.inverse[newest]);
        for (unsigned k = threadIdx.x / kLanes; k < step + 2; k += kWarps) {
            double product;
            if (k <= step) {
                const unsigned other = room_.order[k];
                product = row_by_row<Element>(row(newest), row(other), packets());
                product *= gain * gain_of(plan_, room_.inverse[other]);
            } else {
                product = row_by_query<Element>(row(newest), task_.query, packets());
                product *= gain * room_.shared->query_gain;
            }
            if (threadIdx.x % kLanes == 0) room_.dots[k] = product;
        }
        __syncthreads();
        if (threadIdx.x < kLanes) {
            if (step == 0) room_.simplex.reset(room_.dots[0]);
            const bool moved = room_.simplex.push(room_.dots, room_.dots[step + 1], plan_.ridge);
            if (lead()) room_.shared->moved = moved;
        }
        __syncthreads();
        return room_.shared->moved;
    }

    // Lists the steps that have a weight, with what they count for, and the error of the scores to come.
    __device__ unsigned list_support(unsigned steps) {
        if (threadIdx.x < kLanes) {
            const unsigned lane = threadIdx.x;
            unsigned support = 0;
            double longest = 0.0;
            for (unsigned first = 0; first < steps; first += kLanes) {
                const unsigned step = first + lane;
                const bool weighted = step < steps && room_.simplex.weights[step] != 0.0;
                const unsigned bits = __ballot_sync(kWholeWarp, weighted);
                if (weighted) {
                    const unsigned at = support + __popc(bits & ((1u << lane) - 1)), candidate = room_.order[step];
                    const double gain = gain_of(plan_, room_.inverse[candidate]);
                    const double coefficient = room_.simplex.weights[step] * gain;
                    room_.support[at] = step;
                    room_.coefficients[at] = coefficient;
                    room_.factors[at] = float(ldexp(coefficient, -room_.exponent[candidate]));
                    longest = fmax(longest, gain / room_.inverse[candidate]);
                }
                support += __popc(bits);
            }
#pragma unroll
            for (int flip = kLanes / 2; flip > 0; flip /= 2) {
                longest = fmax(longest, __shfl_xor_sync(kWholeWarp, longest, flip));
            }
            if (lead()) {
                room_.shared->support = support;
                room_.shared->width =
                    (room_.shared->query_length + longest) * score_error(plan_, kPacket, support) + kRounding;
            }
        }
        __syncthreads();
        return room_.shared->support;
    }

    // Sees to it that every weighted memory has a column.
    __device__ void fetch_columns(unsigned support) {
        for (;;) {
            if (lead()) room_.shared->batched = 0;
            __syncthreads();
            for (unsigned k = threadIdx.x; k < support; k += kThreads) {
                const unsigned candidate = room_.order[room_.support[k]];
                if (room_.slot[candidate] != kNoSlot) continue;
                const unsigned c = atomicAdd(&room_.shared->batched, 1u);
                if (c < plan_.columns) room_.batch[c] = candidate;
            }
            __syncthreads();
            unsigned batched = min(room_.shared->batched, plan_.columns);
            if (batched == 0) return;
            // Free places go to the best candidates of the last scores: the likeliest next picks.
            for (unsigned free = plan_.columns - batched; free > 0; free--) {
                const unsigned guess = best_without_column();
                if (guess == UINT32_MAX) break;
                // The thread that looks at this candidate in the next round is the one that marks it.
                if (guess % kThreads == threadIdx.x) room_.slot[guess] = kGuessed;
                if (lead()) room_.batch[batched] = guess;
                batched++;
            }
            __syncthreads();
            if (threadIdx.x < batched) {
                const unsigned slot = room_.shared->used_slots + threadIdx.x;
                room_.slot[room_.batch[threadIdx.x]] = static_cast<uint16_t>(slot);
                room_.target[threadIdx.x] = room_.column_store + size_t(slot) * plan_.capacity;
            }
            __syncthreads();
            if (lead()) {
                room_.shared->batched = batched;
                room_.shared->used_slots += batched;
            }
            __syncthreads();
            stage<Element>(plan_, task_, room_);
            __syncthreads();
            scan<Element, false>(plan_, task_, room_);
            __syncthreads();
            passes_++;
        }
    }

    // The unselected candidate of the best scan score that has no column, or UINT32_MAX.
    __device__ unsigned best_without_column() {
        uint64_t best = 0;
        for (unsigned i = threadIdx.x; i < task_.count; i += kThreads) {
            if (room_.selected[i] || room_.slot[i] != kNoSlot) continue;
            // Bits that sort as the floats do, then the lower index.
            const unsigned bits = __float_as_uint(room_.score[i]);
            const unsigned sorted = bits ^ (bits >> 31 ? 0xffffffffu : 0x80000000u);
            best = Max::combine(best, uint64_t(sorted) << 32 | (UINT32_MAX - 1 - i));
        }
        best = reducer_.reduce<Max>(best);
        return best ? UINT32_MAX - 1 - unsigned(best) : UINT32_MAX;
    }

    __device__ double squared_weights(unsigned steps) {
        double sum = 0.0;
        for (unsigned k = threadIdx.x; k < steps; k += kThreads) {
            sum = fma(room_.simplex.weights[k], room_.simplex.weights[k], sum);
        }
        return reducer_.reduce<Sum>(sum);
    }

    __device__ void finish(unsigned steps, unsigned optimum, unsigned stopped) {
        for (unsigned k = threadIdx.x; k < steps; k += kThreads) {
            plan_.weights[at_step(k)] = room_.simplex.weights[k];
        }
        if (lead()) {
            const uint32_t fault = room_.shared->fault;
            const bool refused = fault != UINT32_MAX;
            plan_.outcomes[pool_] = {refused ? fault % 4 : kNone, refused ? fault / 4 : 0, steps, optimum, stopped,
                                     passes_, settled_, 0};
        }
    }

    const Plan& plan_;
    const Room& room_;
    BlockReducer& reducer_;
    const Task task_;
    const unsigned pool_;
    unsigned passes_ = 0, settled_ = 0;
};

// Takes pools until none is left.
template <class Element>
__device__ void pursue(const Plan& plan) {
    SHARED_MEMORY(memory);
    const Room room = lay_out(plan, memory);
    BlockReducer reducer(room.scratch);
    for (;;) {
        if (threadIdx.x == 0) room.shared->pool = atomicAdd(plan.next, 1u);
        __syncthreads();
        const unsigned pool = room.shared->pool;
        if (pool >= plan.pools) return;
        Pursuit<Element>(plan, room, reducer, pool).run();
        __syncthreads();
    }
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kThreads, 2) pursue_f32(const __grid_constant__ Plan plan) {
    pursue<F32>(plan);
}

extern "C" __global__ void __launch_bounds__(kThreads, 2) pursue_f16(const __grid_constant__ Plan plan) {
    pursue<F16>(plan);
}

extern "C" __global__ void __launch_bounds__(kThreads, 2) pursue_bf16(const __grid_constant__ Plan plan) {
    pursue<BF16>(plan);
}
