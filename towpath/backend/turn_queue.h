// TurnQueue: operations that take turns, one piece each. A doubly linked list through its members:
// it owns none of them and allocates nothing.
//
// A member has a `Turn<T> turn_` and makes TurnQueue<T> its friend. Invariant: it is in one queue
// at most. Thread: loop.
#pragma once

#include <cstddef>

namespace towpath::backend {

template <typename T>
class TurnQueue;

/// A member's place.
template <typename T>
struct Turn {
  bool queued = false;
  T* next = nullptr;
  T* previous = nullptr;
};

template <typename T>
class TurnQueue {
 public:
  T* front() const noexcept { return front_; }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  void push_back(T& member) noexcept {
    member.turn_ = {.queued = true, .next = nullptr, .previous = back_};
    (back_ == nullptr ? front_ : back_->turn_.next) = &member;
    back_ = &member;
    ++size_;
  }
  /// Harmless when it is not in the queue.
  void remove(T& member) noexcept {
    Turn<T>& turn = member.turn_;
    if (!turn.queued) return;
    turn.queued = false;
    (turn.previous == nullptr ? front_ : turn.previous->turn_.next) = turn.next;
    (turn.next == nullptr ? back_ : turn.next->turn_.previous) = turn.previous;
    --size_;
  }
  /// The first goes to the end.
  void rotate() noexcept {
    if (size_ < 2) return;
    T& member = *front_;
    remove(member);
    push_back(member);
  }

 private:
  T* front_ = nullptr;
  T* back_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace towpath::backend
