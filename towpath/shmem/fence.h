// Fences, in a form that ThreadSanitizer follows: it does not know std::atomic_thread_fence, and
// g++ refuses to compile one under it. There, all fences meet at one word, which orders more than
// asked: what TSan then reports is a race all the same.
//
// It knows words by address, too. Threads that act as PEs have a mapping of the segment each, so an
// order that comes by another PE's mapping, or by UCX, is none to it. Where a PE and its transport
// (the thread that brings what other hosts send) meet by such a way, both fence: free on x86-64,
// where these orders cost no instruction. Thread: any.
#pragma once

#include <atomic>

namespace towpath::shmem {

#if defined(__SANITIZE_THREAD__)
inline std::atomic<unsigned> fences{0};
inline void thread_fence(std::memory_order) noexcept {
  fences.fetch_add(1, std::memory_order_seq_cst);
}
#else
inline void thread_fence(std::memory_order order) noexcept { std::atomic_thread_fence(order); }
#endif

}  // namespace towpath::shmem
