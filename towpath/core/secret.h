// Secret: text that must not be printed: a key, a password, a token.
//
// It does not convert to text, and what describes it says "***": to get at the bytes one has to say
// reveal(), which is easy to find in a review. Its memory is overwritten when it dies.
// Thread: immutable.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include <string.h>  // explicit_bzero is of no C++ header

namespace towpath {

class Secret {
 public:
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  Secret(const Secret&) = default;
  Secret(Secret&& other) noexcept {
    text_.swap(other.text_);
    other.wipe();
  }
  Secret& operator=(Secret other) noexcept {
    std::swap(text_, other.text_);
    return *this;
  }
  ~Secret() { wipe(); }

  const std::string& reveal() const noexcept { return text_; }
  bool empty() const noexcept { return text_.empty(); }

 private:
  void wipe() noexcept {
    text_.resize(text_.capacity());  // a short text that was moved away is still in there
    ::explicit_bzero(text_.data(), text_.size());  // which the compiler may not leave out
    text_.clear();
  }

  std::string text_;
};

/// "***", or "" for none: whether there is one is no secret.
inline std::string_view to_string(const Secret& secret) noexcept {
  return secret.empty() ? "" : "***";
}

}  // namespace towpath
