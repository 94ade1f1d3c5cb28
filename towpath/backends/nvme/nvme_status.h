// How a drive says that a command failed, as a Status: type and code by the names of the
// specification, and whether trying again can help.
//
//   bit  14 do not retry   13 more   12:11 retry delay   10:8 type (SCT)   7:0 code (SC)
//
// Thread: immutable.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <towpath/core/status.h>

namespace towpath::backends::nvme {

struct NvmeStatus {
  std::uint16_t bits = 0;  ///< without the phase bit, as the kernel gives it

  constexpr unsigned type() const noexcept { return bits >> 8U & 0x7U; }
  constexpr unsigned code() const noexcept { return bits & 0xFFU; }
  constexpr bool do_not_retry() const noexcept { return (bits & 0x4000U) != 0; }
};

/// "LBA Out of Range"; "" when this code has no name here.
std::string_view name_of(NvmeStatus status) noexcept;
/// "LBA Out of Range (type 0 generic, code 0x80, do not retry)".
std::string to_string(NvmeStatus status);

/// Whether the same command may go well a moment later: the drive does not forbid it, and the
/// failure is of the moment, not of the medium or the command.
bool is_worth_a_retry(NvmeStatus status) noexcept;

/// The failure "`what`: LBA Out of Range (...)". The code is what a program should act on:
///   out_of_range  beyond the namespace         denied       write-protected, reserved, refused
///   corrupt       protection information       unavailable  not ready, aborted, path lost
///   exhausted     capacity                     io_error     the medium, the drive itself
///   unsupported   opcode or field unknown      not_found    no such namespace
Status to_status(NvmeStatus status, std::string what);

}  // namespace towpath::backends::nvme
