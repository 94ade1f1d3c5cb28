#include <algorithm>
#include <array>
#include <functional>
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

// Whether this is STEM.PID.flight.
bool is_of(std::string_view name, std::string_view stem) {
  if (!name.starts_with(cat(stem, ".")) || !name.ends_with(kEnding)) return false;
  name.remove_prefix(stem.size() + 1);
  if (name.size() <= kEnding.size()) return false;
  name.remove_suffix(kEnding.size());
  return name.find_first_not_of("0123456789") == std::string_view::npos;
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

struct Old {
  std::uint64_t started = 0;
  std::string path;
};

// When a ring says that it began; 0 when it does not say.
std::uint64_t started_at(sys::FileSystem& files, const std::string& path) {
  const auto file = files.open(path, {});
  return file.ok() ? head_of(**file).started : 0;
}

/// Removes the oldest, so that one more makes `keep`. What cannot be removed stays.
void make_room(sys::FileSystem& files, const FlightFileOptions& options, const std::string& stem) {
  const auto names = files.list(options.directory);
  if (!names.ok()) return;
  std::vector<Old> old;
  for (const std::string& name : *names) {
    const std::string path = cat(options.directory, "/", name);
    if (is_of(name, stem)) old.push_back({started_at(files, path), path});
  }
  std::ranges::sort(old, std::greater(), &Old::started);
  for (std::size_t i = std::max<std::size_t>(options.keep, 1) - 1; i < old.size(); ++i)
    (void)files.remove(old[i].path);
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
  std::string path = cat(options.directory, "/", stem, ".", options.process, kEnding);
  const std::uint64_t size = FlightRecorder::bytes_for(options.records);
  // A new file, not the old one cut: who still writes to a file of this name is not disturbed.
  (void)files.remove(path);
  TOWPATH_TRY(auto file, files.open(path, {.writable = true, .create = true, .exclusive = true}));
  if (Status reserved = file->preallocate(size); !reserved.ok()) {
    (void)files.remove(path);
    return reserved;
  }
  TOWPATH_TRY(sys::Mapping mapping, sys::Mapping::of_file({.fd = file->fd(), .size_bytes = size}));
  // Before the ring is whole: its readers may ask from then on.
  const bool marked = file->mark_in_use().ok();
  TOWPATH_TRY(const FlightRecorder recorder,
              FlightRecorder::format(mapping.bytes(), clock,
                                     {.process = options.process, .marked = marked}));
  return std::unique_ptr<FlightFile>(new FlightFile(std::move(file), std::move(mapping), recorder));
}

bool flight_writer_lives(sys::File& file) {
  const Head head = head_of(file);
  if (head.marked)
    if (const auto used = file.in_use(); used.ok()) return *used;
  return sys::process_exists(head.process);
}

}  // namespace towpath::standard
