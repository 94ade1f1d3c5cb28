// Admission: which blocks are worth the wear of a tier below. A block that was seen only once will
// most likely never be seen again: with `sightings` 2 it goes down when it is seen for the second
// time. Being registered is to be seen, and so is being matched. How often is an estimate that may
// be too high (FrequencySketch), and fades. Thread: any.
#pragma once

#include <cstdint>

#include <towpath/kv/eviction/frequency_sketch.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

struct AdmissionOptions {
  std::uint64_t sightings = 1;    ///< 1: all blocks; at most FrequencySketch::kMost
  std::uint8_t min_priority = 0;  ///< what is less urgent never goes down
};

class Admission {
 public:
  Admission(const AdmissionOptions& options, SlotId slots) : options_(options), seen_(slots) {}

  void see(BlockHash hash) {
    if (options_.sightings <= 1) return;
    const run::MutexLock lock(mutex_);
    (void)seen_.count(hash);
  }
  bool admits(BlockHash hash, std::uint8_t priority) const {
    if (priority < options_.min_priority) return false;
    if (options_.sightings <= 1) return true;
    const run::MutexLock lock(mutex_);
    return seen_.estimate(hash) >= options_.sightings;
  }

 private:
  const AdmissionOptions options_;
  mutable run::Mutex mutex_;
  FrequencySketch seen_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::kv
