#include <climits>

#include <towpath/core/checked.h>
#include <towpath/memory/borrowed.h>

namespace towpath::memory {
namespace {

bool is_memory(MemoryKind kind) { return is_host_addressable(kind) || kind == MemoryKind::device; }

std::string describe(const BorrowedMemory& memory) {
  return cat("borrowed ",
             towpath::to_string(memory.kind,
                                Descriptor{memory.address, memory.size_bytes, memory.device_id}));
}

}  // namespace

Result<std::shared_ptr<BorrowedRegion>> BorrowedRegion::create(BorrowedMemory memory) {
  if (memory.size_bytes == 0)
    return error(Code::invalid_argument, cat(describe(memory), " is empty"),
                 "lend at least 1 byte");
  if (is_memory(memory.kind) && memory.address == 0)
    return error(Code::invalid_argument, cat(describe(memory), " begins at null"),
                 "pass the address of the first byte");
  if (memory.kind == MemoryKind::disk && memory.device_id > INT_MAX && memory.key.empty())
    return error(Code::invalid_argument, cat(describe(memory), " names no open file"),
                 "pass the file's descriptor number as device, or its path as key");
  if (!checked_add(memory.address, memory.size_bytes))
    return error(Code::out_of_range, cat(describe(memory), " goes past the end of 64-bit space"),
                 "check address and size");
  return std::make_shared<BorrowedRegion>(Private{}, std::move(memory));
}

RegionDescriptor BorrowedRegion::descriptor() const {
  const bool is_file = memory_.kind == MemoryKind::disk && memory_.device_id <= INT_MAX;
  return {.kind = memory_.kind,
          .address = memory_.address,
          .length = memory_.size_bytes,
          .device_id = memory_.device_id,
          .fd = is_file ? static_cast<int>(memory_.device_id) : -1,
          .key = memory_.key};
}

}  // namespace towpath::memory
