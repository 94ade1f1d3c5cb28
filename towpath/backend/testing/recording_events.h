// RecordingEvents: keeps all that a backend reports, for tests.
//
// It answers like an agent with a bounded queue: `accept` is how many more notifications it takes.
// Thread: loop, as the backend.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <towpath/backend/backend.h>

namespace towpath::backend::testing {

struct RecordedCompletion {
  Status status;
  std::uint64_t bytes = 0;
  std::vector<SegmentFailure> failures;
};

struct RecordedNotification {
  AgentIdentity from;
  std::string message;
};

struct RecordedLoss {
  Connection* connection = nullptr;
  Status why;
};

class RecordingEvents final : public Events {
 public:
  void on_complete(Operation& operation, const Completion& completion) override {
    completions[&operation].push_back({completion.status,
                                       completion.bytes,
                                       {completion.failures.begin(), completion.failures.end()}});
    if (after_complete) after_complete(operation);
  }
  bool on_notification(const AgentIdentity& from, ConstByteSpan message) override {
    ++offers;
    if (accept == 0) return false;
    --accept;
    notifications.push_back({from, std::string(as_text(message))});
    return true;
  }
  void on_peer_lost(Connection& connection, const Status& why) override {
    losses.push_back({&connection, why});
  }

  std::size_t count(const Operation& operation) const {
    const auto found = completions.find(&operation);
    return found == completions.end() ? 0 : found->second.size();
  }
  /// The newest completion of `operation`; there must be one.
  const RecordedCompletion& last(const Operation& operation) const {
    return completions.at(&operation).back();
  }

  std::map<const Operation*, std::vector<RecordedCompletion>> completions;
  std::vector<RecordedNotification> notifications;
  std::vector<RecordedLoss> losses;
  std::uint64_t offers = 0;  ///< notifications offered, taken or not
  std::uint64_t accept = UINT64_MAX;
  std::function<void(Operation&)> after_complete;
};

}  // namespace towpath::backend::testing
