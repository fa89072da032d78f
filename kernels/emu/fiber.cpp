#include "fiber.h"

#include <cstdint>

#if defined(__x86_64__)

// swapcontext() asks the kernel for the signal mask at every switch, which costs more than all the rest.
// The System V ABI keeps rbx, rbp, r12 to r15 across calls; everything else is dead at a call.
extern "C" void emu_switch_stacks(void** save, void* load);
asm(R"(
.text
.globl emu_switch_stacks
.hidden emu_switch_stacks
.type emu_switch_stacks, @function
emu_switch_stacks:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emu_switch_stacks, . - emu_switch_stacks
)");

namespace emu {

void fiber_prepare(Fiber& fiber, char* stack, size_t size, void (*entry)()) {
    auto top = reinterpret_cast<void**>(reinterpret_cast<uintptr_t>(stack + size) & ~uintptr_t(15));
    *--top = nullptr;                           // where entry would return to; keeps the stack 8 off 16 at entry
    *--top = reinterpret_cast<void*>(entry);    // popped by ret
    for (int saved = 0; saved < 6; saved++) *--top = nullptr;
    fiber.stack_pointer = top;
}

void fiber_switch(Fiber& from, Fiber& to) {
    emu_switch_stacks(&from.stack_pointer, to.stack_pointer);
}

}  // namespace emu

#else

namespace emu {

void fiber_prepare(Fiber& fiber, char* stack, size_t size, void (*entry)()) {
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = stack;
    fiber.context.uc_stack.ss_size = size;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, entry, 0);
}

void fiber_switch(Fiber& from, Fiber& to) {
    swapcontext(&from.context, &to.context);
}

}  // namespace emu

#endif
