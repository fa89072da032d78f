// The emulator and all kernels as one library with a C interface, in one translation unit.
#include "block.cpp"
#include "fiber.cpp"
#include "memory.cpp"

#include "cuda.h"

#include "../pursuit.cu"
#include "selftest.h"

namespace {

// Calls a kernel with its arguments as cuLaunchKernel takes them: a pointer to each.
template <auto kernel>
struct Entry;
template <class... Arguments, void (*kernel)(Arguments...)>
struct Entry<kernel> {
    static void call(void** arguments) {
        [&]<size_t... k>(std::index_sequence<k...>) {
            kernel(*static_cast<std::remove_const_t<Arguments>*>(arguments[k])...);
        }(std::index_sequence_for<Arguments...>{});
    }
};

struct Kernel {
    const char* name;
    void (*body)(void** arguments);
};

#define KERNEL(name) {#name, Entry<name>::call}
constexpr Kernel kKernels[] = {
    KERNEL(pursue_f32),     KERNEL(pursue_f16),       KERNEL(pursue_bf16),       KERNEL(neighbour),
    KERNEL(warp_neighbour), KERNEL(warp_primitives),  KERNEL(divergent_barrier), KERNEL(divergent_warp),
    KERNEL(deadlock),       KERNEL(early_return),     KERNEL(touch),             KERNEL(shared_touch),
    KERNEL(queue),
};

}  // namespace

extern "C" {

// Runs a kernel. 0 on success; else `message` says what went wrong.
int emu_launch(const char* kernel, unsigned grid, unsigned threads, size_t shared_bytes, void** arguments,
               unsigned order, uint64_t seed, char* message, size_t room) {
    const char* fault = "no kernel of this name";
    for (const Kernel& known : kKernels) {
        if (std::strcmp(known.name, kernel) != 0) continue;
        fault = emu::run({{grid, 1, 1}, {threads, 1, 1}, shared_bytes, emu::Order(order), seed, known.body, arguments});
    }
    std::snprintf(message, room, "%s", fault);
    return *fault != 0;
}

void* emu_allocate(size_t bytes) {
    return emu::guarded_allocate(bytes);
}

// 0 where the bytes between the buffer's end and its guard were written to.
int emu_free(void* memory) {
    return emu::guarded_free(static_cast<unsigned char*>(memory));
}
}
