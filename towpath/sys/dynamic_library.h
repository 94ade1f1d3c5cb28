// DynamicLibrary: a shared library found at run time, with the functions looked up by name.
//
// For what a machine may have or not (a network stack, a GPU's driver): it is never linked, so
// programs start without it, and asking for it says what is missing. It is opened with local
// symbols, and stays loaded until the process ends: such libraries start threads of their own.
// Thread: any; immutable once opened.
#pragma once

#include <string>

#include <towpath/core/result.h>

namespace towpath::sys {

class DynamicLibrary {
 public:
  /// `name` is a soname, found as the loader finds it, or a path with a '/'.
  /// Errors: unsupported (not there, or it cannot be loaded), in the loader's own words.
  static Result<DynamicLibrary> open(std::string name);

  /// Null when the library has no such symbol.
  void* find(const char* symbol) const noexcept;
  /// Whether somebody else in this process had loaded it before.
  bool was_loaded() const noexcept { return was_loaded_; }
  /// As it was asked for.
  const std::string& name() const noexcept { return name_; }
  /// The file that the loader took; the name where it does not report.
  std::string path() const;

 private:
  DynamicLibrary(std::string name, void* handle, bool was_loaded) noexcept
      : name_(std::move(name)), handle_(handle), was_loaded_(was_loaded) {}

  std::string name_;
  void* handle_;
  bool was_loaded_;
};

}  // namespace towpath::sys
