// SymmetricBuffer<T>: elements on the symmetric heap, as many on every PE, and what is done to
// those of other PEs: put, get, atomic operations, signals, waits.
//
//   TOWPATH_TRY(auto inbox, context.allocate<int>(16));
//   TOWPATH_TRY(inbox.put({.pe = 1, .index = 4}, values));   // into PE 1's elements 4, 5, ...
//
// To PEs of this host puts and gets are loads and stores through a mapping: they are complete when
// they return, but only fence(), quiet(), a barrier, or a signal say when others see puts in order.
// To others they are messages (remote.h): a put has left its source when it returns, and is in
// place after quiet() or a barrier; what gives a value waits for the answer.
// Blocking and non-blocking forms (`_nbi`) differ by that promise only: the source of the latter
// may be reused after quiet().
// Raw stores through ptr() or local() wake nobody: who waits for one sees it within milliseconds.
//
// Invariants: moved from, it is empty and of no PE. Letting go of it is never collective (block.h);
// Context::free() is. Length 0 is legal everywhere.
// Thread: any; elements are as safe as the operations on them: only atomic ones, signals and waits
// may race with each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <towpath/core/checked.h>
#include <towpath/core/format.h>
#include <towpath/device/stream.h>
#include <towpath/shmem/block.h>
#include <towpath/shmem/change.h>

namespace towpath::shmem {

/// An element of a PE.
struct Place {
  int pe = 0;
  std::uint64_t index = 0;
};

/// Every `stride`-th element; `count` of them.
struct Strides {
  std::uint64_t target = 1;
  std::uint64_t source = 1;
  std::uint64_t count = 0;
};

template <typename T>
class SymmetricBuffer;

enum class SignalOp : std::uint8_t { set = 9, add = 10 };  // NVSHMEM's numbers

/// What a put does to a word of the target PE once its bytes are there.
struct Signal {
  const SymmetricBuffer<std::uint64_t>& word;
  std::uint64_t index = 0;
  SignalOp op = SignalOp::set;
  std::uint64_t value = 1;
};

/// What waits and tests ask of an element.
template <typename T>
struct Wanted {
  Compare compare = Compare::equal;
  T value{};
};

template <typename T>
class SymmetricBuffer {
  static_assert(std::is_trivially_copyable_v<T>, "other processes read the bytes");
  static constexpr bool kHasAtomics = std::is_arithmetic_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);
  static constexpr bool kHasArithmetic = kHasAtomics && std::is_integral_v<T>;

 public:
  SymmetricBuffer() = default;
  /// Takes `block` as elements; for Context.
  explicit SymmetricBuffer(SharedBlock block) noexcept
      : block_(std::move(block)),
        world_(block_->world().get()),
        local_(reinterpret_cast<T*>(block_->local())),
        size_(block_->place().size_bytes / sizeof(T)) {}
  SymmetricBuffer(SymmetricBuffer&& other) noexcept { swap(other); }
  SymmetricBuffer& operator=(SymmetricBuffer&& other) noexcept {
    SymmetricBuffer taken(std::move(other));
    swap(taken);
    return *this;
  }

  std::uint64_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /// This PE's own elements.
  std::span<T> local() const noexcept { return {local_, size_}; }
  /// From the begin of the heap; the same on all PEs.
  std::uint64_t offset() const noexcept { return block_ ? block_->place().offset : 0; }
  /// The elements of `pe` in this process's address space, or null: no PE, or of another host.
  T* ptr(int pe) const noexcept { return reach({.pe = pe}, 0); }
  /// As a region, which an agent can register; keeps the bytes. Errors: invalid_argument (empty).
  Result<memory::SharedRegion> region() const { return region_of(block_); }
  const SharedBlock& block() const noexcept { return block_; }

  // Errors of all that follows: out_of_range (PE, elements; with the numbers), not_ready
  // (finalized).

  Status put(const Place& target, std::span<const T> source) const {
    T* const to = reach(target, source.size());
    if (to == nullptr) [[unlikely]]
      return put_far(target, source);
    copy_bytes(to, source.data(), source.size_bytes());
    world_->nudge(static_cast<std::uint32_t>(target.pe));
    return {};
  }
  Status get(std::span<T> target, const Place& source) const {
    const T* const from = reach(source, target.size());
    if (from == nullptr) [[unlikely]]
      return get_far(target, source);
    copy_bytes(target.data(), from, target.size_bytes());
    return {};
  }
  Status put_nbi(const Place& target, std::span<const T> source) const {
    return put(target, source);
  }
  Status get_nbi(std::span<T> target, const Place& source) const { return get(target, source); }

