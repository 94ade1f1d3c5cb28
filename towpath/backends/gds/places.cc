#include <cerrno>

#include <fcntl.h>

#include <towpath/backend/path_mode.h>
#include <towpath/backends/gds/places.h>
#include <towpath/sys/os_error.h>

namespace towpath::backends::gds {

Result<std::shared_ptr<GdsFile>> Places::open(const RegionDescriptor& region) {
  TOWPATH_TRY(const auto mode, backend::PathMode::parse(region.key));
  if (!mode.has_value()) return open_plain(region);
  TOWPATH_TRY(const backend::OpenedPath opened, backend::open_path(*mode));
  RegionDescriptor named = region;
  named.fd = opened.fd.get();  // until it is opened anew
  named.key = mode->path;
  return open_plain(named);
}

Result<std::shared_ptr<GdsFile>> Places::open_plain(const RegionDescriptor& region) {
  TOWPATH_TRY(const GdsFile::Place place, GdsFile::place_of(region));
  const auto known = decided_.find(place);
  if (known != decided_.end() && !known->second.ok())
    return error(known->second.code(), cat("files of this file system do not go straight to a GPU"),
                 std::string(known->second.hint()))
        .because(known->second);
  auto file = GdsFile::open(cufile_, region);
  const bool about_place =
      file.ok() || file.code() == Code::unsupported || file.code() == Code::invalid_argument;
  if (known != decided_.end() || !about_place) return file;
  decided_[place] = file.status();
  if (file.ok())
    log_.info(cufile_->may_stage() ? "libcufile takes this file system, perhaps with compat mode"
                                   : "files of this file system go straight to the GPU",
              {{"file", (*file)->name()}, {"by", cufile_->describe()}});
  else
    log_.warning("files of this file system do not go straight to a GPU; another backend may stage",
                 {{"why", file.status().to_string()}});
  return file;
}

Status Places::decide(const std::string& directory) {
  const sys::Fd file(::open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file) return sys::os_error(errno, cat("cannot make a file in '", printable(directory), "'"));
  return open_plain({.kind = MemoryKind::disk, .length = 1, .fd = file.get(), .key = directory})
      .status();
}

}  // namespace towpath::backends::gds
