#include <unistd.h>

#include <towpath/core/text.h>
#include <towpath/kv/disk/store_lock.h>

namespace towpath::kv {
namespace {

constexpr const char* kLockName = "lock";
constexpr std::size_t kLongestHolder = 200;

// What comes from a file is anyone's: bounded, and printed with care.
std::string holder_named_in(sys::File& lock) {
  std::string text(kLongestHolder, '\0');
  const Result<std::size_t> got = lock.read_at(std::as_writable_bytes(std::span(text)), 0);
  if (!got.ok() || *got == 0) return "someone who has not said who it is";
  text.resize(*got);
  return printable(text.substr(0, text.find('\n')));
}

// The lock holds without it: what cannot be written is only not told.
void name_holder(sys::File& lock, std::uint64_t incarnation) {
  const std::string text = cat("process ", ::getpid(), ", opening ", hex(incarnation), "\n");
  if (lock.resize(0).ok()) (void)sys::write_exactly(lock, as_bytes(text), 0);
}

}  // namespace

Result<std::unique_ptr<sys::File>> lock_store(sys::FileSystem& files, const StoreHolder& holder) {
  const std::string path = cat(holder.directory, "/", kLockName);
  auto file = files.open(path, {.writable = true, .create = true});
  const bool writable = file.ok();
  if (!writable) {
    Status refusal = file.status();
    file = files.open(path, {});
    if (file.code() == Code::not_found && refusal.code() == Code::denied)
      return std::unique_ptr<sys::File>();
    if (!file.ok()) return refusal;
  }
  Status locked = (*file)->lock();
  if (locked.code() == Code::unavailable)
    return error(Code::unavailable,
                 cat("the store in '", printable(holder.directory, 256),
                     "' is open: ", holder_named_in(**file), " has it"),
                 "give each process a directory of its own, or end that one")
        .because(std::move(locked));
  TOWPATH_TRY(std::move(locked));
  if (writable) name_holder(**file, holder.incarnation);
  return *std::move(file);
}

}  // namespace towpath::kv
