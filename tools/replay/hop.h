// Hop: one of the ways that bytes go in a replay, and what it cost: a value that travels with the
// summary of its process.
// Thread: none of its own.
#pragma once

#include <cstdint>
#include <string>

#include <towpath/agent/transfer.h>

#include "tools/replay/message.h"
#include "tools/replay/spread.h"
#include "tools/replay/timeline.h"

namespace towpath::tools::replay {

class Hop {
 public:
  void add(std::uint64_t bytes, Duration time);
  /// Counts what the backend says it moved, and remembers the way that the bytes took.
  Status add(const agent::Transfer& transfer);
  /// What another process of this machine moved on the same way.
  void add(const Hop& other);
  void set_path(std::string path) { path_ = std::move(path); }

  std::uint64_t bytes() const { return bytes_; }
  const Spread& times() const { return times_; }  ///< of each of its moves
  const Timeline& bytes_over_time() const { return over_time_; }
  const std::string& path() const { return path_; }
  double gigabytes_per_second() const;

  void put(Message& message, const std::string& name) const;
  static Hop from(const Message& message, const std::string& name);

 private:
  std::uint64_t bytes_ = 0;
  Spread times_;
  Timeline over_time_;
  std::string path_;
};

}  // namespace towpath::tools::replay
