// Coroutines: each CUDA thread runs on a stack of its own and gives way by name.
#pragma once

#include <cstddef>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace emu {

// A suspended flow of control.
struct Fiber {
#if defined(__x86_64__)
    void* stack_pointer = nullptr;
#else
    ucontext_t context;
#endif
};

// Makes `fiber` start at `entry` on the given stack. `entry` must not return.
void fiber_prepare(Fiber& fiber, char* stack, size_t size, void (*entry)());

// Suspends the caller into `from` and goes on with `to`.
void fiber_switch(Fiber& from, Fiber& to);

}  // namespace emu
