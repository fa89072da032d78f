// How blocks run here: every CUDA thread is a fiber, and a fiber runs until it meets others at a barrier or a warp
// primitive. Between two meetings each thread thus runs undisturbed, in an order that the launch chooses; a missing
// barrier shows as a wrong result in at least one order.
//
// Stricter than a card. The launch fails, and says where, when
// * threads of one block meet at barriers of different lines, or lanes of a warp at different primitives,
// * nobody can go on (some wait for threads that have returned or wait elsewhere),
// * a buffer's or the shared memory's bounds are left (emu/memory.h),
// * a warp primitive is called with fewer than all lanes.
// Shared memory starts as 0xFF bytes, not as what the last block left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace emu {

constexpr int kWarp = 32;

struct Index {
    unsigned x, y, z;
};

// What a kernel may know of the thread and the block that it runs in.
struct ThreadView {
    Index index;
    unsigned linear;
};
struct BlockView {
    Index index, size, grid;
    unsigned char* shared;
};
const ThreadView& thread();
const BlockView& block();
inline int lane() {
    return int(thread().linear % kWarp);
}

// Waits for all threads of the block that have not returned.
void block_barrier(int line);

// Waits for all lanes of the warp; returns what each of the 32 brought. Valid until the warp's next meeting.
const uint64_t* warp_exchange(unsigned mask, const char* primitive, int line, uint64_t value);

// Ends the launch with this message; does not return to the kernel.
[[noreturn]] void fail(const char* what);

// True on the fiber of a CUDA thread.
bool inside_kernel();

template <class T>
T shuffle(unsigned mask, const char* primitive, int line, T value, int source) {
    static_assert(sizeof(T) <= sizeof(uint64_t), "a shuffle moves at most 8 bytes");
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof value);
    const uint64_t* lanes = warp_exchange(mask, primitive, line, bits);
    std::memcpy(&value, &lanes[source % kWarp], sizeof value);
    return value;
}

// The order in which threads of a block run between two meetings.
// WarpByWarp lets a warp run as far as it can before the next one starts.
enum class Order : unsigned { Ascending = 0, Descending = 1, Shuffled = 2, WarpByWarp = 3 };

struct Launch {
    Index grid, size;
    size_t shared_bytes;
    Order order;
    uint64_t seed;                  // of the shuffled order, which changes from meeting to meeting
    void (*body)(void** arguments);
    void** arguments;
};

// Runs a launch to its end. Empty on success, else what went wrong and where.
const char* run(const Launch& launch);

}  // namespace emu
