#include <cstring>

#include <towpath/backends/ucx/owner.h>
#include <towpath/sys/random.h>

namespace towpath::backends::ucx {

std::uint64_t Owner::add(const RegionDescriptor& region) {
  std::uint64_t token = sys::random_u64();
  while (!regions_.emplace(token, region).second) token = sys::random_u64();
  return token;
}

const RegionDescriptor* Owner::find(std::uint64_t token) const {
  const auto found = regions_.find(token);
  return found == regions_.end() ? nullptr : &found->second;
}

// decode_frame() has seen to it that nothing wraps here.
Code Owner::judge(const Piece& piece) const {
  const RegionDescriptor* region = find(piece.token);
  if (region == nullptr) return Code::not_found;
  const std::uint64_t reach = piece.stride * (piece.count - 1) + piece.length;
  const Descriptor all{piece.address, reach, region->device_id};
  return region->covers(all) ? Code::ok : Code::out_of_range;
}

void Owner::place(const Frame& write, FrameWriter& answer) const {
  const std::byte* from = write.payload.data();
  for (std::uint16_t i = 0; i < write.header.count; ++i) {
    const Piece piece = write.piece(i);
    const Code verdict = judge(piece);
    if (verdict != Code::ok) {
      answer.add(Refusal{i, verdict});
      from += piece.bytes();
      continue;
    }
    for (std::uint32_t k = 0; k < piece.count; ++k, from += piece.length)
      std::memcpy(bytes_at(piece.address + k * piece.stride, piece.length).data(), from,
                  piece.length);
  }
}

void Owner::gather(const Frame& read, FrameWriter& answer) const {
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const Code verdict = judge(read.piece(i));
    if (verdict != Code::ok) answer.add(Refusal{i, verdict});
  }
  for (std::uint16_t i = 0; i < read.header.count; ++i) {
    const Piece piece = read.piece(i);
    if (judge(piece) != Code::ok) continue;
    for (std::uint32_t k = 0; k < piece.count; ++k)
      answer.append(bytes_at(piece.address + k * piece.stride, piece.length));
  }
}

}  // namespace towpath::backends::ucx
