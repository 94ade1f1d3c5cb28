#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <map>
#include <new>
#include <optional>
#include <string_view>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include <towpath/core/format.h>
#include <towpath/kv/disk/store_lock.h>
#include <towpath/run/mutex.h>
#include <towpath/sys/fork_mark.h>
#include <towpath/sys/process.h>

namespace towpath::kv {
namespace {

constexpr std::size_t kLongestHolder = 200;

/// A process, so that no other is taken for it.
struct ProcessName {
  std::uint64_t pid = 0;
  std::uint64_t start_time = 0;
  std::uint64_t pid_namespace = 0;
};

ProcessName this_process() {
  struct stat info {};
  const bool has_namespace = ::stat("/proc/self/ns/pid", &info) == 0;
  const auto start_time = sys::process_start_time(::getpid());
  return {.pid = static_cast<std::uint64_t>(::getpid()),
          .start_time = start_time.ok() ? *start_time : 0,
          .pid_namespace = has_namespace ? static_cast<std::uint64_t>(info.st_ino) : 0};
}

/// The number behind a word of the text.
std::optional<std::uint64_t> number_after(std::string_view text, std::string_view word) {
  const std::size_t at = text.find(word);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + word.size());
  std::uint64_t number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  return parsed.ec == std::errc() ? std::optional(number) : std::nullopt;
}

constexpr std::string_view kLetGo = ", which has let go";
constexpr std::string_view kProcess = "process ", kStarted = ", started ", kNamespace = " of pid:";

// What comes from a file is anyone's: bounded, and printed with care.
std::string text_of(sys::File& lock) {
  std::string text(kLongestHolder, '\0');
  const Result<std::size_t> got = lock.read_at(std::as_writable_bytes(std::span(text)), 0);
  text.resize(got.ok() ? *got : 0);
  return text.substr(0, text.find('\n'));
}

/// Whether the text names a process that has let go, or that could be seen from here, and cannot:
/// it has ended.
bool names_one_that_ended(std::string_view text) {
  if (text.find(kLetGo) != std::string_view::npos) return true;
  const auto pid = number_after(text, kProcess);
  const auto start_time = number_after(text, kStarted);
  const auto pid_namespace = number_after(text, kNamespace);
  const ProcessName self = this_process();
  if (!pid || *pid == 0 || *pid > INT32_MAX || !start_time || !pid_namespace) return false;
  if (*start_time == 0 || *pid_namespace == 0 || *pid_namespace != self.pid_namespace) return false;
  const auto now = sys::process_start_time(static_cast<pid_t>(*pid));
  if (now.ok()) return *now != *start_time;
  return ::kill(static_cast<pid_t>(*pid), 0) != 0 && errno == ESRCH;  // /proc may hide it
}

/// A new file, or a drive that was zeros.
bool is_unnamed(std::string_view text) {
  return text.find_first_not_of('\0') == std::string_view::npos;
}

/// In place of all that stood there, so that a full disk has room for it.
Status name_holder(sys::File& lock, std::uint64_t incarnation) {
  const ProcessName self = this_process();
  std::string text = cat(kProcess, self.pid, ", opening ", hex(incarnation), kStarted,
                         self.start_time, kNamespace, self.pid_namespace, "\n");
  text.resize(kLongestHolder, '\0');
  return sys::write_exactly(lock, as_bytes(text), 0);
}

Status in_use(const StoreHolder& holder, const std::string& text, Status why) {
  return error(Code::unavailable,
               cat("the store in '", printable(holder.directory, 256), "' is open: ",
                   text.empty() ? "someone who has not said who it is" : printable(text, 256),
                   " has it"),
               "give each process a directory of its own, or end that one")
      .because(std::move(why));
}

/// In a directory that cannot be written to. Nobody takes over: nobody can say so.
Result<StoreLock> lock_to_read(sys::FileSystem& files, const StoreHolder& holder, StoreLock lock,
                               const Status& refusal) {
  auto file = files.open(cat(holder.directory, "/", kLockName), {.plain = true});
  if (!file.ok() && file.code() != Code::not_found) return refusal;
  if (!file.ok() && refusal.code() != Code::denied) return refusal;
  const std::string text = file.ok() ? text_of(**file) : std::string();
  Status locked = lock.directory->lock();
  if (locked.ok() && file.ok()) locked = (*file)->lock();
  if (locked.code() == Code::unavailable) return in_use(holder, text, std::move(locked));
  TOWPATH_TRY(std::move(locked));
  if (file.ok()) lock.file = *std::move(file);
  return lock;
}

/// What this process has open. A forked child has its own: where a thread of its parent was about
/// to open a store, the parent's stays locked in the child for good.
struct OpenStores {
  explicit OpenStores(const OpenStores* whose) : parents(whose) {}

