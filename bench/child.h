// Child: a second, real process of a measurement, and the channel to it.
//
//   Child child([](const Channel& parent) { ... });   // forks: the function runs there
//   child.channel().send(bytes), receive()
//
// Make it before there are threads, agents or UCX, which do not survive a fork. It ends when the
// function returns, when the Child goes, and when its parent dies. Thread: one.
#pragma once

#include <functional>

#include <sys/types.h>

#include <towpath/core/bytes.h>
#include <towpath/sys/fd.h>

namespace towpath::bench {

/// One end. Whatever goes wrong ends the measurement.
class Channel {
 public:
  explicit Channel(sys::Fd end) : end_(std::move(end)) {}
  /// One message, of at most 128 KiB.
  void send(ConstByteSpan message) const;
  /// The next one; empty when the other side is gone.
  Bytes receive() const;

 private:
  sys::Fd end_;
};

class Child {
 public:
  explicit Child(const std::function<void(const Channel&)>& life);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  const Channel& channel() const noexcept { return channel_; }
  pid_t pid() const noexcept { return pid_; }

 private:
  pid_t pid_ = -1;
  Channel channel_;
};

}  // namespace towpath::bench
