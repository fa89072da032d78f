// How a block lays out its memory. `shared_bytes` and `workspace_bytes` in src/pursuit/cuda/layout.rs add up the
// same pieces; keep them alike.
#pragma once

#include "plan.h"
#include "refit.h"

// Hands out pieces of a memory, each aligned to 16 bytes.
class Carver {
  public:
    __device__ explicit Carver(unsigned char* memory) : at_(memory) {}

    template <class T>
    __device__ T* take(unsigned count) {
        T* piece = reinterpret_cast<T*>(at_);
        at_ += (sizeof(T) * count + 15) / 16 * 16;
        return piece;
    }

  private:
    unsigned char* at_;
};

// What the threads of a block agree on between barriers.
struct Shared {
    double query_gain;        // 1 / |q|, or 1 where vectors are taken as they are
    double query_length;      // |q| times its gain
    double width;             // error of a score for a candidate of length 1
    uint32_t pool;
    uint32_t fault;           // 4 * row + Fault of the first refused row
    uint32_t listed;          // entries of Room::list
    uint32_t batched;         // entries of Room::batch
    uint32_t used_slots;
    uint32_t support;         // steps with a weight
    uint32_t moved;           // whether the last refit moved the weights
    int32_t query_exponent;
};

constexpr unsigned kNoSlot = 0xffff;
// Chosen for the next pass; its slot follows.
constexpr unsigned kGuessed = 0xfffe;
// In Room::batch: the query instead of a candidate.
constexpr unsigned kQuery = 0xffffffffu;

// A block's memory; P stands for the plan's capacity, K for its budget.
struct Room {
    Shared* shared;
    uint64_t* scratch;     // [BlockReducer::kScratch]
    uint32_t* batch;       // candidates whose columns the next pass computes, [kColumns]
    float** target;        // where those columns go, [kColumns]
    float* staged;         // those candidates' vectors, scaled to a norm in [1, 2), [columns, stride]
    // Of every candidate, [P]:
    double* exact;         // its score in float64, where `epoch` is current
    double* inverse;       // 1 / |x|: from the scan at first, exact once its score has been settled
    float* similarity;     // with the query, from the scan
    float* score;          // from the scan's columns
    float* length;         // |x| times its gain; infinite where the scan tells nothing about it
    uint32_t* row;         // of the store
    int16_t* exponent;     // staged vector = x * 2^exponent
    uint16_t* slot;        // of its column, or kNoSlot
    uint16_t* list;        // candidates to look at in float64
    uint8_t* epoch;        // the refit that `exact` belongs to; 0: none
    uint8_t* selected;     // 0 or 1
    // Of every step, [K]:
    uint32_t* order;       // candidate
    double* dots;          // float64 products of the newest with all selected, [K + 1]
    float* factors;        // what its column counts for in a score
    double* coefficients;  // what its row counts for in the reconstruction
    uint32_t* support;     // the steps whose weight is not 0
    Simplex simplex;
    // In global memory:
    double* residual;      // q - reconstruction, [stride]
    float* column_store;   // products of all rows with staged vectors, [slots, P]
};

__device__ inline Room lay_out(const Plan& plan, unsigned char* shared_memory) {
    const unsigned P = plan.capacity, K = plan.budget;
    Carver shared(shared_memory);
    Carver global(plan.workspace + plan.workspace_bytes * blockIdx.x);
    Room room;
    room.shared = shared.take<Shared>(1);
    room.scratch = shared.take<uint64_t>(BlockReducer::kScratch);
    room.batch = shared.take<uint32_t>(kColumns);
    room.target = shared.take<float*>(kColumns);
    room.staged = shared.take<float>(plan.columns * plan.stride);
    room.exact = shared.take<double>(P);
    room.inverse = shared.take<double>(P);
    room.similarity = shared.take<float>(P);
    room.score = shared.take<float>(P);
    room.length = shared.take<float>(P);
    room.row = shared.take<uint32_t>(P);
    room.exponent = shared.take<int16_t>(P);
    room.slot = shared.take<uint16_t>(P);
    room.list = shared.take<uint16_t>(P);
    room.epoch = shared.take<uint8_t>(P);
    room.selected = shared.take<uint8_t>(P);
    room.order = shared.take<uint32_t>(K);
    room.dots = shared.take<double>(K + 1);
    room.factors = shared.take<float>(K);
    room.coefficients = shared.take<double>(K);
    room.support = shared.take<uint32_t>(K);
    Simplex& simplex = room.simplex;
    simplex.state = shared.take<SimplexState>(1);
    simplex.linear = shared.take<double>(K);
    simplex.weights = shared.take<double>(K);
    simplex.forward_linear = shared.take<double>(K);
    simplex.forward_ones = shared.take<double>(K);
    simplex.solution = shared.take<double>(K);
    simplex.gradient = shared.take<double>(K);
    simplex.work = shared.take<double>(K);
    simplex.active = shared.take<uint32_t>(K);
    simplex.inside = shared.take<uint8_t>(K);
    simplex.barred = shared.take<uint8_t>(K);
    simplex.leading = Simplex::leading_for(K);
    const unsigned matrix = K * simplex.leading;
    if (K <= kSharedMatrices) {
        simplex.hessian = shared.take<double>(matrix);
        simplex.factor = shared.take<double>(matrix);
    } else {
        simplex.hessian = global.take<double>(matrix);
        simplex.factor = global.take<double>(matrix);
    }
    room.residual = global.take<double>(plan.stride);
    room.column_store = global.take<float>(plan.slots * P);
    return room;
}