  /// One takes or lets go at a time: where the kernel does not have the files, nobody claims them,
  /// and one that lets go is none that may be taken over.
  run::Mutex one_at_a_time;
  run::Mutex claims_mutex;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<const void>> claims
      TOWPATH_GUARDED_BY(claims_mutex);
  const sys::ForkMark fork_mark;
  const OpenStores* const parents;
};

/// Not destroyed: a store may be opened until the very end.
OpenStores& open_stores() {
  static std::atomic<OpenStores*> known{nullptr};
  // Acquire pairs with the release of the thread that made it.
  OpenStores* now = known.load(std::memory_order_acquire);
  while (now == nullptr || now->fork_mark.is_inherited()) {
    auto* const made = new OpenStores(now);
    if (known.compare_exchange_strong(now, made, std::memory_order_acq_rel,
                                      std::memory_order_acquire))
      return *made;
    delete made;
  }
  return *now;
}

/// Both are locked, or another's. `held`: what became of locking the first.
Result<StoreLock> take(StoreLock lock, const StoreHolder& holder, Status held) {
  const std::string text = text_of(*lock.file);
  Status mine = lock.file->lock_for_process();
  const Status as_before = lock.file->lock();
  // Over NFS flock(2) is a lock of the same kind, of another owner (its page, NFS details): the one
  // just taken is in its way. Of a file that nobody has been named in it says nothing then.
  const bool is_own = as_before.code() == Code::unavailable && mine.ok() && is_unnamed(text);
  if (held.ok() && !is_own) held = as_before;
  if (held.code() == Code::unavailable && mine.ok() && names_one_that_ended(text)) held = {};
  if (mine.code() == Code::unavailable) held = std::move(mine);
  if (held.code() == Code::unavailable) return in_use(holder, text, std::move(held));
  TOWPATH_TRY(std::move(held));
  // Without it the next one to come could take this process for one that has ended.
  if (Status named = name_holder(*lock.file, holder.incarnation);
      !named.ok() && named.code() != Code::exhausted && named.code() != Code::unavailable)
    return named;
  lock.named_by.emplace();
  return lock;
}

}  // namespace

StoreLock& StoreLock::operator=(StoreLock&& other) noexcept {
  let_go();
  directory = std::move(other.directory);
  file = std::move(other.file);
  claim = std::move(other.claim);
  named_by = std::exchange(other.named_by, std::nullopt);
  return *this;
}

// Children of another holder's may hold what is locked yet: the next one goes by the words.
void StoreLock::let_go() noexcept {
  if (file == nullptr || !named_by || !named_by->is_this()) return;
  const run::MutexLock lock(open_stores().one_at_a_time);
  try {
    const std::string words = cat(text_of(*file), kLetGo, "\n");
    if (words.size() <= kLongestHolder) (void)sys::write_exactly(*file, as_bytes(words), 0);
  } catch (const std::bad_alloc&) {  // then they look whether this process has ended
  }
  file.reset();
  directory.reset();
}

Result<std::shared_ptr<const void>> claim_in_process(sys::FileSystem& files,
                                                     const StoreHolder& holder) {
  const std::optional<sys::FileIdentity> it = files.identity_of(holder.directory);
  if (!it) return std::shared_ptr<const void>();
  OpenStores& known = open_stores();
  const run::MutexLock lock(known.claims_mutex);
  std::erase_if(known.claims, [](const auto& claim) { return claim.second.expired(); });
  std::weak_ptr<const void>& claim = known.claims[{it->device, it->inode}];
  if (!claim.expired()) return in_use(holder, cat(kProcess, ::getpid(), ", this one,"), {});
  std::shared_ptr<const void> mine = std::make_shared<char>();
  claim = mine;
  return mine;
}

Result<StoreLock> lock_store(sys::FileSystem& files, const StoreHolder& holder) {
  const run::MutexLock alone(open_stores().one_at_a_time);
  StoreLock lock;
  TOWPATH_TRY(lock.claim, claim_in_process(files, holder));
  TOWPATH_TRY(lock.directory, files.open(holder.directory, {.directory = true}));
  auto file = files.open(cat(holder.directory, "/", kLockName),
                         {.writable = true, .create = true, .plain = true});
  if (!file.ok()) return lock_to_read(files, holder, std::move(lock), file.status());
  lock.file = *std::move(file);
  Status held = lock.directory->lock();
  return take(std::move(lock), holder, std::move(held));
}

bool names_holder(std::string_view text) {
  const std::size_t end = text.find('\n');
  return text.starts_with(kProcess) && end < kLongestHolder &&
         text.find_first_not_of('\0', end + 1) == std::string_view::npos;
}

Result<StoreLock> lock_drive(sys::FileSystem& files, const StoreHolder& holder,
                             std::unique_ptr<sys::File> words) {
  const run::MutexLock alone(open_stores().one_at_a_time);
  StoreLock lock;
  lock.file = std::move(words);
  Status held;
  if (files.kind_of(holder.directory) == sys::PathKind::drive) {
    auto claimed = files.open(holder.directory, {.claimed = true});
    if (!claimed.ok() && claimed.code() != Code::unavailable) return claimed.status();
    held = claimed.status();
    if (claimed.ok()) lock.directory = *std::move(claimed);
    // Children that one of ours has left hold the lock, too: what holds the claim alone is
    // another's.
    if (held.code() == Code::unavailable && lock.file->lock().ok())
      return in_use(holder, "a mount, or another program that uses the drive,", std::move(held));
  }
  return take(std::move(lock), holder, std::move(held));
}

}  // namespace towpath::kv
