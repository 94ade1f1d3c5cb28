// The memory of heaps, as one PE maps it: where, in which pages, near which processors.
//
// A heap's bytes are a memfd of the job (job.h); how they are laid out is heap.h's.
// Thread: immutable.
#pragma once

#include <span>

#include <towpath/shmem/job.h>

namespace towpath::shmem {

struct MapHeap {
  int fd = -1;
  /// Where to map it if nothing else is there; null: anywhere.
  void* at = nullptr;
};

/// As the job's segment has it: begins where a huge page may, if those are wanted.
/// Errors: sys::check_sealed()'s and Mapping::of_file()'s.
Result<sys::Mapping> map_heap(const JobHeader& job, const MapHeap& heap);

/// Wishes the pages that the job wants for all of `heaps`, and the node for the one of this PE.
/// Before anybody has touched it: the memfd keeps its node for all who map it.
/// Errors: sys::place_memory()'s (a node that is required).
Result<memory::Placement> place_heaps(const JobHeader& job, std::span<const sys::Mapping> heaps,
                                      ByteSpan mine, const HeapPages& pages);

}  // namespace towpath::shmem
