// CudaLibrary: CUDA's driver, opened at run time, and what its answers mean. Private to this
// folder. Thread: any; immutable once opened.
#pragma once

#include <memory>
#include <string>

#include <towpath/core/format.h>
#include <towpath/core/result.h>
#include <towpath/device/cuda/cuda_abi.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::device::cuda {

class CudaLibrary {
 public:
  /// Opens, and starts the driver. Errors: unsupported (not installed, too old, a stub, no GPU,
  /// driver and kernel module do not match), unavailable, denied; each with what to do about it.
  static Result<std::shared_ptr<const CudaLibrary>> open(const std::string& name);

  explicit CudaLibrary(sys::DynamicLibrary library) : library_(std::move(library)) {}

  const Functions& call() const noexcept { return functions_; }
  const sys::DynamicLibrary& library() const noexcept { return library_; }
  /// "12.9": of the interface.
  Result<std::string> version() const;

  /// Waits for a stream. Whatever it returns, no byte of what was given to it moves afterwards.
  CuResult wait_for(CuStream stream) const;

  /// ok, or "`what`: out of memory (CUDA_ERROR_OUT_OF_MEMORY, 2)". The parts are joined on failure
  /// only.
  template <typename... Parts>
  Status check(CuResult result, const Parts&... what) const {
    return result == kSuccess ? Status() : failure(result, cat(what...));
  }

 private:
  Status find_functions();
  Status failure(CuResult result, const std::string& what) const;

  sys::DynamicLibrary library_;
  Functions functions_;
};

}  // namespace towpath::device::cuda
