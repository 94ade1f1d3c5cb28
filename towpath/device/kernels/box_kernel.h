// BoxKernel: what one thread of a GPU does of a copy of boxes. The same text is compiled for GPUs
// (box_kernel_nvptx.cc) and for this machine's own processor, on which the host device and the
// tests run it: so what is tested is what a GPU is given.
//
// It includes nothing, for a compiler for GPUs has no C++ library here. It decides nothing: how
// boxes become launches is box_launch.h's.
//
// A lane is what a thread moves at once: 1 to 16 bytes, which divide everything about a box. Lanes
// are numbered through all boxes of a launch, so neighbouring threads have neighbouring lanes of a
// piece. Divisions are of 32 bits, as those of 64 are slow there; who makes a launch sees to it.
// Thread: any; lanes are independent.
#pragma once

namespace towpath::device::kernel {

using U32 = __UINT32_TYPE__;
using U64 = __UINT64_TYPE__;

inline constexpr U32 kThreads = 256;  ///< of a block of threads
inline constexpr U32 kMaxRank = 8;
inline constexpr U32 kMaxBoxes = 244;

/// Boxes of one shape. All of it travels as the parameters of a launch, of which every GPU takes
/// 4 KiB: so it needs no memory of the device's and no copy before it.
struct BoxLaunch {
  struct Start {
    U64 source, target;
  };

  U32 boxes;
  U32 lane_bytes;
  U32 lanes_per_piece;
  U32 lanes_per_box;  ///< times boxes it is below 2^32
  U32 rank;
  U32 unused;
  U32 extents[kMaxRank];  ///< that of the nearest bytes first
  U64 source_strides[kMaxRank];
  U64 target_strides[kMaxRank];
  Start starts[kMaxBoxes];
};
static_assert(sizeof(BoxLaunch) == 4088 && alignof(BoxLaunch) == 8);

/// Which of the threads this is.
struct ThreadPlace {
  U32 block, thread, blocks;
};

// Bytes of whatever type lie there.
typedef U32 Lane16 __attribute__((vector_size(16), may_alias));
typedef U64 Lane8 __attribute__((may_alias));
typedef U32 Lane4 __attribute__((may_alias));
typedef __UINT16_TYPE__ Lane2 __attribute__((may_alias));
typedef __UINT8_TYPE__ Lane1 __attribute__((may_alias));

template <class Lane>
inline void move_lane(const BoxLaunch::Start& at) {
  *reinterpret_cast<Lane*>(at.target) = *reinterpret_cast<const Lane*>(at.source);
}

inline BoxLaunch::Start place_of(const BoxLaunch& launch, U32 lane) {
  const U32 box = lane / launch.lanes_per_box;
  const U32 in_box = lane - box * launch.lanes_per_box;
  U32 rest = in_box / launch.lanes_per_piece;
  const U64 in_piece = U64{in_box - rest * launch.lanes_per_piece} * launch.lane_bytes;
  U64 source = launch.starts[box].source + in_piece;
  U64 target = launch.starts[box].target + in_piece;
  for (U32 i = 0; i < launch.rank; ++i) {
    const U32 next = rest / launch.extents[i];
    const U64 index = rest - next * launch.extents[i];
    source += index * launch.source_strides[i];
    target += index * launch.target_strides[i];
    rest = next;
  }
  return {source, target};
}

inline void run_thread(const BoxLaunch& launch, const ThreadPlace& me) {
  const U64 lanes = U64{launch.boxes} * launch.lanes_per_box;
  const U64 step = U64{me.blocks} * kThreads;
  for (U64 lane = U64{me.block} * kThreads + me.thread; lane < lanes; lane += step) {
    const BoxLaunch::Start at = place_of(launch, static_cast<U32>(lane));
    switch (launch.lane_bytes) {
      case 16: move_lane<Lane16>(at); break;
      case 8: move_lane<Lane8>(at); break;
      case 4: move_lane<Lane4>(at); break;
      case 2: move_lane<Lane2>(at); break;
      default: move_lane<Lane1>(at); break;
    }
  }
}

}  // namespace towpath::device::kernel
