#include <algorithm>
#include <optional>
#include <utility>

#include <towpath/core/format.h>
#include <towpath/kv/disk/block_store.h>
#include <towpath/kv/disk/drive_files.h>
#include <towpath/kv/disk/segment.h>
#include <towpath/sys/file_range.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/sys/random.h>

namespace towpath::kv {
namespace {

using sys::PathKind;

/// What a partition table, a file system or a volume of another kind writes into.
constexpr std::uint64_t kInspectedBytes = std::uint64_t{1} << 20U;

constexpr const char* kMakeZeros =
    "if it may go, make its first and last MiB zeros (blkdiscard -z, or dd)";

std::string quoted(const std::string& path) { return cat("'", printable(path, 256), "'"); }

std::string folder_of(const std::string& name) {
  const std::size_t slash = name.rfind('/');
  return slash == std::string::npos ? std::string() : name.substr(0, slash);
}

Status no_such_file(const std::string& path) {
  return error(Code::not_found, cat(quoted(path), " is not on the drive"));
}

bool is_zero(ConstByteSpan bytes) {
  return std::ranges::all_of(bytes, [](std::byte byte) { return byte == std::byte{0}; });
}

/// But for the words of a process that died before it had made the drive ours.
Result<bool> is_blank(sys::File& file, std::uint64_t drive_bytes) {
  Bytes begin(kInspectedBytes), end(kInspectedBytes);
  TOWPATH_TRY(sys::read_exactly(file, begin, 0));
  TOWPATH_TRY(sys::read_exactly(file, end, drive_bytes - kInspectedBytes));
  const ByteSpan words = ByteSpan(begin).subspan(kHolderAt, kDrivePage);
  if (names_holder(as_text(words))) std::ranges::fill(words, std::byte{0});
  return is_zero(begin) && is_zero(end);
}

/// Ours as it is divided, or blank and not divided yet: no slots. Nothing is written.
Result<DriveLabel> look_at(sys::File& file, std::uint64_t bytes) {
  Bytes page(kDrivePage);
  TOWPATH_TRY(divide_drive(bytes));
  TOWPATH_TRY(sys::read_exactly(file, page, 0));
  Result<DriveLabel> label = open_drive_label(page, bytes);
  if (label.ok() || label.code() == Code::unsupported) return label;
  TOWPATH_TRY(const bool is_free, is_blank(file, bytes));
  if (is_free) return DriveLabel{};
  return error(Code::denied,
               cat(quoted(file.path()), " holds something that is not a store of KV blocks"),
               kMakeZeros)
      .because(label.status());
}

Result<DriveLabel> make_ours(sys::File& file, std::uint64_t bytes, bool is_drive) {
  if (!is_drive) TOWPATH_TRY(file.preallocate(bytes));
  TOWPATH_TRY(const DriveLabel label, divide_drive(bytes));
  const Bytes blank(kDrivePage);  // in place of a table that an earlier label was for
  for (const std::uint64_t table : {0U, 1U})
    TOWPATH_TRY(sys::write_exactly(file, blank, label.table_at(table)));
  TOWPATH_TRY(file.sync());
  TOWPATH_TRY(sys::write_exactly(file, seal_drive_label(label), 0));
  TOWPATH_TRY(file.sync());
  return label;
}

}  // namespace

/// Which are free. To give one back takes no memory.
class DriveFiles::Slots : public std::enable_shared_from_this<Slots> {
 public:
  explicit Slots(std::uint64_t count) : is_free_(count, true) {}

  /// Null: none is.
  Slot take() {
    const run::MutexLock lock(mutex_);
    const auto free = std::ranges::find(is_free_, true);
    return free == is_free_.end() ? nullptr
                                  : give(static_cast<std::uint64_t>(free - is_free_.begin()));
  }
  /// One that a table names, which is free.
  Slot take(std::uint64_t slot) {
    const run::MutexLock lock(mutex_);
    return give(slot);
  }
  std::size_t count() {
    const run::MutexLock lock(mutex_);
    return static_cast<std::size_t>(std::ranges::count(is_free_, true));
  }

 private:
  struct Taken {
    std::shared_ptr<Slots> of;
    std::uint64_t slot;
    Taken(std::shared_ptr<Slots> its_slots, std::uint64_t its_slot)
        : of(std::move(its_slots)), slot(its_slot) {}
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;
    ~Taken() {
      const run::MutexLock lock(of->mutex_);
      of->is_free_[slot] = true;
    }
  };

