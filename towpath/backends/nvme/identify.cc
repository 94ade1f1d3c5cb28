#include <towpath/backends/nvme/identify.h>
#include <towpath/backends/nvme/nvme_command.h>
#include <towpath/core/checked.h>
#include <towpath/core/format.h>

namespace towpath::backends::nvme {
namespace {

constexpr std::uint64_t kSmallestPage = 4096;
// Larger ones cannot be: the field is a power of two, and 2^32 pages are 16 TiB.
constexpr unsigned kMaxMdts = 32;
constexpr unsigned kMinBlockShift = 9;
constexpr unsigned kMaxBlockShift = 16;
constexpr std::size_t kFormats = 128;  // where the list of LBA formats begins
constexpr std::size_t kMaxFormats = 64;

std::uint64_t load(ConstByteSpan page, std::size_t place, std::size_t bytes) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i)
    value |= static_cast<std::uint64_t>(page[place + i]) << (8 * i);
  return value;
}

/// ASCII, filled up with blanks.
std::string text_at(ConstByteSpan page, std::size_t place, std::size_t bytes) {
  std::string_view text = as_text(page.subspan(place, bytes));
  while (!text.empty() && (text.back() == ' ' || text.back() == '\0')) text.remove_suffix(1);
  return printable(text);
}

Status check_size(ConstByteSpan page) {
  if (page.size() == kIdentifyBytes) return {};
  return error(Code::corrupt, cat("an identify page of ", page.size(), " bytes"));
}

/// FLBAS: bits 3:0 of the index, and 6:5 above them where the list is that long.
std::size_t format_index(ConstByteSpan page) noexcept {
  const std::uint64_t flbas = load(page, 26, 1);
  return (flbas & 0xFU) | ((flbas >> 5U & 0x3U) << 4U);
}

}  // namespace

std::uint64_t ControllerIdentity::max_transfer_bytes() const noexcept {
  return mdts == 0 ? UINT64_MAX : kSmallestPage << mdts;
}

Result<ControllerIdentity> decode_controller(ConstByteSpan page) {
  TOWPATH_TRY(check_size(page));
  ControllerIdentity found;
  found.serial = text_at(page, 4, 20);
  found.model = text_at(page, 24, 40);
  found.firmware = text_at(page, 64, 8);
  found.mdts = static_cast<std::uint8_t>(load(page, 77, 1));
  found.deallocates = (load(page, 520, 2) & (1U << 2U)) != 0;
  found.has_write_cache = (load(page, 525, 1) & 1U) != 0;
  if (found.mdts > kMaxMdts)
    return error(Code::corrupt, cat("the drive '", found.model, "' says it takes 2^", found.mdts,
                                    " pages at once"));
  return found;
}

Result<NamespaceIdentity> decode_namespace(ConstByteSpan page) {
  TOWPATH_TRY(check_size(page));
  NamespaceIdentity found;
  found.blocks = load(page, 0, 8);
  if (found.blocks == 0)
    return error(Code::not_found, "the namespace has no blocks",
                 "attach it to the controller (nvme attach-ns)");
  const std::size_t formats = load(page, 25, 1) + 1;
  const std::size_t index = format_index(page);
  if (formats > kMaxFormats || index >= formats)
    return error(Code::corrupt, cat("the namespace has format ", index, " of ", formats));
  const std::size_t place = kFormats + 4 * index;
  const std::uint64_t metadata_bytes = load(page, place, 2);
  const std::uint64_t shift = load(page, place + 2, 1);
  if (metadata_bytes != 0)
    return error(Code::unsupported,
                 cat("the namespace's blocks have ", metadata_bytes, " bytes of metadata"),
                 "format it without metadata (nvme format --lbaf)");
  if (shift < kMinBlockShift || shift > kMaxBlockShift)
    return error(Code::unsupported, cat("the namespace has blocks of 2^", shift, " bytes"),
                 "format it with blocks of 512 or 4096 bytes (nvme format --lbaf)");
  found.block_bytes = 1U << shift;
  if (!checked_multiply(found.blocks, found.block_bytes))
    return error(Code::corrupt, cat("a namespace of ", found.blocks, " blocks of ",
                                    found.block_bytes, " bytes is longer than 2^64 bytes"));
  return found;
}

}  // namespace towpath::backends::nvme
