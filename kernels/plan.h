// What the host hands to the selector, what it gets back, and how a block lays out its memory.
// src/pursuit/cuda/layout.rs holds the same structures in Rust; keep the two alike.
#pragma once

#include "reduce.h"


// Candidates that a pool may have, and steps that it may be asked for.
constexpr unsigned kMaxCandidates = 1024;
constexpr unsigned kMaxBudget = 128;
// Columns of the Gram matrix that one pass over a pool computes at most, and rows that a warp reads together.
constexpr unsigned kColumns = 4;
constexpr unsigned kRows = 4;
// Up to this budget the two matrices of the refit lie in shared memory.
constexpr unsigned kSharedMatrices = 32;

// One pool. Rows and query end with zeros up to the stride.
struct Task {
    const void* rows;       // of the store, [N, stride]
    const float* query;     // [stride]
    const uint32_t* index;  // row of each candidate, [count]; null: candidate i is row i
    uint32_t count;         // P
    uint32_t reserved;
};

// Why a pool was refused. The row is 0 for the query, 1 + i for candidate i; the first such row is reported.
enum Fault : uint32_t { kNone = 0, kNotFinite = 1, kZero = 2 };

// A pool's answer beside its lists. Steps count from 1; 0 stands for never.
struct Outcome {
    uint32_t fault;
    uint32_t fault_row;
    uint32_t selected;
    uint32_t optimum;   // steps after which the certificate was known to be 0
    uint32_t stopped;   // steps after which the adaptive stop fired
    uint32_t passes;    // reads of the whole pool
    uint32_t settled;   // candidates whose score was computed in float64
    uint32_t reserved;
};

// One step, after its refit; see pursuit::Step.
struct StepTrace {
    double residual, objective, reduction, nu, certificate;
};

// The whole launch.
struct Plan {
    const Task* tasks;         // [pools]
    unsigned char* workspace;  // [blocks, workspace_bytes]
    uint32_t* next;            // the first pool that no block has taken; starts at 0
    Outcome* outcomes;         // [pools]
    uint32_t* order;           // [pools, budget]
    double* scores;            // [pools, budget]
    double* weights;           // [pools, budget]
    StepTrace* trace;          // [pools, budget], or null
    double* trace_weights;     // [pools, budget, budget] with a trace
    uint64_t workspace_bytes;  // of one block, a multiple of 16
    double ridge;              // lambda
    double tolerance;          // of the adaptive stop
    uint32_t pools;
    uint32_t budget;           // K, 1 to kMaxBudget
    uint32_t capacity;         // P of the largest pool, 1 to kMaxCandidates
    uint32_t stride;           // elements from row to row; rows start at multiples of 16 bytes
    uint32_t columns;          // of a pass, 1 to kColumns
    uint32_t slots;            // columns that a block can keep
    uint32_t patience;         // of the adaptive stop; 0: no such stop
    uint32_t normalize;        // 0: vectors are taken as they are
};