  Slot give(std::uint64_t slot) TOWPATH_REQUIRES(mutex_) {
    auto taken = std::make_shared<Taken>(shared_from_this(), slot);  // or throws, and it is free
    is_free_[slot] = false;
    return {taken, &taken->slot};
  }

  run::Mutex mutex_;
  std::vector<bool> is_free_ TOWPATH_GUARDED_BY(mutex_);
};

// Opening ----------------------------------------------------------------------------------------

DriveFiles::DriveFiles(sys::FileSystem& files, std::string path, const DriveLabel& label)
    : files_(files),
      path_(std::move(path)),
      label_(label),
      identity_(files.identity_of(path_)),
      notes_(std::make_unique<sys::MemoryFileSystem>()),
      slots_(std::make_shared<Slots>(label.slots)) {}

DriveFiles::~DriveFiles() = default;

Result<std::shared_ptr<DriveFiles>> DriveFiles::open(sys::FileSystem& files,
                                                     const std::string& path,
                                                     std::uint64_t incarnation) {
  const StoreHolder holder{path, incarnation};
  TOWPATH_TRY(std::shared_ptr<const void> claim, claim_in_process(files, holder));
  const bool is_drive = files.kind_of(path) == PathKind::drive;
  TOWPATH_TRY(std::shared_ptr<sys::File> file, files.open(path, {.writable = true}));
  TOWPATH_TRY(const std::uint64_t bytes, file->size());
  TOWPATH_TRY(DriveLabel label, look_at(*file, bytes));
  // By a descriptor of its own: what a killed process had given to io_uring holds the other one on.
  TOWPATH_TRY(std::shared_ptr<sys::File> held, files.open(path, {.writable = true}));
  auto words = std::make_unique<sys::FileRange>(
      sys::FileRange::Parts{.whole = std::move(held),
                            .range = {.begin = kHolderAt, .size_bytes = kDrivePage},
                            .path = path,
                            .writable = true});
  TOWPATH_TRY(StoreLock lock, lock_drive(files, holder, std::move(words)));
  // The process that had it until now may have made it ours, or have failed to.
  TOWPATH_TRY(sys::sync_and_drop_cache(*file, {.size_bytes = kDrivePage}));
  TOWPATH_TRY(label, look_at(*file, bytes));
  if (label.slots == 0) {
    TOWPATH_TRY(label, make_ours(*file, bytes, is_drive));
  }
  std::shared_ptr<DriveFiles> drive(new DriveFiles(files, path, label));
  drive->file_ = std::move(file);
  TOWPATH_TRY(drive->direct_, files.open(path, {.writable = true, .direct = true}));
  drive->lock_ = std::move(lock);
  drive->claim_ = std::move(claim);
  TOWPATH_TRY(drive->read_table());
  return drive;
}

// Of a drive that was just made ours both are blank. One may be torn: it was being written. A life
// that was killed may have left the newest in the page cache alone: it is synced, since the next
// one is written over the one before it, and what no sync writes any more is none.
Status DriveFiles::read_table() {
  const run::MutexLock lock(mutex_);
  TOWPATH_TRY(sys::sync_and_drop_cache(*file_, {.size_bytes = label_.slot_at(0)}));
  std::optional<DriveTable> newest;
  Status wrong;
  for (const std::uint64_t which : {0U, 1U}) {
    Bytes bytes(label_.table_bytes());
    TOWPATH_TRY(sys::read_exactly(*file_, bytes, label_.table_at(which)));
    Result<DriveTable> table = open_drive_table(bytes, label_);
    if (table.code() == Code::unsupported) return table.status();
    if (!table.ok() && is_zero(ConstByteSpan(bytes).first(kDrivePage))) table = DriveTable{};
    if (!table.ok())
      wrong = table.status();
    else if (!newest || table->sequence > newest->sequence)
      newest = *std::move(table);
  }
  if (!newest)
    return error(Code::corrupt, cat("both tables of ", quoted(path_), " are damaged"), kMakeZeros)
        .because(wrong);
  sequence_ = newest->sequence;
  for (DriveFile& file : newest->files) names_[file.name] = slots_->take(file.slot);
  return {};
}

// Names ------------------------------------------------------------------------------------------

Result<std::string> DriveFiles::name_of(const std::string& path) const {
  if (path == path_) return std::string();
  if (path.starts_with(cat(path_, "/"))) {
    std::string name;  // as in any file system "a//b/" is "a/b"
    for (std::size_t at = path_.size(); at < path.size();) {
      const std::size_t begin = std::min(path.find_first_not_of('/', at), path.size());
      at = std::min(path.find('/', begin), path.size());
      if (at > begin) name += cat(name.empty() ? "" : "/", path.substr(begin, at - begin));
    }
    if (name.size() <= kMaxDriveName) return name;
  }
  return error(Code::invalid_argument, cat(quoted(path), " is no path on ", quoted(path_)),
               cat("of its folder and the file there, at most ", kMaxDriveName, " bytes"));
}

Result<std::unique_ptr<sys::File>> DriveFiles::open(const std::string& path,
                                                    const sys::OpenFile& options) {
  TOWPATH_TRY(const std::string name, name_of(path));
  if (options.truncate)
    return error(Code::unsupported, cat(quoted(path), " cannot be truncated: it is on a drive"));
  if (options.directory || name == kLockName || name.ends_with(cat("/", kLockName)))
    return open_note(name, options);
  const run::MutexLock lock(mutex_);
  const auto found = names_.find(name);
  if (found != names_.end() && options.exclusive)
    return error(Code::already_exists, cat(quoted(path), " is on the drive already"));
  if (found == names_.end() && !options.create) return no_such_file(path);
  std::shared_ptr<sys::File> whole = direct_;
  if (!options.direct) {
    TOWPATH_TRY(whole, opening_for(folder_of(name)));
  }
  Slot slot = found != names_.end() ? found->second : nullptr;
  if (slot == nullptr) {
    TOWPATH_TRY(slot, make(name));
  }
  if (slot == nullptr)
    return error(Code::exhausted, cat("all ", label_.slots, " slots of ", quoted(path_),
                                      " have files of stores that are open"));
  return std::make_unique<sys::FileRange>(sys::FileRange::Parts{
      .whole = std::move(whole),
      .range = {.begin = label_.slot_at(*slot), .size_bytes = label_.slot_bytes},
      .path = path,
      .writable = options.writable,
      .held = slot});
}

/// Kept until the drive is let go of: to close one would give up what this process holds by
/// F_SETLK. By now the path may lead to another drive.
Result<std::shared_ptr<sys::File>> DriveFiles::opening_for(const std::string& folder) {
  std::shared_ptr<sys::File>& opening = openings_[folder];
  if (opening != nullptr) return opening;
  if (files_.identity_of(path_) != identity_)
    return error(Code::unavailable, cat(quoted(path_), " is not the drive that was opened"),
                 "start this process anew; name the drive by /dev/disk/by-id");
  TOWPATH_TRY(opening, files_.open(path_, {.writable = true}));
  return opening;
}

/// Null: no slot is free, nor becomes so. What has lost its name becomes so with the table that
/// says it: after a crash the name may be there again, and its file is to be what it was.
Result<DriveFiles::Slot> DriveFiles::make(const std::string& name) {
  Slot slot = slots_->take();
  while (slot == nullptr && (!let_go_.empty() || forget_unused())) {
    TOWPATH_TRY(write_table());
    slot = slots_->take();
  }
  if (slot != nullptr) names_[name] = slot;
  return slot;
}

void DriveFiles::forget(Names::iterator file) {
  let_go_.push_back(file->second);
  names_.erase(file);
}

/// One file of a folder that is not in use: the oldest segment, and an index when it has no segment
/// left. False: there is none.
bool DriveFiles::forget_unused() {
  for (const bool segments : {true, false}) {
    for (auto file = names_.begin(); file != names_.end(); ++file) {
      const std::string& name = file->first;
      const bool is_segment = Segment::number_of(name.substr(name.rfind('/') + 1)).has_value();
      if (is_segment != segments || is_in_use(folder_of(name))) continue;
      forget(file);
      return true;
    }
  }
  return false;
}

bool DriveFiles::is_in_use(const std::string& folder) const {
  const auto known = in_use_.find(folder);
  return known != in_use_.end() && !known->second.expired();
}

// Its words are for those in this process; that of the drive is for the others. One that is
// opened past the page cache is asked only whether that can be done here.
Result<std::unique_ptr<sys::File>> DriveFiles::open_note(const std::string& name,
                                                         const sys::OpenFile& options) {
  if (options.direct)
    return std::make_unique<sys::FileRange>(
        sys::FileRange::Parts{.whole = direct_,
                              .range = {.begin = kHolderAt, .size_bytes = kDrivePage},
                              .path = cat(path_, "/", name)});
  const std::string folder = options.directory ? name : folder_of(name);
  TOWPATH_TRY(notes_->make_directories(cat("/", folder)));
  TOWPATH_TRY(std::shared_ptr<sys::File> note, notes_->open(cat("/", name), options));
  const run::MutexLock lock(mutex_);
  std::shared_ptr<const void> use = in_use_[folder].lock();
  if (use == nullptr) in_use_[folder] = use = std::make_shared<char>();
  return std::make_unique<sys::FileRange>(sys::FileRange::Parts{.whole = std::move(note),
                                                                .range = {.size_bytes = kDrivePage},
                                                                .path = cat(path_, "/", name),
                                                                .writable = options.writable,
                                                                .held = std::move(use)});
}

Result<std::unique_ptr<sys::File>> DriveFiles::open_temporary(const sys::OpenTemporary& options) {
  return error(Code::unsupported, cat("no temporary file ", quoted(options.where), " on a drive"));
}

Status DriveFiles::remove(const std::string& path) {
  TOWPATH_TRY(const std::string name, name_of(path));
  const run::MutexLock lock(mutex_);
  const auto found = names_.find(name);
  if (found == names_.end()) return no_such_file(path);
  forget(found);
  return {};
}

Status DriveFiles::rename(const sys::Rename& names) {
  TOWPATH_TRY(const std::string source, name_of(names.source));
  TOWPATH_TRY(const std::string target, name_of(names.target));
  const run::MutexLock lock(mutex_);
  const auto found = names_.find(source);
  if (found == names_.end()) return no_such_file(names.source);
  Slot slot = found->second;
  if (const auto old = names_.find(target); old != names_.end() && old != found) forget(old);
  names_[target] = std::move(slot);
  if (source != target) names_.erase(found);
  return {};
}

Status DriveFiles::make_directories(const std::string& path) { return name_of(path).status(); }

Result<std::vector<std::string>> DriveFiles::list(const std::string& directory) {
  TOWPATH_TRY(const std::string folder, name_of(directory));
  const run::MutexLock lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, slot] : names_)
    if (folder_of(name) == folder) names.push_back(name.substr(name.rfind('/') + 1));
  return names;
}

