#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include <towpath/backends/shm/piece_table.h>
#include <towpath/core/format.h>
#include <towpath/sys/memfd.h>
#include <towpath/sys/process.h>

namespace towpath::backends::shm {

using Word = std::atomic<std::uint64_t>;
static_assert(Word::is_always_lock_free && sizeof(Word) == 8, "shared between processes");

struct PieceEntryWords {
  static constexpr std::size_t kNameWords = 6;

  Word holder;  ///< 0: free
  Word turn;    ///< odd: in a piece
  std::array<Word, kNameWords> name;
};
static_assert(sizeof(PieceEntryWords) == PieceTable::kEntryBytes, "docs/formats/shm.md");

namespace {

PieceEntryWords& entry_at(const sys::Mapping& mapping, std::uint32_t index) {
  return reinterpret_cast<PieceEntryWords*>(mapping.data())[1 + index];
}

/// Entries that were ever claimed lie below it.
Word& used(const sys::Mapping& mapping) { return *reinterpret_cast<Word*>(mapping.data()); }

std::uint32_t used_entries(const sys::Mapping& mapping) {
  // Sequentially consistent: it is raised before the first piece of an entry, see raise_used().
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(used(mapping).load(), PieceTable::kEntries));
}

void raise_used(const sys::Mapping& mapping, std::uint64_t to) {
  std::uint64_t now = used(mapping).load();
  while (now < to && !used(mapping).compare_exchange_weak(now, to)) continue;
}

// ---- Who holds an entry: a pid may be used again, so its start time is part of it.

constexpr unsigned kStartBits = 40;  // of ticks: three hundred years
static_assert(kMaxPid < std::uint32_t{1} << (64 - kStartBits), "a pid fits above");

std::uint64_t holder_word(const PieceHolder& who) {
  return std::uint64_t{who.pid} << kStartBits |
         (who.start_time & ((std::uint64_t{1} << kStartBits) - 1));
}
pid_t pid_of(std::uint64_t holder) { return static_cast<pid_t>(holder >> kStartBits); }

/// Whether the process, and each of its threads, has ended.
bool has_ended(std::uint64_t holder) {
  const pid_t pid = pid_of(holder);
  if (pid <= 0) return true;
  // First the descriptor, then the question: the answer is about what the descriptor holds.
  const auto process = sys::open_process(pid);
  if (!process.ok()) return process.code() == Code::peer_lost;
  const auto start_time = sys::process_start_time(pid);
  if (!start_time.ok()) return start_time.code() == Code::peer_lost;
  const bool is_same = holder_word({.pid = static_cast<std::uint32_t>(pid),
                                    .start_time = *start_time,
                                    .name = {}}) == holder;
  return !is_same || sys::has_ended(*process);
}

// ---- Names, in words, since another process may write while this one reads.

using NameBytes = std::array<char, PieceEntryWords::kNameWords * sizeof(std::uint64_t)>;

void put_name(PieceEntryWords& entry, std::string_view name) {
  NameBytes bytes{};
  std::memcpy(bytes.data(), name.data(), std::min(name.size(), bytes.size()));
  std::array<std::uint64_t, PieceEntryWords::kNameWords> words;
  std::memcpy(words.data(), bytes.data(), bytes.size());
  for (std::size_t i = 0; i < words.size(); ++i)
    entry.name[i].store(words[i], std::memory_order_relaxed);  // only text of an error
}

std::string name_in(const PieceEntryWords& entry) {
  std::array<std::uint64_t, PieceEntryWords::kNameWords> words;
  for (std::size_t i = 0; i < words.size(); ++i)
    words[i] = entry.name[i].load(std::memory_order_relaxed);
  NameBytes bytes;
  std::memcpy(bytes.data(), words.data(), bytes.size());
  return printable({bytes.data(), ::strnlen(bytes.data(), bytes.size())});
}

}  // namespace

// ---- The owner

namespace {

class UnderWay final : public backend::PeerPieces {
 public:
  void add(const PieceEntryWords& entry, std::uint64_t turn) { all_.push_back({&entry, turn}); }
  bool is_empty() const noexcept { return all_.empty(); }

