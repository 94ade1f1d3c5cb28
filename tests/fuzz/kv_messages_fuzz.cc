// What the halves of a connector, and holders of KV blocks, say to each other, and the header of a
// blob's file. What is accepted is what it says again when it is written; so that checksums do not
// keep the fuzzer out, the input is also read as a bare payload of each.
#include <cstddef>
#include <cstdint>

#include <towpath/kv/blobs/blob_store.h>
#include <towpath/kv/connector/orders.h>
#include <towpath/kv/peers/peer_message.h>
#include <towpath/sys/memory_file_system.h>
#include <towpath/wire/envelope.h>

#include "must.h"

namespace {

using towpath::fuzz::must;
using namespace towpath;  // NOLINT: the words of this file

template <class Value>
void read(ConstByteSpan bytes, Result<Value> (*decode)(ConstByteSpan)) {
  const Result<Value> value = decode(bytes);
  if (!value.ok()) return;
  const Result<Bytes> again = kv::encode(*value);
  const bool is_same = again.ok() && decode(*again).ok() && *decode(*again) == *value;
  must(is_same);
}

template <class Value>
void read(ConstByteSpan bytes, wire::MessageType type, Result<Value> (*decode)(ConstByteSpan)) {
  read(bytes, decode);
  read(wire::seal({.type = type, .version = 1}, bytes), decode);
}

/// As the header of a file in which nothing else is.
void read_blob(Bytes page) {
  page.resize(4096);
  sys::MemoryFileSystem files;
  const auto store = kv::BlobStore::open(files, "/b");
  auto file = files.open("/b/a.blob", {.writable = true, .create = true});
  must(sys::write_exactly(**file, page, 0).ok());
  const auto found = store->find("a");
  must(!found.ok() || (found->length == 0 && found->blob.name == "a"));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using wire::MessageType;
  const ConstByteSpan bytes(reinterpret_cast<const std::byte*>(data), size);
  read(bytes, MessageType::step_orders, kv::decode_step_orders);
  read(bytes, MessageType::worker_report, kv::decode_worker_report);
  read(bytes, MessageType::block_lease, kv::decode_peer_message);
  read(bytes, MessageType::block_catalogue, kv::decode_catalogue);
  if (size > 4096) return 0;
  read_blob({bytes.begin(), bytes.end()});
  read_blob(wire::seal({.type = MessageType::blob_header, .version = 1}, bytes));
  return 0;
}
