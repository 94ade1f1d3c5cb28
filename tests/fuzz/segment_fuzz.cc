// Headers of segments and records, indexes, and the labels and tables of drives: what is accepted
// is written and read again as the same. The first byte chooses; the bytes are sealed too, so that
// the fuzzer gets past the checksum.
#include <cstddef>
#include <cstdint>

#include <towpath/kv/disk/drive_format.h>
#include <towpath/kv/disk/index_format.h>
#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;

constexpr kv::RecordPlace kPlace{{1, 2}, 4096};

Bytes page_of(ConstByteSpan bytes) {
  Bytes page(bytes.begin(), bytes.end());
  page.resize(kv::kSegmentPage);
  return page;
}

void read_segment(ConstByteSpan bytes) {
  const auto header = kv::open_segment_header(page_of(bytes));
  if (header.ok()) must(*kv::open_segment_header(kv::seal_segment_header(*header)) == *header);
}

void read_record(ConstByteSpan bytes) {
  const auto record = kv::open_record(page_of(bytes), kPlace);
  if (!record.ok()) return;
  must(*kv::open_record(kv::seal_record(*record, kPlace), kPlace) == *record);
  must(kv::room_of(*record) > record->length);
}

void read_index(ConstByteSpan bytes) {
  const auto index = kv::open_index(bytes);
  if (index.ok()) must(*kv::open_index(kv::seal_index(*index)) == *index);
}

constexpr std::uint64_t kDriveBytes = std::uint64_t{1} << 40U;

void read_label(ConstByteSpan bytes) {
  const auto label = kv::open_drive_label(page_of(bytes), kDriveBytes);
  if (!label.ok()) return;
  must(*kv::open_drive_label(kv::seal_drive_label(*label), kDriveBytes) == *label);
  must(label->end() <= kDriveBytes &&
       label->table_at(1) + label->table_bytes() <= label->slot_at(0));
}

void read_table(ConstByteSpan bytes) {
  static const kv::DriveLabel kLabel = *kv::divide_drive(kDriveBytes);
  const auto table = kv::open_drive_table(bytes, kLabel);
  if (!table.ok()) return;
  const Bytes again = kv::seal_drive_table(*table);
  must(again.size() <= kLabel.table_bytes());
  must(*kv::open_drive_table(again, kLabel) == *table);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data) + 1, size - 1);
  const auto sealed = [&](wire::MessageType type) { return wire::seal({type, 1}, bytes); };
  switch (data[0] % 10) {
    case 0: read_segment(bytes); break;
    case 1: read_record(bytes); break;
    case 2: read_index(bytes); break;
    case 3: read_segment(sealed(wire::MessageType::segment_header)); break;
    case 4: read_record(sealed(wire::MessageType::block_header)); break;
    case 5: read_index(sealed(wire::MessageType::block_index)); break;
    case 6: read_label(bytes); break;
    case 7: read_table(bytes); break;
    case 8: read_label(sealed(wire::MessageType::drive_label)); break;
    default: read_table(sealed(wire::MessageType::drive_table)); break;
  }
  return 0;
}
