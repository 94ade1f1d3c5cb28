// Admission: which blocks are worth the wear of a tier below. A block that was seen only once will
// most likely never be seen again: with `min_accesses` 2 it is demoted when it is used for the
// second time. Being registered is to be seen, and so is being matched. How often is an estimate
// that may be too high (FrequencySketch), and fades. Thread: any.
#pragma once

#include <cstdint>

#include <towpath/kv/eviction/frequency_sketch.h>
#include <towpath/kv/tiers/tiered_cache.h>
#include <towpath/run/mutex.h>

namespace towpath::kv {

class Admission {
 public:
  Admission(const AdmissionOptions& options, SlotId slots) : options_(options), seen_(slots) {}

  void see(BlockHash hash) {
    if (options_.min_accesses <= 1) return;
    const run::MutexLock lock(mutex_);
    (void)seen_.count(hash);
  }
  bool admits(BlockHash hash, std::uint8_t priority) const {
    if (priority < options_.min_priority) return false;
    if (options_.min_accesses <= 1) return true;
    const run::MutexLock lock(mutex_);
    return seen_.estimate(hash) >= options_.min_accesses;
  }

 private:
  const AdmissionOptions options_;
  mutable run::Mutex mutex_;
  FrequencySketch seen_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::kv
