// The refit by one warp: ridge least squares on the simplex, exactly, by a primal active set.
//
//     minimise 1/2 a'(G + lambda I)a - b'a   over a >= 0, sum(a) = 1
//
// The device twin of src/pursuit/simplex.rs; the reasons for the method stand there. The factor kept from step to
// step is the Cholesky factor of G + lambda I + c 11' over the active (positive) weights, c the first memory's
// squared norm: on the simplex the added term is a constant, and with it the matrix is singular only where the
// minimiser is not unique.
//
// All lanes follow one control flow: scalars come out of warp_sum(), which gives every lane the same bits. Vectors
// and matrices lie in memory and are dealt to the lanes by index.
#pragma once

#include "reduce.h"

// A variable enters where its multiplier exceeds this, relative to the largest diagonal.
constexpr double kEnter = 1e-14;
// Squared pivots are held at this, relative to the diagonal.
constexpr double kPivot = 2e-14;

struct SimplexState {
    double multiplier;  // of the solution, in the shifted problem
    double shift;       // c
    double scale;       // largest diagonal so far, at least 1
    uint32_t count;     // n: variables
    uint32_t active;    // m: those in the factor
};

// The growing problem and its solution: where they lie. n counts variables, m the active ones.
struct Simplex {
    SimplexState* state;
    double* linear;          // b, [n]
    double* weights;         // a, [n]
    double* forward_linear;  // L^-1 b, [m]
    double* forward_ones;    // L^-1 1, [m]
    double* solution;        // on the active variables, [m]
    double* gradient;        // b - Ha of every variable for that solution, [n]
    double* work;
    uint32_t* active;        // variables in the order of the factor's rows, [m]
    uint8_t* inside;         // whether a variable is active, [n]
    uint8_t* barred;         // entered and had to leave at once; not again until the solution moves
    double* hessian;         // H = G + lambda I + c, [n, leading]
    double* factor;          // L transposed: factor[k * leading + i] = L[i][k], i >= k
    unsigned leading;

    // Odd, so that walking down a column meets every bank of shared memory.
    static __device__ __host__ constexpr unsigned leading_for(unsigned capacity) { return capacity | 1; }

    __device__ void reset(double first_square) const {
        if (lane() == 0) *state = {0.0, first_square, 1.0, 0, 0};
        __syncwarp();
    }

    // nu: the common value of b - (G + lambda I)a on the active variables.
    __device__ double nu() const { return state->multiplier + state->shift; }

    // Appends a variable and solves again. `gram` holds the new memory's products with those before it and with
    // itself, [n + 1]; `product` the one with the query. False where the weights stay as they were.
    __device__ bool push(const double* gram, double product, double ridge) const {
        const unsigned n = state->count;
        const double shift = state->shift;
        const double diagonal = gram[n] + ridge + shift;
        for (unsigned j = lane(); j < n; j += kLanes) {
            const double value = gram[j] + shift;
            hessian[n * leading + j] = value;
            hessian[j * leading + n] = value;
        }
        double gradient_here = 0.0;
        for (unsigned k = lane(); k < state->active; k += kLanes) {
            gradient_here += (gram[active[k]] + shift) * weights[active[k]];
        }
        gradient_here = product - warp_sum(gradient_here);
        const double multiplier = state->multiplier;
        __syncwarp();
        if (lane() == 0) {
            hessian[n * leading + n] = diagonal;
            linear[n] = product;
            weights[n] = 0.0;
            inside[n] = 0;
            state->scale = fmax(state->scale, diagonal);
            state->count = n + 1;
        }
        __syncwarp();
        if (n == 0) {
            enter(0);
            solve();
            if (lane() == 0) weights[0] = 1.0;
            __syncwarp();
            return true;
        }
        if (!(gradient_here - multiplier > kEnter * state->scale)) return false;
        enter(n);
        optimise();
        return true;
    }

  private:
    static __device__ unsigned lane() { return threadIdx.x % kLanes; }

    __device__ double dot(const double* a, const double* b, unsigned count) const {
        double sum = 0.0;
        for (unsigned k = lane(); k < count; k += kLanes) sum += a[k] * b[k];
        return warp_sum(sum);
    }

