// FileRendezvous: agents find each other's metadata in a directory that they share.
//
// Metadata is a file, written aside and renamed; docs/formats/rendezvous_frame.md draws its bytes.
// It has a lease: progress() touches what was published from here, and who finds metadata that was
// not touched for `lease` takes it for that of a dead process and does not serve it. Metadata that
// somebody removed is brought again; of two that publish one name the later has it while it lives,
// and the first hears so in standing(). What has lain dead for ten leases is removed by the next
// that comes.
//
// Changes by processes of this host are heard at once (inotify), those of other hosts at the next
// look: every poll_every, a listing and 32 bytes of each agent's metadata.
//
// Who may write into the directory may publish any metadata: its permissions are the only lock.
// Invariants: nothing waits for another process, but for the file system's own time.
// Thread: one at a time; see Rendezvous. It must be driven a few times within `lease`.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <set>
#include <string>

#include <towpath/rendezvous/rendezvous.h>
#include <towpath/run/poller.h>
#include <towpath/run/timer_fd.h>
#include <towpath/sys/fork_mark.h>
#include <towpath/sys/shared_directory.h>
#include <towpath/wire/envelope.h>

namespace towpath::rendezvous {

struct FileRendezvousOptions {
  std::string directory;
  Duration lease = std::chrono::seconds(10);  ///< the same for all who meet there
  Duration poll_every = std::chrono::milliseconds(500);
  std::size_t max_metadata = 4096;  ///< that are watched; others are not, and are trouble
  std::size_t max_fetches = 4096;   ///< that wait for progress()
};

class FileRendezvous final : public Rendezvous {
 public:
  /// `clock` must outlive it. Errors: invalid_argument (a lease of less than a second, or of more
  /// than a day), SharedDirectory::open's.
  static Result<std::unique_ptr<FileRendezvous>> open(FileRendezvousOptions options,
                                                      const Clock& clock);
  /// Removes what was published from here; not in a forked child, whose parent lives.
  ~FileRendezvous() override;

  /// It is there when this returns. Errors: also those of writing it.
  Status publish(const MetadataName& name, ConstByteSpan metadata) override;
  Status withdraw(const MetadataName& name) override;
  Standing standing() const override { return {.pending = 0, .trouble = trouble_}; }
  /// As of the next progress(); the deadline does not matter.
  Result<FetchId> fetch(const MetadataName& name, run::Deadline deadline, FetchDone done) override;
  void cancel(FetchId fetch) override { fetches_.erase(fetch); }
  void watch(ChangeSeen seen) override;
  std::size_t progress() override;
  int wait_fd() const noexcept override { return poller_.fd(); }

 private:
  /// The envelope's header, with its checksum: distinguishes metadata.
  using Header = std::array<std::byte, wire::kHeaderBytes>;
  struct Own {
    Bytes file;
    bool taken = false;  // another has the name now
  };
  struct Fetch {
    MetadataName name;
    FetchDone done;
  };
  struct Known {  // of others, while watching
    Header header{};
    MetadataName name;
    Instant lives_until{0};  // unless it is touched
  };
  FileRendezvous(FileRendezvousOptions options, const Clock& clock, sys::SharedDirectory directory,
                 run::Poller poller, run::TimerFd timer)
      : options_(std::move(options)),
        clock_(&clock),
        directory_(std::move(directory)),
        poller_(std::move(poller)),
        timer_(std::move(timer)) {}

  void sweep();
  bool is_of_the_dead(const std::string& file);
  void keep();
  void keep_one(const MetadataName& name, Own& own);
  bool is_ours(const MetadataName& name, const Own& own);
  Result<Bytes> look_up(const MetadataName& name);
  struct Left {  // by somebody
    Change change;
    Duration age{0};
  };
  Result<Left> read_metadata(const std::string& file);
  std::size_t look_around();
  std::size_t look_at(const std::string& file, std::map<std::string, Known>& now);
  std::size_t miss(const std::string& file, const Status& why, std::map<std::string, Known>& now);
  std::size_t report(const Change& change);
  void arm_timer();

  FileRendezvousOptions options_;
  const Clock* clock_;
  const sys::ForkMark fork_mark_;
  sys::SharedDirectory directory_;
  run::Poller poller_;
  run::TimerFd timer_;
  std::map<MetadataName, Own> own_;
  Instant keep_at_{0};
  Status trouble_;

  std::map<FetchId, Fetch> fetches_;
  FetchId next_fetch_ = 1;
  ChangeSeen seen_;
  bool has_looked_ = false;  // what was there before is not reported
  Instant look_at_ = Instant::never();
  std::map<std::string, Known> known_;  // by file
};

}  // namespace towpath::rendezvous
