// Exchange: where the loopback backends of one process find each other.
//
// A backend opens an Endpoint in it and is known by the endpoint's number from then on. The
// endpoint holds what others need of it: its registrations and its inbox. Nothing of it is global:
// backends that share no exchange do not see each other.
//
// Invariants: numbers are never given twice; a closed endpoint takes no message, and all its
// records are closed.
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <towpath/backend/endpoint_table.h>
#include <towpath/backend/memory_table.h>
#include <towpath/core/bytes.h>
#include <towpath/core/identity.h>
#include <towpath/core/result.h>
#include <towpath/run/mutex.h>
#include <towpath/run/waker.h>

namespace towpath::backends::loopback {

// Record: a registration that agents of one process share, so that none touches freed memory.
//
// The owner makes it and closes it; a process that imported it enters before it touches the bytes
// and leaves afterwards, once per slice. close() waits for those who are inside: a slice, some tens
// of microseconds.
//
//   state_:  [ closed | 31 bits: how many are inside ]
//
// Invariant: after close() returned, nobody is inside and nobody gets in.
// Thread: any. Never close a record from inside it.
class Record : public backend::RegisteredRegion {
 public:
  using RegisteredRegion::RegisteredRegion;

  /// False: it was taken back; do not leave() then.
  bool enter() noexcept;
  void leave() noexcept;
  /// Idempotent.
  void close() noexcept;

  /// Inside for a scope, if it could be entered.
  class Use {
   public:
    explicit Use(Record& record) noexcept : record_(record.enter() ? &record : nullptr) {}
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;
    ~Use() {
      if (record_ != nullptr) record_->leave();
    }
    explicit operator bool() const noexcept { return record_ != nullptr; }

   private:
    Record* record_;
  };

 private:
  static constexpr std::uint32_t kClosed = 1u << 31;

  std::atomic<std::uint32_t> state_{0};
};

/// Messages that one sender may have waiting in one inbox, and their bytes.
inline constexpr std::size_t kMaxQueuedMessages = 1024;
inline constexpr std::size_t kMaxQueuedBytes = 4 * 1024 * 1024;

/// A message that waits, as it lies in an inbox.
struct Waiting {
  std::uint64_t sender = 0;  ///< endpoint number
  const AgentIdentity* from = nullptr;
  const Bytes* message = nullptr;
};

class Endpoint {
 public:
  Endpoint(const AgentIdentity& identity, std::uint64_t id, std::unique_ptr<run::Waker> waker)
      : identity_(identity), id_(id), waker_(std::move(waker)), records_(identity) {}

  const AgentIdentity& identity() const noexcept { return identity_; }
  std::uint64_t id() const noexcept { return id_; }
  run::Waker& waker() noexcept { return *waker_; }

  std::shared_ptr<Record> add_record(const RegionDescriptor& region);
  void remove_record(const Record& record);
  /// Both arguments come from outside. Errors: those of MemoryTable::find().
  Result<std::shared_ptr<Record>> find_record(std::uint64_t record_id,
                                              const RegionDescriptor& region) const;

  /// Puts a message into the inbox and wakes. Errors: exhausted (the sender's share is full),
  /// peer_lost (closed).
  Status deliver(const Endpoint& sender, ConstByteSpan message);
  // For the endpoint's own backend alone: what it looks at stays where it is until pop() or
  // close().
  /// The first message of the next sender behind `after` (by number, without wrapping).
  bool find_next(std::uint64_t after, Waiting& next);
  /// It was delivered.
  void pop(const Waiting& delivered) noexcept;

  /// Whoever has a connection to this endpoint wants to be woken when it closes.
  void add_watcher(std::weak_ptr<Endpoint> watcher);
  /// Errors: peer_lost (closed).
  Status check_open() const;
  /// Waits for slices that touch its registrations. Idempotent.
  void close();

 private:
  struct Queue {
    AgentIdentity from;
    std::deque<Bytes> messages;
    std::size_t bytes = 0;
  };

  const AgentIdentity identity_;
  const std::uint64_t id_;
  const std::unique_ptr<run::Waker> waker_;

  mutable run::Mutex mutex_;
  bool closed_ TOWPATH_GUARDED_BY(mutex_) = false;
  backend::MemoryTable<Record> records_ TOWPATH_GUARDED_BY(mutex_);
  /// By sender. One is empty where there was no memory for its first message.
  std::map<std::uint64_t, Queue> inbox_ TOWPATH_GUARDED_BY(mutex_);
  std::vector<std::weak_ptr<Endpoint>> watchers_ TOWPATH_GUARDED_BY(mutex_);
};

class Exchange {
 public:
  /// `token` as for EndpointDirectory.
  explicit Exchange(std::uint64_t token);

  /// What `endpoint` puts into its metadata.
  backend::EndpointAddress address_of(const Endpoint& endpoint) const;
  /// Errors: exhausted (no descriptor for the waker).
  Result<std::shared_ptr<Endpoint>> open_endpoint(const AgentIdentity& identity);
  /// `info` comes from outside. It may be closed. Errors: those of EndpointTable::find().
  Result<std::shared_ptr<Endpoint>> find(const AgentIdentity& peer, ConstByteSpan info) const;

 private:
  mutable run::Mutex mutex_;
  backend::EndpointTable<Endpoint> endpoints_ TOWPATH_GUARDED_BY(mutex_);
};

}  // namespace towpath::backends::loopback
