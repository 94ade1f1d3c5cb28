// Result<T>: a value, or the Status that says why there is none.
//
//   Result<Fd> open(...);
//   TOWPATH_TRY(Fd file, open(...));   // returns the failure from the enclosing function
//   TOWPATH_TRY(file.sync());          // the same for a Status
//
// Thread: as T.
#pragma once

#include <type_traits>
#include <utility>
#include <variant>

#include <towpath/core/check.h>
#include <towpath/core/status.h>

namespace towpath {

template <typename T>
class [[nodiscard]] Result {
  static_assert(!std::is_same_v<std::remove_cv_t<T>, Status>, "return a Status itself");

 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  /// `status` must be a failure.
  Result(Status status) : state_(std::in_place_index<1>, std::move(status)) {
    TOWPATH_CHECK(!std::get<1>(state_).ok(), "a Result without a value needs a failure");
  }
  /// From what T can be made of, so that `return std::make_unique<Derived>()` works.
  template <typename U>
  requires(std::is_convertible_v<U&&, T> && !std::is_same_v<std::remove_cvref_t<U>, Result> &&
           !std::is_same_v<std::remove_cvref_t<U>, Status> &&
           !std::is_same_v<std::remove_cvref_t<U>, T>) Result(U&& value)
      : state_(std::in_place_index<0>, std::forward<U>(value)) {}

  bool ok() const noexcept { return state_.index() == 0; }
  explicit operator bool() const noexcept { return ok(); }

  /// The failure, or ok.
  Status status() const { return ok() ? Status() : std::get<1>(state_); }
  Code code() const noexcept { return ok() ? Code::ok : std::get<1>(state_).code(); }

  /// The value; calling this on a failure is a fault of the caller.
  T& value() & {
    TOWPATH_CHECK(ok(), "value() of a failed Result");
    return *std::get_if<0>(&state_);
  }
  const T& value() const& {
    TOWPATH_CHECK(ok(), "value() of a failed Result");
    return *std::get_if<0>(&state_);
  }
  T&& value() && {
    TOWPATH_CHECK(ok(), "value() of a failed Result");
    return std::move(*std::get_if<0>(&state_));
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<T, Status> state_;
};

namespace internal {
inline Status status_of(Status status) { return status; }
template <typename T>
Status status_of(const Result<T>& result) {
  return result.status();
}
}  // namespace internal

}  // namespace towpath

// The only control-flow macro: TOWPATH_TRY(expr) or TOWPATH_TRY(declaration, expr).
#define TOWPATH_TRY(...)                                                                         \
  TOWPATH_TRY_PICK_(__VA_ARGS__, TOWPATH_TRY_2_, TOWPATH_TRY_2_, TOWPATH_TRY_2_, TOWPATH_TRY_2_, \
                    TOWPATH_TRY_2_, TOWPATH_TRY_2_, TOWPATH_TRY_1_)                              \
  (__VA_ARGS__)
#define TOWPATH_TRY_PICK_(a, b, c, d, e, f, g, chosen, ...) chosen
#define TOWPATH_TRY_1_(...)                                                                  \
  do {                                                                                       \
    if (auto towpath_try_ = ::towpath::internal::status_of(__VA_ARGS__); !towpath_try_.ok()) \
      return towpath_try_;                                                                   \
  } while (false)
#define TOWPATH_TRY_2_(declaration, ...) \
  TOWPATH_TRY_NAMED_(TOWPATH_TRY_JOIN_(towpath_try_, __COUNTER__), declaration, __VA_ARGS__)
#define TOWPATH_TRY_NAMED_(name, declaration, ...) \
  auto name = (__VA_ARGS__);                       \
  if (!name.ok()) return name.status();            \
  declaration = *std::move(name)
#define TOWPATH_TRY_JOIN_(a, b) TOWPATH_TRY_JOIN_AGAIN_(a, b)
#define TOWPATH_TRY_JOIN_AGAIN_(a, b) a##b
