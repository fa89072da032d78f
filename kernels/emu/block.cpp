#include "block.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "fiber.h"
#include "memory.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace emu {
namespace {

constexpr size_t kStack = 256 * 1024;
constexpr unsigned kMaxThreads = 1024;
constexpr size_t kMaxShared = 227 * 1024;
// Blocks that run at a time, in turns: enough for a kernel's blocks to meet in global memory.
constexpr unsigned kResident = 3;

enum class State { Ready, AtBarrier, AtWarp, Returned };

struct Thread : ThreadView {
    Fiber fiber;
    State state = State::Ready;
    int line = 0;
};

// One warp's meetings. Two sets of slots: a lane may bring to the next meeting before another has read this one.
struct Warp {
    uint64_t slots[2][kWarp];
    int generation = 0;
    int arrived = 0;
    const char* primitive = nullptr;
    int line = 0;
};

struct Block : BlockView {
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<unsigned> order;
    char* stacks = nullptr;
    unsigned running = 0;       // threads that have not returned
    unsigned at_barrier = 0;
    int barrier_line = 0;

    ~Block() {
        if (stacks) forget_stacks();
        guarded_free(shared);
    }

    void forget_stacks() {
#ifdef __SANITIZE_ADDRESS__
        // Fibers are left, not unwound; the addresses may serve another mapping next.
        __asan_unpoison_memory_region(stacks, kStack * threads.size());
#endif
        munmap(stacks, kStack * threads.size());
    }
};

struct Machine {
    const Launch* launch = nullptr;
    Fiber scheduler;
    Block* block = nullptr;
    Thread* thread = nullptr;
    bool failed = false;
    char message[320];
};
thread_local Machine machine;

void give_way() {
    fiber_switch(machine.thread->fiber, machine.scheduler);
}

void thread_entry() {
    machine.launch->body(machine.launch->arguments);
    Block& block = *machine.block;
    machine.thread->state = State::Returned;
    block.running--;
    for (;;) give_way();
}

void release_barrier(Block& block) {
    block.at_barrier = 0;
    for (Thread& thread : block.threads)
        if (thread.state == State::AtBarrier) thread.state = State::Ready;
}

std::unique_ptr<Block> start_block(const Launch& launch, unsigned linear) {
    auto block = std::make_unique<Block>();
    unsigned count = launch.size.x * launch.size.y * launch.size.z;
    block->index = {linear % launch.grid.x, linear / launch.grid.x % launch.grid.y,
                    linear / (launch.grid.x * launch.grid.y)};
    block->size = launch.size;
    block->grid = launch.grid;
    block->shared = guarded_allocate(launch.shared_bytes);
    block->threads.resize(count);
    block->warps.resize(count / kWarp);
    block->order.resize(count);
    std::iota(block->order.begin(), block->order.end(), 0u);
    if (launch.order == Order::Descending) std::reverse(block->order.begin(), block->order.end());
    block->running = count;
    void* stacks = mmap(nullptr, kStack * count, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    block->stacks = stacks == MAP_FAILED ? nullptr : static_cast<char*>(stacks);
    if (!block->stacks || !block->shared) return nullptr;
    for (unsigned k = 0; k < count; k++) {
        Thread& thread = block->threads[k];
        thread.linear = k;
        thread.index = {k % launch.size.x, k / launch.size.x % launch.size.y, k / (launch.size.x * launch.size.y)};
        fiber_prepare(thread.fiber, block->stacks + kStack * k, kStack, thread_entry);
    }
    return block;
}

void report_deadlock(const Block& block) {
    auto count = [&](State state) {
        return std::count_if(block.threads.begin(), block.threads.end(),
                             [&](const Thread& thread) { return thread.state == state; });
    };
    auto waits = std::find_if(block.threads.begin(), block.threads.end(),
                              [](const Thread& thread) { return thread.state == State::AtWarp; });
    char where[64] = "";
    if (waits != block.threads.end()) {
        std::snprintf(where, sizeof where, " (thread %u, line %d)", waits->linear, waits->line);
    }
    std::snprintf(machine.message, sizeof machine.message,
                  "deadlock in block %u: %ld threads wait at __syncthreads (line %d), %ld at a warp primitive%s, %ld "
                  "have returned",
                  block.index.x, long(count(State::AtBarrier)), block.barrier_line, long(count(State::AtWarp)), where,
                  long(count(State::Returned)));
    machine.failed = true;
}

void report_overrun(const Block& block) {
    std::snprintf(machine.message, sizeof machine.message, "block %u wrote past the end of its shared memory",
                  block.index.x);
    machine.failed = true;
}

// Lets each thread of `order` that can go on run to its next meeting. False where none could.
bool run_once(Block& block, const unsigned* order, unsigned count) {
    bool moved = false;
    for (unsigned k = 0; k < count; k++) {
        Thread& thread = block.threads[order[k]];
        if (thread.state != State::Ready) continue;
        moved = true;
        machine.thread = &thread;
        fiber_switch(machine.scheduler, thread.fiber);
        machine.thread = nullptr;
        if (machine.failed) break;
    }
    return moved;
}

// Gives every thread of the block a turn. False where none could go on.
bool sweep(Block& block, std::mt19937_64& random) {
    machine.block = &block;
    const auto count = unsigned(block.order.size());
    bool moved = false;
    if (machine.launch->order == Order::WarpByWarp) {
        for (unsigned first = 0; first < count; first += kWarp)
            while (!machine.failed && run_once(block, &block.order[first], kWarp)) moved = true;
    } else {
        if (machine.launch->order == Order::Shuffled) std::shuffle(block.order.begin(), block.order.end(), random);
        moved = run_once(block, block.order.data(), count);
    }
    if (machine.failed) return true;
    // Threads that have returned no longer hold the others up.
    if (block.running && block.at_barrier == block.running) release_barrier(block);
    return moved;
}

}  // namespace

const ThreadView& thread() {
    return *machine.thread;
}

const BlockView& block() {
    return *machine.block;
}

bool inside_kernel() {
    return machine.thread != nullptr;
}

void fail(const char* what) {
    std::snprintf(machine.message, sizeof machine.message, "%s (block %u, thread %u)", what, machine.block->index.x,
                  machine.thread->linear);
    machine.failed = true;
    for (;;) give_way();
}

void block_barrier(int line) {
    Block& block = *machine.block;
    if (block.at_barrier && block.barrier_line != line) {
        char what[128];
        std::snprintf(what, sizeof what, "divergent barrier: __syncthreads at line %d while others wait at line %d",
                      line, block.barrier_line);
        fail(what);
    }
    block.barrier_line = line;
    block.at_barrier++;
    machine.thread->state = State::AtBarrier;
    machine.thread->line = line;
    give_way();
}

const uint64_t* warp_exchange(unsigned mask, const char* primitive, int line, uint64_t value) {
    if (mask != 0xffffffffu) fail("a warp primitive with a partial mask, which the emulator does not imitate");
    Block& block = *machine.block;
    unsigned linear = machine.thread->linear;
    Warp& warp = block.warps[linear / kWarp];
    if (warp.arrived && (warp.line != line || std::strcmp(warp.primitive, primitive) != 0)) {
        char what[160];
        std::snprintf(what, sizeof what, "divergent warp: %s at line %d while other lanes wait in %s at line %d",
                      primitive, line, warp.primitive, warp.line);
        fail(what);
    }
    warp.primitive = primitive;
    warp.line = line;
    uint64_t* slots = warp.slots[warp.generation & 1];
    slots[linear % kWarp] = value;
    if (++warp.arrived < kWarp) {
        machine.thread->state = State::AtWarp;
        machine.thread->line = line;
        give_way();
    } else {
        warp.arrived = 0;
        warp.generation++;
        for (unsigned k = linear / kWarp * kWarp; k < (linear / kWarp + 1) * kWarp; k++)
            if (block.threads[k].state == State::AtWarp) block.threads[k].state = State::Ready;
    }
    return slots;
}

const char* run(const Launch& launch) {
    machine.failed = false;
    machine.message[0] = 0;
    unsigned count = launch.size.x * launch.size.y * launch.size.z;
    unsigned blocks = launch.grid.x * launch.grid.y * launch.grid.z;
    if (count == 0 || count > kMaxThreads || count % kWarp || blocks == 0) {
        return "a block must be 32 to 1024 threads in whole warps, and a grid one block or more";
    }
    if (launch.shared_bytes > kMaxShared) return "more than 227 KiB of shared memory in a block";
    install_fault_handler();
    machine.launch = &launch;
    std::mt19937_64 random(launch.seed);
    std::vector<std::unique_ptr<Block>> resident;
    unsigned next = 0;
    while (!machine.failed && (next < blocks || !resident.empty())) {
        while (next < blocks && resident.size() < kResident) {
            resident.push_back(start_block(launch, next++));
            if (!resident.back()) return "no memory for the stacks of a block";
        }
        for (auto& block : resident) {
            if (!sweep(*block, random) && block->running) report_deadlock(*block);
            if (machine.failed) break;
        }
        for (auto& block : resident) {
            if (machine.failed || block->running) continue;
            if (!guarded_free(std::exchange(block->shared, nullptr))) report_overrun(*block);
            block.reset();
        }
        resident.erase(std::remove(resident.begin(), resident.end(), nullptr), resident.end());
    }
    machine.block = nullptr;
    machine.thread = nullptr;
    return machine.message;
}

}  // namespace emu
