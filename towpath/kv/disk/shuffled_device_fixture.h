// ShuffledDevice: a device that keeps what it was given, and does it in an order of chance, some at
// each progress(); at its end it drops what it had not done, as a machine does. For tests only.
// Thread: one.
#pragma once

#include <algorithm>
#include <iterator>
#include <random>
#include <vector>

#include <towpath/sys/file_device.h>

namespace towpath::kv::testing {

class ShuffledDevice final : public sys::FileDevice {
 public:
  explicit ShuffledDevice(std::uint64_t seed) : random_(seed) {}

  void begin(sys::FileRequest& request) override {
    if (is_dead) return request.end(error(Code::io_error, "the machine is dead"));
    waiting_.push_back(&request);
    most_waiting = std::max(most_waiting, waiting_.size());
  }
  void cancel(sys::FileRequest& request) override {
    if (std::erase(waiting_, &request) > 0) request.end(error(Code::cancelled, "a test's"));
  }
  /// Half of what waits, or the last of it.
  bool progress() override {
    std::vector<sys::FileRequest*> kept;
    if (keeps_syncs) {
      std::ranges::copy_if(waiting_, std::back_inserter(kept), is_sync);
      std::erase_if(waiting_, is_sync);
    }
    const bool some = !waiting_.empty();
    for (std::size_t left = (waiting_.size() + 1) / 2; left > 0 && !waiting_.empty(); --left) {
      const std::size_t which = in_order ? 0 : random_() % waiting_.size();
      sys::FileRequest& request = *waiting_[which];
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(which));
      if (steps_left == 0) die();
      if (is_dead) {
        request.end(error(Code::io_error, "the machine is dead"));
        continue;
      }
      --steps_left;
      request.end(sys::perform(request));
    }
    waiting_.insert(waiting_.end(), kept.begin(), kept.end());
    return some;
  }
  std::string describe() const override { return "shuffled"; }

  std::uint64_t steps_left = UINT64_MAX;  ///< requests, until it dies
  bool in_order = false;                  ///< what was begun first is done first
  bool keeps_syncs = false;               ///< does none yet
  bool is_dead = false;
  std::size_t most_waiting = 0;

 private:
  static bool is_sync(const sys::FileRequest* one) { return one->kind == sys::FileIo::Kind::sync; }
  void die() {
    is_dead = true;
    for (sys::FileRequest* const one : std::exchange(waiting_, {}))
      one->end(error(Code::io_error, "the machine is dead"));
  }

  std::mt19937_64 random_;
  std::vector<sys::FileRequest*> waiting_;
};

}  // namespace towpath::kv::testing