  /// One element.
  Status p(const Place& target, T value) const { return put(target, {&value, 1}); }
  Result<T> g(const Place& source) const {
    const T* const from = reach(source, 1);
    if (from != nullptr) [[likely]]
      return *from;
    T value{};
    TOWPATH_TRY(get_far({&value, 1}, source));
    return value;
  }

  /// Element i * strides.target of the target gets element i * strides.source of `source`.
  Status put_strided(const Place& target, std::span<const T> source, const Strides& strides) const {
    TOWPATH_TRY(
        check_strides(strides, {.there = strides.target, .here = strides.source}, source.size()));
    T* const to = reach(target, extent(strides.target, strides.count));
    if (to == nullptr) {
      TOWPATH_TRY(check(target, extent(strides.target, strides.count)));
      for (std::uint64_t i = 0; i < strides.count; ++i)
        TOWPATH_TRY(put_far({.pe = target.pe, .index = target.index + i * strides.target},
                            {&source[i * strides.source], 1}));
      return {};
    }
    for (std::uint64_t i = 0; i < strides.count; ++i)
      to[i * strides.target] = source[i * strides.source];
    world_->nudge(static_cast<std::uint32_t>(target.pe));
    return {};
  }
  Status get_strided(std::span<T> target, const Place& source, const Strides& strides) const {
    TOWPATH_TRY(
        check_strides(strides, {.there = strides.source, .here = strides.target}, target.size()));
    const std::uint64_t there = extent(strides.source, strides.count);
    const T* from = reach(source, there);
    std::vector<T> whole;  // of a PE on another host: one question, whatever lies between
    if (from == nullptr) {
      TOWPATH_TRY(check(source, there));
      whole.resize(there);
      TOWPATH_TRY(get_far(whole, source));
      from = whole.data();
    }
    for (std::uint64_t i = 0; i < strides.count; ++i)
      target[i * strides.target] = from[i * strides.source];
    return {};
  }

  /// Who sees the signal's new value sees the bytes.
  Status put_signal(const Place& target, std::span<const T> source, const Signal& signal) const {
    // Both are examined before either is done.
    TOWPATH_TRY(signal.word.check({.pe = target.pe, .index = signal.index}, 1));
    TOWPATH_TRY(put(target, source));
    return signal.word.update({.pe = target.pe, .index = signal.index}, signal.op, signal.value);
  }
  /// The signal alone.
  Status update(const Place& target, SignalOp op, T value) const
      requires(std::is_same_v<T, std::uint64_t>) {
    return op == SignalOp::add ? add(target, value) : set(target, value);
  }

  // Atomic operations, on one element each. All are sequentially consistent, and atomic with each
  // other on all PEs. The forms that give a value give the one from before.

  Result<T> fetch(const Place& at) const requires kHasAtomics {
    return change<ChangeOp::fetch>(at);
  }
  Status set(const Place& at, T value) const requires kHasAtomics {
    // An exchange: a plain store would not be ordered before the look for sleepers.
    return post<ChangeOp::swap>(at, value);
  }
  Result<T> swap(const Place& at, T value) const requires kHasAtomics {
    return change<ChangeOp::swap>(at, value);
  }
  struct Exchange {
    T expected{};
    T desired{};
  };
  Result<T> compare_swap(const Place& at, Exchange what) const requires kHasArithmetic {
    return change<ChangeOp::compare_swap>(at, what.desired, what.expected);
  }
  Result<T> fetch_add(const Place& at, T value) const requires kHasArithmetic {
    return change<ChangeOp::add>(at, value);
  }
  Result<T> fetch_inc(const Place& at) const requires kHasArithmetic { return fetch_add(at, 1); }
  Result<T> fetch_and(const Place& at, T bits) const requires kHasArithmetic {
    return change<ChangeOp::bit_and>(at, bits);
  }
  Result<T> fetch_or(const Place& at, T bits) const requires kHasArithmetic {
    return change<ChangeOp::bit_or>(at, bits);
  }
  Result<T> fetch_xor(const Place& at, T bits) const requires kHasArithmetic {
    return change<ChangeOp::bit_xor>(at, bits);
  }
  Status add(const Place& at, T value) const requires kHasArithmetic {
    return post<ChangeOp::add>(at, value);
  }
  Status inc(const Place& at) const requires kHasArithmetic { return add(at, 1); }
  Status bit_and(const Place& at, T bits) const requires kHasArithmetic {
    return post<ChangeOp::bit_and>(at, bits);
  }
  Status bit_or(const Place& at, T bits) const requires kHasArithmetic {
    return post<ChangeOp::bit_or>(at, bits);
  }
  Status bit_xor(const Place& at, T bits) const requires kHasArithmetic {
    return post<ChangeOp::bit_xor>(at, bits);
  }