    // Active-set iterations from a feasible point until no variable wants to enter.
    __device__ void optimise() const {
        const unsigned n = state->count;
        allow_all(n);
        // Only rounding in degenerate problems could make an active set come back; the cap bounds that.
        for (unsigned iteration = 0; iteration < 50 * (n + 2); iteration++) {
            solve();
            const unsigned m = state->active;
            unsigned position;
            double step;
            if (m > 1 && blocking(position, step)) {
                for (unsigned k = lane(); k < m; k += kLanes) {
                    const double weight = weights[active[k]];
                    weights[active[k]] = k == position ? 0.0 : fmax(weight + step * (solution[k] - weight), 0.0);
                }
                const unsigned variable = active[position];
                if (step > 0.0) {
                    allow_all(n);
                } else if (lane() == 0) {
                    barred[variable] = 1;
                }
                __syncwarp();
                leave(position);
            } else {
                for (unsigned k = lane(); k < m; k += kLanes) weights[active[k]] = solution[k];
                __syncwarp();
                unsigned variable;
                if (!entering(variable)) return;
                enter(variable);
            }
        }
    }

    __device__ void allow_all(unsigned n) const {
        for (unsigned k = lane(); k < n; k += kLanes) barred[k] = 0;
        __syncwarp();
    }

    // The first active variable to reach 0 on the way to the solution, and the step at which it does.
    __device__ bool blocking(unsigned& position, double& step) const {
        double least = INFINITY;
        unsigned first = UINT32_MAX;
        for (unsigned k = lane(); k < state->active; k += kLanes) {
            const double from = weights[active[k]], to = solution[k];
            if (!(to <= 0.0)) continue;
            const double reach = from > 0.0 ? from / (from - to) : 0.0;
            if (reach < least) {
                least = reach;
                first = k;
            }
        }
        lowest(least, first);
        position = first;
        step = least;
        return first != UINT32_MAX;
    }

    // The inactive variable with the largest multiplier, where that calls for it to enter.
    __device__ bool entering(unsigned& variable) const {
        double least = -kEnter * state->scale;  // of the negated multipliers
        unsigned first = UINT32_MAX;
        for (unsigned k = lane(); k < state->count; k += kLanes) {
            const double negated = state->multiplier - gradient[k];
            if (!inside[k] && !barred[k] && negated < least) {
                least = negated;
                first = k;
            }
        }
        lowest(least, first);
        variable = first;
        return first != UINT32_MAX;
    }

    // The smallest (value, index) over the lanes.
    static __device__ void lowest(double& value, unsigned& index) {
#pragma unroll
        for (int flip = kLanes / 2; flip > 0; flip /= 2) {
            const double other_value = __shfl_xor_sync(kWholeWarp, value, flip);
            const unsigned other_index = __shfl_xor_sync(kWholeWarp, index, flip);
            if (other_value < value || (other_value == value && other_index < index)) {
                value = other_value;
                index = other_index;
            }
        }
    }

    // Borders the factor by `variable`.
    __device__ void enter(unsigned variable) const {
        const unsigned m = state->active;
        for (unsigned k = lane(); k < m; k += kLanes) work[k] = hessian[variable * leading + active[k]];
        __syncwarp();
        forward_substitute(m);
        const double diagonal = hessian[variable * leading + variable];
        const double pivot = sqrt(fmax(diagonal - dot(work, work, m), kPivot * diagonal));
        const double right = (linear[variable] - dot(work, forward_linear, m)) / pivot;
        const double one = (1.0 - dot(work, forward_ones, m)) / pivot;
        for (unsigned k = lane(); k < m; k += kLanes) factor[k * leading + m] = work[k];
        if (lane() == 0) {
            factor[m * leading + m] = pivot;
            forward_linear[m] = right;
            forward_ones[m] = one;
            active[m] = variable;
            inside[variable] = 1;
            state->active = m + 1;
        }
        __syncwarp();
    }

