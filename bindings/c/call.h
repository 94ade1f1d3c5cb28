// What every function of the C interface needs: a net for exceptions, failures as codes and text,
// options of whatever size the caller has, and arrays that change hands.
//
//   return call(error, given(worker, length), [&] { return worker->value.work(length); });
//
// Thread: any.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>

#include "bindings/c/towpath.h"

namespace towpath::c {

/// Whether all of them point to something.
template <typename... Pointers>
bool given(const Pointers*... pointers) noexcept {
  return ((pointers != nullptr) && ...);
}

/// An array of the caller's; null only when it is empty.
template <typename T>
bool given_array(const T* array, std::size_t count) noexcept {
  return array != nullptr || count == 0;
}

towpath_code_t report(const Status& status, towpath_error_t* error) noexcept;

/// Runs `body`, which returns a Status, if the call is well formed.
template <typename Body>
towpath_code_t call(towpath_error_t* failure, bool well_formed, Body&& body) noexcept {
  try {
    if (well_formed) return report(std::forward<Body>(body)(), failure);
    return report(error(Code::invalid_argument, "a pointer that is needed is null",
                        "towpath.h says which may be"),
                  failure);
  } catch (const std::exception& thrown) {  // memory ran out
    return report(error(Code::exhausted, thrown.what()), failure);
  } catch (...) {
    return report(error(Code::internal, "an exception of no known kind"), failure);
  }
}

/// Errors: invalid_argument (by its size the struct has no field but that: all that its owner set
/// would be taken for not set).
template <typename Struct>
Status check_size(const Struct* of) {
  if (of->size > sizeof of->size) return {};
  return error(Code::invalid_argument, "a struct that does not say its size",
               "begin it with TOWPATH_INIT, or set size to sizeof of it");
}

/// What the caller's struct has of ours; the rest is zero. Errors: as check_size().
template <typename Struct>
Result<Struct> sized(const Struct* from) {
  TOWPATH_TRY(check_size(from));
  Struct whole{};
  std::memcpy(&whole, from, std::min(from->size, sizeof whole));
  return whole;
}

inline std::string text_or_none(const char* text) { return text == nullptr ? "" : text; }

/// A copy that the caller gives back; never null, also of nothing.
template <typename T>
T* give_array(std::span<const T> values) {
  void* copy = std::malloc(std::max<std::size_t>(values.size_bytes(), 1));
  if (copy == nullptr) throw std::bad_alloc();
  if (!values.empty()) std::memcpy(copy, values.data(), values.size_bytes());
  return static_cast<T*>(copy);
}

/// The same of names: pointers, and what they point to behind them.
char** give_names(const std::vector<std::string>& names);

/// What was taken out of a handle's object for the caller. Where memory runs out before he has it,
/// it waits for his next call. Thread: as its handle.
template <typename T>
class Taken {
 public:
  /// `take` gives the next one, unless one waits; `give` hands the caller all of it, or throws.
  template <typename Take, typename Give>
  Status pass_on(Take&& take, Give&& give) {
    if (!value_) value_.emplace(std::forward<Take>(take)());
    const Status status = std::forward<Give>(give)(std::as_const(*value_));
    value_.reset();
    return status;
  }

 private:
  std::optional<T> value_;
};

}  // namespace towpath::c
