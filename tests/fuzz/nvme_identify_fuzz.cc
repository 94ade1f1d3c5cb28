// Identify pages from a drive: what is accepted must be usable arithmetic. Shorter inputs are
// filled up with zeros, so that the fuzzer gets past the length.
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <towpath/backends/nvme/identify.h>
#include <towpath/backends/nvme/nvme_command.h>

#include "must.h"

namespace {

using towpath::backends::nvme::decode_controller;
using towpath::backends::nvme::decode_namespace;
using towpath::backends::nvme::kIdentifyBytes;
using towpath::fuzz::must;

void try_page(towpath::ConstByteSpan page) {
  if (const auto drive = decode_controller(page); drive.ok()) {
    must(drive->max_transfer_bytes() >= 4096);
    must(std::ranges::all_of(drive->model, [](char c) { return c >= ' ' && c <= '~'; }));
  }
  if (const auto shape = decode_namespace(page); shape.ok()) {
    must(shape->blocks != 0 && shape->block_bytes >= 512 && shape->block_bytes <= 65536);
    must(shape->blocks <= UINT64_MAX / shape->block_bytes);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  try_page(bytes);
  towpath::Bytes page(kIdentifyBytes);
  std::copy_n(bytes.begin(), std::min(size, kIdentifyBytes), page.begin());
  try_page(page);
  return 0;
}
