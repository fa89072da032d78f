#include "memory.h"

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

#include "block.h"

namespace emu {
namespace {

constexpr unsigned char kPoison = 0xff;

struct Region {
    unsigned char* mapping;
    size_t mapped;
    size_t bytes;
};

std::mutex regions_lock;
std::map<uintptr_t, Region>& regions() {
    static std::map<uintptr_t, Region> all;
    return all;
}

size_t page() {
    static const size_t size = size_t(sysconf(_SC_PAGESIZE));
    return size;
}

size_t round_up(size_t value, size_t to) {
    return (value + to - 1) / to * to;
}

struct sigaction previous;

// Runs on the stack of the fiber that faulted, so that fail() can leave it as it leaves any other.
void on_fault(int signal, siginfo_t* info, void*) {
    if (!inside_kernel()) {
        sigaction(signal, &previous, nullptr);  // not ours: the fault repeats under the old handler
        return;
    }
    auto address = reinterpret_cast<uintptr_t>(info->si_addr);
    static thread_local char what[160];
    std::snprintf(what, sizeof what, "an access outside every buffer");
    // No lock: the faulting thread is in a kernel, hence not in the allocator.
    auto after = regions().upper_bound(address);
    if (after != regions().begin()) {
        auto& [start, region] = *std::prev(after);
        if (address < start + round_up(region.bytes, 16) + page()) {
            std::snprintf(what, sizeof what, "an access %zu bytes past the end of a buffer of %zu bytes",
                          size_t(address - start - region.bytes), region.bytes);
        }
    }
    fail(what);
}

}  // namespace

unsigned char* guarded_allocate(size_t bytes) {
    size_t padded = round_up(bytes, 16);
    size_t mapped = round_up(padded, page()) + 2 * page();
    void* mapping = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) return nullptr;
    auto first = static_cast<unsigned char*>(mapping);
    mprotect(first, page(), PROT_NONE);
    mprotect(first + mapped - page(), page(), PROT_NONE);
    unsigned char* memory = first + mapped - page() - padded;
    std::memset(memory, kPoison, padded);
    std::lock_guard<std::mutex> held(regions_lock);
    regions()[reinterpret_cast<uintptr_t>(memory)] = {first, mapped, bytes};
    return memory;
}

bool guarded_free(unsigned char* memory) {
    std::lock_guard<std::mutex> held(regions_lock);
    auto found = regions().find(reinterpret_cast<uintptr_t>(memory));
    if (found == regions().end()) return memory == nullptr;
    Region region = found->second;
    bool intact = true;
    for (size_t at = region.bytes; at < round_up(region.bytes, 16); at++) intact &= memory[at] == kPoison;
    regions().erase(found);
    munmap(region.mapping, region.mapped);
    return intact;
}

void install_fault_handler() {
    static std::once_flag once;
    std::call_once(once, [] {
        struct sigaction action = {};
        action.sa_sigaction = on_fault;
        action.sa_flags = SA_SIGINFO | SA_NODEFER;  // fail() never returns from the handler
        sigaction(SIGSEGV, &action, &previous);
    });
}

}  // namespace emu
