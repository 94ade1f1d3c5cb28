// The opened library, with its functions. Private to this folder. Thread: any; immutable once
// checked.
#pragma once

#include <towpath/shmem/nvshmem/nvshmem.h>
#include <towpath/shmem/nvshmem/nvshmem_abi.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::shmem::nvshmem {

class Library final : public NvshmemLibrary {
 public:
  explicit Library(sys::DynamicLibrary library) : library_(std::move(library)) {}
  /// Once, before all else.
  Status check(const NvshmemOptions& options);

  std::string version() const override { return version_; }
  std::string path() const override { return library_.path(); }
  bool is_stand_in() const override { return is_stand_in_; }
  Result<Id> create_id() const override;
  const Functions& call() const noexcept { return functions_; }

 private:
  Status find_functions();

  sys::DynamicLibrary library_;
  Functions functions_;
  std::string version_;
  bool is_stand_in_ = false;
};

}  // namespace towpath::shmem::nvshmem