Status DriveFiles::sync_directory(const std::string& directory) {
  TOWPATH_TRY(name_of(directory));
  const run::MutexLock lock(mutex_);
  return write_table();
}

Status DriveFiles::write_table() {
  DriveTable table{.sequence = sequence_ + 1};
  for (const auto& [name, slot] : names_) table.files.push_back({name, *slot});
  TOWPATH_TRY(sys::write_exactly(*file_, seal_drive_table(table), label_.table_at(table.sequence)));
  TOWPATH_TRY(file_->sync());
  sequence_ = table.sequence;
  let_go_.clear();
  return {};
}

Result<std::uint64_t> DriveFiles::available_bytes(const std::string& path) {
  TOWPATH_TRY(name_of(path));
  return slots_->count() * label_.slot_bytes;
}

PathKind DriveFiles::kind_of(const std::string& path) {
  const Result<std::string> name = name_of(path);
  if (!name.ok()) return PathKind::none;
  const run::MutexLock lock(mutex_);
  return names_.contains(*name) ? PathKind::file : PathKind::directory;
}

sys::FileSlots DriveFiles::file_slots(const std::string& directory) const {
  const Result<std::string> name = name_of(directory);
  return {label_.slots, label_.slot_bytes, !name.ok() || name->empty() ? "/" : *name};
}

Result<std::shared_ptr<sys::FileSystem>> store_files(const std::string& directory) {
  auto files = std::make_shared<sys::SystemFileSystem>();
  for (std::size_t end = directory.find('/', 1);; end = directory.find('/', end + 1)) {
    const std::string path = directory.substr(0, end);
    const PathKind kind = files->kind_of(path);
    if (kind == PathKind::drive || kind == PathKind::file) {
      TOWPATH_TRY(auto drive, DriveFiles::open(*files, path, sys::random_u64()));
      auto both = std::make_shared<std::pair<decltype(files), decltype(drive)>>(files, drive);
      return std::shared_ptr<sys::FileSystem>(both, both->second.get());  // the drive goes first
    }
    if (kind != PathKind::directory || end == std::string::npos)
      return std::shared_ptr<sys::FileSystem>(files);
  }
}

}  // namespace towpath::kv
