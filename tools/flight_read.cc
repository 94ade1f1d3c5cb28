#include "tools/flight_read.h"

#include <filesystem>
#include <system_error>

#include <towpath/core/format.h>
#include <towpath/standard/flight_file.h>
#include <towpath/sys/file.h>
#include <towpath/telemetry/flight_recorder.h>

namespace towpath::tools {
namespace {

constexpr std::string_view kSuffix = ".flight";

/// Others may write to a directory: what was found there is not waited for, as a FIFO would be. A
/// link to a file is as good as the file.
Result<std::unique_ptr<sys::File>> open_recorder(const RecorderFile& recorder) {
  sys::SystemFileSystem files;
  if (recorder.named) return files.open(recorder.path, {});
  std::error_code failed;
  const std::filesystem::path target = std::filesystem::canonical(recorder.path, failed);
  const bool is_file = !failed && files.kind_of(target.string()) == sys::PathKind::file;
  return files.open(is_file ? target.string() : recorder.path, {.plain = true});
}

}  // namespace

Result<std::vector<RecorderFile>> recorders_in(const std::vector<std::string>& places) {
  sys::SystemFileSystem files;
  std::vector<RecorderFile> found;
  for (const std::string& place : places) {
    const sys::PathKind kind = files.kind_of(place);
    if (kind == sys::PathKind::none) return no_recorder_at(place);
    if (kind != sys::PathKind::directory) {
      found.push_back({place, true});
      continue;
    }
    TOWPATH_TRY(const auto names, files.list(place));
    for (const std::string& name : names)
      if (name.ends_with(kSuffix)) found.push_back({cat(place, "/", name)});
  }
  if (!found.empty()) return found;
  return no_recorder_at(places.front());
}

Status no_recorder_at(const std::string& place) {
  return error(Code::not_found, cat("no flight recorder is at ", printable(place, 256)),
               "start the node with NIXL_TELEMETRY_ENABLE=1 NIXL_TELEMETRY_DIR=DIRECTORY");
}

std::string node_name_of(const std::string& path) {
  std::string name = path.substr(path.find_last_of('/') + 1);
  if (name.ends_with(kSuffix)) name.resize(name.size() - kSuffix.size());
  return name.substr(0, name.find_last_of('.'));
}

bool writer_lives(const RecorderFile& recorder) {
  const auto file = open_recorder(recorder);
  return file.ok() && standard::flight_writer_lives(**file);
}

Result<telemetry::FlightLog> read_flight_file(const RecorderFile& recorder) {
  const std::string path = printable(recorder.path, 256);
  if (sys::SystemFileSystem().kind_of(recorder.path) == sys::PathKind::directory)
    return error(Code::not_found, cat(path, " is a directory"),
                 "name one of its files; `towpath top` shows all of a directory");
  TOWPATH_TRY(const auto file, open_recorder(recorder));
  TOWPATH_TRY(const std::uint64_t size, file->size());
  const std::uint64_t most = telemetry::FlightRecorder::bytes_for(standard::kMostFlightRecords);
  if (size > most)
    return error(Code::corrupt,
                 cat(path, " has ", size, " bytes, a flight recorder at most ", most),
                 "pass a file that a Towpath process wrote");
  Bytes copy(size);
  TOWPATH_TRY(sys::read_exactly(*file, copy, 0));
  auto log = telemetry::read_flight(copy);
  if (!log.ok())
    return error(log.code(), cat(path, ": ", log.status().message()),
                 std::string(log.status().hint()));
  return log;
}

}  // namespace towpath::tools
