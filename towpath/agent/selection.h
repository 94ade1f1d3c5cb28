// Selection: which extents of a prepared list take part in a transfer, and in which order.
// Thread: immutable.
#pragma once

#include <cstdint>
#include <span>

namespace towpath::agent {

/// Which extents of a prepared list: a range, or indices in any order.
class Selection {
 public:
  /// All of a list.
  Selection() = default;
  static Selection range(std::uint64_t first, std::uint64_t count) {
    Selection selection;
    selection.all_ = false;
    selection.first_ = first;
    selection.count_ = count;
    return selection;
  }
  /// `indices` is borrowed for the call that the selection is passed to.
  static Selection of(std::span<const std::uint32_t> indices) {
    Selection selection;
    selection.all_ = false;
    selection.by_index_ = true;
    selection.indices_ = indices;
    selection.count_ = indices.size();
    return selection;
  }

  bool by_index() const noexcept { return by_index_; }
  std::span<const std::uint32_t> indices() const noexcept { return indices_; }
  std::uint64_t first() const noexcept { return first_; }
  /// The index at a position, which is below count_in().
  std::uint64_t at(std::uint64_t position) const noexcept {
    return by_index_ ? indices_[position] : first_ + position;
  }
  std::uint64_t count_in(std::uint64_t list_size) const noexcept {
    return all_ ? list_size : count_;
  }

 private:
  bool all_ = true;
  bool by_index_ = false;
  std::uint64_t first_ = 0;
  std::uint64_t count_ = 0;
  std::span<const std::uint32_t> indices_;
};

}  // namespace towpath::agent
