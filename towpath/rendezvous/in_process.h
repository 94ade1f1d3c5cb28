// The rendezvous of agents in one process: a directory that they share.
//
//   auto directory = std::make_shared<Directory>();
//   auto here = InProcess::open(directory).value();
//
// The directory is passed in, so that two sets of agents, or two tests, do not meet by accident.
// Metadata stays published until it is withdrawn or the InProcess that published it dies.
// Thread: Directory any; InProcess one at a time.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <towpath/rendezvous/rendezvous.h>
#include <towpath/run/mutex.h>
#include <towpath/run/waker.h>

namespace towpath::rendezvous {

class InProcess;

class Directory {
 public:
  Directory() = default;
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

 private:
  friend class InProcess;
  /// Of one InProcess: what it has yet to hear. Bounded: one change per name.
  struct Mailbox {
    std::unique_ptr<run::Waker> waker;
    std::map<MetadataName, Change> changes;
    bool watching = false;
  };
  struct Entry {
    Bytes metadata;
    const Mailbox* owner;  // who published it; compared, never followed
  };

  void report_others(const Mailbox* from, const Change& change) TOWPATH_REQUIRES(mutex_);
  /// Of those that `owner` published: what withdrawing `name` withdraws; null: all. How many.
  std::size_t remove(const Mailbox* owner, const MetadataName* name) TOWPATH_REQUIRES(mutex_);

  run::Mutex mutex_;
  std::map<MetadataName, Entry> metadata_ TOWPATH_GUARDED_BY(mutex_);
  std::set<Mailbox*> mailboxes_ TOWPATH_GUARDED_BY(mutex_);
};

class InProcess final : public Rendezvous {
 public:
  /// Errors: exhausted (no descriptor is free).
  static Result<std::unique_ptr<InProcess>> open(std::shared_ptr<Directory> directory);
  /// Withdraws what was published from here.
  ~InProcess() override;

  Status publish(const MetadataName& name, ConstByteSpan metadata) override;
  Status withdraw(const MetadataName& name) override;
  /// The answer is ready at once: found or not_found as of now; the deadline does not matter.
  Result<FetchId> fetch(const MetadataName& name, run::Deadline deadline, FetchDone done) override;
  void cancel(FetchId fetch) override;
  void watch(ChangeSeen seen) override;
  std::size_t progress() override;
  int wait_fd() const noexcept override { return mailbox_.waker->fd(); }

 private:
  struct Answer {
    FetchDone done;
    Result<Bytes> metadata;
  };
  InProcess(std::shared_ptr<Directory> directory, std::unique_ptr<run::Waker> waker);
  Result<Bytes> look_up(const MetadataName& name);

  std::shared_ptr<Directory> directory_;
  Directory::Mailbox mailbox_;  // changes and watching: guarded by the directory's mutex
  ChangeSeen seen_;
  FetchId next_fetch_ = 1;
  std::map<FetchId, Answer> answers_;
};

}  // namespace towpath::rendezvous
