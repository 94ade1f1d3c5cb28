// Raised: a flag that is true for as long as this lives, also where memory runs out meanwhile.
// Thread: that of the flag.
#pragma once

namespace towpath::backend {

class Raised {
 public:
  /// `flag` outlives it.
  explicit Raised(bool& flag) noexcept : flag_(flag) { flag_ = true; }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;
  ~Raised() { flag_ = false; }

 private:
  bool& flag_;
};

}  // namespace towpath::backend
