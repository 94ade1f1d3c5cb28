// CuFile: libcufile, opened at run time and started, and what its answers mean.
//
// libcufile moves bytes between a file and a GPU's memory: straight, or, in its compat mode, by
// copies through host memory of its own. It takes the second way without a word where it is allowed
// to; so it is configured beforehand not to, unless the user says otherwise.
// Invariants: the process must not fork while this lives and use the library in the child.
// Thread: any; immutable once opened. The GPU must be current on a thread that moves bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <towpath/backends/gds/cufile_abi.h>
#include <towpath/core/format.h>
#include <towpath/core/result.h>
#include <towpath/sys/dynamic_library.h>

namespace towpath::backends::gds {

/// What libcufile may do where the direct ways do not work.
enum class Compat : std::uint8_t {
  refuse,  ///< nothing: registering a file is an error then
  allow,   ///< stage the bytes through host memory
};

struct CuFileOptions {
  /// Tried in this order.
  std::vector<std::string> libraries = {"libcufile.so.0", "libcufile.so"};
  Compat compat = Compat::refuse;
};

class CuFile {
 public:
  /// Errors: not_found (no such library), unsupported (too old; compat mode cannot be refused; no
  /// GPU), unavailable, denied; each with what to do about it.
  static Result<std::shared_ptr<const CuFile>> open(const CuFileOptions& options = {});
  CuFile(sys::DynamicLibrary library, Compat compat)
      : library_(std::move(library)), compat_(compat) {}
  CuFile(const CuFile&) = delete;
  CuFile& operator=(const CuFile&) = delete;
  ~CuFile();

  const cufile::Functions& call() const noexcept { return functions_; }
  const cufile::Properties& properties() const noexcept { return properties_; }
  /// Whether an I/O may be staged through host memory without our hearing of it.
  bool may_stage() const noexcept { return compat_ == Compat::allow; }
  bool has_batches() const noexcept;
  bool has_streams() const noexcept;
  /// "libcufile 1.13 (/usr/lib/libcufile.so.0), no compat mode".
  std::string describe() const;
  /// How often each way was taken so far, by all GPUs; nothing where the library does not count, or
  /// is newer than those whose counters are known.
  std::optional<cufile::GpuCounters> counters() const;

  /// ok, or "`what`: GPUDirect Storage not supported on this file (5008)".
  template <typename... Parts>
  Status check(cufile::Answer answer, const Parts&... what) const {
    return answer.code == 0 ? Status() : failure(answer, cat(what...));
  }
  /// What cuFileRead() and cuFileWrite() answer, as one number: bytes, or a negative errno, or a
  /// negative code of the library's own. Looks at errno, on the thread of the call.
  static std::int32_t result_of(ssize_t answer) noexcept;
  /// The same of what a stream left behind: nobody's errno reports more.
  static std::int32_t result_of_stream(ssize_t moved) noexcept;
  /// The failure that a negative result_of() stands for.
  Status failure_of(std::int32_t result, const std::string& what) const;

 private:
  Status find_functions();
  Status start();
  Status forbid_compat() const;
  Status failure(cufile::Answer answer, std::string what) const;
  template <typename Counters>
  std::optional<cufile::GpuCounters> counted() const;

  sys::DynamicLibrary library_;
  const Compat compat_;
  cufile::Functions functions_;
  cufile::Properties properties_;
  int version_ = 0;       // 0: it does not say
  bool is_ours_ = false;  // the driver: opened by us
  bool is_counting_ = false;
};

}  // namespace towpath::backends::gds