  Status check() override {
    std::erase_if(all_, [](const Piece& piece) {
      // Sequentially consistent, hence acquire: pairs with end_piece(), whose bytes are in place.
      return piece.entry->turn.load() != piece.turn || has_ended(piece.entry->holder.load());
    });
    if (all_.empty()) return {};
    const PieceEntryWords& first = *all_.front().entry;
    return error(Code::not_ready,
                 cat("peer ", name_in(first), ", process ", pid_of(first.holder.load()),
                     ", is in the middle of moving bytes",
                     all_.size() > 1 ? cat(", and ", all_.size() - 1, " others") : ""),
                 "let it go on (SIGCONT) or end it, and release again");
  }

 private:
  struct Piece {
    const PieceEntryWords* entry;
    std::uint64_t turn;
  };
  std::vector<Piece> all_;
};

}  // namespace

Result<PieceTable> PieceTable::create() {
  TOWPATH_TRY(sys::Fd fd, sys::create_sealed_memfd(kName, kSize));
  TOWPATH_TRY(const FileRef file, file_ref(fd.get()));
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = fd.get(), .size_bytes = kSize, .writable = true}));
  return PieceTable(std::move(fd), file, std::move(mapping));
}

std::unique_ptr<backend::PeerPieces> PieceTable::under_way() const {
  std::unique_ptr<UnderWay> pieces;
  for (std::uint32_t index = 0, end = used_entries(mapping_); index < end; ++index) {
    const PieceEntryWords& entry = entry_at(mapping_, index);
    const std::uint64_t turn = entry.turn.load();  // see the head of piece_table.h
    if (turn % 2 == 0) continue;
    if (pieces == nullptr) pieces = std::make_unique<UnderWay>();
    pieces->add(entry, turn);
  }
  return pieces;
}

// ---- A peer

Result<PieceEntry> PieceEntry::claim(int fd, const PieceHolder& holder) {
  TOWPATH_TRY(sys::check_sealed(fd, PieceTable::kSize));
  TOWPATH_TRY(
      sys::Mapping mapping,
      sys::Mapping::of_file(
          {.fd = fd, .size_bytes = PieceTable::kSize, .writable = true, .inherited = false}));
  const std::uint64_t mine = holder_word(holder);
  const auto take = [&](std::uint32_t index, auto&& may_take) {
    PieceEntryWords& entry = entry_at(mapping, index);
    std::uint64_t before = entry.holder.load();
    if (!may_take(before) || !entry.holder.compare_exchange_strong(before, mine)) return false;
    put_name(entry, holder.name);
    raise_used(mapping, index + 1);
    // One that died in a piece left it odd; an owner that waits for that sees it change.
    if (entry.turn.load() % 2 != 0) entry.turn.fetch_add(1);
    return true;
  };
  for (std::uint32_t index = 0; index < PieceTable::kEntries; ++index)
    if (take(index, [](std::uint64_t before) { return before == 0; }))
      return PieceEntry(std::move(mapping), index);
  for (std::uint32_t index = 0; index < PieceTable::kEntries; ++index)
    if (take(index, has_ended)) return PieceEntry(std::move(mapping), index);
  return error(Code::exhausted,
               cat(PieceTable::kEntries, " connections of this host lead to it already"),
               "close some, or use a network backend");
}

PieceEntry::~PieceEntry() {
  if (mapping_) words().holder.store(0);
}

PieceEntryWords& PieceEntry::words() const noexcept { return entry_at(mapping_, index_); }

void PieceEntry::begin_piece() const noexcept {
  // Only the holder writes it. Sequentially consistent: see the head of piece_table.h.
  Word& turn = words().turn;
  turn.store(turn.load(std::memory_order_relaxed) + 1);
}

void PieceEntry::end_piece() const noexcept {
  Word& turn = words().turn;
  // Release pairs with the loads of UnderWay::check(): the bytes are in place.
  turn.store(turn.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

}  // namespace towpath::backends::shm
