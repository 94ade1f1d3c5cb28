// What is said at a SocketBootstrap: one frame each, of type `pe_exchange`.
// Thread: immutable.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <towpath/core/bytes.h>
#include <towpath/core/result.h>
#include <towpath/wire/envelope.h>

namespace towpath::shmem {

/// A PE: who it is, and one thing said. PE 0: what everybody said; nothing at all is its welcome;
/// or why it refuses.
struct BootstrapWords {
  std::optional<std::uint32_t> pe;
  std::uint32_t pes = 0;
  std::vector<Bytes> said;
  std::string refusal;
};

inline constexpr std::string_view kBootstrapService = "shmem";
inline constexpr std::size_t kMaxSaidBytes = 64 * 1024;

/// Of a frame in which `count` PEs say something.
wire::OpenLimits bootstrap_limits(int count) noexcept;

/// Sealed. Errors: out_of_range (more than kMaxSaidBytes).
Result<Bytes> encode_bootstrap_words(const BootstrapWords& words);
/// The numbers are not proven to make sense. Errors: corrupt, unsupported, out_of_range.
Result<BootstrapWords> decode_bootstrap_words(ConstByteSpan payload);

}  // namespace towpath::shmem
