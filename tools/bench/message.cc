#include "tools/bench/message.h"

#include <towpath/wire/decoder.h>
#include <towpath/wire/encoder.h>

namespace towpath::tools::bench {
namespace {

using namespace wire;

constexpr Tag kKind = required(1), kBytes = required(2), kAddress = required(3),
              kDevice = required(4), kCpu = required(5), kFill = required(6), kWrong = required(7),
              kWrongAt = required(8), kSeed = required(9), kBlockBytes = required(10),
              kStride = required(11), kCount = required(12), kMetadata = required(13),
              kText = required(14), kMemory = required(15), kHint = required(16);
constexpr FieldRule kRules[] = {
    {kKind, "kind", Kind::number, kOne, 8},
    {kBytes, "bytes", Kind::number, kOne},
    {kAddress, "address", Kind::number, kOne},
    {kDevice, "device", Kind::number, kOne},
    {kCpu, "CPU time", Kind::number, kOne},
    {kFill, "fill", Kind::number, kOne, 1},
    {kWrong, "wrong", Kind::number, kOne, 1},
    {kWrongAt, "first wrong byte", Kind::number, kOne},
    {kSeed, "seed", Kind::number, kOne},
    {kBlockBytes, "block bytes", Kind::number, kOne},
    {kStride, "stride", Kind::number, kOne},
    {kCount, "count", Kind::number, kOne},
    {kMetadata, "metadata", Kind::bytes, kAtMostOne, 32 * 1024},
    {kText, "text", Kind::bytes, kAtMostOne, 4096},
    {kMemory, "kind of memory", Kind::number, kOne, kMemoryKinds.size() - 1},
    {kHint, "hint", Kind::bytes, kAtMostOne, 4096},
};
constexpr Schema kSchema("bench message", kRules);

Status take(const Field& field, Message& message) {
  switch (field.tag()) {
    case kKind:
      if (field.number() == 0) return field.refuse("not a kind of message");
      message.kind = static_cast<MessageKind>(field.number());
      break;
    case kBytes: message.bytes = field.number(); break;
    case kAddress: message.address = field.number(); break;
    case kDevice: message.device_id = field.number(); break;
    case kCpu: message.cpu_ns = field.number(); break;
    case kFill: message.fill = field.number() != 0; break;
    case kWrong: message.wrong = field.number() != 0; break;
    case kWrongAt: message.wrong_at = field.number(); break;
    case kSeed: message.blocks.seed = field.number(); break;
    case kBlockBytes: message.blocks.block_bytes = field.number(); break;
    case kStride: message.blocks.stride = field.number(); break;
    case kCount: message.blocks.count = field.number(); break;
    case kMetadata: message.metadata.assign(field.bytes().begin(), field.bytes().end()); break;
    case kText: message.text = field.text(); break;
    case kMemory: message.memory = static_cast<MemoryKind>(field.number()); break;
    case kHint: message.hint = field.text(); break;
  }
  return {};
}

}  // namespace

Result<Bytes> encode(const Message& message) {
  Encoder out(kSchema);
  out.put_number(kKind, static_cast<std::uint64_t>(message.kind));
  out.put_number(kBytes, message.bytes);
  out.put_number(kAddress, message.address);
  out.put_number(kDevice, message.device_id);
  out.put_number(kCpu, message.cpu_ns);
  out.put_number(kFill, message.fill ? 1 : 0);
  out.put_number(kWrong, message.wrong ? 1 : 0);
  out.put_number(kWrongAt, message.wrong_at);
  out.put_number(kSeed, message.blocks.seed);
  out.put_number(kBlockBytes, message.blocks.block_bytes);
  out.put_number(kStride, message.blocks.stride);
  out.put_number(kCount, message.blocks.count);
  if (!message.metadata.empty()) out.put_bytes(kMetadata, message.metadata);
  if (!message.text.empty()) out.put_text(kText, message.text.substr(0, 4096));
  out.put_number(kMemory, static_cast<std::uint64_t>(message.memory));
  if (!message.hint.empty()) out.put_text(kHint, message.hint.substr(0, 4096));
  return std::move(out).finish();
}

Result<Message> decode(ConstByteSpan bytes) {
  Message message;
  TOWPATH_TRY(wire::decode(wire::Decoder(bytes, kSchema),
                           [&](const Field& field) { return take(field, message); }));
  return message;
}

}  // namespace towpath::tools::bench
