// RecordingRegistrar: a Registrar for tests. It moves nothing and writes down, in order, what
// happened. Only for tests; the agent is the real one.
//
//   EventLog log;
//   RecordingRegistrar agent(log, {.name = "a"});
//   ...
//   EXPECT_THAT(log.events(), ElementsAre("register a", "release a", "free x"));
//
// Thread: any.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <towpath/memory/registrar.h>
#include <towpath/run/mutex.h>

namespace towpath::memory::testing {

/// Lines in the order in which they were added.
class EventLog {
 public:
  void add(std::string line);
  std::vector<std::string> events() const;

 private:
  mutable run::Mutex mutex_;
  std::vector<std::string> events_ TOWPATH_GUARDED_BY(mutex_);
};

class RecordingRegistrar final : public Registrar {
 public:
  struct Options {
    std::string name = "test-agent";
    std::vector<std::string> backends = {"fake"};
    /// What the agent takes; others are unsupported.
    std::vector<MemoryKind> kinds = {MemoryKind::system, MemoryKind::disk};
    /// false: breaks the promise that a registration keeps its region alive, and looks at its first
    /// byte on release, so that whoever frees too early is caught.
    bool keeps_regions = true;
  };

  RecordingRegistrar(EventLog& log, Options options);
  RecordingRegistrar(const RecordingRegistrar&) = delete;
  RecordingRegistrar& operator=(const RecordingRegistrar&) = delete;
  /// Releases what is still registered.
  ~RecordingRegistrar() override;

  const std::string& name() const override { return options_.name; }
  std::vector<std::string> backends() const override { return options_.backends; }
  Result<Registration> register_region(SharedRegion region,
                                       const RegisterOptions& options = {}) override;

  /// The next registration fails so; or the one after `skip` that succeed.
  void fail_next_register(Status failure, std::size_t skip = 0);
  /// The next release of any registration fails so, and stays registered.
  void fail_next_release(Status failure);
  /// Registrations that stand now.
  std::size_t registered() const;

 private:
  class Record;
  struct Shared;

  Status check(const SharedRegion& region, const RegisterOptions& options) const;

  const Options options_;
  std::shared_ptr<Shared> shared_;  // with the records, which may outlive this
};

}  // namespace towpath::memory::testing
