// Device memory whose bounds are guarded: a byte too far is a fault at the instruction that touched it.
#pragma once

#include <cstddef>

namespace emu {

// `bytes` of memory filled with 0xFF (NaN in every float format), aligned to 16, ending at a page that cannot be
// touched and beginning after one; what lies between the end and a multiple of 16 is checked when it is freed.
unsigned char* guarded_allocate(size_t bytes);

// Gives it back. False where somebody wrote between the end and the guard.
bool guarded_free(unsigned char* memory);

// From here on a bad access in a fiber is reported through emu::fail().
void install_fault_handler();

}  // namespace emu
