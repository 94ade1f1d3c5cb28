// Checked access to a region's bytes from this process.
//
// Not for disk, device, object or block: their bytes move by transfers.
// A span is a loan: it holds while the region lives.
// Thread: any; who writes the same bytes at the same time must agree with the others.
#pragma once

#include <span>
#include <type_traits>

#include <towpath/core/format.h>
#include <towpath/core/result.h>
#include <towpath/memory/region.h>

namespace towpath::memory {

/// Errors: unsupported (this process cannot reach the kind), out_of_range.
Result<ByteSpan> slice(const Region& region, const Part& part);

/// All of the part as values of T. Errors: as above; invalid_argument (the part is misaligned
/// for T, or its size no multiple of T's).
template <class T>
Result<std::span<T>> slice_as(const Region& region, const Part& part) {
  static_assert(std::is_trivially_copyable_v<T>, "bytes are not objects of any other type");
  TOWPATH_TRY(ByteSpan bytes, slice(region, part));
  if (address_of(bytes.data()) % alignof(T) != 0)
    return error(Code::invalid_argument,
                 cat("not aligned for the type: address ", hex(address_of(bytes.data())),
                     ", required alignment ", alignof(T)),
                 "choose an offset that keeps the alignment");
  if (bytes.size() % sizeof(T) != 0)
    return error(Code::invalid_argument,
                 cat(bytes.size(), " bytes are no multiple of the type's ", sizeof(T)),
                 "choose a size that holds whole values");
  return std::span<T>(reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T));
}

/// Sets every byte of the part. Errors: as slice().
Status fill(const Region& region, const Part& part, std::byte value);

}  // namespace towpath::memory