  // Waits for elements of this PE that others write, and looks at them. Elements are named by
  // index. Errors besides: peer_lost (a PE ended meanwhile: see Context::forget_losses), timed_out.

  /// The value that was as wanted.
  Result<T> wait_until(std::uint64_t index, Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_index(index));
    T seen{};
    TOWPATH_TRY(world_->wait_for_write([&] { return is_as_wanted(index, wanted, seen); }));
    return seen;
  }
  Status wait_until_all(std::span<const std::uint64_t> indexes,
                        Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_indexes(indexes));
    return world_->wait_for_write([&] { return count(indexes, wanted) == indexes.size(); });
  }
  /// One that is as wanted: a place in `indexes`. Nothing when there are none. Calls again and
  /// again answer each that is as wanted, by turns.
  Result<std::optional<std::size_t>> wait_until_any(std::span<const std::uint64_t> indexes,
                                                    Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_indexes(indexes));
    std::optional<std::size_t> found;
    TOWPATH_TRY(world_->wait_for_write([&] {
      found = any(indexes, wanted);
      return found.has_value() || indexes.empty();
    }));
    return found;
  }
  /// At least one, unless there are none: places in `indexes`.
  Result<std::vector<std::size_t>> wait_until_some(std::span<const std::uint64_t> indexes,
                                                   Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_indexes(indexes));
    std::vector<std::size_t> places;
    TOWPATH_TRY(world_->wait_for_write([&] {
      places = some(indexes, wanted);
      return !places.empty() || indexes.empty();
    }));
    return places;
  }

  Result<bool> test(std::uint64_t index, Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_index(index));
    T seen{};
    return is_as_wanted(index, wanted, seen);
  }
  Result<bool> test_all(std::span<const std::uint64_t> indexes,
                        Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_indexes(indexes));
    return count(indexes, wanted) == indexes.size();
  }
  Result<std::optional<std::size_t>> test_any(std::span<const std::uint64_t> indexes,
                                              Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_indexes(indexes));
    return any(indexes, wanted);
  }
  Result<std::vector<std::size_t>> test_some(std::span<const std::uint64_t> indexes,
                                             Wanted<T> wanted) const requires kHasAtomics {
    TOWPATH_TRY(check_indexes(indexes));
    return some(indexes, wanted);
  }

  // In the order of a stream. `source` and `target` must stay until the stream has passed. Ranges
  // are checked here; what fails later (finalized, a PE that is lost) moves nothing and is kept for
  // Context::stream_failure().

  Status put_on_stream(device::Stream& stream, const Place& target,
                       std::span<const T> source) const {
    TOWPATH_TRY(check(target, source.size()));
    return stream.run([block = block_, target, source] {
      block->world()->keep_stream_failure(SymmetricBuffer(block).put(target, source));
    });
  }
  Status get_on_stream(device::Stream& stream, std::span<T> target, const Place& source) const {
    TOWPATH_TRY(check(source, target.size()));
    return stream.run([block = block_, target, source] {
      block->world()->keep_stream_failure(SymmetricBuffer(block).get(target, source));
    });
  }

  /// ok, or why there are no `count` elements at `place`.
  Status check(const Place& place, std::uint64_t count) const {
    if (world_ == nullptr)
      return error(Code::not_ready, "an empty symmetric buffer", "allocate it first");
    TOWPATH_TRY(world_->check_pe(place.pe));
    if (range_fits(place.index, count, size_)) return {};
    return error(Code::out_of_range,
                 cat("elements ", place.index, " to ", place.index, " + ", count, " of PE ",
                     place.pe, ": the symmetric buffer has ", size_),
                 "stay within the buffer");
  }

 private:
  /// Element `place.index` of a PE of this host, if `count` elements from there on are in range.
  T* reach(const Place& place, std::uint64_t count) const noexcept {
    const auto pe = static_cast<std::uint32_t>(place.pe);
    if (world_ == nullptr || pe >= world_->open_pes() || !range_fits(place.index, count, size_))
      return nullptr;
    const std::uint64_t shift = world_->shift(pe);
    if (shift == World::kFar) [[unlikely]]
      return nullptr;
    return reinterpret_cast<T*>(reinterpret_cast<std::uintptr_t>(local_) + shift) + place.index;
  }
  // Where reach() answered nothing: out of range, or on another host.
  Status put_far(const Place& target, std::span<const T> source) const {
    TOWPATH_TRY(check(target, source.size()));
    return world_->write(remote_address(target), std::as_bytes(source));
  }
  Status get_far(std::span<T> target, const Place& source) const {
    TOWPATH_TRY(check(source, target.size()));
    return world_->read(remote_address(source), std::as_writable_bytes(target));
  }
  RemoteAddress remote_address(const Place& place) const noexcept {
    return {.pe = static_cast<std::uint32_t>(place.pe),
            .offset = offset() + place.index * sizeof(T)};
  }
  template <ChangeOp Op>
  Result<T> change(const Place& at, T operand = {}, T expected = {}) const {
    T* const element = reach(at, 1);
    if (element == nullptr) [[unlikely]] {
      TOWPATH_TRY(check(at, 1));
      TOWPATH_TRY(const std::uint64_t bits,
                  world_->change(remote_address(at), change_of<Op>(operand, expected)));
      return from_bits<T>(bits);
    }
    const T before = apply<Op>(std::atomic_ref<T>(*element), operand, expected);
    world_->nudge(static_cast<std::uint32_t>(at.pe));
    return before;
  }
  /// As change(); what it was is not asked.
  template <ChangeOp Op>
  Status post(const Place& at, T operand) const {
    if (reach(at, 1) != nullptr) [[likely]]
      return change<Op>(at, operand).status();
    TOWPATH_TRY(check(at, 1));
    return world_->post(remote_address(at), change_of<Op>(operand));
  }
  /// Acquire: pairs with the atomic operations, puts before a fence, and barriers of the writer.
  T load(std::uint64_t index) const {
    return std::atomic_ref<T>(local_[index]).load(std::memory_order_acquire);
  }
  /// As a whole.
  bool is_as_wanted(std::uint64_t index, const Wanted<T>& wanted, T& seen) const {
    const auto looks = [&] {
      seen = load(index);
      return holds(seen, wanted.compare, wanted.value);
    };
    return looks() && world_->is_whole(std::as_bytes(std::span(local_ + index, 1)), looks);
  }
  Status check_index(std::uint64_t index) const {
    if (world_ == nullptr) return check({}, 1);
    return check({.pe = static_cast<int>(world_->my_pe()), .index = index}, 1);
  }
  Status check_indexes(std::span<const std::uint64_t> indexes) const {
    for (const std::uint64_t index : indexes) TOWPATH_TRY(check_index(index));
    return world_ == nullptr ? check({}, 0) : Status();
  }
  std::size_t count(std::span<const std::uint64_t> indexes, Wanted<T> wanted) const {
    std::size_t found = 0;
    T seen{};
    for (const std::uint64_t index : indexes) found += is_as_wanted(index, wanted, seen) ? 1 : 0;
    return found;
  }
  std::vector<std::size_t> some(std::span<const std::uint64_t> indexes, Wanted<T> wanted) const {
    std::vector<std::size_t> places;
    T seen{};
    for (std::size_t place = 0; place < indexes.size(); ++place)
      if (is_as_wanted(indexes[place], wanted, seen)) places.push_back(place);
    return places;
  }
  std::optional<std::size_t> any(std::span<const std::uint64_t> indexes, Wanted<T> wanted) const {
    if (indexes.empty()) return std::nullopt;
    const std::uint64_t list = address_of(local_ + indexes.front()) + (indexes.size() << 40U);
    T seen{};
    return world_->fair_start().find(list, indexes.size(), [&](std::size_t place) {
      return is_as_wanted(indexes[place], wanted, seen);
    });
  }
  static std::uint64_t extent(std::uint64_t stride, std::uint64_t count) noexcept {
    return count == 0 ? 0 : (count - 1) * stride + 1;
  }
  struct Steps {
    std::uint64_t there, here;
  };
  static Status check_strides(const Strides& strides, Steps steps, std::uint64_t here_size) {
    constexpr std::uint64_t kLargest = std::uint64_t{1} << 31U;  // so that no product wraps
    if (strides.count <= kLargest && steps.there - 1 < kLargest && steps.here - 1 < kLargest &&
        extent(steps.here, strides.count) <= here_size)
      return {};
    return error(Code::out_of_range,
                 cat(strides.count, " elements in steps of ", steps.there, " there and ",
                     steps.here, " here, where ", here_size, " elements are"),
                 "strides are at least 1; the last element must lie inside");
  }

  void swap(SymmetricBuffer& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(world_, other.world_);
    std::swap(local_, other.local_);
    std::swap(size_, other.size_);
  }

  SharedBlock block_;
  World* world_ = nullptr;
  T* local_ = nullptr;
  std::uint64_t size_ = 0;
};

}  // namespace towpath::shmem
