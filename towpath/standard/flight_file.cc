#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <vector>

#include <towpath/core/format.h>
#include <towpath/standard/flight_file.h>
#include <towpath/sys/process.h>

namespace towpath::standard {
namespace {

using telemetry::FlightRecorder;

constexpr std::string_view kEnding = ".flight";
constexpr std::size_t kMostNameBytes = 180;  // of the 255 that file systems allow

// Names that had to be cut stay apart by their digest.
std::string file_stem(std::string_view agent) {
  std::string name = path_safe(agent);
  if (name.size() <= kMostNameBytes) return name;
  const std::string digest = hex(std::hash<std::string_view>()(agent));
  return cat(std::string_view(name).substr(0, kMostNameBytes), "-", digest);
}

// Whether this is STEM.PID.flight, or STEM.PID-NTH.flight.
bool is_of(std::string_view name, std::string_view stem) {
  if (!name.starts_with(cat(stem, ".")) || !name.ends_with(kEnding)) return false;
  name.remove_prefix(stem.size() + 1);
  if (name.size() <= kEnding.size()) return false;
  name.remove_suffix(kEnding.size());
  const std::size_t dash = std::min(name.find('-'), name.size());
  const std::string_view nth = name.substr(std::min(dash + 1, name.size()));
  const auto is_number = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  return is_number(name.substr(0, dash)) && (dash == name.size() || is_number(nth));
}

// What a ring says of its writer (docs/formats/flight.md); zeros where it does not say.
struct Head {
  std::uint64_t process = 0;
  std::uint64_t started = 0;
  bool marked = false;
};

Head head_of(sys::File& file) {
  constexpr std::uint64_t kFirst = 4;
  std::array<std::uint64_t, 4> words{};
  const ByteSpan into(reinterpret_cast<std::byte*>(words.data()), sizeof words);
  if (!sys::read_exactly(file, into, kFirst * sizeof words[0]).ok()) return {};
  return {.process = words[0], .started = words[2], .marked = words[3] != 0};
}

bool writer_lives(sys::File& file, const Head& head) {
  if (head.marked)
    if (const auto used = file.in_use(); used.ok()) return *used;
  return sys::process_exists(head.process);
}

struct Old {
  std::uint64_t started = 0;
  bool lives = false;
  std::string path;
};

/// Whether its name leads to it still; nothing: nobody knows.
std::optional<bool> is_still_there(sys::FileSystem& files, const sys::File& file) {
  const auto own = files.identity_of(cat("/proc/self/fd/", file.fd()));
  if (!own) return std::nullopt;
  return own == files.identity_of(file.path());
}

/// A file without a ring, unless somebody is making it just now, who marks it at once. Where there
/// are no marks, nobody knows.
void remove_half_made(sys::FileSystem& files, const std::string& path) {
  const auto file = files.open(path, {.writable = true, .plain = true});
  if (!file.ok() || !(*file)->mark_in_use().ok()) return;  // from here on nobody else removes it
  const bool is_it = is_still_there(files, **file).value_or(false);
  if (is_it && head_of(**file).started == 0) (void)files.remove(path);
}

/// Removes the oldest, so that one more makes `keep`, and what a crash left half made. What is
/// still written to stays, and what cannot be removed.
void make_room(sys::FileSystem& files, const FlightFileOptions& options, const std::string& stem) {
  const auto names = files.list(options.directory);
  if (!names.ok()) return;
  std::vector<Old> old;
  for (const std::string& name : *names) {
    if (!is_of(name, stem)) continue;
    std::string path = cat(options.directory, "/", name);
    // Others may write to the directory: a FIFO of this name would hold the agent up.
    const auto file = files.open(path, {.plain = true});
    const Head head = file.ok() ? head_of(**file) : Head{};
    if (head.started == 0) {
      remove_half_made(files, path);
      continue;
    }
    // Where there are no marks, one of our number may have been written by a process before us:
    // in a container it always has that number, and its rings would never go.
    const bool may_be_before_us = !head.marked && head.process == options.process;
    old.push_back({head.started, !may_be_before_us && writer_lives(**file, head), std::move(path)});
  }
  std::ranges::sort(old, std::greater(), &Old::started);
  for (std::size_t i = std::max<std::size_t>(options.keep, 1) - 1; i < old.size(); ++i)
    if (!old[i].lives) (void)files.remove(old[i].path);
}

struct Made {
  std::unique_ptr<sys::File> file;
  bool marked = false;  ///< in use; else there are no marks here
};

/// STEM.PID.flight; where there is one, STEM.PID-2.flight, and so on: it is another agent's of this
/// process, or of a process in another container, or what a process of our number did last. One
/// that another takes for half made before it is marked is left to that.
Result<Made> make_file(sys::FileSystem& files, const std::string& base) {
  for (std::uint64_t nth = 1;; ++nth) {
    const std::string path = cat(nth == 1 ? base : cat(base, "-", nth), kEnding);
    auto file = files.open(path, {.writable = true, .create = true, .exclusive = true});
    if (file.code() == Code::already_exists) continue;
    if (!file.ok()) return file.status();
    const Status marked = (*file)->mark_in_use();
    const bool is_taken = marked.code() == Code::unavailable ||
                          (marked.ok() && !is_still_there(files, **file).value_or(true));
    if (!is_taken) return Made{*std::move(file), marked.ok()};
  }
}

}  // namespace

Result<std::unique_ptr<FlightFile>> FlightFile::open(sys::FileSystem& files, const Clock& clock,
                                                     const FlightFileOptions& options) {
  if (options.records == 0 || options.records > kMostFlightRecords)
    return error(Code::invalid_argument, cat("a flight recorder of ", options.records, " records"),
                 cat("ask for 1 to ", kMostFlightRecords));
  TOWPATH_TRY(files.make_directories(options.directory));
  const std::string stem = file_stem(options.agent);
  make_room(files, options, stem);
  const std::uint64_t size = FlightRecorder::bytes_for(options.records);
  TOWPATH_TRY(Made made, make_file(files, cat(options.directory, "/", stem, ".", options.process)));
  if (Status reserved = made.file->preallocate(size); !reserved.ok()) {
    (void)files.remove(made.file->path());
    return reserved;
  }
  TOWPATH_TRY(sys::Mapping mapping,
              sys::Mapping::of_file({.fd = made.file->fd(), .size_bytes = size}));
  TOWPATH_TRY(const FlightRecorder recorder,
              FlightRecorder::format(mapping.bytes(), clock,
                                     {.process = options.process, .marked = made.marked}));
  return std::unique_ptr<FlightFile>(
      new FlightFile(std::move(made.file), std::move(mapping), recorder));
}

bool flight_writer_lives(sys::File& file) { return writer_lives(file, head_of(file)); }

}  // namespace towpath::standard
