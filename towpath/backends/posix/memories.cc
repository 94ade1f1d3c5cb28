#include <algorithm>
#include <cstring>

#include <towpath/backends/posix/dispatcher.h>
#include <towpath/backends/posix/memories.h>
#include <towpath/core/format.h>

namespace towpath::backends::posix {
namespace {

// The kernel's own limit per registered buffer (io_uring_register(2), IORING_REGISTER_BUFFERS).
constexpr std::uint64_t kMaxBufferBytes = 1ULL << 30U;

constexpr std::uint64_t kKeyMagic = 0x31'58'53'50'50'57'4F'54;  // "TOWPPSX1"

std::uint64_t load_u64(ConstByteSpan from) noexcept {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i)
    value |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  return value;
}

void append_u64(Bytes& to, std::uint64_t value) {
  for (std::size_t i = 0; i < sizeof value; ++i)
    to.push_back(static_cast<std::byte>(value >> (8 * i)));
}

}  // namespace

LocalMemory::LocalMemory(MemoryKind kind, const backend::PieceDispatcher* dispatcher,
                         sys::FileEngine* engine, std::vector<Buffer> buffers, std::string refusal)
    : PieceMemory(kind, dispatcher),
      engine_(engine),
      buffers_(std::move(buffers)),
      refusal_(std::move(refusal)) {}

LocalMemory::~LocalMemory() {
  check_quiesced();
  for (const Buffer& buffer : buffers_) engine_->remove_buffer(buffer.slot);
}

std::unique_ptr<LocalMemory> LocalMemory::make(MemoryKind kind, const Dispatcher& dispatcher,
                                               sys::FileEngine* engine, ByteSpan bytes) {
  const auto unregistered = [&](std::string why) {
    return std::make_unique<LocalMemory>(kind, &dispatcher, nullptr, std::vector<Buffer>(),
                                         std::move(why));
  };
  if (engine == nullptr) return unregistered("switched off");
  const std::uint64_t size_bytes = bytes.size();
  std::vector<Buffer> buffers;
  while (!bytes.empty()) {
    const ByteSpan part = bytes.first(std::min<std::uint64_t>(bytes.size(), kMaxBufferBytes));
    auto slot = engine->add_buffer(part);
    if (!slot.ok()) {
      for (const Buffer& buffer : buffers) engine->remove_buffer(buffer.slot);
      return unregistered(slot.status().to_string());
    }
    buffers.push_back({part, *slot});
    bytes = bytes.subspan(part.size());
  }
  auto memory = std::make_unique<LocalMemory>(kind, &dispatcher, engine, std::move(buffers));
  memory->hold({dispatcher.counters().registered_bytes, static_cast<std::int64_t>(size_bytes)});
  return memory;
}

int LocalMemory::slot_of(const sys::IoPart& part) const noexcept {
  const std::uint64_t address = address_of(part.data);
  for (const Buffer& buffer : buffers_) {
    const std::uint64_t start = address_of(buffer.bytes.data());
    if (address >= start && address - start <= buffer.bytes.size() &&
        part.size_bytes <= buffer.bytes.size() - (address - start))
      return buffer.slot;
  }
  return sys::kNoSlot;
}

DiskMemory::DiskMemory(const backend::PieceDispatcher* dispatcher,
                       std::shared_ptr<DiskRecord> record, Role role)
    : PieceMemory(MemoryKind::disk, dispatcher), record_(std::move(record)), role_(role) {}

DiskMemory::~DiskMemory() {
  check_quiesced();
  if (role_ != Role::registration) return;
  record_->registered = false;
  record_->named.reset();
}

void DiskMemory::revoke() {
  if (role_ == Role::registration) record_->named.reset();
}

Bytes DiskMemory::key() const {
  Bytes key;
  append_u64(key, kKeyMagic);
  append_u64(key, record_->id);
  return key;
}

Result<std::uint64_t> DiskMemory::id_from_key(ConstByteSpan key) {
  if (key.size() != 16 || load_u64(key) != kKeyMagic)
    return error(Code::corrupt, cat("a region key of ", key.size(), " bytes is none of posix"),
                 "pass the key that the registration gave");
  return load_u64(key.subspan(8));
}

}  // namespace towpath::backends::posix
