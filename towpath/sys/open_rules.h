// What every FileSystem refuses alike, and how it reads paths. Only for their sources.
// Thread: any.
#pragma once

#include <string>

#include <towpath/sys/file.h>

namespace towpath::sys::internal {

/// A path for a message.
std::string quoted_path(const std::string& path);
/// The directory that holds `path`: "." for a bare name.
std::string parent_of(const std::string& path);

Status check_path(const std::string& path);
/// Refuses what contradicts itself.
Status check_open(const std::string& path, const OpenFile& options);

/// What six letters are put behind, to make the name of a temporary file.
std::string temporary_base(const std::string& where);

}  // namespace towpath::sys::internal