    // Takes the active variable at `position` out: its row of L goes, and plane rotations of neighbouring columns
    // make the rest triangular again.
    __device__ void leave(unsigned position) const {
        const unsigned m = state->active;
        __syncwarp();
        for (unsigned column = lane(); column < m; column += kLanes) {
            double* entries = factor + column * leading;
            const unsigned first = column > position + 1 ? column - 1 : position;
            for (unsigned row = first; row + 1 < m; row++) entries[row] = entries[row + 1];
        }
        if (lane() == 0) {
            inside[active[position]] = 0;
            for (unsigned k = position; k + 1 < m; k++) active[k] = active[k + 1];
            state->active = m - 1;
        }
        __syncwarp();
        for (unsigned k = position; k + 1 < m; k++) {
            double* left = factor + k * leading;
            double* right = factor + (k + 1) * leading;
            const double a = left[k], b = right[k];
            const double length = sqrt(a * a + b * b), cosine = a / length, sine = b / length;
            __syncwarp();
            for (unsigned row = k + lane(); row + 1 < m; row += kLanes) rotate(left[row], right[row], cosine, sine);
            if (lane() == 0) {
                rotate(forward_linear[k], forward_linear[k + 1], cosine, sine);
                rotate(forward_ones[k], forward_ones[k + 1], cosine, sine);
            }
            __syncwarp();
        }
    }

    static __device__ void rotate(double& a, double& b, double cosine, double sine) {
        const double old = a;
        a = cosine * old + sine * b;
        b = cosine * b - sine * old;
    }

    // Solves on the active variables without the sign constraint, with refinement until the residual of the
    // optimality conditions is at rounding level; leaves the gradient of every variable behind.
    __device__ void solve() const {
        const unsigned m = state->active;
        const double scale = state->scale;
        const double ones = dot(forward_ones, forward_ones, m);
        double multiplier = (dot(forward_ones, forward_linear, m) - 1.0) / ones;
        for (unsigned k = lane(); k < m; k += kLanes) work[k] = forward_linear[k] - multiplier * forward_ones[k];
        __syncwarp();
        back_substitute(m);
        for (unsigned k = lane(); k < m; k += kLanes) solution[k] = work[k];
        __syncwarp();
        double last = INFINITY;
        // A held pivot corrects by a fixed step a round rather than by a shrinking one, hence the number.
        for (int round = 0; round < 6; round++) {
            double missing;
            const double worst = residual(multiplier, missing);
            if (worst <= 5e-16 * scale || (worst >= last && worst < 1e-13 * scale)) break;
            last = worst;
            forward_substitute(m);
            const double correction = (dot(forward_ones, work, m) - missing) / ones;
            for (unsigned k = lane(); k < m; k += kLanes) work[k] -= correction * forward_ones[k];
            __syncwarp();
            back_substitute(m);
            for (unsigned k = lane(); k < m; k += kLanes) solution[k] += work[k];
            __syncwarp();
            multiplier += correction;
        }
        if (lane() == 0) state->multiplier = multiplier;
        __syncwarp();
    }

    // Refreshes the gradient; leaves the active part of the residual in `work` and returns its largest magnitude,
    // and what the weights lack of 1.
    __device__ double residual(double multiplier, double& missing) const {
        const unsigned n = state->count, m = state->active;
        for (unsigned i = lane(); i < n; i += kLanes) {
            double value = linear[i];
            for (unsigned k = 0; k < m; k++) value -= solution[k] * hessian[active[k] * leading + i];
            gradient[i] = value;
        }
        __syncwarp();
        double sum = 0.0, worst = 0.0;
        for (unsigned k = lane(); k < m; k += kLanes) {
            const double value = gradient[active[k]] - multiplier;
            work[k] = value;
            worst = fmax(worst, fabs(value));
            sum += solution[k];
        }
        missing = 1.0 - warp_sum(sum);
#pragma unroll
        for (int flip = kLanes / 2; flip > 0; flip /= 2) {
            worst = fmax(worst, __shfl_xor_sync(kWholeWarp, worst, flip));
        }
        __syncwarp();
        return fmax(worst, fabs(missing));
    }

    // work <- L^-1 work, column by column: what is known of the solution is taken off the rest at once.
    __device__ void forward_substitute(unsigned m) const {
        for (unsigned k = 0; k < m; k++) {
            const double* column = factor + k * leading;
            const double value = work[k] / column[k];
            __syncwarp();
            if (lane() == 0) work[k] = value;
            for (unsigned i = k + 1 + lane(); i < m; i += kLanes) work[i] -= column[i] * value;
            __syncwarp();
        }
    }

    // work <- L^-T work.
    __device__ void back_substitute(unsigned m) const {
        for (unsigned k = m; k-- > 0;) {
            const double value = work[k] / factor[k * leading + k];
            __syncwarp();
            if (lane() == 0) work[k] = value;
            for (unsigned i = lane(); i < k; i += kLanes) work[i] -= factor[i * leading + k] * value;
            __syncwarp();
        }
    }
};
